//! Everything on record about one plugin, read from one state of the database, for the answers that
//! put it side by side.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::digest::{Digest, ListingHash};
use domain::id::{EdgeName, FunctionId, PluginName, PluginVersion, ToolId};
use domain::name::warned;
use serde_json::{Value, json};

use crate::store::assignments::{self, Assignment};
use crate::store::changes::{self, Variant};
use crate::store::listings::{self, ListFunction};
use crate::store::pins::{self, StoredPin};
use crate::store::plugins::{self, StoredTool, StoredVersion};
use crate::store::sightings::{self, Sighting};
use crate::store::snapshots::{self, Own, VersionSnapshot};
use crate::store::volatile::{self, Volatile};
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
    /// What edges go by for themselves.
    pub(super) own: Vec<Own>,
    /// Functions whose forms are not kept one by one.
    pub(super) volatile: Vec<Volatile>,
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
            own: snapshots::own_of_plugin(tx, plugin).await?,
            volatile: volatile::of_plugin(tx, plugin).await?,
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

    /// The hash that the fleet, or an edge that decided for itself, goes by.
    pub(super) fn approved(&self, key: &FunctionKey) -> Option<ListingHash> {
        if let Some(own) = key.edge.as_ref().and_then(|edge| self.own_of(edge, key)) {
            return own.hash;
        }
        let function = (key.tool.clone(), Arc::clone(&key.function));
        self.snapshots.get(&key.version)?.functions.get(&function).map(|approved| approved.hash)
    }

    fn own_of(&self, edge: &EdgeName, key: &FunctionKey) -> Option<&Own> {
        self.own.iter().find(|own| {
            own.edge == *edge
                && own.version == key.version
                && own.tool == key.tool
                && own.function == key.function
        })
    }

    /// Whether a function lists itself differently again and again, and what differs.
    pub(super) fn volatile(&self, key: &FunctionKey) -> Option<&Volatile> {
        self.volatile
            .iter()
            .find(|one| one.version == key.version && one.tool == key.tool && one.function == key.function)
    }

    /// Nodes that show a variant, of those that go by what it differs from.
    pub(super) fn nodes_of(&self, variant: &Variant) -> BTreeSet<String> {
        let key = FunctionKey::of(variant);
        let owners: BTreeSet<&EdgeName> = self
            .own
            .iter()
            .filter(|own| own.version == key.version && own.tool == key.tool && own.function == key.function)
            .map(|own| &own.edge)
            .collect();
        let goes_by = |edge: &EdgeName| match &variant.edge {
            Some(own) => own == edge,
            None => !owners.contains(edge),
        };
        self.shown(&variant.version, &variant.tool)
            .filter(|(sighting, _)| goes_by(&sighting.edge))
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

    /// Leaves only what concerns one edge: what its nodes show, and what it goes by for itself.
    pub(super) fn narrow(&mut self, edge: &EdgeName) {
        self.sightings.retain(|sighting| sighting.edge == *edge);
        self.pins.retain(|pin| pin.edge == *edge);
        self.own.retain(|own| own.edge == *edge);
        self.assignments.retain(|one| one.edge == *edge);
        let variants = std::mem::take(&mut self.variants);
        let concerns = |variant: &Variant| match &variant.edge {
            Some(own) => own == edge,
            None => !self.nodes_of(variant).is_empty(),
        };
        self.variants = variants.iter().filter(|one| concerns(one)).cloned().collect();
    }

    /// What is odd about the names of a version's functions, in its snapshot or as nodes list them.
    pub(super) fn warned(&self, version: &PluginVersion) -> BTreeMap<FunctionId, Vec<String>> {
        let snapshot = self.snapshots.get(version).into_iter().flat_map(|snapshot| snapshot.functions.keys());
        let mut ids: BTreeSet<FunctionId> =
            snapshot.map(|(tool, function)| FunctionId::new(tool, function)).collect();
        for sighting in self.sightings.iter().filter(|sighting| sighting.version == *version) {
            let listed = self.list(sighting).iter().filter(|one| one.left_out.is_empty());
            ids.extend(listed.map(|one| FunctionId::new(&sighting.tool, &one.function)));
        }
        warned(&ids)
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

/// `volatile`, `drifted`, `new` or `gone`, of one function's variants.
pub(super) fn change_state(
    approved: Option<ListingHash>,
    variants: &[&Variant],
    is_volatile: bool,
) -> &'static str {
    if is_volatile {
        "volatile"
    } else if approved.is_none() {
        "new"
    } else if variants.iter().all(|variant| variant.seen.is_none()) {
        "gone"
    } else {
        "drifted"
    }
}

/// A function of a version, and who goes by it: an edge for itself, or the fleet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FunctionKey {
    pub(super) version: PluginVersion,
    pub(super) tool: ToolId,
    pub(super) function: Arc<str>,
    pub(super) edge: Option<EdgeName>,
}

impl FunctionKey {
    /// What a variant is one of.
    pub(super) fn of(variant: &Variant) -> Self {
        Self {
            version: variant.version.clone(),
            tool: variant.tool.clone(),
            function: Arc::clone(&variant.function),
            edge: variant.edge.clone(),
        }
    }
}

/// Variants of each function, in order.
pub(super) fn by_function(variants: &[Variant]) -> BTreeMap<FunctionKey, Vec<&Variant>> {
    let mut grouped: BTreeMap<_, Vec<&Variant>> = BTreeMap::new();
    for variant in variants {
        grouped.entry(FunctionKey::of(variant)).or_default().push(variant);
    }
    grouped
}
