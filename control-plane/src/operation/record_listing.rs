//! Records what one listing of one tool showed on a node: the first complete one of a version's tool
//! becomes its snapshot, every other is compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::audit::Event;
use domain::digest::ListingHash;
use domain::id::{BootId, EdgeName, FunctionId, PluginVersion, ToolId};
use domain::name::{ListedName, ToolNames, check_function_name, judge_names, tools_may_collide};
use domain::origin::{AddressClass, PinState};
use domain::plugin_set::{Part, Scope};
use domain::review::is_recent;
use domain::snapshot::{Judgement, judge};
use domain::standing::Standing;
use domain::time::Timestamp;
use domain::visible::make_visible;
use proto::convert::{Report, Seen};

use super::assign::pin_event;
use super::note_node::Speaker;
use super::reconcile_changes::{VOLATILE, reconcile_changes, recorded, report};
use super::{By, Error, review};
use crate::store::listings::{self, ListFunction};
use crate::store::pins::{self, StoredPin};
use crate::store::plugins::StoredTool;
use crate::store::sightings::{self, Newest, Place, Sighting};
use crate::store::{
    NodeRecord, Store, Transaction, WriteTx, assignments, nodes, plugins, snapshots, volatile,
};

/// Places (a tool of a version over a connection) that one node may report of: a hundred plugins of ten
/// tools, each over two connections.
const PLACES_MAX: u64 = 2_000;

/// What is said of a form that is not kept.
const UNKEPT: &str = "it lists itself differently again and again, so its forms are not kept one by one";

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It is recorded durably: acknowledge it.
    Done,
    /// A newer one of the same boot is recorded, or the node speaks in a later session: acknowledge it.
    Stale,
    /// It speaks of something that the node's edge does not have: acknowledge it, and say why in
    /// the log.
    Ignored(String),
    /// Nothing was recorded; these texts are needed first.
    MissingTexts(Vec<ListingHash>),
}

/// Records a report in one transaction with what follows from it.
///
/// # Errors
/// What the store says.
pub async fn record_listing(
    store: &Store,
    now: Timestamp,
    speaker: impl Into<Speaker<'_>>,
    boot: &BootId,
    said: &Report,
) -> Result<Recorded, Error> {
    let speaker = speaker.into();
    let node = speaker.node;
    let mut list = list_of(said);
    let connection = make_visible(&said.connection);
    let place = Place { node, version: &said.version, tool: &said.tool, connection: &connection };
    let (record, unkept) = match look_first(store, &place, (boot, said, now), &mut list).await? {
        Ok(found) => found,
        Err(outcome) => return Ok(outcome),
    };
    let mut tx = store.begin_write().await?;
    // Asked again, since only now nobody else writes.
    if let Some(why) = foreign(tx.tx(), &record, said).await? {
        return Ok(Recorded::Ignored(why));
    }
    let Some(now_known) = speaker.counts(tx.tx()).await? else { return Ok(Recorded::Stale) };
    speaker.succeed(tx.tx(), &now_known).await?;
    let earlier = sightings::newest(tx.tx(), &place).await?;
    if is_older(earlier.as_ref(), boot, said.sequence) {
        return Ok(Recorded::Stale);
    }
    if earlier.is_none() && sightings::count_of_node(tx.tx(), node).await? >= PLACES_MAX {
        let why =
            format!("the node reports of {PLACES_MAX} tools and connections already, which is the most");
        return Ok(Recorded::Ignored(why));
    }
    let sighting = Sighting {
        node: record.name.clone(),
        edge: record.edge.clone(),
        version: said.version.clone(),
        tool: said.tool.clone(),
        connection: connection.to_string(),
        complete: said.complete,
        incomplete_reason: make_visible(&said.incomplete_reason).into_owned(),
        list: listings::put_list(tx.tx(), &list).await?,
        address_class: said.address_class.as_ref().to_owned(),
        warnings: warnings(said),
        seen_at: now,
        boot: boot.clone(),
    };
    sightings::put(tx.tx(), node, said.sequence, &sighting).await?;
    for function in &unkept {
        volatile::touch(tx.tx(), (&said.version, &said.tool), function, now).await?;
    }
    let by = By::node(now, &record.name);
    let mut pins = pins::of_edge(tx.tx(), &record.edge, &said.version.plugin).await?;
    pins.retain(|pin| pin.version == said.version);
    learn_class(&mut tx, &by, pins.iter().find(|pin| pin.tool == said.tool), &sighting).await?;
    if !is_nothing_new(&mut tx, &place, earlier.as_ref(), &sighting).await? {
        decide(&mut tx, &by, &record, &sighting, &pins).await?;
    }
    if let Some(replaced) = earlier.filter(|earlier| earlier.list != sighting.list) {
        listings::prune(tx.tx(), &replaced.list).await?;
    }
    tx.commit(now).await?;
    Ok(Recorded::Done)
}

/// What can be found out without keeping other writers waiting: the node, or why nothing is recorded. Forms of
/// volatile functions that nobody has seen are left away from the list; answers whose.
async fn look_first(
    store: &Store,
    place: &Place<'_>,
    (boot, said, now): (&BootId, &Report, Timestamp),
    list: &mut [ListFunction],
) -> Result<Result<(NodeRecord, Vec<Arc<str>>), Recorded>, Error> {
    let mut tx = store.read().await?;
    let Some(record) = nodes::get(&mut tx, place.node).await? else {
        return Ok(Err(Recorded::Ignored(format!("node {} never joined", place.node))));
    };
    if let Some(why) = foreign(&mut tx, &record, said).await? {
        return Ok(Err(Recorded::Ignored(why)));
    }
    if is_older(sightings::newest(&mut tx, place).await?.as_ref(), boot, said.sequence) {
        return Ok(Err(Recorded::Stale));
    }
    let hashes = list.iter().filter_map(|one| one.hash).collect();
    let mut missing = listings::missing(&mut tx, &hashes).await?;
    if missing.is_empty() {
        return Ok(Ok((record, Vec::new())));
    }
    let unkept = leave_volatile(&mut tx, (place, now), list, &missing).await?;
    missing.retain(|hash| list.iter().any(|one| one.hash == Some(*hash)));
    Ok(if missing.is_empty() { Ok((record, unkept)) } else { Err(Recorded::MissingTexts(missing)) })
}

/// A function that lists itself differently again and again is not asked for each of its forms.
async fn leave_volatile(
    tx: &mut Transaction,
    (place, now): (&Place<'_>, Timestamp),
    list: &mut [ListFunction],
    missing: &[ListingHash],
) -> Result<Vec<Arc<str>>, Error> {
    let known = volatile::of_tool(tx, place.version, place.tool).await?.into_iter();
    let known: Vec<Arc<str>> =
        known.filter(|one| is_recent(one.last_at, now)).map(|one| one.function).collect();
    let mut unkept = Vec::new();
    for one in list {
        if known.contains(&one.function) && one.hash.is_some_and(|hash| missing.contains(&hash)) {
            (one.hash, one.left_out, one.reason) = (None, VOLATILE.to_owned(), UNKEPT.to_owned());
            one.not_shown.clear();
            unkept.push(Arc::clone(&one.function));
        }
    }
    Ok(unkept)
}

/// Whether what the fleet knows of the tool is the same as before the report, so that nothing needs
/// to be compared: the node shows what it, or others, showed before, and what it showed is still
/// shown. Of a fleet that lists alike, one report is compared and not each with all.
async fn is_nothing_new(
    tx: &mut WriteTx,
    place: &Place<'_>,
    earlier: Option<&Newest>,
    sighting: &Sighting,
) -> Result<bool, Error> {
    if !snapshots::is_taken(tx.tx(), place.version, place.tool).await? {
        return Ok(false);
    }
    let now = (&sighting.list, sighting.complete);
    let before = earlier.map(|earlier| (&earlier.list, earlier.complete));
    if before == Some(now) {
        return Ok(true);
    }
    // Where an edge goes by listings of its own, what others showed was compared with something else.
    if !snapshots::owners(tx.tx(), place.version, place.tool).await?.is_empty() {
        return Ok(false);
    }
    for shown in before.into_iter().chain([now]) {
        if !sightings::is_shown_by_another(tx.tx(), place, shown).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes the snapshot if there is none and this makes one, else compares.
async fn decide(
    tx: &mut WriteTx,
    by: &By,
    node: &NodeRecord,
    sighting: &Sighting,
    pins: &[StoredPin],
) -> Result<(), Error> {
    let (version, tool) = (&sighting.version, &sighting.tool);
    let snapshot = snapshots::of_version(tx.tx(), version, None).await?;
    let list = listings::list(tx.tx(), &sighting.list).await?;
    match judge(&recorded(&snapshot, tool), &report(&list, sighting.complete)) {
        Judgement::Wait => Ok(()),
        Judgement::Compare(_) => reconcile_changes(tx, by, version, tool).await,
        Judgement::Take(_) => {
            let taken: BTreeSet<&ToolId> = snapshot.taken.keys().collect();
            let Some(together) = together(tx, node, sighting, (&taken, pins)).await? else { return Ok(()) };
            take(tx, by, node, &together).await
        }
    }
}

/// What a tool lists at a place that nobody approved, or that was never decided about on the node's
/// edge, becomes no snapshot by itself.
fn may_be_taken(tool: &StoredTool, pins: &[StoredPin]) -> bool {
    let is_pinned = |pin: &StoredPin| pin.tool == tool.tool && pin.pin.state == PinState::Pinned;
    tool.url.is_none() || pins.iter().any(is_pinned)
}

/// The tools that take their first snapshot with this one, each with the complete listing of the
/// node's present run: those whose functions models could take for this one's (20-listings, 3), but
/// those that wait for a person. `None` while one of them is not listed completely, or if this one
/// waits.
async fn together(
    tx: &mut WriteTx,
    node: &NodeRecord,
    sighting: &Sighting,
    (taken, pins): (&BTreeSet<&ToolId>, &[StoredPin]),
) -> Result<Option<Vec<Sighting>>, Error> {
    let tools = plugins::tools(tx.tx(), &sighting.version).await?;
    let mut group = Vec::new();
    for tool in tools.iter().filter(|tool| may_be_taken(tool, pins)).map(|tool| &tool.tool) {
        if *tool == sighting.tool {
            group.push(sighting.clone());
            continue;
        }
        if taken.contains(tool) || !tools_may_collide(tool, &sighting.tool) {
            continue;
        }
        let shown = sightings::of_tool(tx.tx(), &sighting.version, tool).await?;
        let is_present = |shown: &Sighting| shown.node == node.name && shown.boot == sighting.boot;
        let Some(shown) = shown.into_iter().find(|shown| is_present(shown) && shown.complete) else {
            return Ok(None);
        };
        group.push(shown);
    }
    Ok(group.iter().any(|one| one.tool == sighting.tool).then_some(group))
}

async fn take(tx: &mut WriteTx, by: &By, node: &NodeRecord, group: &[Sighting]) -> Result<(), Error> {
    let mut lists: Vec<(&Sighting, BTreeMap<Arc<str>, ListingHash>)> = Vec::new();
    for sighting in group {
        let list = listings::list(tx.tx(), &sighting.list).await?;
        lists.push((sighting, report(&list, true).functions));
    }
    let colliding = colliding(&lists);
    for (sighting, functions) in lists {
        let (version, tool) = (&sighting.version, &sighting.tool);
        let functions: BTreeMap<Arc<str>, ListingHash> = functions
            .into_iter()
            .filter(|(name, _)| !colliding.contains(&FunctionId::new(tool, name)))
            .collect();
        snapshots::take(tx.tx(), version, tool, &sighting.connection, as_node(by, node)).await?;
        snapshots::put_list(tx.tx(), version, tool, &sighting.list, as_node(by, node)).await?;
        for id in colliding.iter().filter(|id| id.tool == *tool) {
            snapshots::delete(tx.tx(), version, tool, &id.function).await?;
        }
        let event = Event::ToolsSnapshot {
            version: version.clone(),
            tool: tool.clone(),
            node: node.name.clone(),
            functions,
        };
        tx.audit(&by.origin, event);
        for edge in raise_trust(tx, version).await? {
            review::judge(tx, by, &edge, version, tool).await?;
        }
        reconcile_changes(tx, by, version, tool).await?;
    }
    Ok(())
}

fn as_node<'a>(by: &By, node: &'a NodeRecord) -> crate::store::By<'a> {
    crate::store::By { at: by.now, who: node.name.as_str() }
}

/// Functions of tools that take their snapshot together and have one model name.
fn colliding(lists: &[(&Sighting, BTreeMap<Arc<str>, ListingHash>)]) -> BTreeSet<FunctionId> {
    let names: Vec<ToolNames<'_>> = lists
        .iter()
        .map(|(sighting, functions)| ToolNames {
            tool: &sighting.tool,
            functions: functions.keys().map(|name| ListedName { name, readable: true }).collect(),
        })
        .collect();
    judge_names(&names, &|_| false).into_keys().collect()
}

/// Raises the trust of every edge that has the version; answers them.
pub(super) async fn raise_trust(tx: &mut WriteTx, version: &PluginVersion) -> Result<Vec<EdgeName>, Error> {
    let edges = assignments::edges_with(tx.tx(), version).await?;
    for edge in &edges {
        tx.raise(Scope::Edge(edge.clone()), Part::Trust);
    }
    Ok(edges)
}

/// The class of the address that the first node to list a named host completely connected to is
/// pinned with it.
async fn learn_class(
    tx: &mut WriteTx,
    by: &By,
    pin: Option<&StoredPin>,
    sighting: &Sighting,
) -> Result<(), Error> {
    let class = match sighting.address_class.as_str() {
        "public" => AddressClass::Public,
        "private" => AddressClass::Private,
        "loopback" => AddressClass::Loopback,
        _ => return Ok(()),
    };
    let Some(pin) = pin.filter(|pin| pin.pin.state == PinState::Pinned && pin.pin.class.is_none()) else {
        return Ok(());
    };
    if !sighting.complete {
        return Ok(());
    }
    let mut pin = pin.clone();
    pin.pin.class = Some(class);
    pins::put(tx.tx(), &pin, by.as_stored()).await?;
    tx.audit(&by.origin, pin_event(&pin));
    tx.raise(Scope::Edge(pin.edge), Part::Trust);
    Ok(())
}

fn is_older(newest: Option<&Newest>, boot: &BootId, sequence: u64) -> bool {
    newest.is_some_and(|newest| newest.boot == *boot && newest.sequence >= sequence)
}

/// Why the node has nothing to say about this.
async fn foreign(tx: &mut Transaction, node: &NodeRecord, said: &Report) -> Result<Option<String>, Error> {
    let now = nodes::get(tx, &node.id).await?;
    if now.is_none_or(|now| now.standing.standing != Standing::Active) {
        return Ok(Some(format!("node {} may not work any longer", node.name)));
    }
    if !plugins::tools(tx, &said.version).await?.iter().any(|tool| tool.tool == said.tool) {
        return Ok(Some(format!("{} has no tool {}", said.version, make_visible(said.tool.as_str()))));
    }
    let is_on = assignments::is_on(tx, &node.edge, &said.version, None).await?;
    Ok((!is_on).then(|| format!("edge {} does not have {}", node.edge, said.version)))
}

/// What was listed, by name; of names that are left out several times the first counts. A name that
/// cannot be called is left out whatever the node says: made visible, two could be one.
fn list_of(said: &Report) -> Vec<ListFunction> {
    let mut list: BTreeMap<Arc<str>, ListFunction> = BTreeMap::new();
    for function in &said.functions {
        let name: Arc<str> = make_visible(&function.name).into();
        let (hash, left_out, reason) = match (&function.seen, check_function_name(&function.name)) {
            (Seen::Hash(hash), Ok(())) => (Some(*hash), String::new(), String::new()),
            (Seen::Hash(_), Err(fault)) => (None, "name".to_owned(), fault.to_string()),
            (Seen::LeftOut { code, reason }, _) => {
                (None, code.as_ref().to_owned(), make_visible(reason).into_owned())
            }
        };
        let not_shown = make_visible(function.not_shown.as_deref().unwrap_or_default()).into_owned();
        list.entry(Arc::clone(&name)).or_insert(ListFunction {
            function: name,
            hash,
            left_out,
            reason,
            not_shown,
        });
    }
    list.into_values().collect()
}

fn warnings(said: &Report) -> String {
    let warnings: Vec<String> = said.warnings.iter().map(|text| make_visible(text).into_owned()).collect();
    serde_json::Value::from(warnings).to_string()
}
