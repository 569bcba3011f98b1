//! What remote tools are reached with, put together for who may have it: values, secrets and tokens of a connection
//! become headers. Tokens are asked for here, by one server at a time.

use std::sync::Arc;
use std::time::Duration;

use domain::audit::Origin;
use domain::connection::fill_header;
use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, PluginVersion, ToolId};
use domain::origin::{PinState, ToolUrl};
use domain::standing::Standing;
use domain::time::Timestamp;

use crate::oauth::{Asker, Client, Endpoints, Error as OAuthError, Granted};
use crate::operation::keep_token::{self, Held};
use crate::operation::remove_connection::no_connection;
use crate::operation::set_connection::{manifest_with, missing, urls};
use crate::operation::{By, Code, Error};
use crate::store::connections::{self, Asked, Connection, ConnectionKey, Grant, OAuth, Source};
use crate::store::{Store, Transaction, assignments, nodes, pins, plugins};
use crate::vault::{Secret, Vault};

/// Before it ends, a token is asked for anew.
const MARGIN_MS: i64 = 30_000;

/// How long a person may take at an authorization server.
const ASK_MS: i64 = 10 * 60_000;

/// Another server that asks for the token is waited for, so often and so long.
const TURNS: u32 = 60;
const TURN: Duration = Duration::from_millis(250);

/// Bytes of a secret in a file.
const FILE_MAX: u64 = 64 * 1024;

/// Puts headers together.
#[derive(Debug, Clone)]
pub struct Connector {
    store: Store,
    vault: Arc<Vault>,
    asker: Asker,
    clock: fn() -> Timestamp,
}

/// What a tool is reached with. Its values are secrets.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Of the connection.
    pub version: u64,
    /// Names and values.
    pub headers: Vec<(String, Secret)>,
    /// When they end, if they do.
    pub until: Option<Timestamp>,
    /// Names them, without telling any of it.
    pub name: String,
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

impl Connector {
    /// With the fleet's key.
    pub const fn new(store: Store, vault: Arc<Vault>, asker: Asker, clock: fn() -> Timestamp) -> Self {
        Self { store, vault, asker, clock }
    }

    /// What seals.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// What a node reaches a tool with: only a tool of a version that its edge has, that has a connection, and whose
    /// origin waits for nobody. `refused` names what the tool's server did not take.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn of_node(
        &self,
        (node, key): (&NodeId, &Digest),
        (version, tool): (&PluginVersion, &ToolId),
        refused: &str,
    ) -> Result<Credentials, Fault> {
        let mut tx = self.store.read().await?;
        let refuse = |reason: String| Err(Fault::Refused(reason));
        let record = nodes::get(&mut tx, node).await?;
        let Some(record) = record.filter(|record| {
            record.standing.standing == Standing::Active && record.public_key_sha256 == *key
        }) else {
            return refuse("this node may not work".to_owned());
        };
        if !assignments::is_on(&mut tx, &record.edge, version, None).await? {
            return refuse(format!("edge {} does not have {version}", record.edge));
        }
        let tools = plugins::tools(&mut tx, version).await?;
        let found = tools.into_iter().find(|one| one.tool == *tool);
        let Some(name) = found.and_then(|one| one.connection) else {
            return refuse(format!("{tool} of {version} has no connection"));
        };
        let pins = pins::of_edge(&mut tx, &record.edge, &version.plugin).await?;
        let is_pinned = pins
            .iter()
            .any(|pin| pin.version == *version && pin.tool == *tool && pin.pin.state == PinState::Pinned);
        if !is_pinned {
            return refuse(format!(
                "the endpoint of {tool} waits for approval, and gets no secret before that"
            ));
        }
        let connection = connections::in_use(&mut tx, &version.plugin, &name, &record.edge).await?;
        let Some(connection) = connection else { return refuse(not_set(version, &name)) };
        drop(tx);
        self.credentials(&connection, refused).await
    }

    /// What a connection comes to.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn credentials(&self, connection: &Connection, refused: &str) -> Result<Credentials, Fault> {
        let mut headers = Vec::new();
        for (name, template) in &connection.headers {
            let mut values = std::collections::BTreeMap::new();
            for param in
                domain::connection::named(template).map_err(|fault| Fault::Refused(fault.to_string()))?
            {
                let value = match connection.params.get(&param) {
                    Some(value) => Secret::new(value.clone()),
                    None => self.secret(connection, &param).await?,
                };
                values.insert(param, value);
            }
            let value = |param: &str| values.get(param).map(Secret::reveal);
            let filled =
                fill_header(name, template, value).map_err(|fault| Fault::Refused(fault.to_string()))?;
            headers.push((filled.0, Secret::new(filled.1)));
        }
        let (mut until, mut number) = (None, 0);
        if let Some(oauth) = &connection.oauth {
            let token = self.token(connection, oauth, refused).await?;
            let access = token.access.ok_or_else(|| Fault::Refused(unauthorized(connection)))?;
            let (name, value) =
                fill_header("authorization", &format!("Bearer {}", access.reveal()), |_| None)
                    .map_err(|fault| Fault::Refused(fault.to_string()))?;
            headers.push((name, Secret::new(value)));
            (until, number) = (token.expires_at, token.number);
        }
        let name = format!("{}.{number}", connection.version);
        Ok(Credentials { version: connection.version, headers, until, name })
    }

    /// A secret, from where it is.
    async fn secret(&self, connection: &Connection, name: &str) -> Result<Secret, Fault> {
        let key = &connection.key;
        let lacks =
            |why: String| Fault::Refused(format!("the secret {name} of {}/{} {why}", key.plugin, key.name));
        match connection.secrets.get(name) {
            None => Err(lacks("was not set".to_owned())),
            Some(Source::Sealed(sealed)) => self
                .vault
                .unseal(&key.purpose(&format!("secret/{name}")), sealed)
                .map_err(|_| lacks("cannot be opened with this server's key".to_owned())),
            Some(Source::Env(variable)) => std::env::var(variable)
                .map(Secret::new)
                .map_err(|_| lacks(format!("is not in the variable {variable} of the server"))),
            Some(Source::File(path)) => {
                let path = path.clone();
                let shown = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
                match read {
                    Ok(Ok(text)) => Ok(Secret::new(text)),
                    Ok(Err(fault)) => {
                        Err(lacks(format!("is not in the file {shown} of the server ({})", fault.kind())))
                    }
                    Err(_) => Err(Fault::Passing("a task broke".to_owned())),
                }
            }
        }
    }

    /// The token in force, asked for if there is none or it was refused.
    async fn token(&self, connection: &Connection, oauth: &OAuth, refused: &str) -> Result<Held, Fault> {
        let key = &connection.key;
        for _ in 0..TURNS {
            let held = keep_token::held(&self.store, &self.vault, key).await?;
            let now = (self.clock)();
            let is_good = held.expires_at.is_none_or(|until| until.millis_since(now) > MARGIN_MS);
            let was_refused = refused == format!("{}.{}", connection.version, held.number);
            if held.access.is_some() && is_good && !was_refused {
                return Ok(held);
            }
            let can_ask = oauth.grant == Grant::ClientCredentials || held.refresh.is_some();
            if !can_ask {
                if held.access.is_some() && held.problem.is_empty() {
                    let reason = "its token ended, and none was given to have another".to_owned();
                    self.give_up(connection, &held, reason).await?;
                }
                return Err(Fault::Refused(unauthorized(connection)));
            }
            if keep_token::lease(&self.store, key, held.number, now).await? {
                return self.next_token(connection, oauth, &held).await;
            }
            tokio::time::sleep(TURN).await;
        }
        Err(Fault::Passing("another server asks for the token, and has not come to an end".to_owned()))
    }

    async fn next_token(&self, connection: &Connection, oauth: &OAuth, held: &Held) -> Result<Held, Fault> {
        let key = &connection.key;
        match self.ask(connection, oauth, held).await {
            Ok((endpoints, granted)) => {
                let by = self.by("token");
                keep_token::keep((&self.store, &self.vault), &by, key, (held, &endpoints, &granted)).await?;
                Ok(keep_token::held(&self.store, &self.vault, key).await?)
            }
            Err(OAuthError::Passing(reason)) => {
                // Whoever comes next may ask.
                let back = Held { problem: held.problem.clone(), ..held.clone() };
                keep_token::give_back((&self.store, &self.vault), key, &back, (self.clock)()).await?;
                Err(Fault::Passing(reason))
            }
            Err(OAuthError::Refused(reason)) => {
                self.give_up(connection, held, reason.clone()).await?;
                Err(Fault::Refused(format!("{reason}; {}", unauthorized(connection))))
            }
        }
    }

    async fn ask(
        &self,
        connection: &Connection,
        oauth: &OAuth,
        held: &Held,
    ) -> Result<(Endpoints, Granted), OAuthError> {
        let passing = |fault: Fault| OAuthError::Passing(fault.to_string());
        let secret = self.client_secret(connection, oauth).await.map_err(passing)?;
        let client = Client { id: &oauth.client_id, secret: secret.as_ref(), scopes: &oauth.scopes };
        let endpoints = match &held.endpoints {
            Some(endpoints) => endpoints.clone(),
            None => {
                let resource = self.resource(connection).await.map_err(passing)?;
                self.asker.discover(&resource.url, oauth.issuer.as_deref()).await?
            }
        };
        let granted = match (&held.refresh, oauth.grant) {
            (Some(refresh), _) => self.asker.refresh(&endpoints, &client, refresh).await?,
            (None, _) => self.asker.client_credentials(&endpoints, &client).await?,
        };
        Ok((endpoints, granted))
    }

    async fn client_secret(&self, connection: &Connection, oauth: &OAuth) -> Result<Option<Secret>, Fault> {
        match &oauth.client_secret {
            Some(name) => self.secret(connection, name).await.map(Some),
            None => Ok(None),
        }
    }

    async fn give_up(&self, connection: &Connection, held: &Held, reason: String) -> Result<(), Fault> {
        keep_token::refuse(&self.store, &self.by("token"), connection, (held, &reason)).await?;
        Ok(())
    }

    /// The URL of the first tool that is reached with the connection.
    ///
    /// # Errors
    /// It cannot be put together yet.
    pub async fn resource(&self, connection: &Connection) -> Result<ToolUrl, Fault> {
        let mut tx = self.store.read().await?;
        let manifest = manifest_with(&mut tx, &connection.key).await?;
        let first = urls(&manifest, &connection.key, connection).into_iter().next();
        match first {
            Some((_, Ok(url))) => Ok(url),
            Some((tool, Err(fault))) => Err(Fault::Refused(format!("the URL of {tool}: {fault}"))),
            None => Err(Fault::Refused("no tool is reached with it".to_owned())),
        }
    }

    /// Where a person gives leave for a connection; they come back to `redirect`.
    ///
    /// # Errors
    /// [`Fault`]; it is no connection that a person authorizes.
    pub async fn authorize(&self, by: &By, key: &ConnectionKey, redirect: &str) -> Result<String, Fault> {
        let (connection, oauth) = self.find(key).await?;
        if oauth.grant != Grant::Code {
            let detail =
                "it has a token by its client's own credentials; nobody has to authorize it".to_owned();
            return Err(Error::refused(Code::Invalid, detail).into());
        }
        let resource = self.resource(&connection).await?;
        let asked = self.asker.discover(&resource.url, oauth.issuer.as_deref()).await;
        let endpoints = asked.map_err(|error| Fault::Refused(error.to_string()))?;
        let client = Client { id: &oauth.client_id, secret: None, scopes: &oauth.scopes };
        let start = Asker::authorize(&endpoints, &client, redirect);
        let start = start.map_err(|error| Fault::Refused(error.to_string()))?;
        let asked = Asked {
            key: key.clone(),
            verifier: self.vault.seal(&key.purpose("verifier"), start.verifier.reveal()),
            redirect: redirect.to_owned(),
            endpoints: serde_json::to_string(&endpoints).unwrap_or_default(),
            by: by.origin.actor.clone(),
            expires_at: by.now.plus_millis(ASK_MS),
        };
        keep_token::ask(&self.store, by.now, &start.state, &asked).await?;
        Ok(start.url)
    }

    /// A person is back with a code.
    ///
    /// # Errors
    /// [`Fault`]; nobody was sent away with that state, or too long ago.
    pub async fn come_back(&self, state: &str, code: &str) -> Result<ConnectionKey, Fault> {
        let asked = keep_token::come_back(&self.store, (self.clock)(), state).await?;
        let stranger =
            || Fault::Refused("nobody was sent to an authorization server with this state".to_owned());
        let asked = asked.ok_or_else(stranger)?;
        let (connection, oauth) = self.find(&asked.key).await?;
        let endpoints: Endpoints = serde_json::from_str(&asked.endpoints).map_err(|_| stranger())?;
        let verifier = self.vault.unseal(&asked.key.purpose("verifier"), &asked.verifier);
        let verifier = verifier.map_err(|_| stranger())?;
        let secret = self.client_secret(&connection, &oauth).await?;
        let client = Client { id: &oauth.client_id, secret: secret.as_ref(), scopes: &oauth.scopes };
        let granted = self.asker.exchange(&endpoints, &client, (code, &verifier, &asked.redirect)).await;
        let granted = granted.map_err(|error| match error {
            OAuthError::Refused(reason) => Fault::Refused(reason),
            OAuthError::Passing(reason) => Fault::Passing(reason),
        })?;
        let held = keep_token::held(&self.store, &self.vault, &asked.key).await?;
        let first =
            Held { number: held.number, problem: "authorized anew".to_owned(), refresh: None, ..held };
        let by =
            By { now: (self.clock)(), origin: Origin { actor: asked.by, source: "callback".to_owned() } };
        let vault = (&self.store, &*self.vault);
        keep_token::keep(vault, &by, &asked.key, (&first, &endpoints, &granted)).await?;
        Ok(asked.key)
    }

    /// Takes a connection's tokens back at their authorization server, as far as that can be done.
    pub async fn revoke(&self, key: &ConnectionKey) -> Result<(), Fault> {
        let mut tx = self.store.read().await?;
        let Some(connection) = connections::find(&mut tx, key).await? else { return Ok(()) };
        drop(tx);
        let Some(oauth) = &connection.oauth else { return Ok(()) };
        let held = keep_token::held(&self.store, &self.vault, key).await?;
        if let (Some(endpoints), Some(access)) = (&held.endpoints, &held.access) {
            let secret = self.client_secret(&connection, oauth).await.unwrap_or_default();
            let client = Client { id: &oauth.client_id, secret: secret.as_ref(), scopes: &oauth.scopes };
            self.asker.revoke(endpoints, &client, held.refresh.as_ref(), access).await;
        }
        Ok(())
    }

    /// How a connection's token stands: its problem, and when it ends.
    ///
    /// # Errors
    /// What the store says.
    pub async fn token_state(&self, key: &ConnectionKey) -> Result<(bool, String, Option<Timestamp>), Fault> {
        let held = keep_token::held(&self.store, &self.vault, key).await?;
        Ok((held.access.is_some(), held.problem, held.expires_at))
    }

    async fn find(&self, key: &ConnectionKey) -> Result<(Connection, OAuth), Fault> {
        let mut tx = self.store.read().await?;
        let connection = connections::find(&mut tx, key).await?.ok_or_else(|| no_connection(key))?;
        let Some(oauth) = connection.oauth.clone() else {
            let detail = "it has no token: it was set without --oauth".to_owned();
            return Err(Error::refused(Code::Invalid, detail).into());
        };
        Ok((connection, oauth))
    }

    fn by(&self, source: &str) -> By {
        By { now: (self.clock)(), origin: Origin::system(source) }
    }
}

/// Why the connection that an edge uses for a tool is of no use, if so; for its plan.
pub(crate) async fn problem(
    tx: &mut Transaction,
    (version, name): (&PluginVersion, &str),
    edge: &EdgeName,
) -> Result<(Option<Connection>, Option<String>), Error> {
    let Some(connection) = connections::in_use(tx, &version.plugin, name, edge).await? else {
        return Ok((None, Some(not_set(version, name))));
    };
    let described = match plugins::get(tx, version).await? {
        Some(stored) => plugin::manifest::Manifest::read_accepted(&stored.manifest)
            .ok()
            .and_then(|manifest| manifest.connections.get(name).cloned())
            .unwrap_or_default(),
        None => plugin::manifest::Connection::default(),
    };
    let lacking = missing(&described, &connection)?;
    let key = &connection.key;
    let set = format!("pintle connection set {}/{name}{}", key.plugin, edge_flag(key));
    if let Some(first) = lacking.first() {
        let flag = if described.params.get(first).is_some_and(|param| !param.secret) {
            "--param"
        } else {
            "--secret"
        };
        let value = if flag == "--param" { "=VALUE" } else { "" };
        let lacks = lacking.join(", ");
        return Ok((
            Some(connection.clone()),
            Some(format!("its connection {name} lacks {lacks}; set it with: {set} {flag} {first}{value}")),
        ));
    }
    if let Some(oauth) = &connection.oauth {
        let token = connections::token(tx, key).await?;
        let was_refused = token.as_ref().is_some_and(|token| !token.problem.is_empty());
        let never = oauth.grant == Grant::Code && token.as_ref().is_none_or(|token| token.access.is_none());
        if was_refused || never {
            return Ok((Some(connection.clone()), Some(unauthorized(&connection))));
        }
    }
    Ok((Some(connection), None))
}

fn edge_flag(key: &ConnectionKey) -> String {
    key.edge.as_ref().map(|edge| format!(" --edge {edge}")).unwrap_or_default()
}

fn not_set(version: &PluginVersion, name: &str) -> String {
    format!("its connection {name} was not set; set it with: pintle connection set {}/{name}", version.plugin)
}

fn unauthorized(connection: &Connection) -> String {
    let key = &connection.key;
    let named = format!("{}/{}{}", key.plugin, key.name, edge_flag(key));
    match connection.oauth.as_ref().map(|oauth| oauth.grant) {
        Some(Grant::Code) => {
            format!(
                "a person has to authorize its connection {}: pintle connection authorize {named}",
                key.name
            )
        }
        _ => format!(
            "the authorization server takes the client of its connection {} no longer; set it anew with: pintle connection set {named}",
            key.name
        ),
    }
}

fn read_file(path: &str) -> std::io::Result<String> {
    use std::io::Read as _;
    let mut text = String::new();
    std::fs::File::open(path)?.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
