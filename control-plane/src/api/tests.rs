mod access;
mod connections;
mod story;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{Method, Request, StatusCode};
use domain::id::NodeId;
use domain::plugin_set::{Part, Position};
use domain::role::Role;
use domain::time::Timestamp;
use serde_json::Value;
use tower::ServiceExt as _;

use super::*;
use crate::auth::Scope;
use crate::operation::issue_token::{TokenRequest, issue_token};
use crate::operation::testing::Fleet;
use crate::store::testing::Bench;

/// Streams as a test says they are.
#[derive(Default)]
struct Streams(Mutex<BTreeMap<NodeId, Position>>);

impl FleetView for Streams {
    fn presence(&self, node: &NodeId) -> Option<Presence> {
        let since = Timestamp::from_millis(0);
        let presence = Presence { since, address: "127.0.0.1:1".to_owned(), clock_offset_ms: 0 };
        self.0.lock().unwrap().contains_key(node).then_some(presence)
    }

    fn connected(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn acknowledged(&self, node: &NodeId, _part: Part) -> Option<Position> {
        self.0.lock().unwrap().get(node).copied()
    }
}

/// The people's port of a fleet, without a socket.
struct Port {
    fleet: Fleet,
    streams: Arc<Streams>,
    router: Router,
}

impl Port {
    async fn new(bench: Bench) -> Self {
        let fleet = Fleet::new(bench).await;
        let streams = Arc::new(Streams::default());
        let state = AppState {
            store: fleet.store.clone(),
            blobs: fleet.blobs.clone(),
            fleet: Arc::clone(&streams) as Arc<dyn FleetView>,
            connector: Connector::new(
                fleet.store.clone(),
                Arc::new(crate::vault::Vault::passing().unwrap()),
                crate::oauth::Asker::new().unwrap(),
                None,
                || Timestamp::from_millis(1_796_000_000_000),
            ),
            door: Door { node_address: "127.0.0.1:7401".to_owned(), authority_sha256: "ab".repeat(32) },
            clock: Clock::new(|| Timestamp::from_millis(1_796_000_000_000)),
        };
        Self { router: router(state), streams, fleet }
    }

    async fn token(&self, role: Role, scopes: &[Scope]) -> String {
        let name = role.as_str().to_owned();
        let request = TokenRequest { name, roles: vec![role], scopes: scopes.to_vec(), expires_at: None };
        issue_token(&self.fleet.store, &self.fleet.by(), &request).await.unwrap().token
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, Value) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        assert!(response.headers().contains_key("x-request-id"));
        let kind = response.headers().get(CONTENT_TYPE).unwrap().to_str().unwrap().to_owned();
        let expected = if status.is_success() { "application/json" } else { "application/problem+json" };
        assert_eq!(kind, expected);
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    async fn call(&self, token: &str, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        self.send(request(token, method, path, body)).await
    }

    async fn get(&self, token: &str, path: &str) -> Value {
        let (status, body) = self.call(token, Method::GET, path, Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        body
    }
}

fn request(token: &str, method: Method, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    let request =
        if token.is_empty() { request } else { request.header(AUTHORIZATION, format!("Bearer {token}")) };
    request.body(body).unwrap()
}

/// A path of the table with its parameters filled in.
fn filled(path: &str) -> String {
    let mut filled = path.to_owned();
    for (name, value) in [("plugin", "team"), ("edge", "eu-1"), ("node", "node-1"), ("id", "x")] {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    format!("/api/v1{filled}")
}
