//! Wrong input and missing servers: a sentence, a remedy, the documented exit code.

use std::net::TcpListener;

use crate::{pintle, text};

/// Runs `pintle` and answers its exit code and stderr.
fn run(data: &std::path::Path, args: &[&str]) -> (i32, String) {
    let output = pintle(data).args(args).output().unwrap();
    (output.status.code().unwrap(), text(&output.stderr))
}

#[test]
fn without_a_control_plane_every_verb_names_pintle_up() {
    let folder = tempfile::tempdir().unwrap();
    let verbs: [&[&str]; 9] = [
        &["plugin", "list"],
        &["plugin", "approve-tools", "team"],
        &["catalog"],
        &["edge", "list"],
        &["node", "list"],
        &["audit", "verify"],
        &["assign", "team@1.0.0", "--edge", "a"],
        &["call", "team.hello"],
        &["up", "--print-config", "codex"],
    ];
    for verb in verbs {
        let (code, stderr) = run(folder.path(), verb);
        assert_eq!(code, 5, "{verb:?}: {stderr}");
        assert!(stderr.contains("pintle up"), "{verb:?}: {stderr}");
    }
}

#[test]
fn a_control_plane_that_is_gone_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = format!("http://{address}");
    let output = pintle(folder.path())
        .env("PINTLE_TOKEN", "pat_a_b")
        .args(["plugin", "list", "--json", "--server", &server])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(error["error"]["sentence"].as_str().unwrap().contains(&server), "{error}");
    assert!(error["error"]["remedy"].as_str().unwrap().contains("pintle up"), "{error}");
    assert_eq!(error["error"]["exit"], 5);
}

#[test]
fn the_admin_token_is_never_sent_to_another_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("server")).unwrap();
    std::fs::write(folder.path().join("server/admin.token"), "pat_a_secret").unwrap();
    let (code, stderr) = run(folder.path(), &["plugin", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("--token-file"), "{stderr}");
}

#[test]
fn a_server_without_a_scheme_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let output = pintle(folder.path())
        .env("PINTLE_TOKEN", "pat_a_b")
        .args(["plugin", "list", "--server", "fleet.example.com"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("http://HOST:PORT"));
}

#[test]
fn unknown_flags_and_values_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let wrong: [&[&str]; 6] = [
        &["frobnicate"],
        &["plugin", "list", "--colour"],
        &["assign", "team@1.0.0"],
        &["assign", "team@one", "--edge", "a"],
        &["node", "token", "--edge", "a", "--ttl", "soon"],
        &["audit", "list", "--limit", "0"],
    ];
    for args in wrong {
        let (code, stderr) = run(folder.path(), args);
        assert_eq!(code, 2, "{args:?}: {stderr}");
    }
}

#[test]
fn arguments_that_are_no_object_are_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in ["{", "[1]", "7"] {
        let (code, stderr) = run(folder.path(), &["call", "team.hello", arguments]);
        assert_eq!(code, 2, "{arguments}: {stderr}");
        assert!(stderr.contains("JSON object"), "{arguments}: {stderr}");
    }
}

#[test]
fn a_node_that_has_not_joined_says_how_to() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stderr) = run(folder.path(), &["node", "run"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("pintle node join"), "{stderr}");
}

#[test]
fn a_setting_that_is_none_is_a_usage_error_before_anything_else_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    for verb in [&["node", "run"] as &[&str], &["up"]] {
        for (setting, told) in [
            ("gateway.cals=4", "there is no such setting"),
            ("gateway.calls", "it is no NAME=VALUE"),
            ("gateway.call_deadline=20", "a time of 1ms to 30d, such as 30s is expected"),
        ] {
            let (code, stderr) = run(folder.path(), &[verb, &["--set", setting]].concat());
            assert_eq!(code, 2, "{verb:?} {setting}: {stderr}");
            assert!(stderr.starts_with("error: failed to") && stderr.contains(told), "{stderr}");
        }
        let output = pintle(folder.path()).args(verb).env("PINTLE_NODE_SET", "a=b").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{verb:?}: {}", text(&output.stderr));
    }
    assert!(!folder.path().join("server").exists(), "nothing was begun");
}

#[test]
fn a_string_that_is_no_join_string_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (code, stderr) = run(folder.path(), &["node", "join", "hello"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.starts_with("error: failed to"), "{stderr}");
}
