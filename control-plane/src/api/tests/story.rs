use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::role::Role;
use serde_json::json;

use super::*;
use crate::operation::testing::{TEAM, archive, canonical, edge, hash, remote};
use crate::store::testing::on_both;

const V: &str = "team@1.0.0";

async fn push(port: &Port, token: &str, bytes: Vec<u8>) -> (StatusCode, Value) {
    port.send(request(token, Method::POST, "/api/v1/plugins/versions", Body::from(bytes))).await
}

#[test]
fn a_version_is_pushed_as_a_stream_and_pushed_again_without_harm() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let author = port.token(Role::Author, &[]).await;
        let bytes = archive(TEAM, "");
        let sha256 = domain::digest::Digest::of(&bytes).to_string();
        let (status, first) = push(&port, &author, bytes.clone()).await;
        assert_eq!(status, StatusCode::CREATED);
        assert_eq!(first["archive_sha256"], sha256.as_str());
        assert_eq!(
            (&first["plugin"], &first["version"], &first["created"]),
            (&json!("team"), &json!("1.0.0"), &json!(true))
        );
        let mut again = request(&author, Method::POST, "/api/v1/plugins/versions", Body::from(bytes.clone()));
        again.headers_mut().insert("pintle-archive-sha256", sha256.parse().unwrap());
        let (status, second) = port.send(again).await;
        assert_eq!((status, &second["created"]), (StatusCode::OK, &json!(false)));
        let mut wrong = request(&author, Method::POST, "/api/v1/plugins/versions", Body::from(bytes));
        wrong.headers_mut().insert("pintle-archive-sha256", "00".repeat(32).parse().unwrap());
        assert_eq!(port.send(wrong).await.1["code"], "archive_differs");
        // An upload may be longer than a JSON body, so this is judged for what it is.
        assert_eq!(push(&port, &author, vec![b'x'; BODY_MAX + 1]).await.1["code"], "bad_bundle");
        let (status, problem) = push(&port, &author, archive(TEAM, "other")).await;
        assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("version_differs")));
        assert!(problem["remedy"].as_str().unwrap().contains("pintle.yaml"));
    });
}

#[test]
fn an_edge_a_join_string_and_an_assignment_are_made_and_shown() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let operator = port.token(Role::Operator, &[]).await;
        port.fleet.push(TEAM).await.unwrap();
        let made =
            |name: &'static str| port.call(&operator, Method::POST, "/api/v1/edges", json!({ "name": name }));
        assert_eq!(made("us-1").await.1, json!({ "name": "us-1", "created": true }));
        assert_eq!(made("us-1").await.1, json!({ "name": "us-1", "created": false }));
        let path = "/api/v1/edges/eu-1/assignments/team";
        let (_, assigned) = port.call(&operator, Method::PUT, path, json!({ "version": "1.0.0" })).await;
        assert_eq!(
            (&assigned["changed"], &assigned["earlier"], &assigned["moved"]),
            (&json!(true), &Value::Null, &json!([]))
        );
        let first = port.get(&operator, "/api/v1/edges?limit=1").await;
        assert_eq!((&first["items"][0]["name"], &first["next"]), (&json!("eu-1"), &json!("eu-1")));
        assert_eq!(first["items"][0]["assignments"][0]["version"], "1.0.0");
        let second = port.get(&operator, "/api/v1/edges?limit=100&cursor=eu-1").await;
        assert_eq!((second["items"].as_array().unwrap().len(), &second["next"]), (1, &Value::Null));
        let body = json!({ "edge": "eu-1", "uses": 2 });
        let (_, token) = port.call(&operator, Method::POST, "/api/v1/join-tokens", body).await;
        let document = token["join"].as_str().unwrap().strip_prefix("pintle1.").unwrap();
        let document: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(document).unwrap()).unwrap();
        assert_eq!((&document["v"], &document["address"]), (&json!(1), &json!("127.0.0.1:7401")));
        assert_eq!(document["ca"], "ab".repeat(32));
        let listed = port.get(&operator, "/api/v1/join-tokens").await;
        assert!(!listed.to_string().contains(document["secret"].as_str().unwrap()), "secrets are shown once");
        let path = format!("/api/v1/join-tokens/{}", token["id"].as_str().unwrap());
        assert_eq!(port.call(&operator, Method::DELETE, &path, Value::Null).await.0, StatusCode::OK);
        let path = "/api/v1/edges/eu-1/assignments/team";
        assert_eq!(port.call(&operator, Method::DELETE, path, Value::Null).await.0, StatusCode::OK);
    });
}

// R3.14, R3.16, R3.19
#[test]
fn a_change_is_shown_with_its_nodes_and_texts_and_approved_by_its_hashes() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let fleet = &port.fleet;
        let approver = port.token(Role::Approver, &[]).await;
        fleet.install(TEAM, V).await;
        let nodes = [fleet.node(&edge(), "node-1").await, fleet.node(&edge(), "node-2").await];
        for node in &nodes {
            fleet.lists(node, V, "team", &[("hello", "a"), ("bye", "b")]).await;
        }
        fleet.lists(&nodes[1], V, "team", &[("hello", "c"), ("bye", "b"), ("extra", "d")]).await;

        let plugin = port.get(&approver, "/api/v1/plugins/team").await;
        assert_eq!(plugin["versions"][0]["tools"][0]["snapshot"]["functions"], 2);
        assert_eq!(plugin["versions"][0]["edges"], json!(["eu-1"]));
        let changed: Vec<_> = plugin["changed"].as_array().unwrap().iter().collect();
        assert_eq!((&changed[0]["function"], &changed[0]["state"]), (&json!("team.extra"), &json!("new")));
        assert_eq!(
            (&changed[1]["function"], &changed[1]["state"]),
            (&json!("team.hello"), &json!("drifted"))
        );
        assert_eq!((&changed[1]["nodes"], &changed[1]["nodes_total"]), (&json!(["node-2"]), &json!(1)));
        let changes = port.get(&approver, "/api/v1/plugins/team/changes").await;
        let hello = &changes["changes"][1];
        assert_eq!(hello["approved"], json!({ "hash": hash("a").to_string(), "listing": canonical("a") }));
        assert_eq!(hello["variants"][0]["listing"], canonical("c"));
        assert_eq!(
            (&hello["variants"][0]["first_seen_on"], &hello["grades"]),
            (&json!("node-2"), &json!(["text"]))
        );
        let catalog = port.get(&approver, "/api/v1/catalog?edge=eu-1&plugin=team").await;
        let states: Vec<_> =
            catalog["items"].as_array().unwrap().iter().map(|row| (&row["id"], &row["state"])).collect();
        let expected = [("team.bye", "callable"), ("team.extra", "new"), ("team.hello", "drifted")];
        assert_eq!(
            states,
            expected
                .map(|(id, state)| (json!(id), json!(state)))
                .iter()
                .map(|(a, b)| (a, b))
                .collect::<Vec<_>>()
        );
        assert_eq!(catalog["items"][2]["listing"], canonical("a"), "as approved");
        assert_eq!(catalog["items"][2]["seen"].as_array().unwrap().len(), 2);

        let function = json!({ "version": "1.0.0", "tool": "team", "function": "hello", "edge": null,
            "approved": hash("a").to_string(), "seen": hash("c").to_string() });
        let stale = json!({ "version": "1.0.0", "tool": "team", "function": "extra", "approved": null, "seen": hash("e").to_string() });
        let body = json!({ "functions": [function, stale], "attended": true });
        let (status, answer) = port.call(&approver, Method::POST, "/api/v1/plugins/team/approve", body).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(answer["approved"], json!([function]));
        assert_eq!(
            (&answer["stale"][0]["code"], &answer["stale"][0]["function"]),
            (&json!("approval_stale"), &json!("extra"))
        );
        let generation = fleet.trust(&edge()).await.0.generation;
        assert_eq!(answer["edges"], json!([{ "edge": "eu-1", "trust_generation": generation }]));
        let rejected = json!({ "functions": [{ "version": "1.0.0", "tool": "team", "function": "extra", "approved": null, "seen": hash("d").to_string() }] });
        let (_, answer) = port.call(&approver, Method::POST, "/api/v1/plugins/team/reject", rejected).await;
        assert_eq!(answer["rejected"].as_array().unwrap().len(), 1);
        let plugin = port.get(&approver, "/api/v1/plugins/team").await;
        assert_eq!(
            (&plugin["changed"][0]["rejected"], &plugin["changed"][1]["nodes"]),
            (&json!(true), &json!(["node-1"]))
        );
    });
}

#[test]
fn approving_unattended_takes_its_scope() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let body = json!({ "functions": [], "attended": false });
        let path = "/api/v1/plugins/team/approve";
        let token = port.token(Role::Admin, &[]).await;
        let events = port.fleet.logged().await;
        let (status, problem) = port.call(&token, Method::POST, path, body.clone()).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(problem["detail"].as_str().unwrap().contains("approve.unattended"));
        assert_eq!(port.fleet.events(events).await, ["access.denied"]);
        let token = port.token(Role::Approver, &[Scope::ApproveUnattended]).await;
        assert_eq!(port.call(&token, Method::POST, path, body).await.0, StatusCode::OK);
    });
}

// R3.66
#[test]
fn a_moved_tool_is_shown_with_both_origins_and_what_it_lists_there() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let fleet = &port.fleet;
        let admin = port.token(Role::Admin, &[]).await;
        fleet.install(&remote("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.install(&remote("1.1.0", "https://b.example/mcp"), "wx@1.1.0").await;
        fleet.lists(&node, "wx@1.1.0", "wx", &[("forecast", "a")]).await;
        let plugin = port.get(&admin, "/api/v1/plugins/wx").await;
        let expected = json!([{ "version": "1.1.0", "tool": "wx", "from": ["https://a.example"], "to": "https://b.example", "edges": ["eu-1"] }]);
        assert_eq!(plugin["moved"], expected);
        let moved = port.get(&admin, "/api/v1/plugins/wx/changes").await["moved"][0].clone();
        assert_eq!(
            (&moved["functions"][0]["id"], &moved["functions"][0]["listing"]),
            (&json!("wx.forecast"), &json!(canonical("a")))
        );
        let catalog = port.get(&admin, "/api/v1/catalog").await;
        assert_eq!(
            (&catalog["items"][0]["id"], &catalog["items"][0]["state"]),
            (&json!("wx.forecast"), &json!("moved"))
        );
        assert_eq!(port.get(&admin, "/api/v1/status").await["waiting_origins"], 1);
        let body = json!({
            "origins": [{ "version": "1.1.0", "tool": "wx", "from": ["https://a.example"], "to": "https://b.example" }],
            "functions": [{ "version": "1.1.0", "tool": "wx", "function": "forecast", "approved": null, "seen": hash("a").to_string() }],
            "attended": true,
        });
        let (_, answer) = port.call(&admin, Method::POST, "/api/v1/plugins/wx/approve", body).await;
        assert_eq!(
            (answer["origins"].as_array().unwrap().len(), answer["approved"].as_array().unwrap().len()),
            (1, 1)
        );
        let catalog = port.get(&admin, "/api/v1/catalog").await;
        assert_eq!(catalog["items"][0]["state"], "callable");
    });
}

#[test]
fn parts_and_nodes_say_who_holds_what() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let viewer = port.token(Role::Viewer, &[]).await;
        let one = port.fleet.node(&edge(), "node-1").await;
        let two = port.fleet.node(&edge(), "node-2").await;
        port.fleet.node(&edge(), "node-3").await;
        port.fleet.install(TEAM, V).await;
        let head = port.fleet.trust(&edge()).await.0;
        port.streams.0.lock().unwrap().insert(one, head);
        port.streams
            .0
            .lock()
            .unwrap()
            .insert(two.clone(), Position { generation: head.generation - 1, ..head });
        let parts = port.get(&viewer, "/api/v1/edges/eu-1/parts").await;
        let expected = json!({ "epoch": 1, "generation": head.generation, "acknowledged": 1, "connected": 2, "elsewhere": 0, "nodes": 3, "waiting": ["node-2"] });
        assert_eq!(parts["trust"], expected);
        let node = port.get(&viewer, "/api/v1/nodes/node-2").await;
        assert_eq!((&node["connected"], &node["id"]), (&json!(true), &json!(two.as_str())));
        assert_eq!(port.get(&viewer, &format!("/api/v1/nodes/{two}")).await, node);
        let nodes = port.get(&viewer, "/api/v1/nodes?edge=eu-1&limit=2").await;
        assert_eq!((nodes["items"].as_array().unwrap().len(), &nodes["next"]), (2, &json!("node-2")));
        let status = port.get(&viewer, "/api/v1/status").await;
        assert_eq!(status["nodes"], json!({ "total": 3, "connected": 2 }));
    });
}

#[test]
fn a_node_is_evicted_for_a_reason_and_only_then_removed() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let admin = port.token(Role::Admin, &[]).await;
        let id = port.fleet.node(&edge(), "node-1").await;
        let before = port.get(&admin, "/api/v1/nodes/node-1").await;
        assert_eq!((&before["standing"], &before["standing_by"]), (&json!("active"), &Value::Null));
        let path = "/api/v1/nodes/node-1";
        let (status, problem) = port.call(&admin, Method::DELETE, path, Value::Null).await;
        assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("standing_differs")));
        let why = json!({ "reason": "it was lost" });
        let evict = "/api/v1/nodes/node-1/evict";
        let (status, evicted) = port.call(&admin, Method::POST, evict, why.clone()).await;
        assert_eq!(status, StatusCode::OK);
        let said = (&evicted["id"], &evicted["standing"], &evicted["reason"], &evicted["by"]);
        assert_eq!(
            said,
            (&json!(id.as_str()), &json!("evicted"), &json!("it was lost"), &json!("token/admin"))
        );
        let events = port.fleet.logged().await;
        let again = port.call(&admin, Method::POST, evict, why).await;
        assert_eq!((again, port.fleet.logged().await), ((StatusCode::OK, evicted), events), "said twice");
        let keep = json!({ "session": 1 });
        let (status, problem) = port.call(&admin, Method::POST, "/api/v1/nodes/node-1/keep", keep).await;
        assert_eq!((status, &problem["code"]), (StatusCode::CONFLICT, &json!("standing_differs")));
        let (status, _) = port.call(&admin, Method::DELETE, path, Value::Null).await;
        assert_eq!(status, StatusCode::OK);
        let (status, _) = port.call(&admin, Method::GET, path, Value::Null).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    });
}

// R3.103
#[test]
fn the_audit_log_is_read_both_ways_and_verified() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let viewer = port.token(Role::Viewer, &[]).await;
        port.fleet.install(TEAM, V).await;
        let all = port.get(&viewer, "/api/v1/audit?after=0").await;
        let seqs: Vec<_> =
            all["items"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=port.fleet.logged().await).collect::<Vec<_>>());
        assert_eq!(all["items"][0]["name"], "fleet.create");
        assert_eq!(all["items"][0]["prev"], "0".repeat(64));
        let newest = port.get(&viewer, "/api/v1/audit?limit=1").await;
        assert_eq!(newest["items"][0]["name"], "edge.assignment.set");
        let cursor = newest["next"].as_str().unwrap();
        let before = port.get(&viewer, &format!("/api/v1/audit?limit=1&cursor={cursor}")).await;
        assert_eq!(before["items"][0]["name"], "plugin.version.push");
        let some = port.get(&viewer, "/api/v1/audit?name=edge.create&subject=edge/eu-1").await;
        assert_eq!(some["items"].as_array().unwrap().len(), 1);
        let verified = port.get(&viewer, "/api/v1/audit/verify").await;
        assert_eq!((&verified["ok"], &verified["events"]), (&json!(true), &json!(seqs.len())));
        assert_eq!(verified["head"], all["items"].as_array().unwrap().last().unwrap()["hash"]);
    });
}

#[test]
fn a_token_is_shown_once_and_ends_when_it_is_revoked() {
    on_both(|bench| async move {
        let port = Port::new(bench).await;
        let admin = port.token(Role::Admin, &[]).await;
        let body =
            json!({ "name": "ci", "roles": ["author"], "scopes": ["approve.unattended"], "ttl_ms": 60_000 });
        let (_, made) = port.call(&admin, Method::POST, "/api/v1/tokens", body).await;
        let token = made["token"].as_str().unwrap();
        let own = port.get(token, "/api/v1/tokens/self").await;
        assert_eq!((&own["name"], &own["roles"]), (&json!("ci"), &json!(["author"])));
        let listed = port.get(&admin, "/api/v1/tokens").await.to_string();
        assert!(listed.contains(made["id"].as_str().unwrap()) && !listed.contains(token));
        let path = format!("/api/v1/tokens/{}", made["id"].as_str().unwrap());
        assert_eq!(port.call(&admin, Method::DELETE, &path, Value::Null).await.0, StatusCode::OK);
        assert_eq!(
            port.call(token, Method::GET, "/api/v1/status", Value::Null).await.0,
            StatusCode::UNAUTHORIZED
        );
    });
}
