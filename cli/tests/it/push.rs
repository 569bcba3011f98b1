//! From a new plugin to its upload.

use std::io::Read;
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::{pintle, text};

#[test]
fn a_new_plugin_lints_clean_and_packs_to_the_same_bytes_twice() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = pintle(folder.path()).current_dir(folder.path()).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&["plugin", "init", "greeter"]);
    run(&["plugin", "lint", "greeter", "--strict"]);
    let digest = |out: &str| {
        let packed: Value =
            serde_json::from_str(&run(&["plugin", "pack", "greeter", "--out", out, "--json"])).unwrap();
        assert_eq!(packed["plugin"], "greeter");
        packed["archive_sha256"].clone()
    };
    assert_eq!(digest("one.pintle"), digest("two.pintle"));
}

#[test]
fn init_leaves_a_folder_that_holds_something_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("greeter")).unwrap();
    std::fs::write(folder.path().join("greeter/x"), "").unwrap();
    let output = pintle(folder.path())
        .current_dir(folder.path())
        .args(["plugin", "init", "greeter"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("not empty"), "{}", text(&output.stderr));
}

#[test]
fn lint_fails_on_a_manifest_with_faults_and_names_the_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("pintle.yaml"), "name: team\nversion: one\ntools: {}\n").unwrap();
    let output = pintle(folder.path()).args(["plugin", "lint"]).arg(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("pintle.yaml:2"), "{}", text(&output.stdout));
}

#[test]
fn a_folder_is_packed_and_uploaded_with_its_length_and_digest() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    fake.on("POST /plugins/versions", 201, json!({
        "plugin": "greeter", "version": "0.1.0", "content_digest": "ab", "archive_sha256": "cd", "created": true}));
    let plugin = folder.path().join("greeter");
    assert!(pintle(folder.path()).args(["plugin", "init"]).arg(&plugin).status_ok());
    let output = fake.pintle(folder.path()).args(["plugin", "push"]).arg(&plugin).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Pushed greeter@0.1.0"));
    let asked = fake.only("POST");
    assert_eq!(asked.headers["content-length"], asked.body.len().to_string());
    let digest = domain::digest::Digest::of(&asked.body).to_string();
    assert_eq!(asked.headers["pintle-archive-sha256"], digest);
    assert_eq!(asked.headers["authorization"], "Bearer pat_test_secret");
    let left: Vec<_> = std::fs::read_dir(&plugin).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".pintle")), "{left:?}");
}

#[test]
fn a_server_that_goes_away_in_the_middle_of_an_upload_is_said_to_have_done_so() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("big.pintle");
    std::fs::write(&bundle, vec![7; 32 << 20]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let taker = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut some = vec![0; 1 << 20];
        stream.read_exact(&mut some).unwrap();
    });
    let output = pintle(folder.path())
        .env("PINTLE_SERVER", server)
        .env("PINTLE_TOKEN", "pat_a_b")
        .args(["plugin", "push"])
        .arg(&bundle)
        .output()
        .unwrap();
    taker.join().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("went away in the middle"), "{}", text(&output.stderr));
}

#[test]
fn what_is_no_file_is_a_usage_error() {
    let (fake, folder) = (Fake::start(), tempfile::tempdir().unwrap());
    let output = fake.pintle(folder.path()).args(["plugin", "push", "nowhere.pintle"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

trait StatusOk {
    fn status_ok(&mut self) -> bool;
}

impl StatusOk for assert_cmd::Command {
    fn status_ok(&mut self) -> bool {
        self.output().unwrap().status.success()
    }
}
