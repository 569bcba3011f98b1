//! Picks one of the copies of a quarantined node: that one goes on, the others are told to join anew.

use domain::audit::Event;
use domain::clone::{Known, Pick};
use domain::standing::{Standing, Verb};

use super::find_node::{decide, find_node};
use super::quarantine::sessions;
use super::{By, Code, Error};
use crate::store::{NodeRecord, Stands, Store, nodes};

/// Lets the copy with this session counter go on as the node.
///
/// # Errors
/// There is no such node, it is not quarantined, or no copy with that counter was seen.
pub async fn keep_session(store: &Store, by: &By, wanted: &str, session: u64) -> Result<NodeRecord, Error> {
    let mut tx = store.begin_write().await?;
    let mut node = find_node(tx.tx(), wanted).await?;
    decide(&node, Verb::Keep)?;
    let seen: Vec<u64> = sessions(&node.copies).iter().map(|one| one.counter).collect();
    if !seen.contains(&session) {
        let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
        let detail = format!("node {} has no session {session}; it has {}", node.name, seen.join(", "));
        return Err(Error::with_remedy(Code::Invalid, detail, format!("pintle node show {}", node.name)));
    }
    let up_to = seen.into_iter().max().unwrap_or(session).max(node.known.acknowledged);
    node.known = Known { acknowledged: session, pick: Some(Pick { kept: session, up_to }) };
    node.standing = Stands {
        standing: Standing::Active,
        reason: String::new(),
        by: by.origin.actor.clone(),
        at: Some(by.now),
    };
    "[]".clone_into(&mut node.copies);
    nodes::set_standing(tx.tx(), &node).await?;
    tx.stands_differently().await?;
    let (id, node_name, edge) = (node.id.clone(), node.name.clone(), node.edge.clone());
    tx.audit(&by.origin, Event::NodeKeep { node: id, node_name, edge, session });
    tx.commit(by.now).await?;
    Ok(node)
}
