//! Sets what a plugin's remote tools are reached with, on one edge or on all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use domain::audit::Event;
use domain::connection::{HEADERS_MAX, SECRET_MAX, VALUE_MAX, check_header, fill_url, named};
use domain::id::{EdgeName, PluginName};
use domain::plugin_set::{Part, Scope};
use plugin::manifest::{self, Manifest, ToolSpec};

use super::{By, Code, Error};
use crate::store::connections::{self, Connection, ConnectionKey, Grant, OAuth, Source};
use crate::store::{Store, Transaction, WriteTx, assignments, candidates, edges, plugins};
use crate::vault::{Secret, Vault};

/// How variables of the server's environment begin that secrets may be in: those of its own are not theirs.
pub const ENV_PREFIX: &str = "PINTLE_SECRET_";

/// What is to be set; what is not named stays.
#[derive(Debug, Clone, Default)]
pub struct ConnectionInput {
    /// Parameters that are no secrets.
    pub params: BTreeMap<String, String>,
    /// Where secrets are, or what they are.
    pub secrets: BTreeMap<String, SecretInput>,
    /// All headers, if any is named.
    pub headers: Option<Vec<(String, String)>>,
    /// How a token is had, if that is named.
    pub oauth: Option<OAuth>,
}

/// A secret as a person gives it.
#[derive(Debug, Clone)]
pub enum SecretInput {
    /// Itself; it is sealed.
    Value(Secret),
    /// The variable of the server's environment that it is in.
    Env(String),
    /// The file of the server's machine that it is in.
    File(String),
}

/// A connection as it stands after a change.
#[derive(Debug, Clone)]
pub struct ConnectionSet {
    /// It.
    pub connection: Connection,
    /// Secrets that were dropped, since the host that they were given for is another now.
    pub dropped: Vec<String>,
    /// Parameters and secrets without which it is of no use.
    pub missing: Vec<String>,
}

/// Sets it. `files` is the folder that secrets may be in, if the server has one.
///
/// # Errors
/// No such plugin, connection of it, or edge; a parameter that the manifest does not have, or of the other kind; a
/// header or a URL that cannot be; a secret that is in no place for secrets.
pub async fn set_connection(
    (store, vault, files): (&Store, &Vault, Option<&Path>),
    by: &By,
    key: &ConnectionKey,
    input: &ConnectionInput,
) -> Result<ConnectionSet, Error> {
    let mut tx = store.begin_write().await?;
    if let Some(edge) = &key.edge
        && edges::get(tx.tx(), edge).await?.is_none()
    {
        return Err(Error::no_edge(edge));
    }
    let manifests = manifests_with(tx.tx(), key).await?;
    let before = connections::find(tx.tx(), key).await?;
    let mut connection = before.clone().unwrap_or_else(|| blank(key, by));
    let described = manifests.first().and_then(|manifest| manifest.connections.get(&key.name).cloned());
    let described = described.unwrap_or_default();
    connection.params.extend(checked_params(&described, input)?);
    put_ways(&mut connection, input);
    let used = used(&connection)?;
    let mut dropped = Vec::new();
    // Credentials are for the host, and the authorization server, that they were given for.
    let is_moved = before.as_ref().is_some_and(|before| is_moved(&manifests, before, &connection));
    if is_moved {
        dropped = std::mem::take(&mut connection.secrets).into_keys().collect();
        if let Some(oauth) = &mut connection.oauth {
            oauth.found = None;
        }
    } else if let Some(name) = before.as_ref().and_then(|before| shown_elsewhere(before, &connection))
        && connection.secrets.remove(name).is_some()
    {
        dropped.push(name.clone());
    }
    for (name, secret) in &input.secrets {
        let is_described = described.params.get(name).is_some_and(|param| param.secret);
        if !is_described && !used.contains(name) {
            return Err(unknown(name, "secret", secrets_of(&described).chain(used.iter())));
        }
        connection.secrets.insert(name.clone(), placed((vault, files), key, name, secret)?);
    }
    dropped.retain(|name| !connection.secrets.contains_key(name));
    for (tool, url) in manifests.iter().flat_map(|manifest| urls(manifest, &connection)) {
        if let Err(fault) = url
            && !matches!(fault, domain::connection::Fault::Missing(_))
        {
            return Err(Error::refused(Code::Invalid, format!("the URL of {tool}: {fault}")));
        }
    }
    let of_client = |connection: &Connection| {
        connection.oauth.as_ref().map(|oauth| {
            (
                oauth.clone(),
                oauth.client_secret.as_ref().and_then(|name| connection.secrets.get(name).cloned()),
            )
        })
    };
    if is_moved || before.as_ref().and_then(of_client) != of_client(&connection) {
        // A token of another client, or with other scopes, is another.
        connections::drop_token(tx.tx(), key).await?;
    }
    connections::put(tx.tx(), &connection, by.as_stored()).await?;
    let connection = connections::find(tx.tx(), key).await?.unwrap_or(connection);
    let event = Event::ConnectionSet {
        connection: key.shown(),
        edge: key.edge.clone(),
        params: connection.params.clone(),
        secrets: connection.secrets.iter().map(|(name, source)| (name.clone(), word(source))).collect(),
        headers: connection.headers.iter().map(|(name, _)| name.clone()).collect(),
        oauth: connection.oauth.as_ref().map(|oauth| oauth.grant.as_str().to_owned()),
    };
    tx.audit(&by.origin, event);
    raise_plans(&mut tx, key).await?;
    tx.commit(by.now).await?;
    let missing = missing(&described, &connection)?;
    Ok(ConnectionSet { connection, dropped, missing })
}

/// Where a secret is, in a word.
pub fn word(source: &Source) -> String {
    match source {
        Source::Sealed(_) => "sealed".to_owned(),
        Source::Env(variable) => format!("env:{variable}"),
        Source::File(path) => format!("file:{path}"),
    }
}

/// One that nobody set.
fn blank(key: &ConnectionKey, by: &By) -> Connection {
    Connection {
        key: key.clone(),
        version: 0,
        params: BTreeMap::new(),
        headers: Vec::new(),
        oauth: None,
        secrets: BTreeMap::new(),
        set_at: by.now,
        set_by: by.origin.actor.clone(),
    }
}

/// Headers and tokens as they were named; of both that would be `Authorization`, the one that was named now.
fn put_ways(connection: &mut Connection, input: &ConnectionInput) {
    let is_token_s = |name: &str| name.eq_ignore_ascii_case("authorization");
    if let Some(headers) = &input.headers {
        connection.headers.clone_from(headers);
        if input.oauth.is_none() && headers.iter().any(|(name, _)| is_token_s(name)) {
            connection.oauth = None;
        }
    }
    if let Some(oauth) = &input.oauth {
        let before = connection.oauth.take();
        if input.headers.is_none() {
            connection.headers.retain(|(name, _)| !is_token_s(name));
        }
        let found = before.and_then(|before| before.found).filter(|_| oauth.issuer.is_none());
        connection.oauth = Some(OAuth { found, ..oauth.clone() });
    }
}

/// The client's secret, if it would be shown to another authorization server than before.
fn shown_elsewhere<'c>(before: &'c Connection, now: &Connection) -> Option<&'c String> {
    let (before, now) = (before.oauth.as_ref()?, now.oauth.as_ref()?);
    let of = |oauth: &OAuth| oauth.issuer.clone().or_else(|| oauth.found.clone());
    before.client_secret.as_ref().filter(|_| of(before) != of(now) && of(before).is_some())
}

/// Whether a tool of any version would be reached at another origin than before.
fn is_moved(manifests: &[Manifest], before: &Connection, now: &Connection) -> bool {
    let origin =
        |url: Result<domain::origin::ToolUrl, domain::connection::Fault>| url.ok().map(|url| url.origin);
    manifests.iter().any(|manifest| {
        let (before, now) = (urls(manifest, before), urls(manifest, now));
        before.into_iter().zip(now).any(|((_, before), (_, now))| {
            let before = origin(before);
            // What had no host yet was given for none.
            before.is_some() && before != origin(now)
        })
    })
}

/// The manifests of the plugin's versions that have the connection, the newest first; there is one.
async fn manifests_with(tx: &mut Transaction, key: &ConnectionKey) -> Result<Vec<Manifest>, Error> {
    let versions = plugins::versions(tx, &key.plugin).await?;
    if versions.is_empty() {
        let detail = format!("no version of a plugin {} was ever pushed", key.plugin);
        return Err(Error::with_remedy(Code::NotFound, detail, "pintle plugin list"));
    }
    let (mut known, mut found) = (BTreeSet::new(), Vec::new());
    for stored in versions {
        let Ok(manifest) = Manifest::read_accepted(&stored.manifest) else { continue };
        if manifest.connections.contains_key(&key.name) {
            found.push(manifest);
        } else {
            known.extend(manifest.connections.into_keys());
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let known = if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", known.into_iter().collect::<Vec<_>>().join(", "))
    };
    let detail = format!("the plugin {} has no connection {}; {known}", key.plugin, shown(&key.name));
    Err(Error::refused(Code::NotFound, detail))
}

/// The URLs of the tools that are reached with it.
fn urls(
    manifest: &Manifest,
    connection: &Connection,
) -> Vec<(String, Result<domain::origin::ToolUrl, domain::connection::Fault>)> {
    let of_connection = manifest.tools.iter().filter_map(|(tool, spec)| match spec {
        ToolSpec::Url { url, allow_http, connection: Some(name), .. } if *name == connection.key.name => {
            Some((tool, url, *allow_http))
        }
        _ => None,
    });
    let value = |name: &str| connection.params.get(name).map(String::as_str);
    of_connection
        .map(|(tool, url, allow_http)| (tool.to_string(), fill_url(url, allow_http, value)))
        .collect()
}

/// The edges that have the plugin, of which there is one at most if the connection is for one.
pub(crate) async fn having(tx: &mut Transaction, key: &ConnectionKey) -> Result<BTreeSet<EdgeName>, Error> {
    let mut having: BTreeSet<EdgeName> =
        assignments::of_plugin(tx, &key.plugin).await?.into_iter().map(|one| one.edge).collect();
    having.extend(candidates::edges_of_plugin(tx, &key.plugin).await?);
    having.retain(|edge| key.edge.as_ref().is_none_or(|only| only == edge));
    Ok(having)
}

/// Raises the plan of the edges that have the plugin, of the one edge if it is for that.
pub(crate) async fn raise_plans(tx: &mut WriteTx, key: &ConnectionKey) -> Result<(), Error> {
    for edge in having(tx.tx(), key).await? {
        tx.raise(Scope::Edge(edge), Part::Plan);
    }
    Ok(())
}

/// Why the connection is of no use as it is, if so.
pub(crate) fn missing(
    described: &manifest::Connection,
    connection: &Connection,
) -> Result<Vec<String>, Error> {
    let mut wanted = used(connection)?;
    wanted.extend(described.params.iter().filter(|(_, param)| param.required).map(|(name, _)| name.clone()));
    let has = |name: &String| connection.params.contains_key(name) || connection.secrets.contains_key(name);
    Ok(wanted.into_iter().filter(|name| !has(name)).collect())
}

fn checked_params(
    described: &manifest::Connection,
    input: &ConnectionInput,
) -> Result<BTreeMap<String, String>, Error> {
    for (name, value) in &input.params {
        match described.params.get(name) {
            None => {
                let plain = described.params.iter().filter(|(_, param)| !param.secret).map(|(name, _)| name);
                return Err(unknown(name, "parameter", plain));
            }
            Some(param) if param.secret => {
                let detail = format!("{} is a secret, which is not given as a parameter", shown(name));
                return Err(Error::with_remedy(Code::Invalid, detail, format!("--secret {name}")));
            }
            Some(_) if value.len() > VALUE_MAX => {
                let detail =
                    format!("{} has {} characters, at most {VALUE_MAX} are taken", shown(name), value.len());
                return Err(Error::refused(Code::Invalid, detail));
            }
            Some(_) => {}
        }
    }
    Ok(input.params.clone())
}

/// The parameters and secrets that headers and the token need.
fn used(connection: &Connection) -> Result<BTreeSet<String>, Error> {
    let invalid = |fault: domain::connection::Fault| Error::refused(Code::Invalid, fault.to_string());
    if connection.headers.len() > HEADERS_MAX {
        let detail = format!("{} headers, at most {HEADERS_MAX} are taken", connection.headers.len());
        return Err(Error::refused(Code::Invalid, detail));
    }
    let mut used = BTreeSet::new();
    for (name, template) in &connection.headers {
        check_header(name).map_err(invalid)?;
        if connection.oauth.is_some() && name.eq_ignore_ascii_case("authorization") {
            let detail = "the header Authorization is the token's where there is one";
            return Err(Error::refused(Code::Invalid, detail));
        }
        used.extend(named(template).map_err(invalid)?);
    }
    used.extend(connection.oauth.iter().filter_map(|oauth| oauth.client_secret.clone()));
    if connection
        .oauth
        .as_ref()
        .is_some_and(|oauth| oauth.grant == Grant::ClientCredentials && oauth.client_secret.is_none())
    {
        let detail = "client credentials need a secret that the client shows";
        return Err(Error::with_remedy(Code::Invalid, detail, "--client-secret NAME --secret NAME"));
    }
    Ok(used)
}

fn placed(
    (vault, files): (&Vault, Option<&Path>),
    key: &ConnectionKey,
    name: &str,
    secret: &SecretInput,
) -> Result<Source, Error> {
    match secret {
        SecretInput::Value(secret) => {
            let length = secret.reveal().len();
            if length == 0 || length > SECRET_MAX {
                let detail = format!("{} has {length} bytes, 1 to {SECRET_MAX} are taken", shown(name));
                return Err(Error::refused(Code::Invalid, detail));
            }
            Ok(Source::Sealed(vault.seal(&key.purpose(&format!("secret/{name}")), secret.reveal())))
        }
        SecretInput::Env(variable) => {
            let is_name = variable.starts_with(ENV_PREFIX)
                && variable.len() <= 256
                && variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name {
                let detail = format!(
                    "`{}` is no variable for a secret: their names begin with {ENV_PREFIX}",
                    shown(variable)
                );
                return Err(Error::refused(Code::Invalid, detail));
            }
            Ok(Source::Env(variable.clone()))
        }
        SecretInput::File(path) => {
            let Some(files) = files else {
                let detail =
                    "this server reads no secrets from files: it was started without a folder for them";
                return Err(Error::with_remedy(
                    Code::Invalid,
                    detail,
                    "pintle server --secrets-folder FOLDER",
                ));
            };
            let is_below = Path::new(path).starts_with(files) && !path.contains("/..") && path.len() <= 4096;
            if !is_below {
                let detail = format!(
                    "`{}` is not below {}, where this server reads secrets from",
                    shown(path),
                    files.display()
                );
                return Err(Error::refused(Code::Invalid, detail));
            }
            Ok(Source::File(path.clone()))
        }
    }
}

fn secrets_of(described: &manifest::Connection) -> impl Iterator<Item = &String> {
    described.params.iter().filter(|(_, param)| param.secret).map(|(name, _)| name)
}

fn unknown<'a>(name: &str, what: &str, known: impl Iterator<Item = &'a String>) -> Error {
    let known: BTreeSet<&str> = known.map(String::as_str).collect();
    let known =
        if known.is_empty() { "none".to_owned() } else { known.into_iter().collect::<Vec<_>>().join(", ") };
    Error::refused(Code::Invalid, format!("the connection has no {what} {}; it has {known}", shown(name)))
}

fn shown(text: &str) -> String {
    domain::visible::make_visible_up_to(text, 100)
}

/// The plugin and the name in `PLUGIN/NAME`.
///
/// # Errors
/// It is neither.
pub fn parse_key(text: &str, edge: Option<EdgeName>) -> Result<ConnectionKey, Error> {
    let wrong = || {
        let detail = format!("`{}` names no connection; write PLUGIN/NAME, such as team/crm", shown(text));
        Error::refused(Code::Invalid, detail)
    };
    let (plugin, name) = text.split_once('/').ok_or_else(wrong)?;
    let plugin = PluginName::parse(plugin).map_err(|_| wrong())?;
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    if !is_name {
        return Err(wrong());
    }
    Ok(ConnectionKey { plugin, name: name.to_owned(), edge })
}
