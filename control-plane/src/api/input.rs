//! Reads what a request says: names in paths, pages, JSON bodies.

use std::fmt::Display;

use axum::Json;
use axum::extract::{FromRequest, Request};
use domain::id::{EdgeName, PluginName};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::problem::Problem;
use crate::operation::Code;

/// Items of a page unless the request says otherwise, and at most.
const PAGE: u64 = 100;
const PAGE_MAX: u64 = 1_000;

/// A JSON body; what is wrong with it is said as a problem.
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = Json::<T>::from_request(request, state).await;
        body.map(|Json(value)| Self(value)).map_err(|fault| {
            let code = if fault.status().as_u16() == 413 { Code::TooLarge } else { Code::Invalid };
            Problem::of(code, format!("the body cannot be read: {}", fault.body_text()))
        })
    }
}

/// `?limit=&cursor=` of every list.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Page {
    limit: Option<u64>,
    #[serde(default)]
    pub(super) cursor: String,
}

impl Page {
    /// A page from its parts.
    pub(super) fn new(limit: Option<u64>, cursor: &str) -> Self {
        Self { limit, cursor: cursor.to_owned() }
    }

    /// How many items to answer with, once the cursor is found to be one.
    pub(super) fn limit(&self) -> Result<u64, Problem> {
        plain(&self.cursor)?;
        match self.limit.unwrap_or(PAGE) {
            limit @ 1..=PAGE_MAX => Ok(limit),
            other => Err(Problem::of(Code::Invalid, format!("limit is {other}, expected 1 to {PAGE_MAX}"))),
        }
    }
}

/// Text to look something up by; control characters are in no name, and some databases refuse them.
pub(super) fn plain(text: &str) -> Result<&str, Problem> {
    if text.len() <= 256 && !text.chars().any(char::is_control) {
        return Ok(text);
    }
    Err(Problem::of(Code::Invalid, "expected at most 256 bytes without control characters"))
}

/// A name of a path or body.
pub(super) fn parse<T, E: Display>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Problem> {
    parse(text).map_err(|fault| Problem::of(Code::Invalid, format!("failed to {fault}")))
}

/// An edge's name.
pub(super) fn edge(text: &str) -> Result<EdgeName, Problem> {
    parse(text, EdgeName::parse)
}

/// A plugin's name.
pub(super) fn plugin(text: &str) -> Result<PluginName, Problem> {
    parse(text, PluginName::parse)
}

/// A SemVer version.
pub(super) fn version(text: &str) -> Result<semver::Version, Problem> {
    semver::Version::parse(text).map_err(|fault| {
        let shown: String = text.chars().take(100).collect();
        Problem::of(Code::Invalid, format!("`{shown}` is no SemVer version such as 1.4.0: {fault}"))
    })
}
