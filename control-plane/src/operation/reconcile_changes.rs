//! Brings the changes of a tool in line with what nodes show and what the fleet goes by.
//!
//! Takes no hints: it compares every node's newest report with the snapshot and records the
//! differences that are new and those that are over. Called in the transaction of whatever may have
//! changed one of the two.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::audit::{Event, FunctionDifference};
use domain::digest::ListingHash;
use domain::id::{NodeName, PluginVersion, ToolId};
use domain::snapshot::{Judgement, Recorded, Report, Seen, judge};

use super::{By, Error};
use crate::store::WriteTx;
use crate::store::changes::{self, Shown, State};
use crate::store::listings::{self, ListFunction};
use crate::store::sightings::{self, Sighting};
use crate::store::snapshots::{self, VersionSnapshot};

/// Ways in which one function once listed itself and no node shows any longer, that are kept beside the
/// audit log: enough to see that it comes and goes.
const RESTORED_KEPT: u64 = 20;

/// Opens what is seen for the first time or again, and ends what no node shows any longer.
pub(super) async fn reconcile_changes(
    tx: &mut WriteTx,
    by: &By,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<(), Error> {
    let snapshot = snapshots::of_version(tx.tx(), version, None).await?;
    let Some(taken) = snapshot.taken.get(tool) else { return Ok(()) };
    let recorded = recorded(&snapshot, tool);
    let mut shown: BTreeMap<Shown, NodeName> = BTreeMap::new();
    let mut judged: BTreeMap<(domain::digest::Digest, bool, bool), Vec<Shown>> = BTreeMap::new();
    for sighting in sightings::of_tool(tx.tx(), version, tool).await? {
        let may_be_gone = sighting.connection == taken.over_connection;
        let key = (sighting.list, sighting.complete, may_be_gone);
        let differences = match judged.entry(key) {
            Entry::Occupied(judged) => judged.into_mut(),
            Entry::Vacant(vacant) => {
                let list = listings::list(tx.tx(), &sighting.list).await?;
                vacant.insert(differences(&recorded, &report(&list, sighting.complete), may_be_gone))
            }
        };
        for difference in differences.iter() {
            shown.entry(difference.clone()).or_insert_with(|| sighting.node.clone());
        }
    }
    record(tx, by, (version, tool), &recorded, shown).await
}

/// What the fleet goes by for one tool.
pub(super) fn recorded(snapshot: &VersionSnapshot, tool: &ToolId) -> Recorded {
    let functions = snapshot.functions.iter().filter(|((of, _), _)| of == tool);
    Recorded {
        taken: snapshot.taken.contains_key(tool),
        functions: functions.map(|((_, name), approved)| (Arc::clone(name), approved.hash)).collect(),
    }
}

/// A list as `domain::snapshot` judges it.
pub(super) fn report(list: &[ListFunction], complete: bool) -> Report {
    Report {
        complete,
        functions: list.iter().filter_map(|one| Some((Arc::clone(&one.function), one.hash?))).collect(),
        left_out: list.iter().filter(|one| one.hash.is_none()).map(|one| Arc::clone(&one.function)).collect(),
    }
}

/// Whether any node shows something of this tool: the sightings that a person may have looked at.
pub(super) async fn seen_functions(
    tx: &mut WriteTx,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<BTreeSet<(Arc<str>, ListingHash)>, Error> {
    let lists: BTreeSet<_> = sightings::of_tool(tx.tx(), version, tool)
        .await?
        .into_iter()
        .map(|Sighting { list, .. }| list)
        .collect();
    let mut seen = BTreeSet::new();
    for list in lists {
        let functions = listings::list(tx.tx(), &list).await?;
        seen.extend(functions.into_iter().filter_map(|one| Some((one.function, one.hash?))));
    }
    Ok(seen)
}

fn differences(recorded: &Recorded, report: &Report, may_be_gone: bool) -> Vec<Shown> {
    let Judgement::Compare(seen) = judge(recorded, report) else { return Vec::new() };
    seen.into_iter()
        .filter_map(|(name, seen)| match seen {
            Seen::Same => None,
            Seen::Gone { .. } => may_be_gone.then_some((name, None)),
            Seen::Changed { seen, .. } | Seen::New { seen } => Some((name, Some(seen))),
        })
        .collect()
}

async fn record(
    tx: &mut WriteTx,
    by: &By,
    (version, tool): (&PluginVersion, &ToolId),
    recorded: &Recorded,
    shown: BTreeMap<Shown, NodeName>,
) -> Result<(), Error> {
    let difference = |function: &Arc<str>, seen: Option<ListingHash>| FunctionDifference {
        version: version.clone(),
        tool: tool.clone(),
        function: Arc::clone(function),
        approved: recorded.functions.get(function).copied(),
        seen,
    };
    let key = (version, tool);
    let stored = changes::of_tool(tx.tx(), version, tool).await?;
    let (mut over, mut standing) = (Vec::new(), BTreeSet::new());
    for variant in stored {
        let one: Shown = (variant.function, variant.seen);
        match variant.state {
            State::Open if !shown.contains_key(&one) => over.push(one),
            State::Open | State::Rejected => {
                standing.insert(one);
            }
            State::Approved | State::Restored => {}
        }
    }
    changes::set_states(tx.tx(), key, &over, State::Restored).await?;
    if !over.is_empty() {
        changes::prune(tx.tx(), key, RESTORED_KEPT).await?;
    }
    for (function, seen) in &over {
        tx.audit(&by.origin, Event::ToolsRestored { difference: difference(function, *seen) });
    }
    let new: Vec<(Shown, NodeName)> = shown.into_iter().filter(|(one, _)| !standing.contains(one)).collect();
    changes::open_all(tx.tx(), key, &new, by.now).await?;
    for ((function, seen), node) in new {
        tx.audit(&by.origin, Event::ToolsChanged { node, difference: difference(&function, seen) });
    }
    Ok(())
}
