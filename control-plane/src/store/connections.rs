//! Connections as people set them, with their sealed secrets and tokens.

use std::collections::BTreeMap;

use domain::digest::Digest;
use domain::id::{EdgeName, PluginName};
use domain::time::Timestamp;

use super::sql::{Arg, Row, Transaction, args, statements};
use super::{By, Error, meta};

statements! {
    PUT = "insert into connections (plugin, name, edge, version, params, headers, oauth, set_at, set_by) \
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict (plugin, name, edge) do update set \
           version = excluded.version, params = excluded.params, headers = excluded.headers, oauth = excluded.oauth, \
           set_at = excluded.set_at, set_by = excluded.set_by";
    FIND = "select plugin, name, edge, version, params, headers, oauth, set_at, set_by from connections \
            where plugin = $1 and name = $2 and edge = $3";
    ALL = "select plugin, name, edge, version, params, headers, oauth, set_at, set_by from connections \
           order by plugin, name, edge";
    PUT_OAUTH = "update connections set oauth = $4 where plugin = $1 and name = $2 and edge = $3";
    DELETE = "delete from connections where plugin = $1 and name = $2 and edge = $3";
    SECRETS = "select secret, source, sealed from connection_secrets where plugin = $1 and name = $2 and edge = $3 \
               order by secret";
    PUT_SECRET = "insert into connection_secrets (plugin, name, edge, secret, source, sealed) \
                  values ($1, $2, $3, $4, $5, $6) on conflict (plugin, name, edge, secret) do update \
                  set source = excluded.source, sealed = excluded.sealed";
    DROP_SECRETS = "delete from connection_secrets where plugin = $1 and name = $2 and edge = $3";
    TOKEN = "select number, access, refresh, expires_at, endpoints, problem from connection_tokens \
             where plugin = $1 and name = $2 and edge = $3";
    PUT_TOKEN = "insert into connection_tokens (plugin, name, edge, number, access, refresh, expires_at, endpoints, \
                 problem, busy_until) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0) \
                 on conflict (plugin, name, edge) do update set number = excluded.number, access = excluded.access, \
                 refresh = excluded.refresh, expires_at = excluded.expires_at, endpoints = excluded.endpoints, \
                 problem = excluded.problem, busy_until = 0";
    NEXT_TOKEN = "update connection_tokens set number = $6, access = $7, refresh = $8, expires_at = $9, endpoints = $10, \
                  problem = $11, busy_until = 0 where plugin = $1 and name = $2 and edge = $3 and number = $4 \
                  and busy_until = $5";
    END_LEASE = "update connection_tokens set busy_until = 0 where plugin = $1 and name = $2 and edge = $3 \
                 and number = $4 and busy_until = $5";
    LEASE = "update connection_tokens set busy_until = $5 where plugin = $1 and name = $2 and edge = $3 \
             and number = $4 and busy_until < $6";
    FIRST_LEASE = "insert into connection_tokens (plugin, name, edge, number, endpoints, problem, busy_until) \
                   values ($1, $2, $3, 0, '', '', $4) on conflict (plugin, name, edge) do nothing";
    DROP_TOKEN = "delete from connection_tokens where plugin = $1 and name = $2 and edge = $3";
    PUT_ASK = "insert into connection_asks (state_sha256, plugin, name, edge, verifier, redirect, endpoints, asked_by, \
               expires_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    ASK = "select plugin, name, edge, verifier, redirect, endpoints, asked_by, expires_at from connection_asks \
           where state_sha256 = $1";
    DROP_ASK = "delete from connection_asks where state_sha256 = $1";
    DROP_ASKS = "delete from connection_asks where plugin = $1 and name = $2 and edge = $3";
    DROP_OLD_ASKS = "delete from connection_asks where expires_at < $1";
}

/// Which connection: a plugin's, by its manifest's name, for an edge or for the fleet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionKey {
    /// The plugin.
    pub plugin: PluginName,
    /// As its manifest calls it.
    pub name: String,
    /// The one edge it is for; `None`: every edge that has none of its own.
    pub edge: Option<EdgeName>,
}

impl ConnectionKey {
    /// What its sealed values are sealed for.
    pub(crate) fn purpose(&self, what: &str) -> String {
        format!("connection/{}/{}/{}/{what}", self.plugin, self.name, self.scope())
    }

    /// As people write it, without its edge.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.plugin, self.name)
    }

    /// As listings over it are reported.
    pub(crate) fn id(&self) -> String {
        self.edge.as_ref().map_or_else(|| self.name.clone(), |edge| format!("{}@{edge}", self.name))
    }

    fn scope(&self) -> &str {
        self.edge.as_ref().map_or("", EdgeName::as_str)
    }
}

/// Where a secret's value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In the database, sealed.
    Sealed(Vec<u8>),
    /// In this variable of the server's environment.
    Env(String),
    /// In this file of the server's machine.
    File(String),
}

/// How an access token is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// With the client's own credentials.
    ClientCredentials,
    /// A person authorizes it in a browser.
    Code,
}

impl Grant {
    /// Its word in the API and the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientCredentials => "client_credentials",
            Self::Code => "code",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::ClientCredentials, Self::Code].into_iter().find(|grant| grant.as_str() == text)
    }
}

/// What an authorization server is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OAuth {
    /// How the token is had.
    pub grant: Grant,
    /// Who asks.
    pub client_id: String,
    /// Which of the connection's secrets the client shows, if it does.
    pub client_secret: Option<String>,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// The authorization server's issuer; without it, the one that the tool's server names.
    pub issuer: Option<String>,
    /// The one that it named when the first token was had; another one gets nothing.
    pub found: Option<String>,
}

/// A connection on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// Which.
    pub key: ConnectionKey,
    /// Another one at each change.
    pub version: u64,
    /// Parameters that are no secrets.
    pub params: BTreeMap<String, String>,
    /// Headers with `${params.NAME}` in them.
    pub headers: Vec<(String, String)>,
    /// If it has a token.
    pub oauth: Option<OAuth>,
    /// Where each secret is.
    pub secrets: BTreeMap<String, Source>,
    /// When it was set last.
    pub set_at: Timestamp,
    /// By whom.
    pub set_by: String,
}

/// What a connection's token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) number: u64,
    /// Sealed.
    pub(crate) access: Option<Vec<u8>>,
    /// Sealed.
    pub(crate) refresh: Option<Vec<u8>>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) endpoints: String,
    /// Why a person has to authorize it again; empty if nobody has to.
    pub(crate) problem: String,
}

/// A person on the way to an authorization server and back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) key: ConnectionKey,
    /// Sealed.
    pub(crate) verifier: Vec<u8>,
    pub(crate) redirect: String,
    pub(crate) endpoints: String,
    pub(crate) by: String,
    pub(crate) expires_at: Timestamp,
}

fn key_args(key: &ConnectionKey) -> Vec<Arg> {
    args![&key.plugin, &key.name, key.scope()]
}

fn with(key: &ConnectionKey, more: Vec<Arg>) -> Vec<Arg> {
    let mut args = key_args(key);
    args.extend(more);
    args
}

async fn next_version(tx: &mut Transaction) -> Result<u64, Error> {
    meta::raise(tx, meta::CONNECTIONS).await?;
    meta::counted(tx, meta::CONNECTIONS).await
}

/// Puts it on record with all its secrets, as another version.
pub(crate) async fn put(tx: &mut Transaction, connection: &Connection, by: By<'_>) -> Result<(), Error> {
    let version = next_version(tx).await?;
    let key = &connection.key;
    let oauth = connection.oauth.as_ref().map(oauth_text);
    let params = serde_json::json!(connection.params).to_string();
    let headers = serde_json::json!(connection.headers).to_string();
    let more = args![version, params, headers, oauth.unwrap_or_default(), by.at, by.who];
    tx.execute(PUT, with(key, more)).await?;
    tx.execute(DROP_SECRETS, key_args(key)).await?;
    for (secret, source) in &connection.secrets {
        let (source, sealed) = match source {
            Source::Sealed(sealed) => ("sealed".to_owned(), Some(sealed.clone())),
            Source::Env(variable) => (format!("env:{variable}"), None),
            Source::File(path) => (format!("file:{path}"), None),
        };
        tx.execute(PUT_SECRET, with(key, args![secret, source, sealed])).await?;
    }
    Ok(())
}

/// Notes on record who its authorization server is, which is no other connection.
pub(crate) async fn put_oauth(tx: &mut Transaction, key: &ConnectionKey, oauth: &OAuth) -> Result<(), Error> {
    tx.execute(PUT_OAUTH, with(key, args![oauth_text(oauth)])).await.map(|_| ())
}

fn oauth_text(oauth: &OAuth) -> String {
    serde_json::json!({
        "grant": oauth.grant.as_str(),
        "client_id": oauth.client_id,
        "client_secret": oauth.client_secret,
        "scopes": oauth.scopes,
        "issuer": oauth.issuer,
        "found": oauth.found,
    })
    .to_string()
}

/// The one of that key.
pub(crate) async fn find(tx: &mut Transaction, key: &ConnectionKey) -> Result<Option<Connection>, Error> {
    let Some(row) = tx.row(FIND, key_args(key)).await? else { return Ok(None) };
    let mut connection = read(&row)?;
    connection.secrets = secrets(tx, key).await?;
    Ok(Some(connection))
}

/// What an edge uses: its own, or the fleet's.
pub(crate) async fn in_use(
    tx: &mut Transaction,
    plugin: &PluginName,
    name: &str,
    edge: &EdgeName,
) -> Result<Option<Connection>, Error> {
    let own = ConnectionKey { plugin: plugin.clone(), name: name.to_owned(), edge: Some(edge.clone()) };
    let fleets = ConnectionKey { edge: None, ..own.clone() };
    match find(tx, &own).await? {
        Some(own) => Ok(Some(own)),
        None => find(tx, &fleets).await,
    }
}

/// All of them.
pub(crate) async fn all(tx: &mut Transaction) -> Result<Vec<Connection>, Error> {
    let mut all = Vec::new();
    for row in tx.rows(ALL, args![]).await? {
        let mut connection = read(&row)?;
        connection.secrets = secrets(tx, &connection.key).await?;
        all.push(connection);
    }
    Ok(all)
}

/// Takes it off the record, with its secrets and its token.
pub(crate) async fn delete(tx: &mut Transaction, key: &ConnectionKey) -> Result<bool, Error> {
    tx.execute(DROP_SECRETS, key_args(key)).await?;
    drop_token(tx, key).await?;
    Ok(tx.execute(DELETE, key_args(key)).await? == 1)
}

/// Its token, if it ever had one.
pub(crate) async fn token(tx: &mut Transaction, key: &ConnectionKey) -> Result<Option<Token>, Error> {
    let row = tx.row(TOKEN, key_args(key)).await?;
    row.map(|row| {
        Ok(Token {
            number: row.count(0)?,
            access: row.bytes_or_null(1)?,
            refresh: row.bytes_or_null(2)?,
            expires_at: row.integer_or_null(3)?.map(Timestamp::from_millis),
            endpoints: row.text(4)?,
            problem: row.text(5)?,
        })
    })
    .transpose()
}

/// Replaces its token; whoever had leave to ask for it has it no longer.
pub(crate) async fn put_token(tx: &mut Transaction, key: &ConnectionKey, token: &Token) -> Result<(), Error> {
    tx.execute(PUT_TOKEN, with(key, token_args(token))).await.map(|_| ())
}

fn token_args(token: &Token) -> Vec<Arg> {
    let expires_at = token.expires_at.map(Timestamp::as_millis);
    args![
        token.number,
        token.access.clone(),
        token.refresh.clone(),
        expires_at,
        &token.endpoints,
        &token.problem
    ]
}

/// Gives leave to ask for the token after the one of this number, if nobody has it; answers whether it did.
pub(crate) async fn lease(
    tx: &mut Transaction,
    key: &ConnectionKey,
    number: u64,
    (now, until): (Timestamp, Timestamp),
) -> Result<bool, Error> {
    if number == 0 && tx.execute(FIRST_LEASE, with(key, args![until])).await? == 1 {
        return Ok(true);
    }
    Ok(tx.execute(LEASE, with(key, args![number, until, now])).await? == 1)
}

/// Ends the leave to ask for the token after that of `number`, without another token.
pub(crate) async fn end_lease(
    tx: &mut Transaction,
    key: &ConnectionKey,
    (number, until): (u64, Timestamp),
) -> Result<(), Error> {
    tx.execute(END_LEASE, with(key, args![number, until])).await.map(|_| ())
}

/// Replaces the token of `number` by who has leave until `until` to ask for the next; answers whether they still had.
pub(crate) async fn next_token(
    tx: &mut Transaction,
    key: &ConnectionKey,
    (number, until): (u64, Timestamp),
    token: &Token,
) -> Result<bool, Error> {
    let mut args = with(key, args![number, until]);
    args.extend(token_args(token));
    Ok(tx.execute(NEXT_TOKEN, args).await? == 1)
}

/// Forgets its token, and who is on the way to have one.
pub(crate) async fn drop_token(tx: &mut Transaction, key: &ConnectionKey) -> Result<(), Error> {
    tx.execute(DROP_ASKS, key_args(key)).await?;
    tx.execute(DROP_TOKEN, key_args(key)).await.map(|_| ())
}

/// Notes a person who goes to an authorization server.
pub(crate) async fn put_ask(
    tx: &mut Transaction,
    state: &Digest,
    asked: &Asked,
    now: Timestamp,
) -> Result<(), Error> {
    tx.execute(DROP_OLD_ASKS, args![now]).await?;
    let key = &asked.key;
    let args = args![
        state,
        &key.plugin,
        &key.name,
        key.scope(),
        asked.verifier.clone(),
        &asked.redirect,
        &asked.endpoints,
        &asked.by,
        asked.expires_at
    ];
    tx.execute(PUT_ASK, args).await.map(|_| ())
}

/// Whether somebody is on the way with that state.
pub(crate) async fn is_asked(tx: &mut Transaction, state: &Digest) -> Result<bool, Error> {
    Ok(tx.row(ASK, args![state]).await?.is_some())
}

/// Takes the note of who comes back; it is good once.
pub(crate) async fn take_ask(tx: &mut Transaction, state: &Digest) -> Result<Option<Asked>, Error> {
    let Some(row) = tx.row(ASK, args![state]).await? else { return Ok(None) };
    tx.execute(DROP_ASK, args![state]).await?;
    Ok(Some(Asked {
        key: read_key(&row)?,
        verifier: row.bytes_or_null(3)?.unwrap_or_default(),
        redirect: row.text(4)?,
        endpoints: row.text(5)?,
        by: row.text(6)?,
        expires_at: row.time(7)?,
    }))
}

async fn secrets(tx: &mut Transaction, key: &ConnectionKey) -> Result<BTreeMap<String, Source>, Error> {
    let mut secrets = BTreeMap::new();
    for row in tx.rows(SECRETS, key_args(key)).await? {
        let text = row.text(1)?;
        let source = match (text.split_once(':'), row.bytes_or_null(2)?) {
            (None, Some(sealed)) => Source::Sealed(sealed),
            (Some(("env", variable)), None) => Source::Env(variable.to_owned()),
            (Some(("file", path)), None) => Source::File(path.to_owned()),
            _ => return Err(Error::inconsistent("where a secret is", &text, "there is no such place")),
        };
        secrets.insert(row.text(0)?, source);
    }
    Ok(secrets)
}

fn read_key(row: &Row) -> Result<ConnectionKey, Error> {
    let edge = row.text(2)?;
    Ok(ConnectionKey {
        plugin: row.parsed(0, PluginName::parse)?,
        name: row.text(1)?,
        edge: if edge.is_empty() { None } else { Some(row.parsed(2, EdgeName::parse)?) },
    })
}

fn read(row: &Row) -> Result<Connection, Error> {
    let json = |at: usize, what: &'static str| -> Result<serde_json::Value, Error> {
        let text = row.text(at)?;
        serde_json::from_str(&text).map_err(|fault| Error::inconsistent(what, &text, fault))
    };
    let params = json(4, "the parameters of a connection")?;
    let headers = json(5, "the headers of a connection")?;
    let oauth = if row.text(6)?.is_empty() { None } else { Some(json(6, "the settings of a token")?) };
    let broken = |what: &'static str| Error::inconsistent(what, "", "it is not as it was written");
    Ok(Connection {
        key: read_key(row)?,
        version: row.count(3)?,
        params: serde_json::from_value(params).map_err(|_| broken("the parameters of a connection"))?,
        headers: serde_json::from_value(headers).map_err(|_| broken("the headers of a connection"))?,
        oauth: oauth
            .map(|oauth| read_oauth(&oauth).ok_or_else(|| broken("the settings of a token")))
            .transpose()?,
        secrets: BTreeMap::new(),
        set_at: row.time(7)?,
        set_by: row.text(8)?,
    })
}

fn read_oauth(value: &serde_json::Value) -> Option<OAuth> {
    let text = |member: &str| value.get(member).and_then(serde_json::Value::as_str).map(str::to_owned);
    let scopes = value.get("scopes")?.as_array()?.iter();
    Some(OAuth {
        grant: Grant::parse(&text("grant")?)?,
        client_id: text("client_id")?,
        client_secret: text("client_secret"),
        scopes: scopes.map(|scope| scope.as_str().map(str::to_owned)).collect::<Option<_>>()?,
        issuer: text("issuer"),
        found: text("found"),
    })
}
