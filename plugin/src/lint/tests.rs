use std::fs;

use super::*;

/// The findings of a folder with this manifest and these files, each as its message.
fn findings(tools: &str, files: &[(&str, &str)]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("pintle.yaml"), format!("name: team\nversion: 1.0.0\n{tools}")).unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    lint(dir.path()).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(tools: &str, files: &[(&str, &str)], parts: &[&str]) {
    let found = findings(tools, files);
    assert_eq!(found.len(), 1, "{found:#?}");
    for part in parts {
        assert!(found[0].contains(part), "`{part}` is not in: {}", found[0]);
    }
}

#[test]
fn a_folder_that_cannot_be_read_as_a_plugin_is_a_finding() {
    let dir = tempfile::tempdir().unwrap();
    let found = lint(dir.path());
    assert_eq!(found.len(), 1);
    assert!(found[0].what.contains("find pintle.yaml"), "{}", found[0]);
    let absent = lint(&dir.path().join("absent"));
    assert_eq!(absent[0].severity, Severity::Error);
}

#[test]
fn every_fault_of_the_manifest_is_an_error_with_its_line() {
    let found = findings("tools: { a: { comand: [x] } }\nevil: 1\n", &[]);
    assert!(found.iter().any(|f| f.starts_with("pintle.yaml:4: error: evil")), "{found:#?}");
    assert!(found.iter().any(|f| f.contains("did you mean `command`?")), "{found:#?}");
}

#[test]
fn a_launch_without_a_version_is_warned_of() {
    check(
        "tools: { a: { command: [npx, -y, pkg@latest] } }\n",
        &[],
        &["warning", "`pkg@latest`", "package@1.2.3"],
    );
    check(
        "tools: { a: { command: [uvx, mcp-server-time] } }\n",
        &[],
        &["`mcp-server-time`", "package==1.2.3"],
    );
    assert_eq!(findings("tools: { a: { command: [npx, -y, pkg@1.2.3] } }\n", &[]), [""; 0]);
}

#[test]
fn ids_that_people_take_for_one_another_are_warned_of() {
    check(
        "tools: { a-b: { command: [x] }, A_B: { command: [x] } }\n",
        &[],
        &["`A_B` and `a-b`", "alike_names"],
    );
}

#[test]
fn a_file_that_is_named_and_absent_is_found() {
    check("tools: { a: { command: [\"${plugin}/run\"] } }\n", &[], &["error", "`run`", "missing_file"]);
    check("tools: { a: { command: [node, \"${plugin}/a.js\"] } }\n", &[], &["warning", "`a.js`"]);
    check("tools: { a: { bash: a.bash } }\n", &[], &["error", "`a.bash`"]);
    check("tools: { a: { command: [x] } }\nevals: evals/\n", &[], &["`evals`"]);
    let good = "tools: { a: { command: [node, \"${plugin}/a.js\"] } }\nevals: evals/\n";
    assert_eq!(findings(good, &[("a.js", ""), ("evals/a.yaml", "")]), [""; 0]);
}

#[test]
fn what_a_node_sets_itself_is_warned_of() {
    check("tools: { a: { command: [x], env: { TZ: Europe/Berlin } } }\n", &[], &["sets TZ", "node_env"]);
}

#[test]
fn windows_line_ends_are_an_error_where_they_break_and_a_warning_where_they_might() {
    let python = "tools: { a: { command: [python3, \"${plugin}/a.py\"] } }\n";
    let text = "#!/usr/bin/env python3\r\n";
    check(python, &[("a.py", text)], &["a.py:1: warning", "CR LF"]);
    check(
        "tools: { a: { command: [\"${plugin}/a.py\"] } }\n",
        &[("a.py", text)],
        &["a.py:1: error", "LF line ends"],
    );
    check("tools: { a: { bash: a.bash } }\n", &[("a.bash", "x\r\n")], &["a.bash:1: error"]);
    check("tools: { a: { command: [x] } }\n", &[("b.sh", "#!/bin/sh\r\n")], &["b.sh:1: error"]);
    assert_eq!(
        findings("tools: { a: { command: [x] } }\n", &[("a.md", "x\r\n"), ("a.json", "{}\r\n")]),
        [""; 0]
    );
}

#[test]
fn what_cannot_be_packed_is_an_error() {
    check("tools: { a: { command: [x] } }\n", &[("A", ""), ("a", "")], &["error", "letter case", "bundle"]);
}
