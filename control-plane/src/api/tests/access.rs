use axum::http::header::CONTENT_LENGTH;
use domain::role::{Role, allows};
use serde_json::json;

use super::*;
use crate::operation::push_version::UPLOAD_MAX;
use crate::store::testing::on_both;

#[test]
fn every_endpoint_is_closed_to_nobody() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let events = port.fleet.logged().await;
        for route in routes() {
            for token in ["", "pat_x_y", "garbage"] {
                let (status, problem) =
                    port.call(token, route.method.clone(), &filled(route.path), json!({})).await;
                assert_eq!(status, StatusCode::UNAUTHORIZED, "{} {}", route.method, route.path);
                assert_eq!(problem["code"], "unauthenticated");
            }
        }
        assert_eq!(port.fleet.logged().await, events);
        for path in ["/healthz", "/readyz"] {
            assert_eq!(port.get("", path).await, json!({ "ok": true }));
        }
    });
}

#[test]
fn every_endpoint_is_open_to_exactly_the_roles_that_may() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        for role in Role::ALL {
            let token = port.token(role, &[]).await;
            for route in routes() {
                let events = port.fleet.logged().await;
                let (status, body) =
                    port.call(&token, route.method.clone(), &filled(route.path), json!({})).await;
                let is_denied = status == StatusCode::FORBIDDEN;
                assert_eq!(is_denied, !allows(role, route.action), "{role} {} {}", route.method, route.path);
                assert!(status != StatusCode::UNAUTHORIZED && !status.is_server_error(), "{body}");
                if is_denied {
                    assert!(body["detail"].as_str().unwrap().contains("it takes the role"), "{body}");
                    assert_eq!(port.fleet.events(events).await, ["access.denied"]);
                }
            }
        }
    });
}

/// Requests that are answered with a problem: method, path, body, status, code.
const BAD: &[(Method, &str, &str, StatusCode, &str)] = &[
    (Method::GET, "/nowhere", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::GET, "/api/v1/nowhere", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::PATCH, "/api/v1/edges", "{}", StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
    (Method::POST, "/api/v1/edges", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::POST, "/api/v1/edges", "{", StatusCode::BAD_REQUEST, "invalid"),
    (Method::POST, "/api/v1/edges", "{}", StatusCode::BAD_REQUEST, "invalid"),
    (Method::POST, "/api/v1/edges", r#"{"name":"Eu"}"#, StatusCode::BAD_REQUEST, "invalid"),
    (Method::POST, "/api/v1/edges", r#"{"name":"a","x":1}"#, StatusCode::BAD_REQUEST, "invalid"),
    (Method::GET, "/api/v1/edges?limit=0", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::GET, "/api/v1/edges?limit=1001", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::GET, "/api/v1/edges/none", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::GET, "/api/v1/plugins/none", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::GET, "/api/v1/plugins/%00/changes", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::GET, "/api/v1/nodes/%00", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::GET, "/api/v1/nodes?edge=%00", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::GET, "/api/v1/edges?cursor=%00", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::GET, "/api/v1/audit?name=%00", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::DELETE, "/api/v1/tokens/%00", "", StatusCode::BAD_REQUEST, "invalid"),
    (Method::GET, "/api/v1/nodes/none", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::DELETE, "/api/v1/nodes/none", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::POST, "/api/v1/nodes/none/evict", "{}", StatusCode::NOT_FOUND, "not_found"),
    (Method::POST, "/api/v1/nodes/none/ban", r#"{"why":"x"}"#, StatusCode::BAD_REQUEST, "invalid"),
    (Method::POST, "/api/v1/nodes/none/keep", "{}", StatusCode::BAD_REQUEST, "invalid"),
    (
        Method::POST,
        "/api/v1/join-tokens",
        r#"{"edge":"eu-1","labels":{"a b":"c"}}"#,
        StatusCode::BAD_REQUEST,
        "invalid",
    ),
    (Method::DELETE, "/api/v1/join-tokens/none", "", StatusCode::NOT_FOUND, "not_found"),
    (Method::PUT, "/api/v1/edges/eu-1/policy", r#"{"strictly":true}"#, StatusCode::BAD_REQUEST, "invalid"),
    (
        Method::PUT,
        "/api/v1/edges/eu-1/policy",
        r#"{"forbidden_kinds":["perl"]}"#,
        StatusCode::BAD_REQUEST,
        "invalid",
    ),
    (Method::PUT, "/api/v1/edges/eu-1/policy", r#"{"tool_files":1}"#, StatusCode::BAD_REQUEST, "invalid"),
    (Method::PUT, "/api/v1/edges/none/policy", r#"{"strict":true}"#, StatusCode::NOT_FOUND, "not_found"),
    (
        Method::PUT,
        "/api/v1/edges/eu-1/assignments/team",
        r#"{"version":"x"}"#,
        StatusCode::BAD_REQUEST,
        "invalid",
    ),
    (
        Method::PUT,
        "/api/v1/edges/eu-1/assignments/team",
        r#"{"version":"1.0.0"}"#,
        StatusCode::NOT_FOUND,
        "not_found",
    ),
    (Method::DELETE, "/api/v1/edges/eu-1/assignments/team", "", StatusCode::NOT_FOUND, "not_assigned"),
    (Method::POST, "/api/v1/plugins/versions", "junk", StatusCode::UNPROCESSABLE_ENTITY, "bad_bundle"),
    (Method::POST, "/api/v1/join-tokens", r#"{"edge":"none"}"#, StatusCode::NOT_FOUND, "not_found"),
    (Method::POST, "/api/v1/tokens", r#"{"name":"x","roles":["boss"]}"#, StatusCode::BAD_REQUEST, "invalid"),
    (Method::POST, "/api/v1/plugins/team/approve", r#"{"functions":[]}"#, StatusCode::BAD_REQUEST, "invalid"),
];

#[test]
fn what_cannot_be_read_is_answered_with_a_problem_and_changes_nothing() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let admin = port.token(Role::Admin, &[]).await;
        let events = port.fleet.logged().await;
        for (method, path, body, status, code) in BAD.iter().cloned() {
            let (got, problem) = port.send(request(&admin, method, path, Body::from(body))).await;
            assert_eq!((got, problem["code"].as_str()), (status, Some(code)), "{path} {body}: {problem}");
            assert_eq!(problem["status"], status.as_u16());
            assert!(problem["request_id"].as_str().is_some_and(|id| id.len() == 36), "{problem}");
        }
        assert_eq!(port.fleet.logged().await, events);
    });
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let admin = port.token(Role::Admin, &[]).await;
        let body = Body::from(vec![b' '; BODY_MAX + 1]);
        let (status, problem) = port.send(request(&admin, Method::POST, "/api/v1/edges", body)).await;
        assert_eq!((status, problem["code"].as_str()), (StatusCode::PAYLOAD_TOO_LARGE, Some("too_large")));
        let mut upload = request(&admin, Method::POST, "/api/v1/plugins/versions", Body::empty());
        upload.headers_mut().insert(CONTENT_LENGTH, (UPLOAD_MAX + 1).into());
        let (status, problem) = port.send(upload).await;
        assert_eq!((status, problem["code"].as_str()), (StatusCode::PAYLOAD_TOO_LARGE, Some("too_large")));
    });
}

#[test]
fn a_database_that_is_away_is_said_to_be_and_health_stays() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let admin = port.token(Role::Admin, &[]).await;
        port.fleet.store.close().await;
        let (status, problem) = port.call(&admin, Method::GET, "/api/v1/edges", Value::Null).await;
        assert_eq!(
            (status, problem["code"].as_str()),
            (StatusCode::SERVICE_UNAVAILABLE, Some("store_unavailable"))
        );
        let (status, _) = port.call("", Method::GET, "/readyz", Value::Null).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        port.get("", "/healthz").await;
    });
}
