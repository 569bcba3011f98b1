//! Reads what is kept in memory of every node, for a server that starts.

use std::collections::HashMap;

use domain::digest::Digest;
use domain::id::NodeId;
use domain::plugin_set::{Grants, Part, Position, Scope};

use super::Error;
use super::note_node::digest_of;
use crate::store::{NodeRecord, Store, candidates, heads, nodes};

/// One node, as the database has it.
#[derive(Debug)]
pub struct LoadedNode {
    /// Its record.
    pub record: NodeRecord,
    /// Where its grants stand.
    pub position: Position,
    /// What it is granted.
    pub grants: Grants,
    /// Stands for what it said of itself last.
    pub said: Digest,
}

/// Every node, from one state of the database and with few questions to it.
///
/// # Errors
/// What the store says.
pub async fn load_nodes(store: &Store) -> Result<Vec<LoadedNode>, Error> {
    let mut tx = store.read().await?;
    let mut positions: HashMap<NodeId, Position> = HashMap::new();
    for (scope, part, position) in heads::list(&mut tx, None).await? {
        if let (Scope::Node(node), Part::Grants) = (scope, part) {
            positions.insert(node, position);
        }
    }
    let mut versions = nodes::versions::all(&mut tx).await?;
    let mut grants = candidates::all(&mut tx).await?;
    let mut loaded = Vec::new();
    for record in nodes::all(&mut tx).await? {
        let Some(position) = positions.remove(&record.id) else { continue };
        let mut versions = versions.remove(&record.id).unwrap_or_default();
        versions.sort_by(|one, other| one.version.cmp(&other.version));
        let said = digest_of(versions.iter());
        let grants = grants.remove(&record.id).unwrap_or_default();
        loaded.push(LoadedNode { record, position, grants, said });
    }
    Ok(loaded)
}
