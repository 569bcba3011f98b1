//! Reads what a part of a plugin set says, together with its position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::digest::{Digest, ListingHash};
use domain::id::{EdgeName, PluginName, PluginVersion};
use domain::origin::{Endpoint, PinState};
use domain::plugin_set::{
    FunctionTrust, OriginTrust, Part, Plan, PlannedConnection, PlannedPlugin, PlannedTool, PlannedVersion,
    Position, Scope, ToolTrust, Trust, VersionTrust,
};
use proto::convert::Content;

use super::Error;
use super::assign::endpoint_of;
use crate::connector::problem;
use crate::store::pins::{StoredPin, endpoint_text};
use crate::store::{
    Store, StoredBlock, Transaction, assignments, blocks, candidates, heads, listings, nodes, pins, plugins,
    policies, snapshots,
};

/// The position and content of a part, read from one state of the database; `None` if there is no
/// such scope.
///
/// # Errors
/// What the store says.
pub async fn load_part(
    store: &Store,
    scope: &Scope,
    part: Part,
) -> Result<Option<(Position, Content)>, Error> {
    let mut tx = store.read().await?;
    let Some(position) = heads::get(&mut tx, scope, part).await? else { return Ok(None) };
    let content = match (scope, part) {
        (Scope::Edge(edge), Part::Trust) => Content::Trust(load_trust(&mut tx, edge).await?),
        (Scope::Edge(edge), Part::Plan) => Content::Plan(load_plan(&mut tx, edge).await?),
        (Scope::Edge(edge), Part::Policy) => Content::Policy(policies::get(&mut tx, edge).await?),
        (Scope::Node(node), Part::Grants) => Content::Grants(candidates::of_node(&mut tx, node).await?),
        (Scope::Edge(_), Part::Grants) | (Scope::Node(_), _) => return Ok(None),
    };
    Ok(Some((position, content)))
}

/// Where all parts of the scopes stand, of all scopes if none are given. Cheap.
///
/// # Errors
/// What the store says.
pub async fn positions(
    store: &Store,
    scopes: Option<&[Scope]>,
) -> Result<Vec<(Scope, Part, Position)>, Error> {
    let mut tx = store.read().await?;
    Ok(heads::list(&mut tx, scopes).await?)
}

/// Canonical texts by digest, in the order asked for, until `most` bytes are exceeded; those that
/// are not here are passed over. Whether the asker may read them is asked before.
///
/// # Errors
/// What the store says.
pub async fn listing_texts(
    store: &Store,
    wanted: &[Digest],
    most: usize,
) -> Result<Vec<(Digest, String)>, Error> {
    let mut tx = store.read().await?;
    let (mut texts, mut left) = (Vec::new(), most);
    for digest in wanted {
        let Some(text) = listings::text(&mut tx, ListingHash::from_digest(*digest)).await? else { continue };
        let rest = left.checked_sub(text.len());
        texts.push((*digest, text));
        match rest {
            Some(rest) => left = rest,
            None => break,
        }
    }
    Ok(texts)
}

/// Versions that are assigned to the edge or tried there, or that a node of it last said it runs.
pub(crate) async fn load_trust(tx: &mut Transaction, edge: &EdgeName) -> Result<Trust, Error> {
    let mut versions: BTreeSet<PluginVersion> =
        assignments::of_edge(tx, edge).await?.into_iter().map(|assignment| assignment.version).collect();
    versions.extend(candidates::of_edge(tx, edge).await?.into_iter().map(|candidate| candidate.version));
    versions.extend(nodes::versions::of_edge(tx, edge).await?);
    let blocks = blocks::in_force(tx, edge).await?;
    let mut trust = Trust::default();
    for version in versions {
        let mut entry = load_version(tx, edge, &version).await?;
        let touches = |stored: &&StoredBlock| {
            entry.tools.keys().any(|tool| stored.block.target.touches(&version, tool))
        };
        let touching =
            blocks.iter().filter(touches).map(|stored| (stored.id.as_str().into(), stored.block.clone()));
        entry.blocks = touching.collect();
        trust.versions.insert(version, Arc::new(entry));
    }
    Ok(trust)
}

pub(super) async fn load_version(
    tx: &mut Transaction,
    edge: &EdgeName,
    version: &PluginVersion,
) -> Result<VersionTrust, Error> {
    let snapshot = snapshots::of_version(tx, version, Some(edge)).await?;
    let pins = pins::of_edge(tx, edge, &version.plugin).await?;
    let mut trust = VersionTrust::default();
    for tool in plugins::tools(tx, version).await? {
        let pin = pins.iter().find(|pin| pin.version == *version && pin.tool == tool.tool);
        let origin = match (&tool.url, pin) {
            (None, _) => None,
            (Some(_), Some(pin)) => Some(origin_trust(pin)),
            // A version that only a node says it has was never decided about here: not called.
            (Some(url), None) => {
                Some(OriginTrust::New { origin: endpoint_text(&endpoint_of(url)?.0).into() })
            }
        };
        let entry = ToolTrust {
            snapshot_taken: snapshot.taken.contains_key(&tool.tool),
            functions: BTreeMap::new(),
            origin,
        };
        trust.tools.insert(tool.tool, entry);
    }
    for ((tool, function), approved) in snapshot.functions {
        if let Some(tool) = trust.tools.get_mut(&tool) {
            tool.functions.insert(function, FunctionTrust { hash: approved.hash, rank: approved.rank });
        }
    }
    Ok(trust)
}

fn origin_trust(stored: &StoredPin) -> OriginTrust {
    let origin: Arc<str> = endpoint_text(&stored.pin.endpoint).into();
    match &stored.pin.state {
        PinState::Pinned if matches!(stored.pin.endpoint, Endpoint::FromConnection { .. }) => {
            OriginTrust::Connection
        }
        PinState::Pinned => {
            OriginTrust::Pinned { origin, address_class: stored.pin.class.map(|class| class.name().into()) }
        }
        PinState::Moved { from } => OriginTrust::Moved {
            origin,
            earlier: from.iter().map(|earlier| endpoint_text(earlier).into()).collect(),
        },
        PinState::NewAt => OriginTrust::New { origin },
    }
}

async fn load_plan(tx: &mut Transaction, edge: &EdgeName) -> Result<Plan, Error> {
    let mut plugins: BTreeMap<PluginName, PlannedPlugin> = BTreeMap::new();
    for assignment in assignments::of_edge(tx, edge).await? {
        let installed = load_planned(tx, edge, &assignment.version).await?;
        plugins.entry(assignment.version.plugin).or_default().installed = installed;
    }
    for candidate in candidates::of_edge(tx, edge).await? {
        let planned = load_planned(tx, edge, &candidate.version).await?;
        let source = candidate.source;
        plugins.entry(candidate.version.plugin).or_default().candidate =
            planned.map(|planned| (source, planned));
    }
    Ok(Plan { plugins: plugins.into_iter().map(|(name, planned)| (name, Arc::new(planned))).collect() })
}

async fn load_planned(
    tx: &mut Transaction,
    edge: &EdgeName,
    version: &PluginVersion,
) -> Result<Option<PlannedVersion>, Error> {
    let Some(stored) = plugins::get(tx, version).await? else { return Ok(None) };
    let mut tools = BTreeMap::new();
    for tool in plugins::tools(tx, version).await? {
        let connection = match &tool.connection {
            Some(name) => Some(load_connection(tx, edge, (version, name)).await?),
            None => None,
        };
        tools.insert(tool.tool, PlannedTool { kind: tool.kind, url: tool.url.map(Into::into), connection });
    }
    Ok(Some(PlannedVersion {
        version: version.clone(),
        content_digest: stored.content_digest,
        archive_sha256: stored.archive_sha256,
        archive_length: stored.archive_length,
        tools,
    }))
}

/// What nodes of the edge reach a tool with, without its secrets.
async fn load_connection(
    tx: &mut Transaction,
    edge: &EdgeName,
    (version, name): (&PluginVersion, &str),
) -> Result<PlannedConnection, Error> {
    let (connection, problem) = problem(tx, (version, name), edge).await?;
    let params = connection.iter().flat_map(|connection| &connection.params);
    Ok(PlannedConnection {
        name: connection.as_ref().map_or_else(|| name.to_owned(), |connection| connection.key.id()).into(),
        version: connection.as_ref().map_or(0, |connection| connection.version),
        params: params.map(|(name, value)| (name.as_str().into(), value.as_str().into())).collect(),
        problem: problem.map(Into::into),
    })
}
