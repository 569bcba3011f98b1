//! The people's port: `/api/v1` over HTTP, for the CLI, scripts and the console.
//!
//! [`router`] is built from one table of routes, each with the action that its bearer must be allowed
//! ([`domain::role`]); a route without one cannot be written. Failures are RFC 9457 problems, all
//! rendered by [`problem`]. The shapes are in `docs/api.md`. Assembly and TLS are the server's.

mod access;
mod answer;
mod approvals;
mod assignments;
mod audit;
mod blocks;
mod candidates;
mod catalog;
mod changes;
mod connections;
mod edges;
mod expulsions;
mod facts;
mod fleet_policy;
mod health;
mod input;
mod join_tokens;
mod nodes;
mod orphans;
mod plugins;
mod policy;
mod problem;
mod rollouts;
mod status;
mod tokens;
mod versions;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use domain::id::NodeId;
use domain::plugin_set::{Part, Position};
use domain::role::Action;
use domain::time::Timestamp;
use tower_http::catch_panic::CatchPanicLayer;

use crate::connector::Connector;
use crate::store::{Blobs, NodeRecord, Store};

/// Bytes of a JSON body: an approval of 10,000 functions with two hashes each has four millions.
const BODY_MAX: usize = 8 * 1024 * 1024;

/// What a node's stream says of it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    /// Since when it is connected.
    pub since: Timestamp,
    /// The address it comes from.
    pub address: String,
    /// The node's clock less the server's, milliseconds.
    pub clock_offset_ms: i64,
}

/// What the streams of this server know, which is in no database.
pub trait FleetView: Send + Sync + 'static {
    /// A node's stream; `None`: it has none.
    fn presence(&self, node: &NodeId) -> Option<Presence>;

    /// How many nodes have a stream.
    fn connected(&self) -> u64;

    /// Whether a node has a stream at another server of the database.
    fn is_elsewhere(&self, _node: &NodeRecord) -> bool {
        false
    }

    /// This server among those of its database, and since when a stream at another counts; `None`: it is alone.
    fn others(&self) -> Option<(&str, Timestamp)> {
        None
    }

    /// Changes that only the full compare of each minute found.
    fn missed(&self) -> u64 {
        0
    }

    /// The newest position of a part that a connected node acknowledged or was confirmed to hold.
    fn acknowledged(&self, node: &NodeId, part: Part) -> Option<Position>;
}

/// Where a joining node finds the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Door {
    /// `host:port` of the node port, as nodes reach it.
    pub node_address: String,
    /// SHA-256 of the authority's `SubjectPublicKeyInfo`, hexadecimal.
    pub authority_sha256: String,
}

/// The server's clock.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// What handlers work with. Cheap to clone.
#[derive(Clone)]
pub struct AppState {
    /// The database.
    pub store: Store,
    /// The archives.
    pub blobs: Blobs,
    /// The streams.
    pub fleet: Arc<dyn FleetView>,
    /// What remote tools are reached with.
    pub connector: Connector,
    /// For join strings.
    pub door: Door,
    /// The time.
    pub clock: Clock,
}

impl fmt::Debug for AppState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppState").field("door", &self.door).finish_non_exhaustive()
    }
}

/// One row of the table of routes.
pub(crate) struct Route {
    /// For the tests that walk the table.
    #[cfg_attr(not(test), expect(dead_code, reason = "the handler carries it as well"))]
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) action: Action,
    handler: MethodRouter<AppState>,
}

/// The whole of the people's port.
pub fn router(state: AppState) -> Router {
    let mut api = Router::new();
    for route in routes() {
        let guarded = from_fn_with_state((state.clone(), route.action), access::guard);
        api = api.route(route.path, route.handler.layer(guarded));
    }
    Router::new()
        .nest("/api/v1", api)
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/oauth/callback", get(connections::callback))
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(CatchPanicLayer::new())
        .layer(from_fn(problem::render))
        .with_state(state)
}

/// Every endpoint, with what its bearer must be allowed.
pub(crate) fn routes() -> Vec<Route> {
    use Action::{
        AdmitNodes, Approve, Assign, Block, CreateEdge, ExpelNodes, ManageTokens, Push, SetConnection,
        SetFleetPolicy, SetPolicy, View,
    };
    let read = MethodFilter::GET;
    let (post, put, delete) = (MethodFilter::POST, MethodFilter::PUT, MethodFilter::DELETE);
    vec![
        route(read, "/status", View, status::show),
        route(post, "/plugins/versions", Push, versions::push),
        route(read, "/plugins", View, plugins::list),
        route(read, "/plugins/{plugin}", View, plugins::show),
        route(read, "/plugins/{plugin}/changes", View, changes::list),
        route(post, "/plugins/{plugin}/approve", Approve, approvals::approve),
        route(post, "/plugins/{plugin}/reject", Approve, approvals::reject),
        route(post, "/plugins/{plugin}/clear", Approve, approvals::clear),
        route(read, "/plugins/{plugin}/approval", View, approvals::newest),
        route(post, "/plugins/{plugin}/undo", Approve, approvals::undo),
        route(read, "/policy", View, fleet_policy::show),
        route(put, "/policy", SetFleetPolicy, fleet_policy::set),
        route(read, "/edges", View, edges::list),
        route(post, "/edges", CreateEdge, edges::create),
        route(read, "/edges/{edge}", View, edges::show),
        route(read, "/edges/{edge}/parts", View, edges::parts),
        route(put, "/edges/{edge}/policy", SetPolicy, policy::set),
        route(put, "/edges/{edge}/assignments/{plugin}", Assign, assignments::set),
        route(delete, "/edges/{edge}/assignments/{plugin}", Assign, assignments::unset),
        route(put, "/edges/{edge}/candidates/{plugin}", Assign, candidates::set),
        route(delete, "/edges/{edge}/candidates/{plugin}", Assign, candidates::unset),
        route(read, "/nodes", View, nodes::list),
        route(read, "/nodes/{node}", View, nodes::show),
        route(read, "/orphans", View, orphans::list),
        route(post, "/orphans/adopt", Approve, orphans::adopt),
        route(post, "/orphans/drop", Approve, orphans::drop),
        route(read, "/blocks", View, blocks::list),
        route(post, "/blocks", Block, blocks::set),
        route(post, "/blocks/lift", Approve, blocks::lift),
        route(delete, "/blocks/{id}", Approve, blocks::lift_one),
        route(delete, "/nodes/{node}", ExpelNodes, expulsions::remove),
        route(post, "/nodes/{node}/evict", ExpelNodes, expulsions::evict),
        route(post, "/nodes/{node}/ban", ExpelNodes, expulsions::ban),
        route(post, "/nodes/{node}/keep", ExpelNodes, expulsions::keep),
        route(read, "/connections", View, connections::list),
        route(put, "/connections/{plugin}/{name}", SetConnection, connections::set),
        route(delete, "/connections/{plugin}/{name}", SetConnection, connections::remove),
        route(post, "/connections/{plugin}/{name}/authorize", SetConnection, connections::authorize),
        route(post, "/connections/{plugin}/{name}/test", SetConnection, connections::test),
        route(read, "/rollouts", View, rollouts::list),
        route(post, "/rollouts", Assign, rollouts::start),
        route(read, "/rollouts/{id}", View, rollouts::show),
        route(post, "/rollouts/{id}/pause", Assign, rollouts::pause),
        route(post, "/rollouts/{id}/resume", Assign, rollouts::resume),
        route(post, "/rollouts/{id}/advance", Assign, rollouts::advance),
        route(post, "/rollouts/{id}/abort", Assign, rollouts::abort),
        route(post, "/rollouts/{id}/undo", Assign, rollouts::undo),
        route(read, "/join-tokens", AdmitNodes, join_tokens::list),
        route(post, "/join-tokens", AdmitNodes, join_tokens::create),
        route(delete, "/join-tokens/{id}", AdmitNodes, join_tokens::revoke),
        route(read, "/catalog", View, catalog::list),
        route(read, "/audit", View, audit::list),
        route(read, "/audit/verify", View, audit::verify),
        route(read, "/tokens", ManageTokens, tokens::list),
        route(post, "/tokens", ManageTokens, tokens::create),
        route(delete, "/tokens/{id}", ManageTokens, tokens::revoke),
        route(read, "/tokens/self", View, tokens::show_own),
    ]
}

fn route<H, T>(filter: MethodFilter, path: &'static str, action: Action, handler: H) -> Route
where
    H: Handler<T, AppState>,
    T: 'static,
{
    let method = match filter {
        MethodFilter::POST => Method::POST,
        MethodFilter::PUT => Method::PUT,
        MethodFilter::DELETE => Method::DELETE,
        _ => Method::GET,
    };
    Route { method, path, action, handler: on(filter, handler) }
}
