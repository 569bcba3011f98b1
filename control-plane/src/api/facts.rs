//! Everything on record about one plugin, read from one state of the database, for the answers that
//! put it side by side.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::digest::{Digest, ListingHash};
use domain::id::{FunctionId, PluginName, PluginVersion, ToolId};
use serde_json::{Value, json};

use crate::store::assignments::{self, Assignment};
use crate::store::changes::{self, Variant};
use crate::store::listings::{self, ListFunction};
use crate::store::pins::{self, StoredPin};
use crate::store::plugins::{self, StoredTool, StoredVersion};
use crate::store::sightings::{self, Sighting};
use crate::store::snapshots::{self, VersionSnapshot};
use crate::store::{Error, Transaction};

/// A plugin as it stands.
pub(super) struct Facts {
    /// The newest first.
    pub(super) versions: Vec<StoredVersion>,
    pub(super) tools: BTreeMap<PluginVersion, Vec<StoredTool>>,
    /// The fleet's own.
    pub(super) snapshots: BTreeMap<PluginVersion, VersionSnapshot>,
    pub(super) assignments: Vec<Assignment>,
    pub(super) sightings: Vec<Sighting>,
    pub(super) pins: Vec<StoredPin>,
    /// Those that wait or were rejected.
    pub(super) variants: Vec<Variant>,
    /// Each by name.
    lists: BTreeMap<Digest, Vec<ListFunction>>,
}

/// Something of a function that several nodes say alike.
pub(super) type ByNodes<K> = BTreeMap<K, BTreeSet<String>>;

impl Facts {
    /// Reads them; `None` if no version of the plugin was ever pushed.
    pub(super) async fn load(tx: &mut Transaction, plugin: &PluginName) -> Result<Option<Self>, Error> {
        let versions = plugins::versions(tx, plugin).await?;
        if versions.is_empty() {
            return Ok(None);
        }
        let (mut tools, mut snapshots) = (BTreeMap::new(), BTreeMap::new());
        for stored in &versions {
            tools.insert(stored.version.clone(), plugins::tools(tx, &stored.version).await?);
            let snapshot = snapshots::of_version(tx, &stored.version, None).await?;
            snapshots.insert(stored.version.clone(), snapshot);
        }
        let sightings = sightings::of_plugin(tx, plugin.as_str()).await?;
        let mut lists = BTreeMap::new();
        for sighting in &sightings {
            let Entry::Vacant(vacant) = lists.entry(sighting.list) else { continue };
            let mut list = listings::list(tx, &sighting.list).await?;
            // The database's order of text is its own.
            list.sort_by(|a, b| a.function.cmp(&b.function));
            vacant.insert(list);
        }
        Ok(Some(Self {
            versions,
            tools,
            snapshots,
            assignments: assignments::of_plugin(tx, plugin).await?,
            sightings,
            pins: pins::of_plugin(tx, plugin).await?,
            variants: changes::of_plugin(tx, plugin).await?,
            lists,
        }))
    }

    /// What a sighting's list showed.
    pub(super) fn list(&self, sighting: &Sighting) -> &[ListFunction] {
        self.lists.get(&sighting.list).map_or(&[], Vec::as_slice)
    }

    /// The newest lists of a tool of a version.
    pub(super) fn shown<'a>(
        &'a self,
        version: &'a PluginVersion,
        tool: &'a ToolId,
    ) -> impl Iterator<Item = (&'a Sighting, &'a [ListFunction])> {
        self.sightings
            .iter()
            .filter(move |sighting| sighting.version == *version && sighting.tool == *tool)
            .map(|sighting| (sighting, self.list(sighting)))
    }

    /// The hash that the fleet goes by.
    pub(super) fn approved(
        &self,
        version: &PluginVersion,
        tool: &ToolId,
        function: &Arc<str>,
    ) -> Option<ListingHash> {
        let key = (tool.clone(), Arc::clone(function));
        self.snapshots.get(version)?.functions.get(&key).map(|approved| approved.hash)
    }

    /// Nodes that show a variant.
    pub(super) fn nodes_of(&self, variant: &Variant) -> BTreeSet<String> {
        self.shown(&variant.version, &variant.tool)
            .filter(|(sighting, list)| {
                let at = list.binary_search_by(|one| one.function.cmp(&variant.function));
                let entry = at.ok().and_then(|at| list.get(at));
                match variant.seen {
                    Some(hash) => entry.is_some_and(|one| one.hash == Some(hash)),
                    None => entry.is_none() && sighting.complete,
                }
            })
            .map(|(sighting, _)| sighting.node.to_string())
            .collect()
    }

    /// Per (version, tool, function, text of interest) the nodes that say so.
    pub(super) fn gather(
        &self,
        pick: impl Fn(&ListFunction) -> Option<(String, String)>,
    ) -> ByNodes<(PluginVersion, FunctionId, String, String)> {
        let mut gathered = ByNodes::new();
        for sighting in &self.sightings {
            for one in self.list(sighting) {
                let Some((code, reason)) = pick(one) else { continue };
                let id = FunctionId::new(&sighting.tool, &one.function);
                let key = (sighting.version.clone(), id, code, reason);
                gathered.entry(key).or_insert_with(BTreeSet::new).insert(sighting.node.to_string());
            }
        }
        gathered
    }
}

/// A hash with its canonical text.
pub(super) async fn listing(tx: &mut Transaction, hash: ListingHash) -> Result<Value, Error> {
    Ok(json!({ "hash": hash.to_string(), "listing": listings::text(tx, hash).await? }))
}

/// `drifted`, `new` or `gone`, of one function's variants.
pub(super) fn change_state(approved: Option<ListingHash>, variants: &[&Variant]) -> &'static str {
    if approved.is_none() {
        "new"
    } else if variants.iter().all(|variant| variant.seen.is_none()) {
        "gone"
    } else {
        "drifted"
    }
}

/// Variants of each function, in order.
pub(super) fn by_function(
    variants: &[Variant],
) -> BTreeMap<(PluginVersion, ToolId, Arc<str>), Vec<&Variant>> {
    let mut grouped: BTreeMap<_, Vec<&Variant>> = BTreeMap::new();
    for variant in variants {
        let key = (variant.version.clone(), variant.tool.clone(), Arc::clone(&variant.function));
        grouped.entry(key).or_default().push(variant);
    }
    grouped
}
