//! Makes changed listings, and moved origins, what the fleet goes by: exactly those that were shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::audit::{Event, FunctionDifference};
use domain::digest::ListingHash;
use domain::id::{EdgeName, PluginName, PluginVersion, ToolId};
use domain::origin::{Endpoint, PinState};
use domain::plugin_set::{Part, Scope};

mod standing;

pub(super) use standing::Standing;

use super::block::raise;
use super::reconcile_changes::settle;
use super::{By, Code, Error};
use crate::store::approvals::{self, Replaced};
use crate::store::changes::Shown;
use crate::store::pins::{self, StoredPin, endpoint_text};
use crate::store::{Store, WriteTx, assignments, candidates, edges, plugins, policies, snapshots};

/// Approvals of a plugin that can be undone, the newest first: a team's week.
const APPROVALS_KEPT: u64 = 50;

/// What a person looked at and approves.
#[derive(Debug, Clone)]
pub struct Approval {
    /// The plugin.
    pub plugin: PluginName,
    /// Functions, each with the approved hash that was shown and the seen one, and the edge whose own listing
    /// that is.
    pub functions: Vec<FunctionDifference>,
    /// The edge that alone is to go by it; `None`: whoever goes by what was shown.
    pub edge: Option<EdgeName>,
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
    /// What edges go by for themselves, whatever was approved for the fleet.
    pub own: Vec<Own>,
    /// Generation of each affected edge's trust from here on.
    pub edges: Vec<(EdgeName, u64)>,
}

/// What an edge goes on going by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// The edge.
    pub edge: EdgeName,
    /// The version.
    pub version: PluginVersion,
    /// The tool.
    pub tool: ToolId,
    /// The function.
    pub function: Arc<str>,
    /// `None`: it does not go by the function.
    pub hash: Option<ListingHash>,
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
/// No such edge; a person who pushed or assigned the version, where the fleet's policy wants another.
pub async fn approve(store: &Store, by: &By, approval: &Approval) -> Result<Decided, Error> {
    let mut tx = store.begin_write().await?;
    if let Some(edge) = &approval.edge {
        let is_there = edges::get(tx.tx(), edge).await?.is_some();
        is_there.then_some(()).ok_or_else(|| Error::no_edge(edge))?;
    }
    four_eyes(&mut tx, by, approval).await?;
    let mut decided = Decided::default();
    let mut touched: BTreeSet<(PluginVersion, ToolId)> = BTreeSet::new();
    let mut first_seen: BTreeSet<(PluginVersion, ToolId)> = BTreeSet::new();
    for origin in &approval.origins {
        if approve_origin(&mut tx, by, origin, approval.attended, &mut decided).await? {
            let key = (origin.version.clone(), origin.tool.clone());
            if snapshots::take(tx.tx(), &origin.version, &origin.tool, "", by.as_stored()).await? {
                first_seen.insert(key.clone());
            }
            touched.insert(key);
        }
    }
    let mut standing = Standing::default();
    let mut approved: BTreeSet<Shown> = BTreeSet::new();
    for difference in &approval.functions {
        let key = (difference.version.clone(), difference.tool.clone());
        // A tool that nobody approved before has its first snapshot from here on, which is the fleet's.
        let is_first = first_seen.contains(&key);
        let edge = if is_first { None } else { approval.edge.clone().or_else(|| difference.edge.clone()) };
        let tool = standing.of(&mut tx, &key, edge.as_ref(), is_first).await?;
        if let Some(stale) = tool.stale(difference) {
            decided.stale.push(stale);
            continue;
        }
        tool.decided(difference);
        touched.insert(key);
        approved.insert(shown(difference));
        decided.functions.push(FunctionDifference { edge, ..difference.clone() });
    }
    write(&mut tx, by, &approval.plugin, &decided.functions).await?;
    if !decided.functions.is_empty() {
        let (plugin, functions) = (approval.plugin.clone(), decided.functions.clone());
        tx.audit(&by.origin, Event::ToolsApprove { plugin, functions, attended: approval.attended });
    }
    for (version, tool) in &touched {
        settle(&mut tx, by, (version, tool), &approved).await?;
    }
    decided.own = still_own(&mut tx, &approval.plugin, &decided.functions).await?;
    decided.edges = raise_for(&mut tx, &decided).await?;
    tx.commit(by.now).await?;
    Ok(decided)
}

/// Raises the trust of the edges that what was decided concerns.
pub(super) async fn raise_for(tx: &mut WriteTx, decided: &Decided) -> Result<Vec<(EdgeName, u64)>, Error> {
    let mut versions: BTreeMap<Option<EdgeName>, BTreeSet<PluginVersion>> = BTreeMap::new();
    for one in &decided.functions {
        versions.entry(one.edge.clone()).or_default().insert(one.version.clone());
    }
    for one in &decided.origins {
        versions.entry(None).or_default().insert(one.version.clone());
    }
    let mut raised = BTreeMap::new();
    for (edge, versions) in versions {
        raised.extend(raise(tx, &versions, edge.as_ref()).await?);
    }
    Ok(raised.into_iter().collect())
}

/// Where the fleet's policy wants it, nobody approves for a version that they pushed, or assigned to an edge
/// that has it.
async fn four_eyes(tx: &mut WriteTx, by: &By, approval: &Approval) -> Result<(), Error> {
    if !policies::of_fleet(tx.tx()).await?.four_eyes {
        return Ok(());
    }
    let functions = approval.functions.iter().map(|one| &one.version);
    let versions: BTreeSet<&PluginVersion> =
        functions.chain(approval.origins.iter().map(|one| &one.version)).collect();
    let actor = &by.origin.actor;
    for version in versions {
        let pushed = plugins::get(tx.tx(), version).await?.is_some_and(|stored| stored.pushed_by == *actor);
        let assigned = assignments::of_plugin(tx.tx(), &version.plugin).await?;
        let assigned = assigned.iter().any(|one| one.version == *version && one.assigned_by == *actor);
        let tried = candidates::set_by(tx.tx(), version, actor).await?;
        let what = match (pushed, assigned, tried) {
            (true, _, _) => "pushed",
            (_, true, _) | (_, _, true) => "assigned",
            _ => continue,
        };
        let detail = format!(
            "{actor} {what} {version}, and the fleet's policy wants somebody else to approve for it (four_eyes)"
        );
        return Err(Error::with_remedy(Code::FourEyes, detail, "pintle policy show"));
    }
    Ok(())
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

type ByTool<'a> =
    BTreeMap<(&'a PluginVersion, &'a ToolId, Option<&'a EdgeName>), Vec<&'a FunctionDifference>>;

/// Differences by version, tool and edge.
pub(super) fn by_tool(functions: &[FunctionDifference]) -> ByTool<'_> {
    let mut grouped = ByTool::new();
    for difference in functions {
        let key = (&difference.version, &difference.tool, difference.edge.as_ref());
        grouped.entry(key).or_default().push(difference);
    }
    grouped
}

/// What of a difference was shown.
pub(super) fn shown(difference: &FunctionDifference) -> Shown {
    Shown { function: Arc::clone(&difference.function), edge: difference.edge.clone(), seen: difference.seen }
}

/// Makes what was seen what the fleet, or each one's edge, goes by, and keeps what it replaced.
pub(super) async fn write(
    tx: &mut WriteTx,
    by: &By,
    plugin: &PluginName,
    functions: &[FunctionDifference],
) -> Result<(), Error> {
    if functions.is_empty() {
        return Ok(());
    }
    put(tx, by, functions).await?;
    let replaced: Vec<Replaced> = functions
        .iter()
        .map(|one| Replaced {
            version: one.version.clone(),
            tool: one.tool.clone(),
            function: Arc::clone(&one.function),
            edge: one.edge.clone(),
            earlier: one.approved,
            now: one.seen,
        })
        .collect();
    approvals::put(tx.tx(), plugin, &replaced, by.as_stored()).await?;
    approvals::prune(tx.tx(), plugin, APPROVALS_KEPT).await?;
    Ok(())
}

/// Makes what was seen what the fleet, or each one's edge, goes by. What an edge has of its own that is as the
/// fleet's is dropped.
pub(super) async fn put(tx: &mut WriteTx, by: &By, functions: &[FunctionDifference]) -> Result<(), Error> {
    for ((version, tool, edge), functions) in by_tool(functions) {
        let seen: Vec<(&str, ListingHash)> =
            functions.iter().filter_map(|one| Some((&*one.function, one.seen?))).collect();
        snapshots::put_all(tx.tx(), (version, tool), edge, &seen, by.as_stored()).await?;
        for gone in functions.iter().filter(|one| one.seen.is_none()) {
            match edge {
                None => snapshots::delete(tx.tx(), version, tool, &gone.function).await?,
                Some(edge) => {
                    let by = by.as_stored();
                    snapshots::make_absent(tx.tx(), (version, tool), edge, &gone.function, by).await?;
                }
            }
        }
        drop_equal(tx, (version, tool), &functions).await?;
    }
    Ok(())
}

/// Drops what edges have of their own of these functions where it is as the fleet's.
async fn drop_equal(
    tx: &mut WriteTx,
    (version, tool): (&PluginVersion, &ToolId),
    functions: &[&FunctionDifference],
) -> Result<(), Error> {
    let named: BTreeSet<&Arc<str>> = functions.iter().map(|one| &one.function).collect();
    let fleet = snapshots::of_version(tx.tx(), version, None).await?;
    for own in snapshots::own_of_plugin(tx.tx(), &version.plugin).await? {
        if own.version != *version || own.tool != *tool || !named.contains(&own.function) {
            continue;
        }
        let key = (tool.clone(), Arc::clone(&own.function));
        if fleet.functions.get(&key).map(|approved| approved.hash) == own.hash {
            snapshots::drop_own(tx.tx(), (version, tool), &own.edge, &own.function).await?;
        }
    }
    Ok(())
}

/// What edges go by for themselves of what was approved for the fleet.
async fn still_own(
    tx: &mut WriteTx,
    plugin: &PluginName,
    functions: &[FunctionDifference],
) -> Result<Vec<Own>, Error> {
    let fleet_wide: BTreeSet<_> = functions
        .iter()
        .filter(|one| one.edge.is_none())
        .map(|one| (&one.version, &one.tool, &one.function))
        .collect();
    if fleet_wide.is_empty() {
        return Ok(Vec::new());
    }
    let own = snapshots::own_of_plugin(tx.tx(), plugin).await?.into_iter();
    Ok(own
        .filter(|own| fleet_wide.contains(&(&own.version, &own.tool, &own.function)))
        .map(|own| Own {
            edge: own.edge,
            version: own.version,
            tool: own.tool,
            function: own.function,
            hash: own.hash,
        })
        .collect())
}
