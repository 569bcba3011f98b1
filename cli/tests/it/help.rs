//! Every verb explains itself, with an example.

use crate::{pintle, text};

const VERBS: [&[&str]; 41] = [
    &["up"],
    &["demo"],
    &["server"],
    &["server", "ca"],
    &["call"],
    &["mcp"],
    &["assign"],
    &["unassign"],
    &["catalog"],
    &["doctor"],
    &["completions"],
    &["demo-tool"],
    &["node", "token"],
    &["node", "join"],
    &["node", "run"],
    &["node", "list"],
    &["node", "show"],
    &["node", "evict"],
    &["node", "ban"],
    &["node", "keep"],
    &["node", "rm"],
    &["node", "token", "list"],
    &["node", "token", "revoke"],
    &["node", "logs"],
    &["edge", "create"],
    &["edge", "list"],
    &["edge", "show"],
    &["edge", "set"],
    &["audit", "list"],
    &["audit", "verify"],
    &["plugin", "init"],
    &["plugin", "lint"],
    &["plugin", "pack"],
    &["plugin", "push"],
    &["plugin", "list"],
    &["plugin", "show"],
    &["plugin", "approve-tools"],
    &["plugin", "reject-tools"],
    &["plugin"],
    &["node"],
    &[],
];

#[test]
fn every_verb_has_help_and_those_that_act_an_example() {
    let folder = tempfile::tempdir().unwrap();
    for verb in VERBS {
        let output = pintle(folder.path()).args(verb).arg("--help").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{verb:?}");
        let help = text(&output.stdout);
        let is_group = matches!(verb, ["plugin" | "node"]);
        assert!(is_group || help.contains("Example"), "{verb:?} has no example:\n{help}");
        assert!(help.contains("--json"), "{verb:?} does not name the global flags");
    }
}

#[test]
fn the_list_of_verbs_leaves_the_demo_tool_out() {
    let folder = tempfile::tempdir().unwrap();
    let output = pintle(folder.path()).arg("--help").output().unwrap();
    assert!(!text(&output.stdout).contains("demo-tool"));
}

#[test]
fn no_verb_at_all_is_a_usage_error_with_help() {
    let folder = tempfile::tempdir().unwrap();
    let output = pintle(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage"));
}

#[test]
fn every_shell_gets_a_completion_script() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = pintle(folder.path()).args(["completions", shell]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{shell}");
        let script = text(&output.stdout);
        assert!(script.contains("approve-tools"), "{shell}: {script}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let pintle = env!("CARGO_BIN_EXE_pintle");
    let script = format!("set -o pipefail; '{pintle}' completions bash | head -n 1 > /dev/null");
    let status = std::process::Command::new("bash").args(["-c", &script]).status().unwrap();
    assert!(status.success(), "{status}");
}
