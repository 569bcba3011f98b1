//! What remote tools are reached with, put together for who may have it: values, secrets and tokens of a connection
//! become headers. Tokens are asked for here, by one server at a time.
//!
//! Nothing is given for a place that the plan of the asker's edge does not reach with the connection, for an endpoint
//! that waits for a person, or for another version of the connection than the asker goes by.

mod problem;
mod token;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::audit::Origin;
use domain::connection::{fill_header, fill_url};
use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, PluginVersion, ToolId};
use domain::origin::{PinState, ToolUrl};
use domain::standing::Standing;
use domain::time::Timestamp;

pub(crate) use problem::problem;
use problem::{not_set, unauthorized};
pub use token::Spare;

use crate::oauth::Asker;
use crate::operation::set_connection::{ENV_PREFIX, having};
use crate::operation::{By, Error};
use crate::store::connections::{self, Connection, ConnectionKey, Source};
use crate::store::{Store, Transaction, assignments, candidates, nodes, pins, plugins};
use crate::vault::{Secret, Vault};

/// Bytes of a secret in a file.
const FILE_MAX: u64 = 64 * 1024;

/// Puts headers together.
#[derive(Debug, Clone)]
pub struct Connector {
    store: Store,
    vault: Arc<Vault>,
    asker: Asker,
    /// The folder that secrets may be in, if there is one.
    files: Option<PathBuf>,
    clock: fn() -> Timestamp,
}

/// What a tool is reached with. Its values are secrets.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Names and values.
    pub headers: Vec<(String, Secret)>,
    /// When they end, if they do.
    pub until: Option<Timestamp>,
    /// Names them, without telling any of it.
    pub name: String,
}

/// What a node asks for.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The version that it runs.
    pub version: &'a PluginVersion,
    /// The tool of it.
    pub tool: &'a ToolId,
    /// Of the connection, as its plan has it.
    pub connection_version: u64,
    /// Where it goes with it.
    pub origin: &'a str,
    /// Names what the server there did not take; empty if it was shown nothing.
    pub refused: &'a str,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The asker may not have them, or there are none for it.
    #[error("{0}")]
    Refused(String),
    /// They may be there the next time.
    #[error("{0}")]
    Passing(String),
    /// The database.
    #[error(transparent)]
    Operation(#[from] Error),
}

impl From<crate::store::Error> for Fault {
    fn from(error: crate::store::Error) -> Self {
        Self::Operation(error.into())
    }
}

fn set_anew(key: &ConnectionKey) -> Fault {
    Fault::Passing(format!("the connection {} was set anew in between", key.shown()))
}

impl Connector {
    /// With the fleet's key. `files` is the folder that secrets may be in.
    pub const fn new(
        store: Store,
        vault: Arc<Vault>,
        asker: Asker,
        files: Option<PathBuf>,
        clock: fn() -> Timestamp,
    ) -> Self {
        Self { store, vault, asker, files, clock }
    }

    /// What seals.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The folder that secrets may be in, if there is one.
    pub fn files(&self) -> Option<&Path> {
        self.files.as_deref()
    }

    /// What a node reaches a tool with.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn of_node(
        &self,
        (node, key): (&NodeId, &Digest),
        wanted: &Wanted<'_>,
    ) -> Result<Credentials, Fault> {
        let Wanted { version, tool, origin, .. } = wanted;
        let mut tx = self.store.read().await?;
        let refuse = |reason: String| Err(Fault::Refused(reason));
        let record = nodes::get(&mut tx, node).await?;
        let Some(record) = record.filter(|record| {
            record.standing.standing == Standing::Active && record.public_key_sha256 == *key
        }) else {
            return refuse("this node may not work".to_owned());
        };
        let tools = plugins::tools(&mut tx, version).await?;
        let found = tools.into_iter().find(|one| one.tool == **tool);
        let Some(name) = found.and_then(|one| one.connection) else {
            return refuse(format!("{tool} of {version} has no connection"));
        };
        let edge = &record.edge;
        let connection = connections::in_use(&mut tx, &version.plugin, &name, edge).await?;
        let Some(connection) = connection else { return refuse(not_set(version, &name)) };
        if connection.version != wanted.connection_version {
            return Err(set_anew(&connection.key));
        }
        // An outgoing version, which the plan no longer names, goes where its successor goes, or nowhere.
        let places = reached_on(&mut tx, edge, &connection).await?;
        let Some(place) = places.into_iter().find(|place| place.origin.to_string() == *origin) else {
            let origin = domain::visible::make_visible_up_to(origin, 200);
            return refuse(format!(
                "edge {edge} does not reach {origin} with the connection {name}, or its endpoint waits for approval"
            ));
        };
        drop(tx);
        self.credentials(&connection, &place, wanted.refused).await
    }

    /// What a connection comes to for the tool at `place`.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn credentials(
        &self,
        connection: &Connection,
        place: &ToolUrl,
        refused: &str,
    ) -> Result<Credentials, Fault> {
        let mut headers = Vec::new();
        for (name, template) in &connection.headers {
            headers.push(self.header(connection, name, template).await?);
        }
        let (mut until, mut number) = (None, 0);
        if let Some(oauth) = &connection.oauth {
            let token = self.token(connection, oauth, place, refused).await?;
            let access = token.access.ok_or_else(|| Fault::Refused(unauthorized(connection)))?;
            let value = format!("Bearer {}", access.reveal());
            let (name, value) = fill_header("authorization", &value, |_| None)
                .map_err(|fault| Fault::Refused(fault.to_string()))?;
            headers.push((name, Secret::new(value)));
            (until, number) = (token.expires_at, token.number);
        }
        // The token may be that of a connection that was set while it was read.
        let mut tx = self.store.read().await?;
        let now = connections::find(&mut tx, &connection.key).await?;
        if now.is_none_or(|now| now.version != connection.version) {
            return Err(set_anew(&connection.key));
        }
        let name = format!("{}.{number}", connection.version);
        Ok(Credentials { headers, until, name })
    }

    async fn header(
        &self,
        connection: &Connection,
        name: &str,
        template: &str,
    ) -> Result<(String, Secret), Fault> {
        let refused = |fault: domain::connection::Fault| Fault::Refused(fault.to_string());
        let mut values = BTreeMap::new();
        for param in domain::connection::named(template).map_err(refused)? {
            let value = match connection.params.get(&param) {
                Some(value) => Secret::new(value.clone()),
                None => self.secret(connection, &param).await?,
            };
            values.insert(param, value);
        }
        let value = |param: &str| values.get(param).map(Secret::reveal);
        let (name, value) = fill_header(name, template, value).map_err(refused)?;
        Ok((name, Secret::new(value)))
    }

    /// A secret, from where it is.
    async fn secret(&self, connection: &Connection, name: &str) -> Result<Secret, Fault> {
        let key = &connection.key;
        let lacks = |why: String| Fault::Refused(format!("the secret {name} of {} {why}", key.shown()));
        match connection.secrets.get(name) {
            None => Err(lacks("was not set".to_owned())),
            Some(Source::Sealed(sealed)) => self
                .vault
                .unseal(&key.purpose(&format!("secret/{name}")), sealed)
                .map_err(|_| lacks("cannot be opened with this server's key".to_owned())),
            Some(Source::Env(variable)) if !variable.starts_with(ENV_PREFIX) => {
                Err(lacks(format!("is in a variable whose name does not begin with {ENV_PREFIX}")))
            }
            Some(Source::Env(variable)) => std::env::var(variable)
                .map(Secret::new)
                .map_err(|_| lacks(format!("is not in the variable {variable} of the server"))),
            Some(Source::File(path)) => {
                let Some(files) = self.files.clone() else {
                    return Err(lacks("is in a file, and this server has no folder for secrets".to_owned()));
                };
                let (path, shown) = (PathBuf::from(path), path.clone());
                let read = tokio::task::spawn_blocking(move || read_file(&files, &path)).await;
                match read {
                    Ok(Ok(secret)) => Ok(secret),
                    Ok(Err(fault)) => {
                        Err(lacks(format!("is not in the file {shown} of the server ({})", fault.kind())))
                    }
                    Err(_) => Err(Fault::Passing("a task broke".to_owned())),
                }
            }
        }
    }

    /// A place that some edge's plan reaches with the connection.
    ///
    /// # Errors
    /// None does, or all of them wait for approval.
    pub async fn place(&self, connection: &Connection) -> Result<ToolUrl, Fault> {
        let key = &connection.key;
        let mut tx = self.store.read().await?;
        for edge in having(&mut tx, key).await? {
            let in_use = connections::in_use(&mut tx, &key.plugin, &key.name, &edge).await?;
            if in_use.is_none_or(|in_use| in_use.key != *key) {
                continue;
            }
            if let Some(place) = reached_on(&mut tx, &edge, connection).await?.into_iter().next() {
                return Ok(place);
            }
        }
        Err(Fault::Refused(format!(
            "no edge reaches a tool with {} yet: assign a version first, and approve its endpoint if that waits",
            key.shown()
        )))
    }

    fn by(&self, source: &str) -> By {
        By { now: (self.clock)(), origin: Origin::system(source) }
    }
}

/// Where an edge's plan goes with a connection, without what waits for a person.
async fn reached_on(
    tx: &mut Transaction,
    edge: &EdgeName,
    connection: &Connection,
) -> Result<Vec<ToolUrl>, Fault> {
    let key = &connection.key;
    let assigned = assignments::of_edge(tx, edge).await?.into_iter().map(|one| one.version);
    let tried = candidates::of_edge(tx, edge).await?.into_iter().map(|one| one.version);
    let versions: Vec<PluginVersion> =
        assigned.chain(tried).filter(|version| version.plugin == key.plugin).collect();
    let pins = pins::of_edge(tx, edge, &key.plugin).await?;
    let value = |name: &str| connection.params.get(name).map(String::as_str);
    let mut places = Vec::new();
    for version in &versions {
        for tool in plugins::tools(tx, version).await? {
            let is_pinned = pins.iter().any(|pin| {
                pin.version == *version && pin.tool == tool.tool && pin.pin.state == PinState::Pinned
            });
            if !is_pinned || tool.connection.as_ref() != Some(&key.name) {
                continue;
            }
            // Whether plain http may be used was judged when the version was pushed.
            places.extend(tool.url.as_deref().and_then(|url| fill_url(url, true, value).ok()));
        }
    }
    Ok(places)
}

/// A file below the folder, wherever links lead to.
fn read_file(folder: &Path, path: &Path) -> std::io::Result<Secret> {
    use std::io::Read as _;
    let real = path.canonicalize()?;
    if !real.starts_with(folder.canonicalize()?) {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    let mut text = String::new();
    std::fs::File::open(real)?.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(Secret::new(text.trim_end_matches(['\r', '\n']).to_owned()))
}
