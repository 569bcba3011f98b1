//! Nodes: who they are and how they stand.

pub(crate) mod versions;

use domain::clone::{Known, Pick};
use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, NodeName};
use domain::label::Labels;
use domain::standing::Standing;
use domain::time::Timestamp;

use super::Error;
use super::sql::{Row, Transaction, args, json_statements, statements};

/// The columns of a [`NodeRecord`], in its order, of the nodes that `$rest` names.
macro_rules! records {
    ($rest:literal) => {
        concat!(
            "select id, name, edge, public_key_sha256, agent_version, joined_at, last_seen_at, labels, standing, \
             standing_reason, standing_by, standing_at, session_counter, kept_session, kept_up_to, copies, \
             certificate_until, issuer, authorities, stream from nodes ",
            $rest
        )
    };
}

statements! {
    INSERT = "insert into nodes (id, name, edge, public_key_sha256, join_token, agent_version, joined_at, labels) \
              values ($1, $2, $3, $4, $5, $6, $7, $8)";
    BY_ID = records!("where id = $1");
    BY_NAME = records!("where name = $1");
    BY_KEY = records!("where public_key_sha256 = $1");
    LIST = records!("where name > $1 and ($2 = '' or edge = $2) order by name limit $3");
    ALL = records!("order by id");
    SET_STANDING = "update nodes set standing = $2, standing_reason = $3, standing_by = $4, standing_at = $5, \
                    session_counter = $6, kept_session = $7, kept_up_to = $8, copies = $9 where id = $1";
    COUNTERS = "select id, session_counter from nodes where standing = 'active' and session_counter > 0";
    CERTIFIED = "update nodes set certificate_until = $2, issuer = $3, authorities = $4 where id = $1";
    DISTRUSTING = "select name from nodes where standing = 'active' and authorities not like $1 order by name";
    OF_OTHER_ISSUERS = "select name from nodes where standing = 'active' and issuer <> $1 order by name";
    DELETE_GRANTS = "delete from grants where node = $1";
    DELETE = "delete from nodes where id = $1";
    INSERT_FORMER = "insert into former_nodes (id, name, edge, public_key_sha256, removed_at, removed_by) \
                     values ($1, $2, $3, $4, $5, $6)";
    FORMER_BY_ID = "select name, public_key_sha256 from former_nodes where id = $1";
    FORMER_BY_KEY = "select name, public_key_sha256 from former_nodes where public_key_sha256 = $1";
    COUNT = "select count(*) from nodes";
    COUNT_ELSEWHERE = "select count(*) from nodes where stream <> '' and stream <> $1 and last_seen_at >= $2";
    SET_AGENT = "update nodes set agent_version = $2 where id = $1 and agent_version <> $2";
}

json_statements! {
    /// When nodes were heard of: identity and time.
    SEEN = "update nodes set last_seen_at = seen.at from (select value ->> 0 as id, cast(value ->> 1 as bigint) as at from " rows("$1") ") as seen where nodes.id = seen.id and (last_seen_at is null or last_seen_at < seen.at)";
    /// Session counters: identity and counter.
    KEPT = "update nodes set session_counter = kept.counter from \
            (select value ->> 0 as id, cast(value ->> 1 as bigint) as counter from " rows("$1") ") as kept where nodes.id = kept.id and session_counter < kept.counter and standing = 'active' \
            and (kept_up_to is null or kept_up_to < kept.counter)";
    /// Where streams are: identity and server. One that went is cleared only where no other server has it now.
    STREAMS = "update nodes set stream = moved.to_server, last_seen_at = case when last_seen_at is null \
               or last_seen_at < $3 then $3 else last_seen_at end from \
               (select value ->> 0 as id, value ->> 1 as to_server from " rows("$1") ") as moved where nodes.id = moved.id and (moved.to_server <> '' or nodes.stream = $2)";
}

/// A node as it joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its identity.
    pub id: NodeId,
    /// Its name for people.
    pub name: NodeName,
    /// The edge it belongs to.
    pub edge: EdgeName,
    /// SHA-256 of its `SubjectPublicKeyInfo`.
    pub public_key_sha256: Digest,
    /// What it said when it joined, or connected last.
    pub agent_version: String,
    /// When it joined.
    pub joined_at: Timestamp,
    /// When it was last heard of; written in batches.
    pub last_seen_at: Option<Timestamp>,
    /// What its join token called it.
    pub labels: Labels,
    /// Whether it may work, and who said so when and why.
    pub standing: Stands,
    /// What tells it from its copies; written in batches.
    pub known: Known,
    /// JSON array of the sessions that were seen of it while it has copies.
    pub copies: String,
    /// The certificate that was issued to it last.
    pub certificate: Certified,
    /// The server that its stream is at, as written; empty: none. See [`crate::fleet`].
    pub stream: String,
}

/// Whether a node may work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stands {
    /// How it stands.
    pub standing: Standing,
    /// Why, in the words of who said so.
    pub reason: String,
    /// Who said so.
    pub by: String,
    /// When.
    pub at: Option<Timestamp>,
}

/// The certificate that was issued last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certified {
    /// When it ends; `None` for one of a release before.
    pub until: Option<Timestamp>,
    /// SHA-256 of the key of its authority, hexadecimal; empty for one of a release before.
    pub issuer: String,
    /// Those of the authorities that the node was told to trust, with commas between.
    pub authorities: String,
}

impl Default for Stands {
    fn default() -> Self {
        Self { standing: Standing::Active, reason: String::new(), by: String::new(), at: None }
    }
}

/// Adds a node that joined with a token.
pub(crate) async fn insert(tx: &mut Transaction, node: &NodeRecord, token: &str) -> Result<(), Error> {
    let args = args![
        &node.id,
        &node.name,
        &node.edge,
        &node.public_key_sha256,
        token,
        &node.agent_version,
        node.joined_at,
        labels_text(&node.labels)
    ];
    tx.execute(INSERT, args).await.map(|_| ())
}

/// By its identity.
pub(crate) async fn get(tx: &mut Transaction, id: &NodeId) -> Result<Option<NodeRecord>, Error> {
    tx.row(BY_ID, args![id]).await?.as_ref().map(read).transpose()
}

/// By its name.
pub(crate) async fn by_name(tx: &mut Transaction, name: &str) -> Result<Option<NodeRecord>, Error> {
    tx.row(BY_NAME, args![name]).await?.as_ref().map(read).transpose()
}

/// By its public key.
pub(crate) async fn by_key(tx: &mut Transaction, key: &Digest) -> Result<Option<NodeRecord>, Error> {
    tx.row(BY_KEY, args![key]).await?.as_ref().map(read).transpose()
}

/// Nodes after a name, by name; of one edge unless `edge` is empty.
pub(crate) async fn list(
    tx: &mut Transaction,
    after: &str,
    edge: &str,
    limit: u64,
) -> Result<Vec<NodeRecord>, Error> {
    tx.rows(LIST, args![after, edge, limit]).await?.iter().map(read).collect()
}

/// Writes how it stands, what tells it from its copies, and the copies.
pub(crate) async fn set_standing(tx: &mut Transaction, node: &NodeRecord) -> Result<(), Error> {
    let (stands, known) = (&node.standing, &node.known);
    let integer = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let args = args![
        &node.id,
        stands.standing.as_str(),
        &stands.reason,
        &stands.by,
        stands.at.map(Timestamp::as_millis),
        known.acknowledged,
        known.pick.map(|pick| integer(pick.kept)),
        known.pick.map(|pick| integer(pick.up_to)),
        &node.copies
    ];
    tx.execute(SET_STANDING, args).await.map(|_| ())
}

/// Notes which session counters nodes have on their disks, all in one statement; not where the record is newer or
/// a person picked among a node's copies meanwhile.
pub(crate) async fn kept(tx: &mut Transaction, batch: &[(NodeId, u64)]) -> Result<(), Error> {
    let rows: serde_json::Value =
        batch.iter().map(|(node, counter)| serde_json::json!([node.as_str(), counter])).collect();
    tx.execute(KEPT.of(tx), args![rows.to_string()]).await.map(|_| ())
}

/// The session counters of nodes that may work, as far as they are written.
pub(crate) async fn counters(tx: &mut Transaction) -> Result<Vec<(NodeId, u64)>, Error> {
    let rows = tx.rows(COUNTERS, args![]).await?;
    rows.iter().map(|row| Ok((row.parsed(0, NodeId::parse)?, row.count(1)?))).collect()
}

/// Notes the certificate that was issued to it.
pub(crate) async fn certified(tx: &mut Transaction, id: &NodeId, certified: &Certified) -> Result<(), Error> {
    let until = certified.until.map(Timestamp::as_millis);
    tx.execute(CERTIFIED, args![id, until, &certified.issuer, &certified.authorities]).await.map(|_| ())
}

/// Names of nodes that may work and were not told to trust the authority with that key.
pub(crate) async fn distrusting(tx: &mut Transaction, key_sha256: &str) -> Result<Vec<String>, Error> {
    let rows = tx.rows(DISTRUSTING, args![format!("%{key_sha256}%")]).await?;
    rows.iter().map(|row| row.text(0)).collect()
}

/// Names of nodes that may work and whose certificate is of another authority than that with that key.
pub(crate) async fn of_other_issuers(tx: &mut Transaction, key_sha256: &str) -> Result<Vec<String>, Error> {
    let rows = tx.rows(OF_OTHER_ISSUERS, args![key_sha256]).await?;
    rows.iter().map(|row| row.text(0)).collect()
}

/// Takes it off the record, with all that it said; what is kept is that there was such a node.
pub(crate) async fn remove(
    tx: &mut Transaction,
    node: &NodeRecord,
    (at, by): (Timestamp, &str),
) -> Result<(), Error> {
    versions::forget(tx, &node.id).await?;
    tx.execute(DELETE_GRANTS, args![&node.id]).await?;
    tx.execute(DELETE, args![&node.id]).await?;
    let args = args![&node.id, &node.name, &node.edge, &node.public_key_sha256, at, by];
    tx.execute(INSERT_FORMER, args).await.map(|_| ())
}

/// The name of a node of that id that was removed.
pub(crate) async fn former(tx: &mut Transaction, id: &NodeId) -> Result<Option<NodeName>, Error> {
    tx.row(FORMER_BY_ID, args![id]).await?.map(|row| row.parsed(0, NodeName::parse)).transpose()
}

/// The name of a node with that key that was removed.
pub(crate) async fn former_by_key(tx: &mut Transaction, key: &Digest) -> Result<Option<NodeName>, Error> {
    tx.row(FORMER_BY_KEY, args![key]).await?.map(|row| row.parsed(0, NodeName::parse)).transpose()
}

/// How many there are.
pub(crate) async fn count(tx: &mut Transaction) -> Result<u64, Error> {
    tx.row(COUNT, args![]).await?.map_or(Ok(0), |row| row.count(0))
}

/// Notes when nodes were heard of, all in one statement.
pub(crate) async fn seen(tx: &mut Transaction, batch: &[(NodeId, Timestamp)]) -> Result<(), Error> {
    let rows: serde_json::Value =
        batch.iter().map(|(node, at)| serde_json::json!([node.as_str(), at.as_millis()])).collect();
    tx.execute(SEEN.of(tx), args![rows.to_string()]).await.map(|_| ())
}

/// All of them, by identity: what a server that starts takes into its memory.
pub(crate) async fn all(tx: &mut Transaction) -> Result<Vec<NodeRecord>, Error> {
    tx.rows(ALL, args![]).await?.iter().map(read).collect()
}

/// Notes which nodes' streams are at this server, and which are no longer.
pub(crate) async fn streams(
    tx: &mut Transaction,
    now: Timestamp,
    server: &str,
    batch: &[(NodeId, bool)],
) -> Result<(), Error> {
    let pair = |(node, is_here): &(NodeId, bool)| {
        serde_json::json!([node.as_str(), if *is_here { server } else { "" }])
    };
    let rows: serde_json::Value = batch.iter().map(pair).collect();
    tx.execute(STREAMS.of(tx), args![rows.to_string(), server, now]).await.map(|_| ())
}

/// How many have their streams at other servers than this.
pub(crate) async fn count_elsewhere(tx: &mut Transaction, own: &str, since: Timestamp) -> Result<u64, Error> {
    tx.row(COUNT_ELSEWHERE, args![own, since]).await?.map_or(Ok(0), |row| row.count(0))
}

/// Notes the version of its agent.
pub(crate) async fn set_agent(tx: &mut Transaction, id: &NodeId, version: &str) -> Result<(), Error> {
    tx.execute(SET_AGENT, args![id, version]).await.map(|_| ())
}

fn read(row: &Row) -> Result<NodeRecord, Error> {
    Ok(NodeRecord {
        id: row.parsed(0, NodeId::parse)?,
        name: row.parsed(1, NodeName::parse)?,
        edge: row.parsed(2, EdgeName::parse)?,
        public_key_sha256: row.digest(3)?,
        agent_version: row.text(4)?,
        joined_at: row.time(5)?,
        last_seen_at: row.integer_or_null(6)?.map(Timestamp::from_millis),
        labels: labels_of(&row.text(7)?)?,
        standing: Stands {
            standing: row.parsed(8, |text| Standing::parse(text).ok_or("no standing"))?,
            reason: row.text(9)?,
            by: row.text(10)?,
            at: row.integer_or_null(11)?.map(Timestamp::from_millis),
        },
        known: Known { acknowledged: row.count(12)?, pick: pick(row)? },
        copies: row.text(15)?,
        certificate: Certified {
            until: row.integer_or_null(16)?.map(Timestamp::from_millis),
            issuer: row.text(17)?,
            authorities: row.text(18)?,
        },
        stream: row.text(19)?,
    })
}

fn pick(row: &Row) -> Result<Option<Pick>, Error> {
    let (Some(kept), Some(up_to)) = (row.integer_or_null(13)?, row.integer_or_null(14)?) else {
        return Ok(None);
    };
    let counter = |value: i64| u64::try_from(value).unwrap_or_default();
    Ok(Some(Pick { kept: counter(kept), up_to: counter(up_to) }))
}

/// Labels as they are kept: a JSON object.
pub(crate) fn labels_text(labels: &Labels) -> String {
    let object: serde_json::Map<String, serde_json::Value> =
        labels.iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
    serde_json::Value::Object(object).to_string()
}

/// Reads them back.
pub(crate) fn labels_of(text: &str) -> Result<Labels, Error> {
    let map: std::collections::BTreeMap<String, String> =
        serde_json::from_str(text).map_err(|fault| Error::inconsistent("labels", text, fault))?;
    Labels::new(map).map_err(|fault| Error::inconsistent("labels", text, fault))
}
