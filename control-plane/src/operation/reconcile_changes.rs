//! Brings the changes of a tool in line with what nodes show and what the fleet, or their edge, goes by.
//!
//! Takes no hints: it compares every node's newest report with the snapshot and records the
//! differences that are new and those that are over. Called in the transaction of whatever may have
//! changed one of the two.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::audit::{Event, FunctionDifference};
use domain::change::differences;
use domain::digest::{Digest, ListingHash};
use domain::id::{EdgeName, NodeName, PluginVersion, ToolId};
use domain::review::{is_recent, is_volatile};
use domain::snapshot::{Judgement, Recorded, Report, Seen, judge};

use super::notation;
use super::{By, Error};
use crate::store::changes::{self, Shown, State, Variant};
use crate::store::listings::{self, ListFunction};
use crate::store::sightings::{self, Sighting};
use crate::store::snapshots::{self, VersionSnapshot};
use crate::store::{WriteTx, volatile};

/// Ways in which one function once listed itself and no node shows any longer, that are kept beside the
/// audit log: enough to see that it comes and goes.
const RESTORED_KEPT: u64 = 20;

/// Why a function stands in a list without its hash: it lists itself differently again and again.
pub(crate) const VOLATILE: &str = "volatile";

/// Pointers that are named of a volatile function.
const PARTS_MAX: usize = 8;

/// Opens what is seen for the first time or again, and ends what no node shows any longer.
pub(super) async fn reconcile_changes(
    tx: &mut WriteTx,
    by: &By,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<(), Error> {
    settle(tx, by, (version, tool), &BTreeSet::new()).await
}

/// The same, where some of what was shown was approved in this transaction.
pub(super) async fn settle(
    tx: &mut WriteTx,
    by: &By,
    key: (&PluginVersion, &ToolId),
    approved: &BTreeSet<Shown>,
) -> Result<(), Error> {
    let Some(view) = View::load(tx, key).await? else { return Ok(()) };
    record(tx, by, key, &view, approved).await?;
    let same_meaning = notation::approve(tx, by, key, &view).await?;
    if same_meaning.is_empty() {
        return Ok(());
    }
    // What the fleet goes by is another from here on.
    let Some(view) = View::load(tx, key).await? else { return Ok(()) };
    record(tx, by, key, &view, &same_meaning).await
}

/// What is gone by for one tool, and what nodes show of it.
pub(super) struct View {
    /// The fleet's, and those of edges with some of their own.
    recorded: BTreeMap<Option<EdgeName>, Own>,
    /// What differs, each with the first node that showed it.
    shown: BTreeMap<Shown, NodeName>,
    /// What some node shows as approved, in whose scope.
    same: BTreeSet<(Option<EdgeName>, Arc<str>)>,
    /// Functions that some node shows in a form that is not kept.
    volatile: BTreeSet<Arc<str>>,
}

/// What is gone by somewhere.
struct Own {
    recorded: Recorded,
    /// Functions that the edge decided about itself.
    own: BTreeSet<Arc<str>>,
}

/// What one list, judged by one snapshot, comes to.
#[derive(Default)]
struct Judged {
    differences: Vec<Shown>,
    same: Vec<(Option<EdgeName>, Arc<str>)>,
    volatile: Vec<Arc<str>>,
}

impl View {
    /// `None` before there is a snapshot.
    async fn load(
        tx: &mut WriteTx,
        (version, tool): (&PluginVersion, &ToolId),
    ) -> Result<Option<Self>, Error> {
        let fleet = snapshots::of_version(tx.tx(), version, None).await?;
        let Some(over_connection) = fleet.taken.get(tool).map(|taken| taken.over_connection.clone()) else {
            return Ok(None);
        };
        let mut recorded = BTreeMap::from([(None, Own::of(&fleet, tool))]);
        for edge in snapshots::owners(tx.tx(), version, tool).await? {
            let own = Own::of(&snapshots::of_version(tx.tx(), version, Some(&edge)).await?, tool);
            recorded.insert(Some(edge), own);
        }
        let mut view =
            Self { recorded, shown: BTreeMap::new(), same: BTreeSet::new(), volatile: BTreeSet::new() };
        let mut judged: BTreeMap<(Option<EdgeName>, Digest, bool, bool), Judged> = BTreeMap::new();
        for sighting in sightings::of_tool(tx.tx(), version, tool).await? {
            let may_be_gone = sighting.connection == over_connection;
            let edge = Some(sighting.edge).filter(|edge| view.recorded.contains_key(&Some(edge.clone())));
            let key = (edge.clone(), sighting.list, sighting.complete, may_be_gone);
            let one = match judged.entry(key) {
                Entry::Occupied(judged) => judged.into_mut(),
                Entry::Vacant(vacant) => {
                    let list = listings::list(tx.tx(), &sighting.list).await?;
                    let own = view.recorded.get(&edge).or_else(|| view.recorded.get(&None));
                    let judge = |own: &Own| own.judge(edge.as_ref(), &list, sighting.complete, may_be_gone);
                    vacant.insert(own.map(judge).unwrap_or_default())
                }
            };
            for difference in &one.differences {
                view.shown.entry(difference.clone()).or_insert_with(|| sighting.node.clone());
            }
            view.same.extend(one.same.iter().cloned());
            view.volatile.extend(one.volatile.iter().cloned());
        }
        Ok(Some(view))
    }

    /// What is gone by where a difference was seen.
    pub(super) fn approved(&self, one: &Shown) -> Option<ListingHash> {
        let own = self.recorded.get(&one.edge).or_else(|| self.recorded.get(&None))?;
        own.recorded.functions.get(&one.function).copied()
    }

    /// Differences of functions that no node of the scope shows as approved any longer, in one form only.
    pub(super) fn settled(&self) -> impl Iterator<Item = &Shown> {
        let mut forms: BTreeMap<(&Option<EdgeName>, &Arc<str>), usize> = BTreeMap::new();
        for one in self.shown.keys() {
            *forms.entry((&one.edge, &one.function)).or_default() += 1;
        }
        self.shown.keys().filter(move |one| {
            forms.get(&(&one.edge, &one.function)) == Some(&1)
                && !self.same.contains(&(one.edge.clone(), Arc::clone(&one.function)))
                && !self.volatile.contains(&one.function)
        })
    }

    fn difference(&self, key: (&PluginVersion, &ToolId), one: &Shown) -> FunctionDifference {
        FunctionDifference {
            version: key.0.clone(),
            tool: key.1.clone(),
            function: Arc::clone(&one.function),
            edge: one.edge.clone(),
            approved: self.approved(one),
            seen: one.seen,
        }
    }
}

impl Own {
    fn of(snapshot: &VersionSnapshot, tool: &ToolId) -> Self {
        let own = snapshot.own.iter().filter(|(of, _)| of == tool).map(|(_, name)| Arc::clone(name));
        Self { recorded: recorded(snapshot, tool), own: own.collect() }
    }

    fn judge(
        &self,
        edge: Option<&EdgeName>,
        list: &[ListFunction],
        complete: bool,
        may_be_gone: bool,
    ) -> Judged {
        let scope = |name: &Arc<str>| edge.filter(|_| self.own.contains(name)).cloned();
        let mut judged = Judged::default();
        let unkept = list.iter().filter(|one| one.left_out == VOLATILE);
        judged.volatile.extend(unkept.map(|one| Arc::clone(&one.function)));
        let Judgement::Compare(seen) = judge(&self.recorded, &report(list, complete)) else { return judged };
        for (function, seen) in seen {
            let edge = scope(&function);
            match seen {
                Seen::Same => judged.same.push((edge, function)),
                Seen::Gone { .. } if may_be_gone => {
                    judged.differences.push(Shown { function, edge, seen: None });
                }
                Seen::Gone { .. } => {}
                Seen::Changed { seen, .. } | Seen::New { seen } => {
                    judged.differences.push(Shown { function, edge, seen: Some(seen) });
                }
            }
        }
        judged
    }
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

async fn record(
    tx: &mut WriteTx,
    by: &By,
    key: (&PluginVersion, &ToolId),
    view: &View,
    approved: &BTreeSet<Shown>,
) -> Result<(), Error> {
    let stored = changes::of_tool(tx.tx(), key.0, key.1).await?;
    let (mut over, mut done, mut standing) = (Vec::new(), Vec::new(), BTreeSet::new());
    for variant in &stored {
        let one = shown_of(variant);
        let is_shown = view.shown.contains_key(&one);
        match variant.state {
            State::Open | State::Rejected if !is_shown && approved.contains(&one) => done.push(one),
            State::Open if !is_shown && !view.volatile.contains(&one.function) => over.push(one),
            State::Open | State::Rejected => {
                standing.insert(one);
            }
            State::Approved | State::Restored => {}
        }
    }
    changes::set_states(tx.tx(), key, &done, State::Approved).await?;
    for one in approved {
        volatile::delete(tx.tx(), key, &one.function).await?;
    }
    changes::set_states(tx.tx(), key, &over, State::Restored).await?;
    if !over.is_empty() {
        changes::prune(tx.tx(), key, RESTORED_KEPT).await?;
    }
    for one in &over {
        tx.audit(&by.origin, Event::ToolsRestored { difference: view.difference(key, one) });
    }
    let is_new = |(one, _): &(&Shown, &NodeName)| !standing.contains(*one);
    let new: Vec<(Shown, NodeName)> =
        view.shown.iter().filter(is_new).map(|(one, node)| (one.clone(), node.clone())).collect();
    changes::open_all(tx.tx(), key, &new, by.now).await?;
    for (one, node) in &new {
        tx.audit(
            &by.origin,
            Event::ToolsChanged { node: node.clone(), difference: view.difference(key, one) },
        );
    }
    if !new.is_empty() {
        note_volatile(tx, by, key, &stored, &new).await?;
    }
    Ok(())
}

fn shown_of(variant: &Variant) -> Shown {
    Shown { function: Arc::clone(&variant.function), edge: variant.edge.clone(), seen: variant.seen }
}

/// Notes those functions of which too many forms came within the hour, and what differs between the newest
/// two; and that others are not volatile any longer.
async fn note_volatile(
    tx: &mut WriteTx,
    by: &By,
    key: (&PluginVersion, &ToolId),
    stored: &[Variant],
    new: &[(Shown, NodeName)],
) -> Result<(), Error> {
    let known = volatile::of_tool(tx.tx(), key.0, key.1).await?;
    for past in known.iter().filter(|one| !is_recent(one.last_at, by.now)) {
        volatile::delete(tx.tx(), key, &past.function).await?;
    }
    let functions: BTreeSet<&Arc<str>> = new.iter().map(|(one, _)| &one.function).collect();
    for function in functions {
        // Where people look and approve, forms that came before say nothing.
        let is_approved =
            |variant: &&Variant| variant.function == *function && variant.state == State::Approved;
        let decided = stored.iter().filter(is_approved).map(|variant| variant.first_seen_at).max();
        let mut forms: BTreeMap<ListingHash, domain::time::Timestamp> = stored
            .iter()
            .filter(|variant| variant.function == *function && Some(variant.first_seen_at) > decided)
            .filter_map(|variant| Some((variant.seen?, variant.first_seen_at)))
            .collect();
        let came = new.iter().filter(|(one, _)| one.function == *function);
        forms.extend(came.filter_map(|(one, _)| Some((one.seen?, by.now))));
        if !is_volatile(forms.values().copied(), by.now) {
            continue;
        }
        let parts = parts(tx, &forms).await?;
        if volatile::put(tx.tx(), key, function, by.now, &parts).await? {
            let forms = forms.values().filter(|at| is_recent(**at, by.now)).count() as u64;
            let event = Event::ToolsVolatile {
                version: key.0.clone(),
                tool: key.1.clone(),
                function: Arc::clone(function),
                forms,
                parts,
            };
            tx.audit(&by.origin, event);
        }
    }
    Ok(())
}

/// Where the newest two forms differ.
async fn parts(
    tx: &mut WriteTx,
    forms: &BTreeMap<ListingHash, domain::time::Timestamp>,
) -> Result<Vec<String>, Error> {
    let mut newest: Vec<(&ListingHash, _)> = forms.iter().collect();
    newest.sort_by_key(|(_, at)| std::cmp::Reverse(**at));
    let mut texts = Vec::new();
    for (hash, _) in newest.into_iter().take(2) {
        texts.extend(listings::text(tx.tx(), *hash).await?);
    }
    let [one, other] = texts.as_slice() else { return Ok(Vec::new()) };
    Ok(differences(other, one).into_iter().map(|difference| difference.pointer).take(PARTS_MAX).collect())
}
