//! Keeps the tokens of connections: leave to ask for the next one, what was given, what was refused.

use domain::audit::Event;
use domain::time::Timestamp;

use super::set_connection::raise_plans;
use super::{By, Error};
use crate::oauth::{Endpoints, Granted};
use crate::store::Store;
use crate::store::connections::{self, Asked, Connection, ConnectionKey, Token};
use crate::vault::{Secret, Vault};

/// How long one server may take to ask for a token before another may.
const LEASE_MS: i64 = 30_000;

/// A token as it is used.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) number: u64,
    pub(crate) access: Option<Secret>,
    pub(crate) refresh: Option<Secret>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) endpoints: Option<Endpoints>,
    pub(crate) problem: String,
}

/// The connection's token; number 0 if it never had one.
pub(crate) async fn held(store: &Store, vault: &Vault, key: &ConnectionKey) -> Result<Held, Error> {
    let mut tx = store.read().await?;
    let token = connections::token(&mut tx, key).await?;
    let token = token.unwrap_or(Token {
        number: 0,
        access: None,
        refresh: None,
        expires_at: None,
        endpoints: String::new(),
        problem: String::new(),
        busy_until: Timestamp::default(),
    });
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

/// Leave to ask for the token after this one; answers whether it was given.
pub(crate) async fn lease(
    store: &Store,
    key: &ConnectionKey,
    number: u64,
    now: Timestamp,
) -> Result<bool, Error> {
    let mut tx = store.begin_write().await?;
    let given = connections::lease(tx.tx(), key, number, (now, now.plus_millis(LEASE_MS))).await?;
    tx.commit(now).await?;
    Ok(given)
}

/// Gives leave back, since nobody answered.
pub(crate) async fn give_back(
    (store, vault): (&Store, &Vault),
    key: &ConnectionKey,
    held: &Held,
    now: Timestamp,
) -> Result<(), Error> {
    let seal = |secret: &Option<Secret>, what: &str| {
        secret.as_ref().map(|secret| vault.seal(&key.purpose(what), secret.reveal()))
    };
    let token = Token {
        number: held.number,
        access: seal(&held.access, "access"),
        refresh: seal(&held.refresh, "refresh"),
        expires_at: held.expires_at,
        endpoints: held.endpoints.as_ref().and_then(|at| serde_json::to_string(at).ok()).unwrap_or_default(),
        problem: held.problem.clone(),
        busy_until: Timestamp::default(),
    };
    let mut tx = store.begin_write().await?;
    connections::put_token(tx.tx(), key, &token).await?;
    tx.commit(now).await?;
    Ok(())
}

/// Keeps what was given; tools that wait for it are told.
pub(crate) async fn keep(
    (store, vault): (&Store, &Vault),
    by: &By,
    key: &ConnectionKey,
    (before, endpoints, granted): (&Held, &Endpoints, &Granted),
) -> Result<(), Error> {
    let refresh = granted.refresh.as_ref().or(before.refresh.as_ref());
    let seal = |secret: &Secret, what: &str| vault.seal(&key.purpose(what), secret.reveal());
    let lifetime = granted.expires_in.map(|span| i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
    let token = Token {
        number: before.number + 1,
        access: Some(seal(&granted.access, "access")),
        refresh: refresh.map(|refresh| seal(refresh, "refresh")),
        expires_at: lifetime.map(|millis| by.now.plus_millis(millis)),
        endpoints: serde_json::to_string(endpoints).unwrap_or_default(),
        problem: String::new(),
        busy_until: Timestamp::default(),
    };
    let mut tx = store.begin_write().await?;
    connections::put_token(tx.tx(), key, &token).await?;
    if !before.problem.is_empty() || before.number == 0 {
        connections::touch(tx.tx(), key).await?;
        let connection = format!("{}/{}", key.plugin, key.name);
        let issuer = endpoints.issuer.clone();
        tx.audit(&by.origin, Event::ConnectionAuthorize { connection, edge: key.edge.clone(), issuer });
        raise_plans(&mut tx, key).await?;
    }
    tx.commit(by.now).await?;
    Ok(())
}

/// Notes that a person has to do something before there is a token again.
pub(crate) async fn refuse(
    store: &Store,
    by: &By,
    connection: &Connection,
    (before, reason): (&Held, &str),
) -> Result<(), Error> {
    let key = &connection.key;
    let mut tx = store.begin_write().await?;
    let known = connections::token(tx.tx(), key).await?;
    let is_told = known.as_ref().is_some_and(|token| token.problem == reason);
    let endpoints = before.endpoints.as_ref().and_then(|at| serde_json::to_string(at).ok());
    let token = Token {
        number: before.number,
        access: None,
        refresh: None,
        expires_at: None,
        endpoints: endpoints.unwrap_or_default(),
        problem: reason.to_owned(),
        busy_until: Timestamp::default(),
    };
    connections::put_token(tx.tx(), key, &token).await?;
    if !is_told {
        connections::touch(tx.tx(), key).await?;
        let connection = format!("{}/{}", key.plugin, key.name);
        let event =
            Event::ConnectionRefused { connection, edge: key.edge.clone(), reason: reason.to_owned() };
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
    let mut tx = store.begin_write().await?;
    let asked = connections::take_ask(tx.tx(), &domain::digest::Digest::of(state.as_bytes())).await?;
    tx.commit(now).await?;
    Ok(asked.filter(|asked| asked.expires_at > now))
}
