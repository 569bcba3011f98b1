//! Notes that a node has copies: none of them works until a person picks one (`keep_session`).

use domain::audit::{Event, Origin};
use domain::id::NodeId;
use domain::standing::Standing;
use domain::time::Timestamp;
use serde_json::{Value, json};

use super::{By, Error};
use crate::store::{NodeRecord, Stands, Store, nodes};

/// Most sessions of one node that are told apart: more copies are shown as they come back.
const SESSIONS_MAX: usize = 16;

/// One session of a node that has copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenSession {
    /// The counter that it shows; 0 for none.
    pub counter: u64,
    /// The run of its agent's process.
    pub boot: String,
    /// From where it came last; empty if that is not known.
    pub address: String,
    /// When it was seen last.
    pub at: Timestamp,
}

/// Quarantines a node that was found to have copies, and notes their sessions; of one that is quarantined
/// already only those that are new. An evicted or banned node stays so.
///
/// # Errors
/// What the store says.
pub async fn quarantine(
    store: &Store,
    now: Timestamp,
    node: &NodeId,
    seen: &[SeenSession],
) -> Result<(), Error> {
    // Quarantined nodes ask again and again; only news is written.
    let record = nodes::get(&mut store.read().await?, node).await?;
    if record.is_none_or(|record| news(&record, seen).is_none()) {
        return Ok(());
    }
    let mut tx = store.begin_write().await?;
    let Some(mut record) = nodes::get(tx.tx(), node).await? else { return Ok(()) };
    let Some(all) = news(&record, seen) else { return Ok(()) };
    let is_new = record.standing.standing == Standing::Active;
    record.copies = text(&all);
    let by = By { now, origin: Origin::system("stream") };
    if is_new {
        record.standing = Stands {
            standing: Standing::Quarantined,
            reason: "copies of it were seen".to_owned(),
            by: by.origin.actor.clone(),
            at: Some(now),
        };
        tx.stands_differently().await?;
        let sessions = all.iter().map(|one| one.counter).collect();
        let (node, node_name, edge) = (node.clone(), record.name.clone(), record.edge.clone());
        tx.audit(&by.origin, Event::NodeClone { node, node_name, edge, sessions });
    }
    nodes::set_standing(tx.tx(), &record).await?;
    tx.commit(now).await?;
    Ok(())
}

/// The sessions of a node with those that were seen now; `None` if that changes nothing that counts.
fn news(record: &NodeRecord, seen: &[SeenSession]) -> Option<Vec<SeenSession>> {
    let is_new = match record.standing.standing {
        Standing::Active => true,
        Standing::Quarantined => false,
        Standing::Evicted | Standing::Banned => return None,
    };
    let before = sessions(&record.copies);
    let mut all = before.clone();
    for one in seen {
        let is_same = |known: &SeenSession| (known.counter, &known.boot) == (one.counter, &one.boot);
        let is_full = all.len() >= SESSIONS_MAX;
        match all.iter_mut().find(|known| is_same(known)) {
            Some(known) => known.at = known.at.max(one.at),
            None if is_full => {}
            None => all.push(one.clone()),
        }
    }
    (is_new || all.len() > before.len()).then_some(all)
}

/// The sessions that are noted of a node that has copies.
pub fn sessions(copies: &str) -> Vec<SeenSession> {
    let list: Vec<Value> = serde_json::from_str(copies).unwrap_or_default();
    let text = |one: &Value, key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    list.iter()
        .map(|one| SeenSession {
            counter: one.get("session").and_then(Value::as_u64).unwrap_or_default(),
            boot: text(one, "boot"),
            address: text(one, "address"),
            at: Timestamp::from_millis(one.get("at_ms").and_then(Value::as_i64).unwrap_or_default()),
        })
        .collect()
}

fn text(sessions: &[SeenSession]) -> String {
    let one = |one: &SeenSession| json!({ "session": one.counter, "boot": one.boot, "address": one.address, "at_ms": one.at.as_millis() });
    sessions.iter().map(one).collect::<Value>().to_string()
}
