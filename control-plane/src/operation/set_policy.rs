//! Sets what the nodes of an edge may do.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use domain::audit::Event;
use domain::id::EdgeName;
use domain::plugin_set::{Kind, Part, Policy, Scope};

use super::{By, Code, Error};
use crate::store::{Store, edges, policies};

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// How long a node may count as fresh: three heartbeats a second apart at least, a month at most, after
/// which nobody remembers what was approved.
const FRESH: RangeInclusive<u64> = 3_000..=30 * DAY_MS;

/// The longest lease: a ship's voyage.
const LEASE_MAX: u64 = 90 * DAY_MS;

/// Limits of a tool's process: what an interpreter needs to start, and more than machines have.
const MEMORY: RangeInclusive<u64> = 16 << 20..=1 << 40;
const FILES: RangeInclusive<u64> = 16..=1 << 20;
const PROCESSES: RangeInclusive<u64> = 1..=1 << 16;

/// What is to be set; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyChange {
    /// Whether a stale node refuses calls.
    pub strict: Option<bool>,
    /// How long what a node was told counts as fresh.
    pub fresh_for_ms: Option<u64>,
    /// How long a restarted node may go by its stored set; 0: not at all.
    pub offline_lease_ms: Option<u64>,
    /// Kinds that are not run.
    pub forbidden_kinds: Option<Vec<Kind>>,
    /// Bytes of data of each tool process.
    pub tool_memory_bytes: Option<u64>,
    /// Open files of each tool process.
    pub tool_files: Option<u64>,
    /// Processes of each tool.
    pub tool_processes: Option<u64>,
}

/// Sets them. Answers with the policy, and whether anything changed.
///
/// # Errors
/// No such edge, or a value out of its range.
pub async fn set_policy(
    store: &Store,
    by: &By,
    edge: &EdgeName,
    change: &PolicyChange,
) -> Result<(Policy, bool), Error> {
    let mut tx = store.begin_write().await?;
    if edges::get(tx.tx(), edge).await?.is_none() {
        return Err(Error::no_edge(edge));
    }
    let before = policies::get(tx.tx(), edge).await?;
    let after = changed(&before, change)?;
    let changes = differences(&before, &after);
    if changes.is_empty() {
        return Ok((before, false));
    }
    policies::put(tx.tx(), edge, &after, by.as_stored()).await?;
    tx.raise(Scope::Edge(edge.clone()), Part::Policy);
    tx.audit(&by.origin, Event::EdgePolicySet { edge: edge.clone(), changes });
    tx.commit(by.now).await?;
    Ok((after, true))
}

fn changed(before: &Policy, change: &PolicyChange) -> Result<Policy, Error> {
    let mut after = before.clone();
    let fresh = "fresh_for_ms";
    set(&mut after.fresh_for_ms, change.fresh_for_ms, fresh, &FRESH)?;
    set(&mut after.tool_limits.memory, change.tool_memory_bytes, "tool_memory_bytes", &MEMORY)?;
    set(&mut after.tool_limits.files, change.tool_files, "tool_files", &FILES)?;
    set(&mut after.tool_limits.processes, change.tool_processes, "tool_processes", &PROCESSES)?;
    let mut lease = after.offline_lease_ms.unwrap_or_default();
    set(&mut lease, change.offline_lease_ms, "offline_lease_ms", &(0..=LEASE_MAX))?;
    after.offline_lease_ms = (lease != 0).then_some(lease);
    after.strict = change.strict.unwrap_or(after.strict);
    if let Some(kinds) = &change.forbidden_kinds {
        after.forbidden_kinds = Kind::ALL.into_iter().filter(|kind| kinds.contains(kind)).collect();
    }
    Ok(after)
}

fn set(value: &mut u64, wanted: Option<u64>, name: &str, range: &RangeInclusive<u64>) -> Result<(), Error> {
    match wanted {
        Some(wanted) if range.contains(&wanted) => *value = wanted,
        Some(wanted) => {
            let detail = format!("{name} is {wanted}, expected {} to {}", range.start(), range.end());
            return Err(Error::refused(Code::Invalid, detail));
        }
        None => {}
    }
    Ok(())
}

fn differences(before: &Policy, after: &Policy) -> BTreeMap<&'static str, (String, String)> {
    let (earlier, now) = (settings(before), settings(after));
    earlier.into_iter().zip(now).filter(|(a, b)| a != b).map(|((name, a), (_, b))| (name, (a, b))).collect()
}

/// Each setting as text, in one order.
fn settings(policy: &Policy) -> [(&'static str, String); 7] {
    let limits = policy.tool_limits;
    [
        ("strict", policy.strict.to_string()),
        ("fresh_for_ms", policy.fresh_for_ms.to_string()),
        ("offline_lease_ms", policy.offline_lease_ms.unwrap_or_default().to_string()),
        ("forbidden_kinds", policies::kinds_text(&policy.forbidden_kinds)),
        ("tool_memory_bytes", limits.memory.to_string()),
        ("tool_files", limits.files.to_string()),
        ("tool_processes", limits.processes.to_string()),
    ]
}
