//! Makes changed listings, and moved origins, what the fleet goes by: exactly those that were shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::audit::{Event, FunctionDifference};
use domain::digest::ListingHash;
use domain::id::{EdgeName, PluginName, PluginVersion, ToolId};
use domain::origin::{Endpoint, PinState};
use domain::plugin_set::{Part, Scope};

use super::block::raise;
use super::reconcile_changes::{reconcile_changes, recorded, seen_functions};
use super::{By, Error};
use crate::store::changes::{self, Shown, State};
use crate::store::pins::{self, StoredPin, endpoint_text};
use crate::store::{Store, WriteTx, snapshots};

/// What a person looked at and approves.
#[derive(Debug, Clone)]
pub struct Approval {
    /// The plugin.
    pub plugin: PluginName,
    /// Functions, each with the approved hash that was shown and the seen one.
    pub functions: Vec<FunctionDifference>,
    /// Moved tools, each with both origins.
    pub origins: Vec<OriginMove>,
    /// Whether a person at a terminal or in the console confirmed it.
    pub attended: bool,
}

/// A moved tool as it was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginMove {
    /// The version.
    pub version: PluginVersion,
    /// The tool.
    pub tool: ToolId,
    /// On this edge only; `None`: on all.
    pub edge: Option<EdgeName>,
    /// Where it was, in any order; empty if it was shown as new.
    pub from: Vec<Endpoint>,
    /// Where the version says it is.
    pub to: Endpoint,
}

/// What became of an approval or a rejection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decided {
    /// What was done.
    pub functions: Vec<FunctionDifference>,
    /// What was done.
    pub origins: Vec<OriginMove>,
    /// What was not done, since it is not, or no longer, as it was shown.
    pub stale: Vec<Stale>,
    /// Generation of each affected edge's trust from here on.
    pub edges: Vec<(EdgeName, u64)>,
}

/// What was not done, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// The version.
    pub version: PluginVersion,
    /// The tool.
    pub tool: ToolId,
    /// The function; `None` for a moved origin.
    pub function: Option<Arc<str>>,
    /// The hash that the fleet goes by, if it has one.
    pub approved: Option<ListingHash>,
    /// A sentence without its stop.
    pub reason: String,
}

/// Approves. For what is not as it was shown nothing is done; the rest is done in one transaction.
///
/// # Errors
/// What the store says.
pub async fn approve(store: &Store, by: &By, approval: &Approval) -> Result<Decided, Error> {
    let mut tx = store.begin_write().await?;
    let mut decided = Decided::default();
    let mut touched: BTreeSet<(PluginVersion, ToolId)> = BTreeSet::new();
    let mut versions: BTreeSet<PluginVersion> = BTreeSet::new();
    let mut first_seen: BTreeSet<(PluginVersion, ToolId)> = BTreeSet::new();
    for origin in &approval.origins {
        if approve_origin(&mut tx, by, origin, approval.attended, &mut decided).await? {
            let key = (origin.version.clone(), origin.tool.clone());
            versions.insert(origin.version.clone());
            if snapshots::take(tx.tx(), &origin.version, &origin.tool, "", by.as_stored()).await? {
                first_seen.insert(key.clone());
            }
            touched.insert(key);
        }
    }
    let mut standing = Standing::default();
    for difference in &approval.functions {
        let key = (difference.version.clone(), difference.tool.clone());
        let is_first = first_seen.contains(&key);
        let tool = standing.of(&mut tx, &key, is_first).await?;
        if let Some(stale) = tool.stale(difference) {
            decided.stale.push(stale);
            continue;
        }
        tool.decided(difference);
        versions.insert(difference.version.clone());
        touched.insert(key);
        decided.functions.push(difference.clone());
    }
    for (key, functions) in by_tool(&decided.functions) {
        approve_functions(&mut tx, by, key, &functions).await?;
    }
    if !decided.functions.is_empty() {
        let (plugin, functions) = (approval.plugin.clone(), decided.functions.clone());
        tx.audit(&by.origin, Event::ToolsApprove { plugin, functions, attended: approval.attended });
    }
    for (version, tool) in &touched {
        reconcile_changes(&mut tx, by, version, tool).await?;
    }
    decided.edges = raise(&mut tx, &versions, None).await?;
    tx.commit(by.now).await?;
    Ok(decided)
}

/// Pins the tool wherever it waits as it was shown; answers whether it did.
async fn approve_origin(
    tx: &mut WriteTx,
    by: &By,
    origin: &OriginMove,
    attended: bool,
    decided: &mut Decided,
) -> Result<bool, Error> {
    let known = pins::of_plugin(tx.tx(), &origin.version.plugin).await?;
    let of_tool = |pin: &&StoredPin| {
        pin.version == origin.version
            && pin.tool == origin.tool
            && origin.edge.as_ref().is_none_or(|edge| *edge == pin.edge)
    };
    let waiting: Vec<&StoredPin> =
        known.iter().filter(of_tool).filter(|pin| is_as_shown(pin, origin)).collect();
    if waiting.is_empty() {
        let now: Vec<String> = known.iter().filter(of_tool).map(describe).collect();
        let now = if now.is_empty() { "no edge has it".to_owned() } else { now.join(", ") };
        decided.stale.push(Stale {
            version: origin.version.clone(),
            tool: origin.tool.clone(),
            function: None,
            approved: None,
            reason: format!("the tool does not wait as it was shown: {now}"),
        });
        return Ok(false);
    }
    for pin in waiting {
        let mut pinned = pin.clone();
        pinned.pin.state = PinState::Pinned;
        pins::put(tx.tx(), &pinned, by.as_stored()).await?;
        tx.raise(Scope::Edge(pin.edge.clone()), Part::Trust);
    }
    if origin.edge.is_none() {
        pins::approve(tx.tx(), &origin.version, &origin.tool, &origin.to, by.as_stored()).await?;
    }
    tx.audit(
        &by.origin,
        Event::EndpointApprove {
            edge: origin.edge.clone(),
            version: origin.version.clone(),
            tool: origin.tool.clone(),
            earlier: origin.from.iter().map(endpoint_text).collect(),
            origin: endpoint_text(&origin.to),
            attended,
        },
    );
    decided.origins.push(origin.clone());
    Ok(true)
}

fn is_as_shown(pin: &StoredPin, origin: &OriginMove) -> bool {
    let shown: BTreeSet<&Endpoint> = origin.from.iter().collect();
    let is_from = match &pin.pin.state {
        PinState::Pinned => false,
        PinState::Moved { from } => from.iter().collect::<BTreeSet<_>>() == shown,
        PinState::NewAt => shown.is_empty(),
    };
    is_from && pin.pin.endpoint == origin.to
}

fn describe(pin: &StoredPin) -> String {
    let to = endpoint_text(&pin.pin.endpoint);
    match &pin.pin.state {
        PinState::Pinned => format!("on edge {} it is pinned to {to}", pin.edge),
        PinState::Moved { from } => {
            let from: Vec<String> = from.iter().map(endpoint_text).collect();
            format!("on edge {} it moved from {} to {to}", pin.edge, from.join(" or "))
        }
        PinState::NewAt => format!("on edge {} it is new at {to}", pin.edge),
    }
}

/// How tools stood when the transaction began, each read once.
#[derive(Default)]
pub(super) struct Standing(BTreeMap<(PluginVersion, ToolId), ToolStanding>);

/// How one tool stood.
pub(super) struct ToolStanding {
    is_taken: bool,
    approved: BTreeMap<Arc<str>, ListingHash>,
    /// What nodes show and people may have looked at.
    shown: BTreeSet<(Arc<str>, Option<ListingHash>)>,
    /// Decided earlier in the same request.
    done: BTreeSet<Arc<str>>,
}

impl Standing {
    /// How a tool stands. `is_first`: nobody approved it anywhere before, so what nodes showed of it
    /// counts, not changes.
    pub(super) async fn of(
        &mut self,
        tx: &mut WriteTx,
        key: &(PluginVersion, ToolId),
        is_first: bool,
    ) -> Result<&mut ToolStanding, Error> {
        if !self.0.contains_key(key) {
            let loaded = ToolStanding::load(tx, key, is_first).await?;
            self.0.insert(key.clone(), loaded);
        }
        Ok(self.0.entry(key.clone()).or_insert_with(|| ToolStanding {
            is_taken: false,
            approved: BTreeMap::new(),
            shown: BTreeSet::new(),
            done: BTreeSet::new(),
        }))
    }
}

impl ToolStanding {
    async fn load(
        tx: &mut WriteTx,
        (version, tool): &(PluginVersion, ToolId),
        is_first: bool,
    ) -> Result<Self, Error> {
        let snapshot = recorded(&snapshots::of_version(tx.tx(), version, None).await?, tool);
        let shown = if is_first {
            let seen = seen_functions(tx, version, tool).await?;
            seen.into_iter().map(|(function, hash)| (function, Some(hash))).collect()
        } else {
            let variants = changes::of_tool(tx.tx(), version, tool).await?.into_iter();
            variants
                .filter(|variant| matches!(variant.state, State::Open | State::Rejected))
                .map(|variant| (variant.function, variant.seen))
                .collect()
        };
        Ok(Self { is_taken: snapshot.taken, approved: snapshot.functions, shown, done: BTreeSet::new() })
    }

    /// Whoever names the function again in the same request is late.
    pub(super) fn decided(&mut self, difference: &FunctionDifference) {
        self.done.insert(Arc::clone(&difference.function));
    }

    /// Why a difference is not, or no longer, as it was shown.
    pub(super) fn stale(&self, difference: &FunctionDifference) -> Option<Stale> {
        let approved = self.approved.get(&difference.function).copied();
        let reason = if !self.is_taken {
            "no snapshot of the tool was taken yet, so there is nothing to approve".to_owned()
        } else if self.done.contains(&difference.function) {
            "the request names the function twice; the first counts".to_owned()
        } else if approved != difference.approved {
            format!("the fleet goes by {} meanwhile, shown was {}", text(approved), text(difference.approved))
        } else if !self.shown.contains(&(Arc::clone(&difference.function), difference.seen)) {
            format!("no node shows {} any longer", text(difference.seen))
        } else {
            return None;
        };
        Some(Stale {
            version: difference.version.clone(),
            tool: difference.tool.clone(),
            function: Some(Arc::clone(&difference.function)),
            approved,
            reason,
        })
    }
}

fn text(hash: Option<ListingHash>) -> String {
    hash.map_or_else(|| "no listing".to_owned(), |hash| hash.to_string())
}

/// Differences by version and tool.
pub(super) fn by_tool(
    functions: &[FunctionDifference],
) -> BTreeMap<(&PluginVersion, &ToolId), Vec<&FunctionDifference>> {
    let mut grouped: BTreeMap<_, Vec<&FunctionDifference>> = BTreeMap::new();
    for difference in functions {
        grouped.entry((&difference.version, &difference.tool)).or_default().push(difference);
    }
    grouped
}

/// What of a difference was shown.
pub(super) fn shown(difference: &FunctionDifference) -> Shown {
    (Arc::clone(&difference.function), difference.seen)
}

async fn approve_functions(
    tx: &mut WriteTx,
    by: &By,
    (version, tool): (&PluginVersion, &ToolId),
    functions: &[&FunctionDifference],
) -> Result<(), Error> {
    let seen: Vec<(&str, ListingHash)> =
        functions.iter().filter_map(|one| Some((&*one.function, one.seen?))).collect();
    snapshots::put_all(tx.tx(), version, tool, &seen, by.as_stored()).await?;
    for gone in functions.iter().filter(|one| one.seen.is_none()) {
        snapshots::delete(tx.tx(), version, tool, &gone.function).await?;
    }
    let shown: Vec<Shown> = functions.iter().map(|one| shown(one)).collect();
    changes::set_states(tx.tx(), (version, tool), &shown, State::Approved).await?;
    Ok(())
}
