//! Keeps the tokens of connections: leave to ask for the next one, what was given, what was refused.
//!
//! One server at a time asks for a connection's next token, and what it was given counts only if nobody set the
//! connection, or took it away, in between: the leave is compared when it is used.

use domain::audit::Event;
use domain::time::Timestamp;

use super::set_connection::raise_plans;
use super::{By, Error};
use crate::oauth::{Endpoints, Granted};
use crate::store::connections::{self, Asked, Connection, ConnectionKey, Token};
use crate::store::{Store, WriteTx};
use crate::vault::{Secret, Vault};

/// How long one server may take to ask for a token before another may; the connector gives up before that.
const LEASE_MS: i64 = 60_000;

/// A token as it is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// 0: there never was one since the connection was set.
    pub(crate) number: u64,
    pub(crate) access: Option<Secret>,
    pub(crate) refresh: Option<Secret>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) endpoints: Option<Endpoints>,
    pub(crate) problem: String,
}

/// Leave to ask for the token after this one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leave {
    number: u64,
    until: Timestamp,
}

/// The connection's token.
pub(crate) async fn held(store: &Store, vault: &Vault, key: &ConnectionKey) -> Result<Held, Error> {
    let mut tx = store.read().await?;
    let Some(token) = connections::token(&mut tx, key).await? else { return Ok(Held::default()) };
    let open = |sealed: &Option<Vec<u8>>, what: &str| -> Option<Secret> {
        sealed.as_ref().and_then(|sealed| vault.unseal(&key.purpose(what), sealed).ok())
    };
    Ok(Held {
        number: token.number,
        access: open(&token.access, "access"),
        refresh: open(&token.refresh, "refresh"),
        expires_at: token.expires_at,
        endpoints: serde_json::from_str(&token.endpoints).ok(),
        problem: token.problem,
    })
}

/// Leave to ask for the token after that of `number`, if nobody else has it.
pub(crate) async fn lease(
    store: &Store,
    key: &ConnectionKey,
    number: u64,
    now: Timestamp,
) -> Result<Option<Leave>, Error> {
    let until = now.plus_millis(LEASE_MS);
    let mut tx = store.begin_write().await?;
    let given = connections::lease(tx.tx(), key, number, (now, until)).await?;
    tx.commit(now).await?;
    Ok(given.then_some(Leave { number, until }))
}

/// Gives leave back, since nobody answered.
pub(crate) async fn give_back(
    store: &Store,
    key: &ConnectionKey,
    leave: Leave,
    now: Timestamp,
) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    connections::end_lease(tx.tx(), key, (leave.number, leave.until)).await?;
    tx.commit(now).await?;
    Ok(())
}

/// Keeps what was given to who had leave; answers whether they still had.
pub(crate) async fn keep(
    (store, vault): (&Store, &Vault),
    by: &By,
    connection: &Connection,
    (leave, before): (Leave, &Held),
    (endpoints, granted): (&Endpoints, &Granted),
) -> Result<bool, Error> {
    let key = &connection.key;
    let token = sealed((vault, key), (leave.number, by.now), before.refresh.as_ref(), (endpoints, granted));
    let mut tx = store.begin_write().await?;
    if !connections::next_token(tx.tx(), key, (leave.number, leave.until), &token).await? {
        return Ok(false);
    }
    note_given(&mut tx, by, connection, before, endpoints).await?;
    tx.commit(by.now).await?;
    Ok(true)
}

/// Keeps what a person's code was exchanged for; answers whether the connection is still as they were sent away with.
pub(crate) async fn keep_authorized(
    (store, vault): (&Store, &Vault),
    by: &By,
    connection: &Connection,
    (endpoints, granted): (&Endpoints, &Granted),
) -> Result<bool, Error> {
    let key = &connection.key;
    let mut tx = store.begin_write().await?;
    let now = connections::find(tx.tx(), key).await?;
    if now.is_none_or(|now| now.version != connection.version) {
        return Ok(false);
    }
    let before = connections::token(tx.tx(), key).await?;
    let number = before.as_ref().map_or(0, |token| token.number);
    let token = sealed((vault, key), (number, by.now), None, (endpoints, granted));
    connections::put_token(tx.tx(), key, &token).await?;
    let problem = before.map_or_else(|| "there was none".to_owned(), |before| before.problem);
    let before = Held { number, problem, ..Held::default() };
    note_given(&mut tx, by, connection, &before, endpoints).await?;
    tx.commit(by.now).await?;
    Ok(true)
}

fn sealed(
    (vault, key): (&Vault, &ConnectionKey),
    (number, now): (u64, Timestamp),
    before: Option<&Secret>,
    (endpoints, granted): (&Endpoints, &Granted),
) -> Token {
    let seal = |secret: &Secret, what: &str| vault.seal(&key.purpose(what), secret.reveal());
    let lifetime = granted.expires_in.map(|span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    Token {
        number: number + 1,
        access: Some(seal(&granted.access, "access")),
        // Who gives no new one lets the old one stand (RFC 6749, 6).
        refresh: granted.refresh.as_ref().or(before).map(|refresh| seal(refresh, "refresh")),
        expires_at: lifetime.map(|millis| now.plus_millis(millis)),
        endpoints: serde_json::to_string(endpoints).unwrap_or_default(),
        problem: String::new(),
    }
}

/// The first token of a connection, and the first after a refusal, are told; edges that waited for it are too.
async fn note_given(
    tx: &mut WriteTx,
    by: &By,
    connection: &Connection,
    before: &Held,
    endpoints: &Endpoints,
) -> Result<(), Error> {
    let key = &connection.key;
    if let Some(oauth) = connection.oauth.as_ref().filter(|oauth| oauth.issuer.is_none()) {
        let found = connections::OAuth { found: Some(endpoints.issuer.clone()), ..oauth.clone() };
        connections::put_oauth(tx.tx(), key, &found).await?;
    }
    if before.number == 0 || !before.problem.is_empty() {
        let issuer = endpoints.issuer.clone();
        let connection = key.shown();
        tx.audit(&by.origin, Event::ConnectionAuthorize { connection, edge: key.edge.clone(), issuer });
    }
    if !before.problem.is_empty() {
        raise_plans(tx, key).await?;
    }
    Ok(())
}

/// Notes that a person has to do something before there is a token again.
pub(crate) async fn refuse(
    store: &Store,
    by: &By,
    connection: &Connection,
    (leave, before, reason): (Leave, &Held, &str),
) -> Result<(), Error> {
    let key = &connection.key;
    let endpoints = before.endpoints.as_ref().and_then(|at| serde_json::to_string(at).ok());
    let token = Token {
        number: before.number,
        access: None,
        refresh: None,
        expires_at: None,
        endpoints: endpoints.unwrap_or_default(),
        problem: reason.to_owned(),
    };
    let mut tx = store.begin_write().await?;
    if !connections::next_token(tx.tx(), key, (leave.number, leave.until), &token).await? {
        return Ok(());
    }
    if before.problem != reason {
        let event = Event::ConnectionRefused {
            connection: key.shown(),
            edge: key.edge.clone(),
            reason: reason.to_owned(),
        };
        tx.audit(&by.origin, event);
        raise_plans(&mut tx, key).await?;
    }
    tx.commit(by.now).await?;
    Ok(())
}

/// Notes a person who goes to an authorization server.
pub(crate) async fn ask(store: &Store, now: Timestamp, state: &Secret, asked: &Asked) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    let digest = domain::digest::Digest::of(state.reveal().as_bytes());
    connections::put_ask(tx.tx(), &digest, asked, now).await?;
    tx.commit(now).await?;
    Ok(())
}

/// Who comes back with this state; it is good once.
pub(crate) async fn come_back(store: &Store, now: Timestamp, state: &str) -> Result<Option<Asked>, Error> {
    let state = domain::digest::Digest::of(state.as_bytes());
    // Whoever calls may be anybody: a stranger keeps no writer out.
    let mut tx = store.read().await?;
    if !connections::is_asked(&mut tx, &state).await? {
        return Ok(None);
    }
    drop(tx);
    let mut tx = store.begin_write().await?;
    let asked = connections::take_ask(tx.tx(), &state).await?;
    tx.commit(now).await?;
    Ok(asked.filter(|asked| asked.expires_at > now))
}
