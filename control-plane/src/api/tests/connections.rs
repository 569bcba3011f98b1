//! Connections by the API: what is asked for, and that nothing of a secret is answered.

use axum::http::{Method, StatusCode};
use domain::role::Role;
use serde_json::json;

use super::Port;
use crate::store::testing::on_both;

const BEHIND: &str = "name: wx\nversion: 1.0.0\ntools:\n  wx: { url: \"https://a.example/mcp\", connection: crm }\n\
                      connections:\n  crm: { params: { host: {}, token: { secret: true } } }\n";

// R3.98
#[test]
fn no_answer_repeats_a_secret_however_it_was_sent() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let token = port.token(Role::Admin, &[]).await;
        port.fleet.push(BEHIND).await.unwrap();
        let path = "/api/v1/connections/wx/crm";
        for secrets in [
            json!({ "token": "s3cret" }),
            json!({ "token": ["s3cret"] }),
            json!({ "token": { "s3cret": "value" } }),
            json!({ "token": { "value": { "s3cret": 1 } } }),
            json!({ "token": { "value": "s3cret", "env": "PINTLE_SECRET_X" } }),
            json!({ "token": { "env": "s3cret" } }),
            json!("s3cret"),
            json!(["s3cret"]),
        ] {
            let (status, said) = port.call(&token, Method::PUT, path, json!({ "secrets": secrets })).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{secrets}: {said}");
            let is_env = secrets["token"]["env"].is_string() && secrets["token"]["value"].is_null();
            assert!(is_env || !said.to_string().contains("s3cret"), "{secrets}: {said}");
        }
        let good = json!({ "secrets": { "token": { "value": "s3cret" } }, "headers": [["X-Key", "${params.token}"]] });
        let (status, said) = port.call(&token, Method::PUT, path, good).await;
        assert_eq!(status, StatusCode::OK, "{said}");
        assert_eq!(said["connection"]["secrets"]["token"], "sealed");
        let tested = port.call(&token, Method::POST, &format!("{path}/test"), json!({})).await.1;
        assert!(tested["reason"].as_str().unwrap().contains("assign a version first"), "{tested}");
        for answer in [said, tested, port.get(&token, "/api/v1/connections").await] {
            assert!(!answer.to_string().contains("s3cret"), "{answer}");
        }
    });
}
