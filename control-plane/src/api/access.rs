//! Before each endpoint: whose token it is, and whether a role of it may.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use domain::audit::{Event, Origin};
use domain::role::{Action, denial};

use super::AppState;
use super::problem::{Problem, RequestId};
use crate::auth::{Principal, authenticate};
use crate::operation::{By, Code, Error};

/// Who asks, for handlers.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// The bearer of the token.
    pub(super) principal: Principal,
    /// For operations and the audit log.
    pub(super) by: By,
}

/// Lets the request through to its handler with a [`Caller`], or answers 401 or 403.
pub(super) async fn guard(
    State((state, action)): State<(AppState, Action)>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request.extensions().get::<RequestId>().map_or_else(String::new, |id| id.0.clone());
    match admit(&state, action, bearer(&request), &id).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// The token of the request, if it brings one.
fn bearer(request: &Request) -> Option<String> {
    let header = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

async fn admit(state: &AppState, action: Action, token: Option<String>, id: &str) -> Result<Caller, Problem> {
    let now = state.clock.now();
    let principal = match &token {
        None => None,
        Some(token) => authenticate(&state.store, now, token).await?,
    };
    let Some(principal) = principal else {
        let detail = if token.is_some() {
            "this token is unknown, revoked or expired"
        } else {
            "this needs a token, as `Authorization: Bearer pat_…`"
        };
        let remedy = "the first admin token is in the file admin.token of the server's data folder";
        return Err(Problem::with_remedy(Code::Unauthenticated, detail, remedy));
    };
    let origin = Origin { actor: format!("token/{}", principal.name), source: format!("api {id}") };
    let caller = Caller { by: By { now, origin }, principal };
    if caller.principal.may(action) {
        return Ok(caller);
    }
    let missing = denial(&caller.principal.roles, action);
    deny(state, &caller, action.as_str(), &missing).await?;
    Err(Problem::of(Code::Denied, missing))
}

/// Writes a denial to the audit log.
pub(super) async fn deny(
    state: &AppState,
    caller: &Caller,
    action: &str,
    missing: &str,
) -> Result<(), Problem> {
    let mut tx = state.store.begin_write().await?;
    let event = Event::AccessDenied { action: action.to_owned(), missing: missing.to_owned() };
    tx.audit(&caller.by.origin, event);
    tx.commit(caller.by.now).await.map_err(Error::Store)?;
    Ok(())
}
