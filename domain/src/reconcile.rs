//! What a node does next with its plugin set: `(desired, observed, now) -> steps`, and what each
//! plugin waits for.
//!
//! [`reconcile`] is asked after everything that changed and takes no hints: it looks at the whole and
//! names the steps that may be taken now, in order. The node's reconciler performs them and observes
//! again. The rules are those of 30-nodes, 4; the invariants are in the tests: two versions of a
//! plugin are never called at once, no failure ever stops what is called, one plugin never holds up
//! another, and what a grant allowed is asked again before install, before switch and before commit
//! (the outgoing version's end), each of which is a step of a decision of its own.

mod desired;
mod observed;
mod plugin;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use desired::Desired;
pub use observed::{Failure, Listed, Observed, Plugin, Stage, Tool, Version};

use crate::id::{PluginName, PluginVersion, ToolId};
use crate::plugin_set::PlannedVersion;
use crate::time::Timestamp;

/// The first delay before an install is tried again; doubled with each failure.
const RETRY_FIRST_MS: u64 = 1_000;

/// The longest delay before an install is tried again: a fault that has ended is noticed within 30 s
/// (30-nodes, L1), the try itself included.
const RETRY_MOST_MS: u64 = 20_000;

/// Something to do now. A step that is under way is not named again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Download, verify and unpack the version beside what runs.
    Install(Box<PlannedVersion>),
    /// Give up a download that nobody wants any more.
    Cancel(PluginVersion),
    /// Start one tool of an installed version, and list it.
    StartTool(PluginVersion, ToolId),
    /// Stop one tool that policy forbids.
    StopTool(PluginVersion, ToolId),
    /// Call this version from now on, and no other of its plugin. Atomic.
    Serve(PluginVersion),
    /// Call no version of the plugin from now on.
    Silence(PluginName),
    /// Let calls under way end, up to a limit, then stop all its tools.
    Stop(PluginVersion),
    /// Remove its files.
    Remove(PluginVersion),
}

/// How one plugin stands after the steps were named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The plugin.
    pub plugin: PluginName,
    /// The version that the set assigns to the node.
    pub assigned: Option<PluginVersion>,
    /// The version that is called once the steps are done.
    pub called: Option<PluginVersion>,
    /// Why the assigned version is not the one called, or why there is still something of a plugin
    /// that is not assigned.
    pub waits: Option<Wait>,
}

/// What a plugin waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The download and its checks.
    Installing,
    /// The time of the next try after a failure.
    Retry {
        /// What went wrong.
        reason: Arc<str>,
        /// How often.
        attempts: u32,
        /// When it is tried again.
        next_try: Timestamp,
    },
    /// Tools of the new version to list completely.
    Listings(BTreeSet<ToolId>),
    /// The control plane to record what they listed.
    Snapshots(BTreeSet<ToolId>),
    /// Versions that are no longer called to stop.
    Stopping(BTreeSet<PluginVersion>),
}

/// What [`reconcile`] decided.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Decision {
    /// What to do now, in order.
    pub steps: Vec<Step>,
    /// Every plugin that is assigned or of which something is there, by name.
    pub standings: Vec<Standing>,
    /// When to ask again even if nothing else changes.
    pub wake: Option<Timestamp>,
}

/// Decides what to do now.
pub fn reconcile(desired: &Desired<'_>, observed: &Observed, now: Timestamp) -> Decision {
    let mut decision = Decision::default();
    let nothing = Plugin::default();
    let names: BTreeSet<&PluginName> = desired.plugins().chain(observed.plugins.keys()).collect();
    for name in names {
        let seen = observed.plugins.get(name).unwrap_or(&nothing);
        let deciding = plugin::Deciding { desired, name, seen, now };
        deciding.decide(&mut decision);
    }
    // What is there already is started, and its calls switched, before anything is downloaded.
    decision.steps.sort_by_key(|step| matches!(step, Step::Install(_)));
    decision
}

/// Milliseconds until an install that failed `attempts` times is tried again: full jitter over a span
/// that doubles, after its cap. `random` is anything of 32 bits, evenly spread.
pub fn retry_after_ms(attempts: u32, random: u32) -> u64 {
    jittered_ms(RETRY_FIRST_MS, RETRY_MOST_MS, attempts, random)
}

/// Uniform over 0 to `first_ms` doubled `failures - 1` times, at most `most_ms`: the jitter comes
/// after the cap, so that many that wait the longest do not come back in step.
pub fn jittered_ms(first_ms: u64, most_ms: u64, failures: u32, random: u32) -> u64 {
    let doubled = first_ms.saturating_mul(1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX));
    let span = doubled.min(most_ms);
    let product = u128::from(span) * (u128::from(random) + 1);
    u64::try_from(product >> 32).unwrap_or(most_ms)
}
