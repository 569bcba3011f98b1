//! Makes and revokes API tokens.

use domain::audit::Event;
use domain::role::Role;
use domain::time::Timestamp;
use domain::visible::make_visible;

use super::{By, Code, Error};
use crate::auth::{Scope, secret};
use crate::store::Store;
use crate::store::tokens::{self, ApiToken};

/// Most characters of a token's name: it stands in every audit event of its bearer.
const NAME_MAX: usize = 64;

/// What a new token is to be.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// For people; stands in the audit log as `token/NAME`.
    pub name: String,
    /// At least one.
    pub roles: Vec<Role>,
    /// Beyond roles.
    pub scopes: Vec<Scope>,
    /// `None`: never.
    pub expires_at: Option<Timestamp>,
}

/// A token as it is shown this once.
#[derive(Debug, Clone)]
pub struct IssuedToken {
    /// Its id.
    pub id: String,
    /// `pat_ID_SECRET`.
    pub token: String,
}

/// Makes an API token.
///
/// # Errors
/// A name that is empty, long or not visible; no role.
pub async fn issue_token(store: &Store, by: &By, request: &TokenRequest) -> Result<IssuedToken, Error> {
    let name = make_visible(request.name.trim()).into_owned();
    if name.is_empty() || name.chars().count() > NAME_MAX {
        let detail =
            format!("the token's name has {} characters, expected 1 to {NAME_MAX}", name.chars().count());
        return Err(Error::refused(Code::Invalid, detail));
    }
    if request.roles.is_empty() {
        return Err(Error::refused(Code::Invalid, "the token has no role, so it could do nothing"));
    }
    let mut tx = store.begin_write().await?;
    let (id, secret) = (secret::new_id(), secret::new_secret());
    let roles: Vec<String> = request.roles.iter().map(ToString::to_string).collect();
    let scopes: Vec<String> = request.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    let token = ApiToken {
        id: id.clone(),
        name: name.clone(),
        secret_sha256: secret::digest(&secret),
        roles: roles.join(","),
        scopes: scopes.join(","),
        created_at: by.now,
        created_by: by.origin.actor.clone(),
        expires_at: request.expires_at,
        revoked_at: None,
    };
    tokens::insert(tx.tx(), &token).await?;
    tx.audit(&by.origin, Event::TokenCreate { token: id.clone(), token_name: name, roles, scopes });
    tx.commit(by.now).await?;
    Ok(IssuedToken { token: format!("pat_{id}_{secret}"), id })
}

/// Revokes an API token at once.
///
/// # Errors
/// No such token that is in force.
pub async fn revoke_token(store: &Store, by: &By, id: &str) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    let token = tokens::get(tx.tx(), id).await?;
    let Some(token) = token.filter(|token| token.revoked_at.is_none()) else {
        return Err(Error::refused(Code::NotFound, "there is no API token of that id that is in force"));
    };
    tokens::revoke(tx.tx(), id, by.now).await?;
    tx.audit(&by.origin, Event::TokenRevoke { token: token.id, token_name: token.name });
    tx.commit(by.now).await?;
    Ok(())
}
