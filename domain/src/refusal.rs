//! Refusals: calls that are not made, each with a stable code and a sentence that tells a person
//! what happened and what to do.
//!
//! The words are addressed to a person, since a model that reads them can do nothing but pass them on.

mod code;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use code::Code;

use crate::block::Block;
use crate::breaker::Open;
use crate::id::{EdgeName, FunctionId, PluginName, PluginVersion, ToolId};
use crate::time::Timestamp;

/// A call that is not made. Cheap to clone: tables hold them ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable code.
    pub code: Code,
    /// What happened and what to do, for a person. Made visible.
    pub sentence: Arc<str>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl Refusal {
    /// A refusal in words of the caller's own; text from outside in it is made visible here.
    pub fn new(code: Code, sentence: impl AsRef<str>) -> Self {
        Self { code, sentence: crate::visible::make_visible(sentence.as_ref()).into() }
    }

    /// The node does not hold its plugin set.
    pub fn no_plugin_set(edge: &EdgeName, server: &str, since: Timestamp) -> Self {
        Self::new(
            Code::NoPluginSet,
            format!(
                "This node calls nothing yet: it waits for edge {edge}'s plugin set from {server}, since {since}. \
                 It serves again by itself once the control plane answers; if that lasts, ask an operator to check \
                 that the control plane runs and can be reached from this node."
            ),
        )
    }

    /// Nothing was heard of the control plane for longer than a strict edge allows.
    pub fn set_stale(edge: &EdgeName, server: &str, since: Timestamp) -> Self {
        Self::new(
            Code::SetStale,
            format!(
                "This node has not heard from {server} for so long that edge {edge}'s plugin set counts as stale since \
                 {since}, and edge {edge} is strict, so nothing is called. It serves again by itself once the control \
                 plane answers; an operator can also let nodes go on with: pintle edge set {edge} --not-strict"
            ),
        )
    }

    /// A person stopped these calls.
    pub fn blocked(id: &str, block: &Block, edge: &EdgeName) -> Self {
        let Block { target, reason, by, at, is_fleet_wide } = block;
        let (there, flag) = if *is_fleet_wide {
            (String::new(), String::new())
        } else {
            (format!(" on edge {edge}"), format!(" --edge {edge}"))
        };
        Self::new(
            Code::Blocked,
            format!(
                "{by} blocked {target}{there} at {at} (block {id}): {reason}. Nothing of it is called until an approver \
                 lifts that with: pintle unblock {}{flag}",
                target.flag()
            ),
        )
    }

    /// No version of the plugin is assigned.
    pub fn unassigned(plugin: &PluginName, edge: &EdgeName) -> Self {
        Self::new(
            Code::Unassigned,
            format!(
                "No version of {plugin} is assigned to this node. Ask an operator to assign one with: \
                 pintle assign {plugin}@VERSION --edge {edge}"
            ),
        )
    }

    /// The edge does not run this kind.
    pub fn kind_off(tool: &ToolId, kind: &str, edge: &EdgeName) -> Self {
        Self::new(
            Code::KindOff,
            format!(
                "{tool} is a tool of kind {kind}, and edge {edge} does not run {kind} tools (policy `forbidden_kinds`). \
                 Ask an operator whether the edge should."
            ),
        )
    }

    /// The assigned version is being installed, or could not be; on a node that started again the
    /// earlier version is not called meanwhile.
    pub fn installing(
        version: &PluginVersion,
        failed: Option<&str>,
        earlier: Option<&PluginVersion>,
        edge: &EdgeName,
    ) -> Self {
        let now = match failed {
            None => {
                format!("{version} is installing on this node; its functions are called once that is done.")
            }
            Some(reason) => format!(
                "{version} could not be installed on this node yet: {reason}. It is tried again by itself."
            ),
        };
        let back = earlier.map_or_else(String::new, |earlier| {
            format!(
                " {earlier} is not called since the node started again; to go back to it, ask an operator to assign it \
                 again with: pintle assign {earlier} --edge {edge}"
            )
        });
        Self::new(Code::Installing, now + &back)
    }

    /// The tool's process is starting, or crashed.
    pub fn not_running(tool: &ToolId, since: Timestamp, reason: &str) -> Self {
        Self::new(
            Code::NotRunning,
            format!(
                "The process of {tool} is not running since {since}: {reason}. It is started again by itself."
            ),
        )
    }

    /// The remote tool cannot be reached.
    pub fn unreachable(tool: &ToolId, origin: &str, since: Timestamp, reason: &str) -> Self {
        Self::new(
            Code::Unreachable,
            format!(
                "{tool} cannot be reached at {origin} since {since}: {reason}. It is tried again by itself."
            ),
        )
    }

    /// Nothing of that name; `nearest` are names that do exist.
    pub fn unknown_function(name: &str, nearest: &[String]) -> Self {
        let near = match nearest {
            [] => String::new(),
            some => format!(" Near it are: {}.", some.join(", ")),
        };
        Self::new(
            Code::UnknownFunction,
            format!(
                "No tool of this node's plugin set has a function `{name}`.{near} What there is shows: pintle catalog"
            ),
        )
    }

    /// Left out of the listing, for `why`.
    pub fn left_out(code: Code, function: &FunctionId, why: &str) -> Self {
        Self::new(code, format!("`{function}` is left out and not called: {why}."))
    }

    /// The remote tool moved, or is new at an origin.
    pub fn origin_moved(tool: &ToolId, version: &PluginVersion, earlier: &[Arc<str>], origin: &str) -> Self {
        let plugin = &version.plugin;
        let what = if earlier.is_empty() {
            format!("{tool} of {version} is new at {origin}")
        } else {
            format!("{tool} of {version} moved from {} to {origin}", earlier.join(" or "))
        };
        Self::new(
            Code::OriginMoved,
            format!(
                "{what}, so its functions are not called. Ask an approver to check the move and approve it with: \
                 pintle plugin approve-tools {plugin}"
            ),
        )
    }

    /// The remote tool redirected outside of its origin.
    pub fn redirected(tool: &ToolId, origin: &str, url: &str) -> Self {
        Self::new(
            Code::Redirected,
            format!(
                "{tool} at {origin} sent this call on to {url}, which is not within its origin, so it was not followed. \
                 If that is where the tool lives, ask its author for a version that names that URL."
            ),
        )
    }

    /// The remote tool's address is not one that it may have.
    pub fn address(tool: &ToolId, host: &str, address: &str, rule: &str) -> Self {
        Self::new(Code::Address, format!("{tool} was not called: {host} is {address}, and {rule}."))
    }

    /// Its server does not list it.
    pub fn unlisted(function: &FunctionId, plugin: &PluginName) -> Self {
        Self::new(
            Code::Unlisted,
            format!(
                "`{function}` was approved, but its server does not list it now, so it is not called. Ask an approver \
                 whether it is gone for good: pintle plugin approve-tools {plugin}"
            ),
        )
    }

    /// The last list broke off before this function was shown.
    pub fn incomplete(function: &FunctionId, since: Timestamp, reason: &str) -> Self {
        Self::new(
            Code::Incomplete,
            format!(
                "`{function}` is not called: its server's list could not be read to its end since {since}: {reason}. \
                 It is asked again by itself."
            ),
        )
    }

    /// Its server was not listed since it was started.
    pub fn not_listed_yet(function: &FunctionId) -> Self {
        Self::new(
            Code::Incomplete,
            format!(
                "`{function}` is not called yet: this node is still reading its server's first list. Try again."
            ),
        )
    }

    /// The server said its list changed.
    pub fn relisting(function: &FunctionId, since: Timestamp) -> Self {
        Self::new(
            Code::Relisting,
            format!(
                "`{function}` is not called for the moment: its server said at {since} that its list changed, and the new \
                 list is still being read. Try again."
            ),
        )
    }

    /// The last list is too old.
    pub fn listing_stale(function: &FunctionId, age_ms: u64, age_max_ms: u64, reason: &str) -> Self {
        Self::new(
            Code::ListingStale,
            format!(
                "`{function}` is not called: its server's last list is {} s old, more than the {} s that edge policy \
                 `listing_age_max` allows, and a new one could not be had: {reason}.",
                age_ms / 1_000,
                age_max_ms / 1_000
            ),
        )
    }

    /// No first listing was recorded.
    pub fn no_snapshot(tool: &ToolId, version: &PluginVersion) -> Self {
        Self::new(
            Code::NoSnapshot,
            format!(
                "No node has listed {tool} of {version} completely yet, so there is nothing to compare with and nothing \
                 to approve. Its functions are called once the first complete listing is recorded."
            ),
        )
    }

    /// It was not there when the tools were approved.
    pub fn new_function(function: &FunctionId, plugin: &PluginName) -> Self {
        Self::new(
            Code::NewFunction,
            format!(
                "`{function}` was not there when {plugin}'s tools were approved, so it is not called. Ask an approver to \
                 look at it and approve it with: pintle plugin approve-tools {plugin}"
            ),
        )
    }

    /// It lists itself differently from what was approved.
    pub fn drifted(function: &FunctionId, plugin: &PluginName) -> Self {
        Self::new(
            Code::Drifted,
            format!(
                "`{function}` lists itself differently from when {plugin}'s tools were approved, so it is not called. Ask \
                 an approver to look at the change and approve it with: pintle plugin approve-tools {plugin}"
            ),
        )
    }

    /// The arguments do not fit the approved schema.
    pub fn bad_arguments(function: &FunctionId, place: &str, expected: &str) -> Self {
        let place = if place.is_empty() { "the arguments" } else { place };
        Self::new(Code::BadArguments, format!("`{function}` was not called: at {place}, {expected}."))
    }

    /// A limit of calls under way.
    pub fn busy(what: &str, limit: u64, setting: &str) -> Self {
        Self::new(
            Code::Busy,
            format!(
                "{what} has {limit} calls under way, which is its limit (setting `{setting}`). Try again."
            ),
        )
    }

    /// Calls of a tool that fails are held back. `settings` are those of the number and of the wait.
    pub fn held_back(tool: &ToolId, open: &Open, failures: u32, settings: [&str; 2]) -> Self {
        let seconds = open.next_ms.div_ceil(1_000).max(1);
        let next = if open.is_probed {
            format!(
                "One call is under way to see whether it answers, the next is let through within {seconds} s"
            )
        } else {
            format!("The next call is let through in {seconds} s")
        };
        Self::new(
            Code::Busy,
            format!(
                "`{tool}` is not called since {}: {failures} calls in a row got no answer (setting `{}`), the last \
                 failed to {}. {next} (setting `{}`).",
                open.since, settings[0], open.reason, settings[1]
            ),
        )
    }

    /// A limit of time, of a call that its tool did not take.
    pub fn not_taken(function: &FunctionId, limit_ms: u64, setting: &str) -> Self {
        Self::new(
            Code::TimedOut,
            format!(
                "`{function}` was not called: its tool did not take the call within {} s (setting `{setting}`). Nothing \
                 was done.",
                limit_ms / 1_000
            ),
        )
    }

    /// A limit of time.
    pub fn timed_out(function: &FunctionId, limit_ms: u64, setting: &str) -> Self {
        Self::new(
            Code::TimedOut,
            format!(
                "`{function}` did not answer within {} s (setting `{setting}`); the tool was told to stop. Whether it had \
                 done its work is not known.",
                limit_ms / 1_000
            ),
        )
    }
}
