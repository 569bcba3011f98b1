//! Lets a node join with a token.

use domain::audit::{Event, Origin};
use domain::clone::Known;
use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, NodeName};
use domain::plugin_set::{Part, Scope};
use domain::standing::Standing;
use domain::time::Timestamp;
use domain::visible::{make_visible, make_visible_up_to};
use uuid::Uuid;

use super::remove_node::take_off;
use super::{By, Code, Error};
use crate::auth::secret;
use crate::store::tokens::{self, JoinToken};
use crate::store::{Certified, NodeRecord, Stands, Store, Transaction, WriteTx, nodes};

/// What a node asks with.
#[derive(Debug, Clone)]
pub struct JoinInput {
    /// The token's id.
    pub token_id: String,
    /// The token's secret.
    pub secret: String,
    /// SHA-256 of the `SubjectPublicKeyInfo` in its signing request.
    pub public_key_sha256: Digest,
    /// What it would like to be called.
    pub node_name: NodeName,
    /// Its agent's version.
    pub agent_version: String,
    /// The certificate that it is to get.
    pub certified: Certified,
}

/// A node that joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Its identity.
    pub node_id: NodeId,
    /// Its name: the one asked for, with a number if another node has it.
    pub name: NodeName,
    /// Its edge.
    pub edge: EdgeName,
}

/// Lets a node join. The same key gets the same node again, without using the token up further, as
/// long as the token's secret is right: the answer to the first attempt may have been lost.
///
/// # Errors
/// [`Code::JoinRefused`] does not say which of id and secret was wrong.
pub async fn join(store: &Store, now: Timestamp, input: &JoinInput) -> Result<Joined, Error> {
    // Whoever has no token's secret does not get to keep writers waiting.
    find(&mut store.read().await?, input).await?;
    let mut tx = store.begin_write().await?;
    let token = find(tx.tx(), input).await?;
    if let Some(node) = known(tx.tx(), input, &token).await? {
        nodes::certified(tx.tx(), &node.id, &input.certified).await?;
        tx.commit(now).await?;
        return Ok(Joined { node_id: node.id, name: node.name, edge: node.edge });
    }
    check(&token, now)?;
    if !tokens::use_join(tx.tx(), &token.id).await? {
        return Err(used_up(&token));
    }
    let origin = Origin { actor: format!("join_token/{}", token.id), source: "enroll".to_owned() };
    let node = NodeRecord {
        id: node_id(),
        name: free_name(&mut tx, &By { now, origin: origin.clone() }, &input.node_name).await?,
        edge: token.edge.clone(),
        public_key_sha256: input.public_key_sha256,
        agent_version: make_visible_up_to(&input.agent_version, 64),
        joined_at: now,
        last_seen_at: None,
        labels: token.labels.clone(),
        standing: Stands::default(),
        known: Known::default(),
        copies: "[]".to_owned(),
        certificate: input.certified.clone(),
        stream: String::new(),
    };
    nodes::insert(tx.tx(), &node, &token.id).await?;
    nodes::certified(tx.tx(), &node.id, &node.certificate).await?;
    tx.raise(Scope::Node(node.id.clone()), Part::Grants);
    tx.audit(
        &origin,
        Event::NodeJoin {
            node: node.id.clone(),
            node_name: node.name.clone(),
            edge: node.edge.clone(),
            token: token.id,
            agent_version: node.agent_version,
        },
    );
    tx.commit(now).await?;
    Ok(Joined { node_id: node.id, name: node.name, edge: node.edge })
}

async fn find(tx: &mut Transaction, input: &JoinInput) -> Result<JoinToken, Error> {
    let token = tokens::get_join(tx, &make_visible(&input.token_id)).await?;
    token.filter(|token| secret::is(&input.secret, &token.secret_sha256)).ok_or_else(|| {
        refused(
            "there is no join token with this id and secret",
            "ask for a new one: pintle node token --edge EDGE",
        )
    })
}

/// The node that has this key already, if it may go on with it.
async fn known(
    tx: &mut Transaction,
    input: &JoinInput,
    token: &JoinToken,
) -> Result<Option<NodeRecord>, Error> {
    const NEW_KEY: &str = "join with a new key, in an empty data folder";
    let Some(node) = nodes::by_key(tx, &input.public_key_sha256).await? else {
        return match nodes::former_by_key(tx, &input.public_key_sha256).await? {
            Some(name) => {
                Err(refused(&format!("this key is that of node {name}, which was evicted"), NEW_KEY))
            }
            None => Ok(None),
        };
    };
    let standing = node.standing.standing;
    if standing != Standing::Active {
        return Err(refused(
            &format!("this key is that of node {}, which is {standing}", node.name),
            NEW_KEY,
        ));
    }
    if node.edge == token.edge {
        return Ok(Some(node));
    }
    let detail = format!(
        "this key is that of node {} of edge {}, the token is for edge {}",
        node.name, node.edge, token.edge
    );
    Err(refused(&detail, NEW_KEY))
}

fn check(token: &JoinToken, now: Timestamp) -> Result<(), Error> {
    let remedy = format!("make a new one: pintle node token --edge {}", token.edge);
    if token.revoked_at.is_some() {
        return Err(refused("this join token was revoked", &remedy));
    }
    if now >= token.expires_at {
        return Err(refused(&format!("this join token ended at {}, it is {now}", token.expires_at), &remedy));
    }
    if token.used >= token.uses { Err(used_up(token)) } else { Ok(()) }
}

fn used_up(token: &JoinToken) -> Error {
    let detail = format!("this join token was used {} of {} times", token.used, token.uses);
    refused(&detail, &format!("make a new one: pintle node token --edge {} --uses 50", token.edge))
}

fn refused(detail: &str, remedy: &str) -> Error {
    Error::with_remedy(Code::JoinRefused, detail, remedy)
}

#[expect(clippy::expect_used, reason = "a UUID is 36 of 0-9, a-f and -")]
fn node_id() -> NodeId {
    NodeId::parse(&Uuid::now_v7().to_string()).expect("a UUID is a node's id")
}

/// The name, or the first of `NAME-2`, `NAME-3`, … that no node has. An evicted node makes room: most often
/// it is the same machine that comes back.
async fn free_name(tx: &mut WriteTx, by: &By, wanted: &NodeName) -> Result<NodeName, Error> {
    match nodes::by_name(tx.tx(), wanted.as_str()).await? {
        None => return Ok(wanted.clone()),
        Some(holder) if holder.standing.standing == Standing::Evicted => {
            take_off(tx, by, &holder).await?;
            return Ok(wanted.clone());
        }
        Some(_) => {}
    }
    let short: String = wanted.as_str().chars().take(56).collect();
    for number in 2_u32.. {
        let Ok(name) = NodeName::parse(&format!("{short}-{number}")) else { break };
        if nodes::by_name(tx.tx(), name.as_str()).await?.is_none() {
            return Ok(name);
        }
    }
    Err(Error::refused(Code::Invalid, format!("every name like {wanted} is taken")))
}
