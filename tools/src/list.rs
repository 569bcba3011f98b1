//! Asking a tool for its whole list. What pages mean is decided by [`domain::listing::ListReader`].

use std::time::Duration;

use domain::listing::{List, ListReader, Next};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::envelope;
use crate::error::Error;
use crate::spec::Limits;
use crate::tool::Tool;
use crate::wire::{self, Ask};

/// `Invalid params`: so a server says that it does not know a cursor any more.
const INVALID_PARAMS: i64 = -32602;

/// A list as far as it came, raw.
#[derive(Debug, Clone)]
pub struct RawList {
    /// Entries as sent, whether it is complete, and what was odd about it.
    pub list: List,
    /// Why it broke off; absent exactly if it is complete.
    pub broken: Option<Error>,
    /// How long the server says that it stays fresh (`ttlMs`, the shortest of all pages).
    pub ttl: Option<Duration>,
}

/// Asks for page after page. Pages of two different moments do not make one list, so a cursor that is no
/// longer known, or a new session, starts the list over, once.
pub(crate) async fn all_pages(tool: &Tool, limits: &Limits) -> Result<RawList, Error> {
    let end = Instant::now() + limits.list;
    match pages(tool, limits, end).await {
        Err(Again(_)) => match pages(tool, limits, end).await {
            Err(Again(error)) => Err(error),
            Ok(outcome) => outcome,
        },
        Ok(outcome) => outcome,
    }
}

/// The list must be started over, for this reason.
struct Again(Error);

async fn pages(tool: &Tool, limits: &Limits, end: Instant) -> Result<Result<RawList, Error>, Again> {
    let mut reader = ListReader::new(limits.pages);
    let mut cursor: Option<String> = None;
    let mut ttl = None;
    let broken = loop {
        let page = match page(tool, limits, end, cursor.as_deref()).await {
            Ok(page) => page,
            Err(error @ Error::SessionLost { .. }) => return Err(Again(error)),
            Err(Error::Rpc(error)) if error.code == INVALID_PARAMS && cursor.is_some() => {
                return Err(Again(Error::Rpc(error)));
            }
            Err(error) if cursor.is_none() => return Ok(Err(error)),
            Err(error) => break Some(error),
        };
        ttl = [ttl, page_ttl(&page)].into_iter().flatten().min();
        match reader.page(page.get(), cursor.as_deref()) {
            Ok(Next::Ask { cursor: next }) => cursor = Some(next),
            Ok(Next::Done) => break None,
            Err(fault) => break Some(Error::List(fault)),
        }
    };
    let list = reader.finish();
    match broken {
        Some(error) if list.entries.is_empty() => Ok(Err(error)),
        broken => Ok(Ok(RawList { list, broken, ttl })),
    }
}

async fn page(
    tool: &Tool,
    limits: &Limits,
    end: Instant,
    cursor: Option<&str>,
) -> Result<Box<RawValue>, Error> {
    let params = cursor
        .map_or_else(|| "{}".to_owned(), |cursor| format!(r#"{{"cursor":{}}}"#, envelope::quoted(cursor)));
    let params = wire::with_era(&params, tool.peer().era);
    let left = end.saturating_duration_since(Instant::now());
    let ask = Ask::new(tool.next_id(), "tools/list", params, Some(left));
    tool.ask(ask).await.map_err(|unanswered| match unanswered.into() {
        // The limit is the whole list's.
        Error::TimedOut { sent, .. } => Error::TimedOut { after: limits.list, sent },
        error => error,
    })
}

fn page_ttl(page: &RawValue) -> Option<Duration> {
    let ttl = envelope::members(page)?.get("ttlMs")?.get().parse().ok()?;
    Some(Duration::from_millis(ttl))
}
