//! Who a request comes from, and what the token may do.
//!
//! Tokens are `pat_ID_SECRET`; the store holds the SHA-256 of the secret, compared in constant time.
//! The first start makes an admin token in a file that only the server's user reads. Which role may
//! do what is decided in `domain::role`; `api` asks there before each operation.

pub mod first_start;
pub(crate) mod secret;

use domain::role::{Action, Role, allows};
use domain::time::Timestamp;

use crate::store::{self, Store, tokens};

/// What a token may do beyond its roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Approve without a person at a terminal.
    ApproveUnattended,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::ApproveUnattended];

    /// Its word in the API and the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ApproveUnattended => "approve.unattended",
        }
    }

    /// Reads the word back.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// The bearer of a token that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The token's id.
    pub token: String,
    /// The token's name.
    pub name: String,
    /// Its roles.
    pub roles: Vec<Role>,
    /// Its scopes.
    pub scopes: Vec<Scope>,
}

impl Principal {
    /// Whether one of its roles may do it.
    pub fn may(&self, action: Action) -> bool {
        self.roles.iter().any(|role| allows(*role, action))
    }

    /// Whether it has the scope.
    pub fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// Finds the bearer of a token; `None` if there is no such token in force.
///
/// # Errors
/// What the store says.
pub async fn authenticate(
    store: &Store,
    now: Timestamp,
    token: &str,
) -> Result<Option<Principal>, store::Error> {
    let Some((id, secret)) = token.strip_prefix("pat_").and_then(|rest| rest.split_once('_')) else {
        return Ok(None);
    };
    let mut tx = store.read().await?;
    let Some(stored) = tokens::get(&mut tx, id).await? else { return Ok(None) };
    let is_over = stored.revoked_at.is_some() || stored.expires_at.is_some_and(|end| now >= end);
    if !secret::is(secret, &stored.secret_sha256) || is_over {
        return Ok(None);
    }
    Ok(Some(Principal {
        token: stored.id,
        name: stored.name,
        roles: stored.roles.split(',').filter_map(Role::parse).collect(),
        scopes: stored.scopes.split(',').filter_map(Scope::parse).collect(),
    }))
}

#[cfg(test)]
mod tests;
