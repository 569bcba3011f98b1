//! Tokens of connections: asked for, refreshed, authorized by people, taken back.

use std::time::Duration;

use domain::audit::Origin;
use domain::origin::ToolUrl;
use domain::time::Timestamp;

use super::{Connector, Fault, set_anew, unauthorized};
use crate::oauth::{Asker, Client, Endpoints, Error as OAuthError, Granted};
use crate::operation::keep_token::{self, Held, Leave};
use crate::operation::remove_connection::no_connection;
use crate::operation::{By, Code, Error};
use crate::store::connections::{self, Asked, Connection, ConnectionKey, Grant, OAuth};
use crate::vault::Secret;

/// Before it ends, a token is asked for anew.
const MARGIN_MS: i64 = 30_000;

/// How long a person may take at an authorization server.
const ASK_MS: i64 = 10 * 60_000;

/// Another server that asks for the token is waited for, so often and so long.
const TURNS: u32 = 60;
const TURN: Duration = Duration::from_millis(250);

/// For all that is asked to have one token.
const WITHIN: Duration = Duration::from_secs(25);

/// Tokens of a connection that is no longer on record, or has others now.
#[derive(Debug)]
pub struct Spare {
    connection: Connection,
    held: Held,
}

impl Connector {
    /// The token in force for the tool at `place`, asked for if there is none or it was refused.
    pub(super) async fn token(
        &self,
        connection: &Connection,
        oauth: &OAuth,
        place: &ToolUrl,
        refused: &str,
    ) -> Result<Held, Fault> {
        let key = &connection.key;
        for _ in 0..TURNS {
            let held = keep_token::held(&self.store, &self.vault, key).await?;
            let now = (self.clock)();
            if let Some(at) = held.endpoints.as_ref().filter(|at| !at.is_for(&place.origin.to_string())) {
                let resource = domain::visible::make_visible_up_to(&at.resource, 200);
                return Err(Fault::Refused(format!(
                    "its token is for {resource}, and is shown to no other server; set another connection for {}",
                    place.origin
                )));
            }
            let is_good = held.expires_at.is_none_or(|until| until.millis_since(now) > MARGIN_MS);
            let was_refused = refused == format!("{}.{}", connection.version, held.number);
            if held.access.is_some() && is_good && !was_refused {
                return Ok(held);
            }
            let can_ask = oauth.grant == Grant::ClientCredentials || held.refresh.is_some();
            if !can_ask && held.access.is_none() {
                return Err(Fault::Refused(unauthorized(connection)));
            }
            let Some(leave) = keep_token::lease(&self.store, key, held.number, now).await? else {
                tokio::time::sleep(TURN).await;
                continue;
            };
            if !can_ask {
                let reason = "its token ended, and none was given to have another".to_owned();
                self.give_up(connection, (leave, &held), &reason).await?;
                return Err(Fault::Refused(unauthorized(connection)));
            }
            // To its end, whether or not who asked still waits: what was given is kept.
            let (this, connection, oauth, place) =
                (self.clone(), connection.clone(), oauth.clone(), place.clone());
            let next =
                tokio::spawn(
                    async move { this.next_token(&connection, &oauth, &place, (leave, &held)).await },
                );
            return next.await.unwrap_or_else(|_| Err(Fault::Passing("a task broke".to_owned())));
        }
        Err(Fault::Passing("another server asks for the token, and has not come to an end".to_owned()))
    }

    async fn next_token(
        &self,
        connection: &Connection,
        oauth: &OAuth,
        place: &ToolUrl,
        (leave, held): (Leave, &Held),
    ) -> Result<Held, Fault> {
        let key = &connection.key;
        let asked = tokio::time::timeout(WITHIN, self.ask(connection, oauth, place, held)).await;
        let asked = asked.unwrap_or_else(|_| {
            let within = WITHIN.as_secs();
            Err(OAuthError::Passing(format!("the authorization server gave no token within {within} s")))
        });
        match asked {
            Ok((endpoints, granted)) => {
                let (by, vault) = (self.by("token"), (&self.store, &*self.vault));
                let given = (&endpoints, &granted);
                if !keep_token::keep(vault, &by, connection, (leave, held), given).await? {
                    return Err(set_anew(key));
                }
                Ok(keep_token::held(&self.store, &self.vault, key).await?)
            }
            Err(OAuthError::Passing(reason)) => {
                // Whoever comes next may ask.
                keep_token::give_back(&self.store, key, leave, (self.clock)()).await?;
                Err(Fault::Passing(reason))
            }
            Err(OAuthError::Refused(reason)) => {
                self.give_up(connection, (leave, held), &reason).await?;
                Err(Fault::Refused(format!("{reason}; {}", unauthorized(connection))))
            }
        }
    }

    async fn ask(
        &self,
        connection: &Connection,
        oauth: &OAuth,
        place: &ToolUrl,
        held: &Held,
    ) -> Result<(Endpoints, Granted), OAuthError> {
        let endpoints = match &held.endpoints {
            Some(endpoints) => endpoints.clone(),
            None => self.discover(oauth, place).await?,
        };
        let secret = self.client_secret(connection, oauth).await;
        let secret = secret.map_err(|fault| OAuthError::Passing(fault.to_string()))?;
        let client = Client { id: &oauth.client_id, secret: secret.as_ref(), scopes: &oauth.scopes };
        let granted = match (&held.refresh, oauth.grant) {
            (Some(refresh), _) => self.asker.refresh(&endpoints, &client, refresh).await?,
            (None, _) => self.asker.client_credentials(&endpoints, &client).await?,
        };
        Ok((endpoints, granted))
    }

    /// Where tokens for a server are had. The first one that it names is the one for good.
    async fn discover(&self, oauth: &OAuth, place: &ToolUrl) -> Result<Endpoints, OAuthError> {
        let endpoints = self.asker.discover(&place.url, oauth.issuer.as_deref()).await?;
        match &oauth.found {
            Some(found) if oauth.issuer.is_none() && *found != endpoints.issuer => {
                let other = domain::visible::make_visible_up_to(&endpoints.issuer, 200);
                Err(OAuthError::Refused(format!(
                    "the server at {} names {other} as its authorization server, which was {found}; if that is right, set it \
                     with --issuer",
                    place.origin
                )))
            }
            _ => Ok(endpoints),
        }
    }

    async fn client_secret(&self, connection: &Connection, oauth: &OAuth) -> Result<Option<Secret>, Fault> {
        match &oauth.client_secret {
            Some(name) => self.secret(connection, name).await.map(Some),
            None => Ok(None),
        }
    }

    async fn give_up(
        &self,
        connection: &Connection,
        (leave, held): (Leave, &Held),
        reason: &str,
    ) -> Result<(), Fault> {
        keep_token::refuse(&self.store, &self.by("token"), connection, (leave, held, reason)).await?;
        Ok(())
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
        let place = self.place(&connection).await?;
        let endpoints = self.discover(&oauth, &place).await?;
        let client = Client { id: &oauth.client_id, secret: None, scopes: &oauth.scopes };
        let start = Asker::authorize(&endpoints, &client, redirect)?;
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

    /// A person is back with a code, sent by `issuer` if the authorization server says who it is (RFC 9207).
    ///
    /// # Errors
    /// [`Fault`]; nobody was sent away with that state, or too long ago.
    pub async fn come_back(
        &self,
        state: &str,
        code: &str,
        issuer: Option<&str>,
    ) -> Result<ConnectionKey, Fault> {
        let asked = keep_token::come_back(&self.store, (self.clock)(), state).await?;
        let stranger =
            || Fault::Refused("nobody was sent to an authorization server with this state".to_owned());
        let asked = asked.ok_or_else(stranger)?;
        let (connection, oauth) = self.find(&asked.key).await?;
        let endpoints: Endpoints = serde_json::from_str(&asked.endpoints).map_err(|_| stranger())?;
        if issuer.is_some_and(|issuer| issuer != endpoints.issuer) {
            return Err(Fault::Refused("another authorization server answered than was asked".to_owned()));
        }
        let verifier = self.vault.unseal(&asked.key.purpose("verifier"), &asked.verifier);
        let verifier = verifier.map_err(|_| stranger())?;
        let secret = self.client_secret(&connection, &oauth).await?;
        let client = Client { id: &oauth.client_id, secret: secret.as_ref(), scopes: &oauth.scopes };
        let granted = self.asker.exchange(&endpoints, &client, (code, &verifier, &asked.redirect)).await?;
        let by =
            By { now: (self.clock)(), origin: Origin { actor: asked.by, source: "callback".to_owned() } };
        let vault = (&self.store, &*self.vault);
        if !keep_token::keep_authorized(vault, &by, &connection, (&endpoints, &granted)).await? {
            return Err(set_anew(&asked.key));
        }
        Ok(asked.key)
    }

    /// A connection's tokens, to be taken back once they are no longer on record.
    ///
    /// # Errors
    /// What the store says.
    pub async fn spare(&self, key: &ConnectionKey) -> Result<Option<Spare>, Fault> {
        let mut tx = self.store.read().await?;
        let connection = connections::find(&mut tx, key).await?;
        drop(tx);
        let Some(connection) = connection.filter(|connection| connection.oauth.is_some()) else {
            return Ok(None);
        };
        let held = keep_token::held(&self.store, &self.vault, key).await?;
        Ok(held.endpoints.is_some().then_some(Spare { connection, held }))
    }

    /// Takes tokens back at their authorization server, as far as that can be done, unless they are still on record.
    pub async fn revoke(&self, spare: Spare) {
        let Spare { connection, held } = spare;
        let now = keep_token::held(&self.store, &self.vault, &connection.key).await;
        let is_kept = now.is_ok_and(|now| now.number == held.number && now.access == held.access);
        let (Some(endpoints), Some(oauth)) = (&held.endpoints, &connection.oauth) else { return };
        if is_kept {
            return;
        }
        let secret = self.client_secret(&connection, oauth).await.unwrap_or_default();
        let client = Client { id: &oauth.client_id, secret: secret.as_ref(), scopes: &oauth.scopes };
        self.asker.revoke(endpoints, &client, held.refresh.as_ref(), held.access.as_ref()).await;
    }

    /// How a connection's token stands: whether there is one, its problem, and when it ends.
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
}

impl From<OAuthError> for Fault {
    fn from(error: OAuthError) -> Self {
        match error {
            OAuthError::Refused(reason) => Self::Refused(reason),
            OAuthError::Passing(reason) => Self::Passing(reason),
        }
    }
}
