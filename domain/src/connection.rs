//! Connections: the parameters and secrets that a remote tool is reached with, put into its URL and headers.
//!
//! Pure. A manifest says which parameters there are; a person gives their values (20-listings, 7). A secret is
//! never part of a URL, and no value may make a URL or a header mean something else than its author wrote.

#[cfg(test)]
mod tests;

use crate::origin::{ToolUrl, UrlFault, parse_tool_url};

/// Characters of a parameter's value: of a long host name.
pub const VALUE_MAX: usize = 253;

/// Bytes of a secret: of a large token.
pub const SECRET_MAX: usize = 16 * 1024;

/// Headers of one connection.
pub const HEADERS_MAX: usize = 16;

/// Headers that are the protocol's or the HTTP client's.
const OURS: [&str; 10] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "accept",
    "te",
    "upgrade",
    "mcp-session-id",
    "last-event-id",
];

/// Why a template cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A parameter has no value.
    #[error("the parameter `{0}` has no value")]
    Missing(String),
    /// `${…}` that is none.
    #[error("`{0}` is no parameter; write ${{params.NAME}}")]
    NoParameter(String),
    /// A value that cannot stand in a URL.
    #[error(
        "the value of `{name}` is `{got}`, which cannot stand in a URL; letters, digits, `.`, `-`, `_` and `~` can"
    )]
    Value {
        /// The parameter.
        name: String,
        /// Its value; it is no secret.
        got: String,
    },
    /// The URL that it comes to.
    #[error(transparent)]
    Url(#[from] UrlFault),
    /// No header of ours to set.
    #[error("`{0}` is no header that a connection may set")]
    Header(String),
    /// A header's value that HTTP cannot carry. What it is is not told: it may be a secret.
    #[error("the value of the header `{0}` has characters that HTTP does not carry")]
    HeaderValue(String),
}

/// A URL of a manifest with the values of parameters in their places.
///
/// # Errors
/// A parameter without a value, or with one that does not fit; the URL is none that a tool is called at.
pub fn fill_url<'v>(
    template: &str,
    allow_http: bool,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<ToolUrl, Fault> {
    let filled = fill(template, |name| {
        let value = value(name).ok_or_else(|| Fault::Missing(name.to_owned()))?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '~');
        if value.is_empty() || value.len() > VALUE_MAX || !value.chars().all(fits) || value.contains("..") {
            return Err(Fault::Value { name: name.to_owned(), got: value.chars().take(VALUE_MAX).collect() });
        }
        Ok(value)
    })?;
    Ok(parse_tool_url(&filled, allow_http)?)
}

/// A header with the values of parameters, secrets among them, in their places.
///
/// # Errors
/// A header that is not to be set; a parameter without a value; a value that no header carries.
pub fn fill_header<'v>(
    name: &str,
    template: &str,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<(String, String), Fault> {
    check_header(name)?;
    let filled = fill(template, |param| value(param).ok_or_else(|| Fault::Missing(param.to_owned())))?;
    let carried = |c: char| c == '\t' || (' '..='~').contains(&c);
    if filled.is_empty() || !filled.chars().all(carried) || filled.trim() != filled {
        return Err(Fault::HeaderValue(name.to_owned()));
    }
    Ok((name.to_ascii_lowercase(), filled))
}

/// Whether a connection may set this header.
///
/// # Errors
/// It may not.
pub fn check_header(name: &str) -> Result<(), Fault> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let lower = name.to_ascii_lowercase();
    let is_ours = OURS.contains(&lower.as_str()) || lower.starts_with("mcp-") || lower.starts_with("proxy-");
    if name.is_empty() || name.len() > 64 || !name.chars().all(token) || is_ours {
        return Err(Fault::Header(name.chars().take(64).collect()));
    }
    Ok(())
}

/// The parameters that a template names, in order.
///
/// # Errors
/// `${…}` that names none.
pub fn named(template: &str) -> Result<Vec<String>, Fault> {
    let names = std::cell::RefCell::new(Vec::new());
    fill(template, |name| {
        names.borrow_mut().push(name.to_owned());
        Ok("")
    })?;
    Ok(names.into_inner())
}

fn fill<'v>(template: &str, value: impl Fn(&str) -> Result<&'v str, Fault>) -> Result<String, Fault> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((text, after)) = rest.split_once("${") {
        out.push_str(text);
        let (variable, after) =
            after.split_once('}').ok_or_else(|| Fault::NoParameter(after.chars().take(64).collect()))?;
        let name = variable
            .strip_prefix("params.")
            .filter(|name| !name.is_empty())
            .ok_or_else(|| Fault::NoParameter(variable.chars().take(64).collect()))?;
        out.push_str(value(name)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}
