//! `pintle node logs` on folders as a node leaves them.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{pintle, text};

fn write(data: &Path, file: &str, lines: &str) {
    let path = data.join("node/logs").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(lines.as_bytes()).unwrap();
}

fn logs(data: &Path, args: &[&str]) -> (i32, String, String) {
    let output = pintle(data).args(["node", "logs"]).args(args).output().unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn at(second: u32, line: &str) -> String {
    format!("2026-01-31T12:00:{second:02}.000Z {line}\n")
}

#[test]
fn lines_of_all_tools_stand_in_the_order_of_their_times_and_are_visible() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "greeter@1.0.0/team.log.1", &at(1, "first"));
    write(folder.path(), "greeter@1.0.0/team.log", &at(3, "bad \u{1b}[31mthird"));
    write(folder.path(), "weather@2.0.0/wx.log", &at(2, "second"));
    let (code, stdout, _) = logs(folder.path(), &[]);
    let wanted = [
        format!("greeter@1.0.0/team: {}", at(1, "first")),
        format!("weather@2.0.0/wx: {}", at(2, "second")),
        format!("greeter@1.0.0/team: {}", at(3, "bad \\u{1B}[31mthird")),
    ];
    assert_eq!((code, stdout), (0, wanted.concat()));
}

#[test]
fn one_tool_is_named_by_itself_or_with_its_version() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "greeter@1.0.0/team.log", &at(1, "old"));
    write(folder.path(), "greeter@1.1.0/team.log", &at(2, "new"));
    write(folder.path(), "greeter@1.1.0/wx.log", &at(3, "other"));
    assert_eq!(logs(folder.path(), &["greeter@1.1.0/team"]).1, at(2, "new"));
    let both = format!("greeter@1.0.0/team: {}greeter@1.1.0/team: {}", at(1, "old"), at(2, "new"));
    assert_eq!(logs(folder.path(), &["team"]).1, both);
    let (_, stdout, _) = logs(folder.path(), &["wx", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let line = at(3, "other");
    let wanted =
        serde_json::json!({"items": [{"version": "greeter@1.1.0", "tool": "wx", "line": line.trim_end()}]});
    assert_eq!(json, wanted);
}

#[test]
fn a_tool_without_a_log_and_a_folder_without_a_node_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, stderr) = logs(folder.path(), &[]);
    assert_eq!(code, 1);
    assert!(stderr.contains("--node-data"), "{stderr}");
    fs::create_dir(folder.path().join("node")).unwrap();
    assert_eq!(logs(folder.path(), &[]).0, 0);
    write(folder.path(), "greeter@1.0.0/team.log", &at(1, "one"));
    let (code, _, stderr) = logs(folder.path(), &["taem"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("`taem`") && stderr.contains("greeter@1.0.0/team"), "{stderr}");
}

#[test]
fn following_goes_on_through_a_log_put_aside_and_sees_new_tools() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "greeter@1.0.0/team.log", &at(1, "one"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
        .args(["node", "logs", "--follow", "--node-data"])
        .arg(folder.path().join("node"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap() + "\n";
    assert_eq!(next(), at(1, "one"));
    let path = folder.path().join("node/logs/greeter@1.0.0/team.log");
    // Half a line waits for its end.
    let (half, rest) = (at(2, "two"), " more\n");
    write(folder.path(), "greeter@1.0.0/team.log", half.trim_end());
    write(folder.path(), "greeter@1.0.0/team.log", rest);
    assert_eq!(next(), at(2, "two more"));
    write(folder.path(), "greeter@1.0.0/team.log", &at(3, "three"));
    fs::rename(&path, path.with_extension("log.1")).unwrap();
    write(folder.path(), "greeter@1.0.0/team.log", &at(4, "four"));
    assert_eq!((next(), next()), (at(3, "three"), at(4, "four")));
    write(folder.path(), "weather@2.0.0/wx.log", &at(5, "five"));
    assert_eq!(next(), format!("weather@2.0.0/wx: {}", at(5, "five")));
    child.kill().unwrap();
    child.wait().unwrap();
}
