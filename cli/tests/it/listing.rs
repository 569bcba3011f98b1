//! Lists: tables for people, the server's documents for programs, a next step where there is nothing.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::text;

#[test]
fn plugin_list_tells_beneath_each_plugin_what_needs_attention() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins", 200, json!({"items": [
        {"name": "team", "versions": [{"version": "1.4.0", "edges": ["eu-1"]}],
         "changed": [{"version": "1.4.0", "tool": "team", "function": "team.hello", "state": "drifted",
                      "nodes": ["n1", "n2", "n3", "n4"], "nodes_total": 44}],
         "left_out": [{"function": "team.wild", "code": "twice", "reason": "listed twice", "nodes": ["n1"]}],
         "moved": [{"version": "1.4.0", "tool": "wx", "from": ["https://a.example"], "to": "https://b.example", "edges": ["eu-1"]}]}],
        "next": null}));
    let output = fake.pintle(folder.path()).args(["plugin", "list"]).output().unwrap();
    let stdout = text(&output.stdout);
    for part in [
        "eu-1 (1.4.0)",
        "team.hello (team 1.4.0)",
        "n1, n2, n3 and 41 more",
        "endpoint moved: wx: https://a.example -> https://b.example",
        "until they are approved: pintle plugin approve-tools team",
        "left out: team.wild (twice): listed twice",
    ] {
        assert!(stdout.contains(part), "lacks {part}:\n{stdout}");
    }
}

#[test]
fn json_is_all_pages_in_one_document() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /edges", 200, json!({"items": [{"name": "a"}], "next": "a"})).on(
        "GET /edges",
        200,
        json!({"items": [{"name": "b"}], "next": null}),
    );
    let output = fake.pintle(folder.path()).args(["edge", "list", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document, json!({"items": [{"name": "a"}, {"name": "b"}]}));
    let paths: Vec<String> = fake.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/api/v1/edges", "/api/v1/edges?cursor=a"]);
}

#[test]
fn empty_lists_name_the_next_command() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    let empty = json!({"items": [], "next": null});
    for (verb, path, next) in [
        (["plugin", "list"].as_slice(), "/plugins", "pintle plugin init"),
        (&["edge", "list"], "/edges", "pintle edge create"),
        (&["node", "list"], "/nodes", "pintle node token"),
        (&["catalog"], "/catalog", "pintle plugin list"),
    ] {
        fake.on(&format!("GET {path}"), 200, empty.clone());
        let output = fake.pintle(folder.path()).args(verb).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{verb:?}");
        assert!(text(&output.stderr).contains(next), "{verb:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{verb:?}");
    }
}

#[test]
fn an_audit_log_that_does_not_hold_fails() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /audit/verify", 200, json!({"events": 9, "head": "ab", "ok": false, "first_bad": 4}));
    let output = fake.pintle(folder.path()).args(["audit", "verify"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("event 4"));
}

#[test]
fn the_newest_events_are_read_downwards() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    let event =
        |seq: u64| json!({"seq": seq, "at": "t", "actor": "admin", "name": "node.join", "subject": "n"});
    fake.on("GET /audit", 200, json!({"items": [event(3), event(2)], "next": "2"}));
    let output =
        fake.pintle(folder.path()).args(["audit", "list", "--limit", "2", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let seqs: Vec<&Value> = document["items"].as_array().unwrap().iter().map(|event| &event["seq"]).collect();
    assert_eq!(seqs, [2, 3]);
}

#[test]
fn a_join_string_stands_alone_on_stdout() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("POST /join-tokens", 200, json!({"id": "t", "join": "pintle1.abc", "edge": "a", "uses": 5}));
    let output = fake
        .pintle(folder.path())
        .args(["node", "token", "--edge", "a", "--uses", "5", "--ttl", "30m"])
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "pintle1.abc\n");
    assert_eq!(fake.only("POST").json(), json!({"edge": "a", "uses": 5, "ttl_ms": 1_800_000}));
}

#[test]
fn labels_of_a_join_token_are_sent_and_one_without_a_value_is_refused_here() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("POST /join-tokens", 200, json!({"id": "t", "join": "pintle1.abc", "edge": "a", "uses": 1}));
    let token = ["node", "token", "--edge", "a", "--label"];
    let refused = fake.pintle(folder.path()).args(token).arg("role").output().unwrap();
    assert!(text(&refused.stderr).contains("write it as KEY=VALUE"), "{}", text(&refused.stderr));
    let labelled = ["role=test", "--label", "rack=7"];
    assert!(fake.pintle(folder.path()).args(token).args(labelled).output().unwrap().status.success());
    assert_eq!(fake.only("POST").json()["labels"], json!({"role": "test", "rack": "7"}));
}

#[test]
fn assign_waits_until_every_connected_node_serves_and_the_snapshot_is_taken() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    let nodes = |state: &str| {
        let versions = json!([{"plugin": "team", "version": "1.0.0", "state": state, "reason": null}]);
        json!({"items": [
            {"id": "1", "name": "n1", "edge": "a", "connected": true, "versions": versions},
            {"id": "2", "name": "n2", "edge": "a", "connected": false, "versions": []}], "next": null})
    };
    let plugin = |snapshot: Value| json!({"name": "team", "versions": [{"version": "1.0.0", "tools": [{"tool": "team", "snapshot": snapshot}]}]});
    fake.on("GET /plugins/team", 200, plugin(Value::Null)).on(
        "GET /plugins/team",
        200,
        plugin(json!({"functions": 1})),
    );
    fake.on("PUT /edges/a/assignments/team", 200, json!({"changed": true, "moved": []}))
        .on("GET /nodes", 200, nodes("starting"))
        .on("GET /nodes", 200, nodes("serving"));
    let output =
        fake.pintle(folder.path()).args(["assign", "team@1.0.0", "--edge", "a", "--wait"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("serving"));
    assert_eq!(fake.asked().len(), 5);
}

#[test]
fn assign_fails_when_a_node_does() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    let versions =
        json!([{"plugin": "team", "version": "1.0.0", "state": "failed", "reason": "the disk is full"}]);
    fake.on("PUT /edges/a/assignments/team", 200, json!({"changed": true})).on("GET /nodes", 200, json!({
        "items": [{"id": "1", "name": "n1", "edge": "a", "connected": true, "versions": versions}], "next": null}));
    let output =
        fake.pintle(folder.path()).args(["assign", "team@1.0.0", "--edge", "a", "--wait"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("the disk is full"));
}
