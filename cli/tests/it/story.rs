//! The two verbs that bring a whole fleet: `demo`, and `up` over a restart.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{pintle, text};

#[test]
fn the_demo_observes_every_step_and_keeps_its_promise() {
    let folder = tempfile::tempdir().unwrap();
    let output = pintle(folder.path())
        .env("TMPDIR", folder.path())
        .args(["demo", "--json"])
        .timeout(std::time::Duration::from_mins(5))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let observed = told["observed"].as_array().unwrap();
    assert!(observed.len() >= 18, "{told}");
    let again: Vec<&Value> = observed
        .iter()
        .filter(|one| one["what"].as_str().unwrap().starts_with("all three nodes call"))
        .map(|one| &one["ms"])
        .collect();
    assert_eq!(again.len(), 2, "{told}");
    assert!(again.iter().all(|ms| ms.as_u64().unwrap() < 2_000), "{told}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the demo leaves nothing behind");
}

/// A running `pintle up`, stopped as Ctrl-C would.
struct Up(Child, Value);

impl Up {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pintle"))
            .args(["up", "--json", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"])
            .args(["--mcp-listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut document = String::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            document.push_str(&line);
            if line == "}" {
                break;
            }
        }
        let said = serde_json::from_str(&document).unwrap();
        Self(child, said)
    }

    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn up_starts_again_on_the_same_folder_as_the_same_fleet() {
    let folder = tempfile::tempdir().unwrap();
    let ids = || {
        let output = pintle(folder.path()).args(["node", "list", "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let nodes: Value = serde_json::from_slice(&output.stdout).unwrap();
        let nodes = nodes["items"].as_array().unwrap().clone();
        nodes.into_iter().map(|node| node["id"].clone()).collect::<Vec<_>>()
    };
    let up = Up::start(folder.path());
    for file in ["token_file", "mcp_token_file"] {
        assert!(Path::new(up.1[file].as_str().unwrap()).is_file(), "{file}");
    }
    let first = ids();
    let second = pintle(folder.path())
        .args(["up", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"])
        .output();
    let second = second.unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another server runs"), "{}", text(&second.stderr));
    up.stop();
    let elsewhere = pintle(folder.path()).args(["up", "--node-listen", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(elsewhere.status.code(), Some(2), "{}", text(&elsewhere.stderr));
    let up = Up::start(folder.path());
    assert_eq!((first.len(), ids()), (1, first));
    // The node finds the control plane again: a call is answered by its guard, which holds the set.
    let called = pintle(folder.path()).args(["call", "no.such"]).output().unwrap();
    assert!(text(&called.stderr).contains("unknown_function"), "{}", text(&called.stderr));
    up.stop();
}
