//! Stops calls of a function, a tool or a plugin, and lifts that.
//!
//! A block is part of each touched edge's `trust`, also of versions that come later, and outranks all else there.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::audit::Event;
use domain::block::{Block, Target};
use domain::id::{EdgeName, PluginVersion, ToolId};
use domain::plugin_set::{Part, Scope};
use domain::visible::{make_visible, make_visible_up_to};

use super::{By, Code, Error};
use crate::auth::secret;
use crate::store::{Store, StoredBlock, WriteTx, assignments, blocks, edges, heads, plugins};

/// Most characters of a reason: two sentences.
const REASON_MAX: usize = 300;

/// Most that are in force at once: people set them one by one, and each node is told all that touch its versions.
const IN_FORCE_MAX: u64 = 1_000;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The block, or those that were lifted.
    pub blocks: Vec<StoredBlock>,
    /// Whether anything changed.
    pub changed: bool,
    /// Edges whose nodes are told, each with the generation of its trust.
    pub edges: Vec<(EdgeName, u64)>,
}

/// Stops calls, on one edge or on all. Of what is blocked so already nothing changes.
///
/// # Errors
/// No such edge, nothing of that name was ever pushed, no reason, or too many blocks.
pub async fn block(
    store: &Store,
    by: &By,
    target: &Target,
    edge: Option<&EdgeName>,
    reason: &str,
) -> Result<Blocked, Error> {
    let reason = make_visible_up_to(reason.trim(), REASON_MAX);
    if reason.is_empty() {
        let detail = "a block needs a reason: agents and people read it in each refused call";
        return Err(Error::refused(Code::Invalid, detail));
    }
    let mut tx = store.begin_write().await?;
    if let Some(edge) = edge
        && edges::get(tx.tx(), edge).await?.is_none()
    {
        return Err(Error::no_edge(edge));
    }
    let versions = versions_of(&mut tx, target).await?;
    if versions.is_empty() {
        let detail = format!("no version that was pushed has {target}");
        return Err(Error::with_remedy(Code::NotFound, detail, "pintle plugin list"));
    }
    if let Some(known) = blocks::find(tx.tx(), "", edge, Some(target)).await?.into_iter().next() {
        return Ok(Blocked { blocks: vec![known], changed: false, edges: Vec::new() });
    }
    let count = blocks::count(tx.tx()).await?;
    if count >= IN_FORCE_MAX {
        let detail = format!("{count} blocks are in force, the most that a fleet may have");
        return Err(Error::with_remedy(Code::Invalid, detail, "pintle blocks"));
    }
    let stored = StoredBlock {
        id: secret::new_id(),
        edge: edge.cloned(),
        block: Block {
            target: target.clone(),
            is_fleet_wide: edge.is_none(),
            reason: reason.into(),
            by: Arc::from(by.origin.actor.as_str()),
            at: by.now,
        },
        lifted: None,
    };
    set(&mut tx, by, &stored).await?;
    let edges = raise(&mut tx, &versions, edge).await?;
    tx.commit(by.now).await?;
    Ok(Blocked { blocks: vec![stored], changed: true, edges })
}

/// Which blocks are lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// The one of this id.
    Id(String),
    /// Those of exactly this target and scope.
    Target(Target, Option<EdgeName>),
}

/// Lifts blocks.
///
/// # Errors
/// None that is in force is named so.
pub async fn unblock(store: &Store, by: &By, which: &Which) -> Result<Blocked, Error> {
    let mut tx = store.begin_write().await?;
    let found = match which {
        Which::Id(id) => blocks::find(tx.tx(), id, None, None).await?,
        Which::Target(target, edge) => blocks::find(tx.tx(), "", edge.as_ref(), Some(target)).await?,
    };
    if found.is_empty() {
        let named = match which {
            Which::Id(id) => format!("of the id {}", make_visible(id)),
            Which::Target(target, Some(edge)) => format!("of {target} on edge {edge}"),
            Which::Target(target, None) => format!("of {target} on every edge"),
        };
        let detail = format!("no block {named} is in force");
        return Err(Error::with_remedy(Code::NotFound, detail, "pintle blocks"));
    }
    let mut raised = Vec::new();
    for one in &found {
        blocks::lift(tx.tx(), &one.id, by.as_stored()).await?;
        let (block, edge) = (one.id.clone(), one.edge.clone());
        tx.audit(&by.origin, Event::BlockLift { block, edge, target: one.block.target.to_string() });
        let versions = versions_of(&mut tx, &one.block.target).await?;
        raised.extend(raise(&mut tx, &versions, one.edge.as_ref()).await?);
    }
    raised.sort();
    raised.dedup();
    tx.commit(by.now).await?;
    Ok(Blocked { blocks: found, changed: true, edges: raised })
}

/// Blocks by their ids, a page of them.
///
/// # Errors
/// What the store says.
pub async fn list_blocks(
    store: &Store,
    after: &str,
    with_lifted: bool,
    limit: u64,
) -> Result<Vec<StoredBlock>, Error> {
    let mut tx = store.read().await?;
    Ok(blocks::list(&mut tx, after, with_lifted, limit).await?)
}

/// Puts a block on record, unless it is, lifted or not; answers whether it was new.
pub(super) async fn set(tx: &mut WriteTx, by: &By, stored: &StoredBlock) -> Result<bool, Error> {
    if !blocks::insert(tx.tx(), stored).await? {
        return Ok(false);
    }
    let (block, edge) = (stored.id.clone(), stored.edge.clone());
    let (target, reason) = (stored.block.target.to_string(), stored.block.reason.to_string());
    tx.audit(&by.origin, Event::BlockSet { block, edge, target, reason });
    Ok(true)
}

/// Pushed versions that have something of it.
pub(super) async fn versions_of(tx: &mut WriteTx, target: &Target) -> Result<BTreeSet<PluginVersion>, Error> {
    let mut found = BTreeSet::new();
    match target {
        Target::Plugin(plugin) => {
            found.extend(plugins::versions(tx.tx(), plugin).await?.into_iter().map(|stored| stored.version));
        }
        Target::Version(version) => found.extend(plugins::get(tx.tx(), version).await?.map(|it| it.version)),
        Target::Tool(tool) => found.extend(blocks::versions_with(tx.tx(), tool).await?),
        Target::Function(id) => {
            // Tools and functions may have dots: any part before one can be the tool.
            for (at, _) in id.match_indices('.') {
                let Some(Ok(tool)) = id.get(..at).map(ToolId::parse) else { continue };
                found.extend(blocks::versions_with(tx.tx(), &tool).await?);
            }
        }
    }
    Ok(found)
}

/// Raises the trust of the edges that have one of the versions, of the one edge if it is for that; answers them.
pub(super) async fn raise(
    tx: &mut WriteTx,
    versions: &BTreeSet<PluginVersion>,
    only: Option<&EdgeName>,
) -> Result<Vec<(EdgeName, u64)>, Error> {
    let mut touched: BTreeSet<EdgeName> = BTreeSet::new();
    for version in versions {
        touched.extend(assignments::edges_with(tx.tx(), version).await?);
    }
    touched.retain(|edge| only.is_none_or(|only| only == edge));
    let scopes: Vec<Scope> = touched.into_iter().map(Scope::Edge).collect();
    for scope in &scopes {
        tx.raise(scope.clone(), Part::Trust);
    }
    let heads = heads::list(tx.tx(), Some(&scopes)).await?;
    let raised = heads.into_iter().filter_map(|(scope, part, position)| match scope {
        Scope::Edge(edge) if part == Part::Trust => Some((edge, position.generation + 1)),
        Scope::Edge(_) | Scope::Node(_) => None,
    });
    Ok(raised.collect())
}
