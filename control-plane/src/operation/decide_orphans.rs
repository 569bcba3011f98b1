//! Adopts again, or drops, what only nodes hold since the database was restored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::audit::{Event, FunctionDifference};
use domain::digest::ListingHash;
use domain::id::{PluginName, PluginVersion, ToolId};
use domain::origin::PinState;
use domain::plugin_set::{Part, Scope};

use super::reconcile_changes::reconcile_changes;
use super::record_listing::raise_trust;
use super::{By, Code, Error};
use crate::store::pins::{self, endpoint_text};
use crate::store::{Orphan, Store, WriteTx, listings, orphans, snapshots};

/// Most that wait at once: those of a hundred edges' heads.
const OPEN_MAX: u64 = 100_000;

/// What people decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Ids as [`Orphan::id`] says, each once.
    pub ids: BTreeSet<String>,
    /// Whether the fleet goes by it again; else it is dropped.
    pub adopt: bool,
    /// Whether a person looked.
    pub attended: bool,
}

/// What waits for a decision.
///
/// # Errors
/// What the store says.
pub async fn open_orphans(store: &Store) -> Result<Vec<Orphan>, Error> {
    let mut tx = store.read().await?;
    Ok(orphans::open(&mut tx, OPEN_MAX).await?)
}

/// Decides about all that is named, or nothing of it.
///
/// # Errors
/// One that does not wait; what cannot be adopted: its version was not pushed again, no node sent its
/// text, or its tool is at another origin here.
pub async fn decide_orphans(store: &Store, by: &By, decision: &Decision) -> Result<Vec<Orphan>, Error> {
    let mut tx = store.begin_write().await?;
    let open = orphans::open(tx.tx(), OPEN_MAX).await?;
    let chosen: Vec<Orphan> = open.into_iter().filter(|one| decision.ids.contains(&one.id())).collect();
    let known: BTreeSet<String> = chosen.iter().map(Orphan::id).collect();
    if let Some(unknown) = decision.ids.difference(&known).next() {
        let detail = format!("nothing with the id {unknown} waits to be adopted or dropped");
        return Err(Error::with_remedy(Code::NoOrphan, detail, "pintle doctor"));
    }
    if decision.adopt {
        adopt_functions(&mut tx, by, &chosen, decision.attended).await?;
        for orphan in chosen.iter().filter(|one| one.function.is_none()) {
            adopt_origin(&mut tx, by, orphan, decision.attended).await?;
        }
    }
    for orphan in &chosen {
        orphans::decide(tx.tx(), orphan, decision.adopt).await?;
    }
    let mut by_plugin: BTreeMap<PluginName, Vec<String>> = BTreeMap::new();
    for orphan in &chosen {
        by_plugin.entry(orphan.version.plugin.clone()).or_default().push(orphan.to_string());
    }
    for (plugin, held) in by_plugin {
        let event = Event::OrphansDecided { plugin, held, adopted: decision.adopt };
        tx.audit(&by.origin, event);
    }
    tx.commit(by.now).await?;
    Ok(chosen)
}

type OfTool<'a> = BTreeMap<(&'a PluginVersion, &'a ToolId), Vec<(&'a Arc<str>, ListingHash)>>;

async fn adopt_functions(tx: &mut WriteTx, by: &By, chosen: &[Orphan], attended: bool) -> Result<(), Error> {
    let mut of_tool: OfTool<'_> = BTreeMap::new();
    for orphan in chosen {
        let (Some(tool), Some(function)) = (&orphan.tool, &orphan.function) else { continue };
        let Ok(hash) = ListingHash::parse(&orphan.held) else { continue };
        if listings::text(tx.tx(), hash).await?.is_none() {
            let detail = format!("no node has sent the text of {orphan} yet");
            return Err(Error::with_remedy(Code::NotAdoptable, detail, "start a node that holds it"));
        }
        let functions = of_tool.entry((&orphan.version, tool)).or_default();
        if functions.iter().any(|(name, _)| *name == function) {
            let detail = format!("{function} of {} is held with several listings; adopt one", orphan.version);
            return Err(Error::with_remedy(Code::NotAdoptable, detail, "pintle doctor --drop ID"));
        }
        functions.push((function, hash));
    }
    for ((version, tool), functions) in of_tool {
        let before = snapshots::of_version(tx.tx(), version, None).await?;
        let differences = functions.iter().map(|(function, hash)| FunctionDifference {
            version: version.clone(),
            tool: tool.clone(),
            function: Arc::clone(function),
            edge: None,
            approved: before.functions.get(&(tool.clone(), Arc::clone(function))).map(|one| one.hash),
            seen: Some(*hash),
        });
        let differences = differences.collect();
        let functions: Vec<(&str, ListingHash)> =
            functions.iter().map(|(function, hash)| (&***function, *hash)).collect();
        snapshots::take(tx.tx(), version, tool, "", by.as_stored()).await?;
        snapshots::put_all(tx.tx(), (version, tool), None, &functions, by.as_stored()).await?;
        let plugin = version.plugin.clone();
        tx.audit(&by.origin, Event::ToolsApprove { plugin, functions: differences, attended });
        reconcile_changes(tx, by, version, tool).await?;
        raise_trust(tx, version).await?;
    }
    Ok(())
}

async fn adopt_origin(tx: &mut WriteTx, by: &By, orphan: &Orphan, attended: bool) -> Result<(), Error> {
    let Some(tool) = &orphan.tool else {
        let detail = format!("{} was never pushed to this database", orphan.version);
        let remedy =
            format!("pintle plugin push {}-{}.pintle", orphan.version.plugin, orphan.version.version);
        return Err(Error::with_remedy(Code::NotAdoptable, detail, remedy));
    };
    let pins = pins::of_edge(tx.tx(), &orphan.edge, &orphan.version.plugin).await?;
    let pin = pins.into_iter().find(|pin| {
        pin.version == orphan.version && pin.tool == *tool && endpoint_text(&pin.pin.endpoint) == orphan.held
    });
    let Some(mut pin) = pin else {
        let detail = format!("on edge {} nothing is decided about {orphan}", orphan.edge);
        let remedy = format!("pintle assign {} --edge {}", orphan.version, orphan.edge);
        return Err(Error::with_remedy(Code::NotAdoptable, detail, remedy));
    };
    let earlier = match &pin.pin.state {
        PinState::Pinned | PinState::NewAt => Vec::new(),
        PinState::Moved { from } => from.iter().map(endpoint_text).collect(),
    };
    pin.pin.state = PinState::Pinned;
    pins::put(tx.tx(), &pin, by.as_stored()).await?;
    let event = Event::EndpointApprove {
        edge: Some(orphan.edge.clone()),
        version: orphan.version.clone(),
        tool: tool.clone(),
        earlier,
        origin: orphan.held.clone(),
        attended,
    };
    tx.audit(&by.origin, event);
    tx.raise(Scope::Edge(orphan.edge.clone()), Part::Trust);
    Ok(())
}
