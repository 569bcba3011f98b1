//! Finds a node by what people call it.

use domain::id::NodeId;
use domain::standing::{Change, Verb, change};

use super::{Code, Error};
use crate::store::{NodeRecord, Transaction, nodes};

/// The node of that name, or of that id.
///
/// # Errors
/// There is none.
pub(crate) async fn find_node(tx: &mut Transaction, wanted: &str) -> Result<NodeRecord, Error> {
    let mut node = nodes::by_name(tx, wanted).await?;
    if let (None, Ok(id)) = (&node, NodeId::parse(wanted)) {
        node = nodes::get(tx, &id).await?;
    }
    node.ok_or_else(|| {
        let shown: String = wanted.chars().take(100).collect();
        Error::with_remedy(Code::NotFound, format!("there is no node {shown}"), "pintle node list")
    })
}

/// Where a verb leads from how the node stands.
///
/// # Errors
/// It does not apply; the remedy is the verb that does.
pub(super) fn decide(node: &NodeRecord, verb: Verb) -> Result<Change, Error> {
    change(node.standing.standing, verb).map_err(|fault| {
        let detail = format!("node {}: {fault}", node.name);
        match verb {
            Verb::Remove if !matches!(fault, domain::standing::Fault::Kept) => {
                Error::with_remedy(Code::StandingDiffers, detail, format!("pintle node evict {}", node.name))
            }
            _ => Error::refused(Code::StandingDiffers, detail),
        }
    })
}
