//! What remote tools are reached with. No answer has a secret in it.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AppState;
use super::access::Caller;
use super::answer::Answer;
use super::input::{self, Body};
use super::problem::Problem;
use crate::connector::{Fault, Spare};
use crate::operation::Code;
use crate::operation::remove_connection::{no_connection, remove_connection};
use crate::operation::set_connection::{ConnectionInput, SecretInput, parse_key, set_connection, word};
use crate::server::Chain;
use crate::store::connections::{self, Connection, ConnectionKey, Grant, OAuth};
use crate::vault::Secret;

/// What is to be set; what is absent stays.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    edge: Option<String>,
    #[serde(default)]
    params: BTreeMap<String, String>,
    #[serde(default)]
    secrets: BTreeMap<String, Value>,
    headers: Option<Vec<(String, String)>>,
    oauth: Option<WantedOAuth>,
}

impl Wanted {
    /// Reads it without an error of the reader, which would repeat what it cannot read.
    fn read(body: Value) -> Result<Self, Problem> {
        serde_json::from_value(body).map_err(|_| {
            let detail = "the body is an object with edge, params and secrets by name, headers as [name, value], and oauth with \
                          grant, client_id, client_secret, scopes and issuer; what was sent is not repeated here";
            Problem::of(Code::Invalid, detail.to_owned())
        })
    }
}

/// One secret: itself, or where the server finds it.
fn secret((name, wanted): (String, Value)) -> Result<(String, SecretInput), Problem> {
    let one = match &wanted {
        Value::Object(members) if members.len() == 1 => members.iter().next(),
        _ => None,
    };
    let input = match one.map(|(kind, value)| (kind.as_str(), value.as_str())) {
        Some(("value", Some(value))) => SecretInput::Value(Secret::new(value.to_owned())),
        Some(("env", Some(variable))) => SecretInput::Env(variable.to_owned()),
        Some(("file", Some(path))) => SecretInput::File(path.to_owned()),
        _ => {
            let name = domain::visible::make_visible_up_to(&name, 100);
            let detail = format!(
                "the secret {name} is an object with one member: value, env or file, each a text (what was sent is not repeated \
                 here)"
            );
            return Err(Problem::of(Code::Invalid, detail));
        }
    };
    Ok((name, input))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedOAuth {
    grant: String,
    client_id: String,
    client_secret: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
    issuer: Option<String>,
}

/// Which of a plugin's connections of that name.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    #[serde(default)]
    edge: String,
}

/// Where a person comes back to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Authorize {
    edge: Option<String>,
    /// The address of this server as the person's browser reaches it.
    base: String,
}

/// What an authorization server sends a person back with.
#[derive(Debug, Deserialize)]
pub(super) struct Back {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// `GET /connections`.
pub(super) async fn list(State(state): State<AppState>) -> Answer {
    let mut tx = state.store.read().await?;
    let all = connections::all(&mut tx).await?;
    drop(tx);
    let mut items = Vec::new();
    for connection in &all {
        items.push(describe(&state, connection).await?);
    }
    Ok(Json(json!({ "items": items, "next": null })))
}

/// `PUT /connections/{plugin}/{name}`.
pub(super) async fn set(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path((plugin, name)): Path<(String, String)>,
    Body(body): Body<Value>,
) -> Answer {
    let wanted = Wanted::read(body)?;
    let key = key(&plugin, &name, wanted.edge.as_deref())?;
    let input = ConnectionInput {
        params: wanted.params,
        secrets: wanted.secrets.into_iter().map(secret).collect::<Result<_, _>>()?,
        headers: wanted.headers,
        oauth: wanted.oauth.map(oauth).transpose()?,
    };
    let connector = &state.connector;
    let spare = connector.spare(&key).await.map_err(problem)?;
    let places = (&state.store, connector.vault(), connector.files());
    let set = set_connection(places, &caller.by, &key, &input).await?;
    take_back(&state, spare);
    let connection = describe(&state, &set.connection).await?;
    Ok(Json(json!({ "connection": connection, "dropped": set.dropped, "missing": set.missing })))
}

/// `DELETE /connections/{plugin}/{name}?edge=`.
pub(super) async fn remove(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path((plugin, name)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Answer {
    let key = key(&plugin, &name, Some(which.edge.as_str()).filter(|edge| !edge.is_empty()))?;
    let spare = state.connector.spare(&key).await.map_err(problem)?;
    remove_connection(&state.store, &caller.by, &key).await?;
    take_back(&state, spare);
    Ok(Json(json!({ "removed": true })))
}

/// Takes tokens back that are no longer on record, while nobody waits for it.
fn take_back(state: &AppState, spare: Option<Spare>) {
    let Some(spare) = spare else { return };
    let connector = state.connector.clone();
    tokio::spawn(async move { connector.revoke(spare).await });
}

/// `POST /connections/{plugin}/{name}/authorize`: where a person goes.
pub(super) async fn authorize(
    State(state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Path((plugin, name)): Path<(String, String)>,
    Body(wanted): Body<Authorize>,
) -> Answer {
    let key = key(&plugin, &name, wanted.edge.as_deref())?;
    let redirect = redirect(&wanted.base)?;
    let url = state.connector.authorize(&caller.by, &key, &redirect).await.map_err(problem)?;
    Ok(Json(json!({ "url": url, "redirect": redirect })))
}

/// `POST /connections/{plugin}/{name}/test?edge=`: whether its headers can be put together, tokens included.
pub(super) async fn test(
    State(state): State<AppState>,
    Path((plugin, name)): Path<(String, String)>,
    Query(which): Query<Which>,
) -> Answer {
    let key = key(&plugin, &name, Some(which.edge.as_str()).filter(|edge| !edge.is_empty()))?;
    let mut tx = state.store.read().await?;
    let connection = connections::find(&mut tx, &key).await?.ok_or_else(|| no_connection(&key))?;
    drop(tx);
    let place = state.connector.place(&connection).await;
    let made = match &place {
        Ok(place) => state.connector.credentials(&connection, place, "").await,
        Err(fault) => Err(Fault::Refused(fault.to_string())),
    };
    let place = place.ok().map(|url| url.origin.to_string());
    Ok(Json(match made {
        Ok(credentials) => json!({
            "ok": true,
            "origin": place,
            "headers": credentials.headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "until": credentials.until.map(|until| until.to_string()),
            "reason": null,
        }),
        Err(Fault::Refused(reason) | Fault::Passing(reason)) => {
            json!({ "ok": false, "origin": place, "headers": [], "until": null, "reason": reason })
        }
        Err(Fault::Operation(error)) => return Err(error.into()),
    }))
}

/// `GET /oauth/callback`, outside of the API: a person's browser, sent back by an authorization server. Who has the
/// state was sent away from here.
pub(super) async fn callback(State(state): State<AppState>, Query(back): Query<Back>) -> Response {
    let page = |status: StatusCode, text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let body = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>Pintle</title><p>{text}</p></html>"
        );
        (status, [("content-security-policy", "default-src 'none'")], Html(body)).into_response()
    };
    let (Some(known), Some(code)) = (&back.state, &back.code) else {
        let said = domain::visible::make_visible_up_to(back.error.as_deref().unwrap_or("no code"), 100);
        return page(
            StatusCode::BAD_REQUEST,
            &format!("Not connected: the authorization server answered {said}."),
        );
    };
    match state.connector.come_back(known, code, back.iss.as_deref()).await {
        Ok(key) => page(
            StatusCode::OK,
            &format!("{}/{} is connected. You can close this window.", key.plugin, key.name),
        ),
        Err(Fault::Refused(reason) | Fault::Passing(reason)) => {
            page(StatusCode::BAD_REQUEST, &format!("Not connected: {reason}."))
        }
        Err(Fault::Operation(error)) => {
            tracing::error!(error = %Chain(&error), "a person who came back from an authorization server was not connected");
            page(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Not connected: the control plane failed; its log says why.",
            )
        }
    }
}

fn key(plugin: &str, name: &str, edge: Option<&str>) -> Result<ConnectionKey, Problem> {
    let edge = edge.map(input::edge).transpose()?;
    Ok(parse_key(&format!("{plugin}/{name}"), edge)?)
}

fn oauth(wanted: WantedOAuth) -> Result<OAuth, Problem> {
    let grant = Grant::parse(&wanted.grant).ok_or_else(|| {
        let shown = domain::visible::make_visible_up_to(&wanted.grant, 100);
        Problem::of(
            Code::Invalid,
            format!("there is no grant `{shown}`; there are client_credentials and code"),
        )
    })?;
    if wanted.client_id.is_empty() || wanted.client_id.len() > 2_048 || wanted.scopes.len() > 64 {
        let detail = "a client's id has 1 to 2048 characters, and at most 64 scopes are asked for";
        return Err(Problem::of(Code::Invalid, detail.to_owned()));
    }
    Ok(OAuth {
        grant,
        client_id: wanted.client_id,
        client_secret: wanted.client_secret,
        scopes: wanted.scopes,
        issuer: wanted.issuer,
        found: None,
    })
}

/// Where a browser is sent back to: this server, as the person reaches it.
fn redirect(base: &str) -> Result<String, Problem> {
    let wrong = || {
        let shown = domain::visible::make_visible_up_to(base, 200);
        let detail =
            format!("`{shown}` is no address that a browser is sent back to: https, or http on this machine");
        Problem::of(Code::Invalid, detail)
    };
    let url = url::Url::parse(base).map_err(|_| wrong())?;
    let is_here =
        matches!(domain::origin::class_of_host(&url), Ok(Some(domain::origin::AddressClass::Loopback)));
    if url.scheme() != "https" && !(url.scheme() == "http" && is_here) {
        return Err(wrong());
    }
    url.join("/oauth/callback").map(|url| url.to_string()).map_err(|_| wrong())
}

async fn describe(state: &AppState, connection: &Connection) -> Result<Value, Problem> {
    let key = &connection.key;
    let mut token = Value::Null;
    if connection.oauth.is_some() {
        let (has, reason, until) = state.connector.token_state(key).await.map_err(problem)?;
        let word = match (has, reason.is_empty()) {
            (_, false) => "refused",
            (true, true) => "given",
            (false, true) => "none",
        };
        token = json!({ "state": word, "reason": reason, "until": until.map(|until| until.to_string()) });
    }
    let secrets: BTreeMap<&String, String> =
        connection.secrets.iter().map(|(name, source)| (name, word(source))).collect();
    let headers: Vec<Value> = connection
        .headers
        .iter()
        .map(|(name, template)| json!({ "name": name, "value": template }))
        .collect();
    let oauth = connection.oauth.as_ref().map(|oauth| {
        json!({
            "grant": oauth.grant.as_str(),
            "client_id": oauth.client_id,
            "client_secret": oauth.client_secret,
            "scopes": oauth.scopes,
            "issuer": oauth.issuer.as_ref().or(oauth.found.as_ref()),
        })
    });
    Ok(json!({
        "plugin": key.plugin.as_str(),
        "name": key.name,
        "edge": key.edge.as_ref().map(|edge| edge.as_str().to_owned()),
        "version": connection.version,
        "params": connection.params,
        "secrets": secrets,
        "headers": headers,
        "oauth": oauth,
        "token": token,
        "set_at": connection.set_at.to_string(),
        "set_by": connection.set_by,
    }))
}

fn problem(fault: Fault) -> Problem {
    match fault {
        Fault::Operation(error) => error.into(),
        Fault::Refused(reason) => Problem::of(Code::ConnectionRefused, reason),
        Fault::Passing(reason) => Problem::of(Code::ConnectionRefused, format!("{reason}; try again")),
    }
}
