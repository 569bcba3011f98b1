//! Lets a node have a new certificate for the key that it joined with.
//!
//! A certificate that has ended is no more than a proof of the past: for some weeks the key alone is enough,
//! so that a machine that was away comes back by itself. Evicted, banned and quarantined nodes get nothing.

use domain::audit::{Event, Origin};
use domain::digest::Digest;
use domain::standing::Standing;
use domain::time::Timestamp;
use proto::identity::LAPSED_DAYS;

use super::{Code, Error};
use crate::store::{Certified, NodeRecord, Store, Transaction, nodes};

/// The life of certificates of a release before, which the record does not tell.
const EARLIER_LIFE_DAYS: i64 = 90;

const DAY_MS: i64 = 24 * 3_600_000;

/// Decides whether the node with this key may have a certificate, and notes the one that it is to get.
/// Answers the node, whose certificate is to be issued now.
///
/// # Errors
/// The key is no node's; the node is expelled or quarantined; its certificate ended too long ago. Each with
/// what to do.
pub async fn renew(
    store: &Store,
    now: Timestamp,
    key: &Digest,
    certified: &Certified,
) -> Result<NodeRecord, Error> {
    // Whoever has no node's key does not get to keep writers waiting.
    find(&mut store.read().await?, now, key).await?;
    let mut tx = store.begin_write().await?;
    let node = find(tx.tx(), now, key).await?;
    let lapsed = ended(&node) <= now;
    nodes::certified(tx.tx(), &node.id, certified).await?;
    let origin = Origin {
        actor: format!("node/{}", node.name),
        source: if lapsed { "enroll" } else { "stream" }.to_owned(),
    };
    let until = certified.until.unwrap_or(now);
    tx.audit(
        &origin,
        Event::NodeRenew { node: node.id.clone(), node_name: node.name.clone(), until, lapsed },
    );
    tx.commit(now).await?;
    Ok(node)
}

async fn find(tx: &mut Transaction, now: Timestamp, key: &Digest) -> Result<NodeRecord, Error> {
    let Some(node) = nodes::by_key(tx, key).await? else {
        return Err(match nodes::former_by_key(tx, key).await? {
            Some(name) => expelled(Code::NodeEvicted, &format!("node {name} was evicted and removed")),
            None => Error::with_remedy(Code::JoinRefused, "this key is no node's of this fleet", REJOIN),
        });
    };
    match node.standing.standing {
        Standing::Active => {}
        Standing::Evicted => {
            return Err(expelled(Code::NodeEvicted, &format!("node {} was evicted", node.name)));
        }
        Standing::Banned => {
            return Err(Error::refused(Code::NodeBanned, format!("node {} was banned", node.name)));
        }
        Standing::Quarantined => {
            return Err(Error::with_remedy(
                Code::NodeQuarantined,
                format!(
                    "copies of node {} were seen, and none of them works until a person picks one",
                    node.name
                ),
                format!("pintle node show {}", node.name),
            ));
        }
    }
    let ended = ended(&node);
    if now.millis_since(ended) > LAPSED_DAYS * DAY_MS {
        let detail = format!(
            "the certificate of node {} ended at {ended}, it is {now}: that is more than {LAPSED_DAYS} days",
            node.name
        );
        return Err(expelled(Code::RenewalOver, &detail));
    }
    Ok(node)
}

/// What a node does that must join again; it knows its own folder.
const REJOIN: &str = "ask an operator for a join string (pintle node token --edge EDGE), then run on this machine: pintle node join STRING";

fn expelled(code: Code, detail: &str) -> Error {
    Error::with_remedy(code, detail, REJOIN)
}

fn ended(node: &NodeRecord) -> Timestamp {
    let earlier = node.joined_at.plus_millis(EARLIER_LIFE_DAYS * DAY_MS);
    node.certificate.until.unwrap_or(earlier)
}
