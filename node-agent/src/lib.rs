//! The node agent: holds its plugin set, runs the plugins of it, and calls only what is approved.
//!
//! [`join`](join::join) makes a machine a node of a fleet, [`Node::start`] runs it. Inside: `link` (the
//! stream), `ledger` (what is held durably), `reconciler` (observe, plan, step), `installer`,
//! `supervisor` (tools), [`guard`] (the call table), `spool` (reports).

mod arguments;
pub mod bridge;
mod credentials;
mod disk;
mod expulsion;
pub mod gateway;
pub mod guard;
pub mod identity;
mod installer;
pub mod join;
mod ledger;
pub mod link;
mod node;
mod reconciler;
mod reliance;
mod renewal;
pub mod setting;
pub mod simulation;
mod spool;
mod supervisor;

use domain::time::Timestamp;

pub use join::{Joined, join};
pub use node::{Config, Egress, Error, Node};
/// What the main of a program that runs nodes asks first.
pub use tools::shim;

/// The agent's version, as it is reported.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The wall's clock, for people.
pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// An error and what led to it, as one sentence.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Some libraries repeat their source's text.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
