//! API tokens and join tokens: hashed secrets, never the secrets.

use domain::digest::Digest;
use domain::id::EdgeName;
use domain::label::Labels;
use domain::time::Timestamp;

use super::Error;
use super::nodes::{labels_of, labels_text};
use super::sql::{Row, Transaction, args, statements};

statements! {
    INSERT = "insert into api_tokens (id, name, secret_sha256, roles, scopes, created_at, created_by, expires_at) \
              values ($1, $2, $3, $4, $5, $6, $7, $8)";
    GET = "select id, name, secret_sha256, roles, scopes, created_at, created_by, expires_at, revoked_at from api_tokens \
           where id = $1";
    LIST = "select id, name, secret_sha256, roles, scopes, created_at, created_by, expires_at, revoked_at from api_tokens \
            where id > $1 order by id limit $2";
    REVOKE = "update api_tokens set revoked_at = $2 where id = $1 and revoked_at is null";
    INSERT_JOIN = "insert into join_tokens (id, secret_sha256, edge, uses, used, created_at, created_by, expires_at, labels) \
                   values ($1, $2, $3, $4, 0, $5, $6, $7, $8)";
    GET_JOIN = "select id, secret_sha256, edge, uses, used, created_at, created_by, expires_at, revoked_at, labels \
                from join_tokens where id = $1";
    LIST_JOIN = "select id, secret_sha256, edge, uses, used, created_at, created_by, expires_at, revoked_at, labels \
                 from join_tokens where id > $1 order by id limit $2";
    USE_JOIN = "update join_tokens set used = used + 1 where id = $1 and used < uses";
    REVOKE_JOIN = "update join_tokens set revoked_at = $2 where id = $1 and revoked_at is null";
}

/// An API token.
#[derive(Debug, Clone)]
pub(crate) struct ApiToken {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) secret_sha256: Digest,
    /// Words with commas between.
    pub(crate) roles: String,
    /// Words with commas between.
    pub(crate) scopes: String,
    pub(crate) created_at: Timestamp,
    pub(crate) created_by: String,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) revoked_at: Option<Timestamp>,
}

/// A join token.
#[derive(Debug, Clone)]
pub(crate) struct JoinToken {
    pub(crate) id: String,
    pub(crate) secret_sha256: Digest,
    pub(crate) edge: EdgeName,
    pub(crate) uses: u64,
    pub(crate) used: u64,
    pub(crate) created_at: Timestamp,
    pub(crate) created_by: String,
    pub(crate) expires_at: Timestamp,
    pub(crate) revoked_at: Option<Timestamp>,
    /// Those of the nodes that join with it.
    pub(crate) labels: Labels,
}

/// Adds an API token.
pub(crate) async fn insert(tx: &mut Transaction, token: &ApiToken) -> Result<(), Error> {
    let args = args![
        &token.id,
        &token.name,
        &token.secret_sha256,
        &token.roles,
        &token.scopes,
        token.created_at,
        &token.created_by,
        token.expires_at.map(Timestamp::as_millis),
    ];
    tx.execute(INSERT, args).await.map(|_| ())
}

/// One API token, revoked and expired ones too.
pub(crate) async fn get(tx: &mut Transaction, id: &str) -> Result<Option<ApiToken>, Error> {
    tx.row(GET, args![id]).await?.as_ref().map(read).transpose()
}

/// API tokens after an id, by id.
pub(crate) async fn list(tx: &mut Transaction, after: &str, limit: u64) -> Result<Vec<ApiToken>, Error> {
    tx.rows(LIST, args![after, limit]).await?.iter().map(read).collect()
}

/// Revokes an API token; answers whether it was in force.
pub(crate) async fn revoke(tx: &mut Transaction, id: &str, now: Timestamp) -> Result<bool, Error> {
    Ok(tx.execute(REVOKE, args![id, now]).await? == 1)
}

/// Adds a join token.
pub(crate) async fn insert_join(tx: &mut Transaction, token: &JoinToken) -> Result<(), Error> {
    let args = args![
        &token.id,
        &token.secret_sha256,
        &token.edge,
        token.uses,
        token.created_at,
        &token.created_by,
        token.expires_at,
        labels_text(&token.labels),
    ];
    tx.execute(INSERT_JOIN, args).await.map(|_| ())
}

/// One join token, whatever became of it.
pub(crate) async fn get_join(tx: &mut Transaction, id: &str) -> Result<Option<JoinToken>, Error> {
    tx.row(GET_JOIN, args![id]).await?.as_ref().map(read_join).transpose()
}

/// Join tokens after an id, by id.
pub(crate) async fn list_join(
    tx: &mut Transaction,
    after: &str,
    limit: u64,
) -> Result<Vec<JoinToken>, Error> {
    tx.rows(LIST_JOIN, args![after, limit]).await?.iter().map(read_join).collect()
}

/// Counts a use; answers whether there was one left.
pub(crate) async fn use_join(tx: &mut Transaction, id: &str) -> Result<bool, Error> {
    Ok(tx.execute(USE_JOIN, args![id]).await? == 1)
}

/// Revokes a join token; answers whether it was in force.
pub(crate) async fn revoke_join(tx: &mut Transaction, id: &str, now: Timestamp) -> Result<bool, Error> {
    Ok(tx.execute(REVOKE_JOIN, args![id, now]).await? == 1)
}

fn read(row: &Row) -> Result<ApiToken, Error> {
    Ok(ApiToken {
        id: row.text(0)?,
        name: row.text(1)?,
        secret_sha256: row.digest(2)?,
        roles: row.text(3)?,
        scopes: row.text(4)?,
        created_at: row.time(5)?,
        created_by: row.text(6)?,
        expires_at: row.integer_or_null(7)?.map(Timestamp::from_millis),
        revoked_at: row.integer_or_null(8)?.map(Timestamp::from_millis),
    })
}

fn read_join(row: &Row) -> Result<JoinToken, Error> {
    Ok(JoinToken {
        id: row.text(0)?,
        secret_sha256: row.digest(1)?,
        edge: row.parsed(2, EdgeName::parse)?,
        uses: row.count(3)?,
        used: row.count(4)?,
        created_at: row.time(5)?,
        created_by: row.text(6)?,
        expires_at: row.time(7)?,
        revoked_at: row.integer_or_null(8)?.map(Timestamp::from_millis),
        labels: labels_of(&row.text(9)?)?,
    })
}
