//! Approving: exactly what was shown, and nothing without a person or every hash.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::text;

const SEEN: &str = "v1:sha256:bb";

fn changes() -> Value {
    let listing = |text: &str| json!({"description": text, "name": "hello"}).to_string();
    json!({"items": [
        {"version": "1.0.0", "tool": "team", "function": "hello", "model_name": "team__hello",
         "approved": {"hash": "v1:sha256:aa", "listing": listing("Says hello.")},
         "variants": [{"hash": SEEN, "listing": listing("Says hello.\\u{E0041}"), "nodes": ["node-1"], "nodes_total": 1}],
         "grades": ["hidden_text"]}],
     "moved": [
        {"version": "1.1.0", "tool": "wx", "edge": "a", "from": ["http://127.0.0.1:1"], "to": "http://127.0.0.1:2", "functions": []}]})
}

fn parts(generation: u64) -> Value {
    let part =
        json!({"epoch": 1, "generation": generation, "acknowledged": 3, "connected": 3, "waiting": []});
    json!({"trust": part, "plan": part, "policy": part})
}

// R3.19
#[test]
fn without_a_terminal_it_shows_changes_nothing_and_names_the_exact_line() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, changes());
    let output = fake.pintle(folder.path()).args(["plugin", "approve-tools", "team"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let stdout = text(&output.stdout);
    assert!(stdout.contains("endpoint moved: wx: http://127.0.0.1:1 -> http://127.0.0.1:2"), "{stdout}");
    assert!(stdout.contains("[hidden_text]"), "{stdout}");
    assert!(stdout.contains("\\u{E0041}"), "{stdout}");
    let line = "pintle plugin approve-tools team --yes v1:sha256:bb wx=http://127.0.0.1:2";
    let stderr = text(&output.stderr);
    let words: std::collections::BTreeSet<&str> = line.split(' ').collect();
    let printed = stderr.lines().last().unwrap().trim();
    assert_eq!(printed.split(' ').collect::<std::collections::BTreeSet<_>>(), words, "{stderr}");
    assert!(fake.asked().iter().all(|asked| asked.method == "GET"));
}

// R3.20
#[test]
fn yes_sends_exactly_the_hashes_that_were_shown_and_waits_until_it_is_in_force() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, changes())
        .on("POST /plugins/team/approve", 200, json!({
            "approved": [{"version": "1.0.0", "tool": "team", "function": "hello"}], "origins": [], "stale": [],
            "edges": [{"edge": "a", "trust_generation": 8}]}))
        .on("GET /edges/a/parts", 200, parts(7))
        .on("GET /edges/a/parts", 200, parts(8));
    let output =
        fake.pintle(folder.path()).args(["plugin", "approve-tools", "team", "--yes", SEEN]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        fake.only("POST").json(),
        json!({"functions": [{"version": "1.0.0", "tool": "team", "function": "hello", "edge": null,
                              "approved": "v1:sha256:aa", "seen": SEEN}],
               "origins": [], "edge": null, "attended": false})
    );
    assert!(text(&output.stdout).contains("In force on 3 of 3 nodes after"), "{}", text(&output.stdout));
}

#[test]
fn a_hash_that_does_not_wait_is_not_sent() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, changes());
    let output = fake
        .pintle(folder.path())
        .args(["plugin", "approve-tools", "team", "--yes", "v1:sha256:cc"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("nothing was changed"), "{}", text(&output.stderr));
    assert!(fake.asked().iter().all(|asked| asked.method == "GET"));
}

#[test]
fn what_changed_meanwhile_is_said_and_not_taken_for_approved() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, changes()).on(
        "POST /plugins/team/approve",
        200,
        json!({
        "approved": [], "origins": [], "edges": [],
        "stale": [{"code": "approval_stale", "version": "1.0.0", "tool": "team", "function": "hello",
                   "reason": "no node shows v1:sha256:bb any longer"}]}),
    );
    let output =
        fake.pintle(folder.path()).args(["plugin", "approve-tools", "team", "--yes", SEEN]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("team.hello (1.0.0): no node shows"), "{}", text(&output.stderr));
}

#[test]
fn json_prints_what_waits_with_the_line_and_still_changes_nothing() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, changes());
    let output =
        fake.pintle(folder.path()).args(["plugin", "approve-tools", "team", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["open"].as_array().unwrap().len(), 2, "{document}");
    assert!(document["approve_with"].as_str().unwrap().contains(SEEN), "{document}");
}

#[test]
fn nothing_that_waits_is_success() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, json!({"items": [], "moved": []}));
    let output = fake.pintle(folder.path()).args(["plugin", "approve-tools", "team"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("Nothing of team waits"));
}

#[test]
fn a_role_that_may_not_is_refused_with_the_one_that_may() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, changes()).on(
        "POST /plugins/team/approve",
        403,
        json!({
        "title": "Forbidden", "detail": "viewers do not approve", "code": "denied",
        "remedy": "ask an approver", "request_id": "r-1"}),
    );
    let output =
        fake.pintle(folder.path()).args(["plugin", "approve-tools", "team", "--yes", SEEN]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let stderr = text(&output.stderr);
    for part in ["error: viewers do not approve", "try: ask an approver", "(denied, request r-1)"] {
        assert!(stderr.contains(part), "{stderr}");
    }
}

#[test]
fn rejecting_needs_a_yes_and_sends_what_was_shown() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("GET /plugins/team/changes", 200, changes()).on(
        "POST /plugins/team/reject",
        200,
        json!({
        "rejected": [{}], "stale": []}),
    );
    let without = fake.pintle(folder.path()).args(["plugin", "reject-tools", "team"]).output().unwrap();
    assert_eq!(without.status.code(), Some(3));
    let with = fake.pintle(folder.path()).args(["plugin", "reject-tools", "team", "--yes"]).output().unwrap();
    assert_eq!(with.status.code(), Some(0), "{}", text(&with.stderr));
    assert_eq!(fake.only("POST").json()["functions"][0]["seen"], SEEN);
}
