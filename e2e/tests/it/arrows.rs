//! The house stands as ARCHITECTURE.md draws it: a crate uses what it reaches by arrows, nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Who may use whom, beyond itself. `cli` and `e2e` use all.
const ARROWS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("plugin", &["domain"]),
    ("tools", &["domain", "plugin"]),
    ("proto", &["domain"]),
    ("control-plane", &["domain", "plugin", "proto"]),
    ("node-agent", &["domain", "plugin", "tools", "proto"]),
    ("simulation", &["domain", "proto", "control-plane", "node-agent"]),
    ("cli", &["domain", "plugin", "tools", "proto", "control-plane", "node-agent"]),
    ("e2e", &["domain", "plugin", "tools", "proto", "control-plane", "node-agent", "cli"]),
];

/// What a crate must not link, with the reason.
const KEPT_OUT: &[(&str, &str, &str)] = &[
    ("domain", "tokio", "decisions do not wait"),
    ("domain", "sqlx", "decisions do not read a database"),
    ("plugin", "tokio", "reading a bundle runs nothing"),
    ("node-agent", "sqlx", "the only SQL is the control plane's"),
    ("tools", "rmcp", "what is hashed and forwarded stays raw"),
    ("node-agent", "rmcp", "what is hashed and forwarded stays raw"),
    ("cli", "rmcp", "it is the peer in tests"),
];

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = |package: &serde_json::Value| -> BTreeSet<String> {
        package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
            .collect()
    };
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| (package["name"].as_str().unwrap().to_owned(), names(package)))
        .collect()
}

#[test]
fn every_crate_uses_only_what_it_reaches_by_arrows() {
    let dependencies = dependencies();
    let ours: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    let drawn: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    assert_eq!(ours, drawn, "a crate that the drawing lacks, or one that is gone");
    for (name, allowed) in ARROWS {
        for used in dependencies[*name].iter().filter(|used| ours.contains(used.as_str())) {
            assert!(allowed.contains(&used.as_str()), "{name} uses {used}, which no arrow allows");
        }
    }
    for (name, kept_out, reason) in KEPT_OUT {
        assert!(!dependencies[*name].contains(*kept_out), "{name} links {kept_out}, but {reason}");
    }
}
