//! Published reports about bundles of one tree that differ, and about scripts that no kernel starts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails here has found a fault")]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use plugin::bundle::{Limits, pack, unpack};
use plugin::lint::lint;
use serde_json::Value;

const MANIFEST: &str = "name: demo\nversion: 1.0.0\ntools:\n  a: { command: [\"${plugin}/bin/server\"] }\n  b: { bash: tools/hello.sh }\n";

/// The case's tree, with our manifest in place of another product's.
fn tree(case: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let files = case["tree"].as_array().unwrap().iter().filter(|file| file["path"] != "plugin.json");
    let mut files: BTreeMap<_, _> = files.map(|file| (text(&file["path"]), text(&file["content"]))).collect();
    files.insert("pintle.yaml".to_owned(), MANIFEST.to_owned());
    files
}

fn write(root: &Path, files: &BTreeMap<String, String>) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn digest(root: &Path) -> String {
    let out = tempfile::tempdir().unwrap();
    pack(root, out.path(), &mut |_, _| {}).unwrap().content_digest.to_string()
}

/// What a mode of the disk is of a script, and of any other file.
fn set_modes(root: &Path, files: &BTreeMap<String, String>, script: u32, other: u32) {
    for (path, text) in files {
        let mode = if text.starts_with("#!") { script } else { other };
        fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
    }
}

fn set_times(root: &Path, files: &BTreeMap<String, String>, seconds: u64) {
    for path in files.keys() {
        let file = File::options().append(true).open(root.join(path)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
}

/// Makes the tree as the case's variation says; `false` for those that other tests make.
fn vary(id: &str, root: &Path, files: &BTreeMap<String, String>) -> bool {
    write(root, files);
    match id {
        "touched-a-day-later" => set_times(root, files, 86_400),
        "clock-in-1970-and-in-2107" => set_times(root, files, 4_323_456_000),
        "umask-077-while-packing" => set_modes(root, files, 0o700, 0o600),
        "group-writable-0664-and-0775" => set_modes(root, files, 0o775, 0o664),
        "read-only-0444-and-0555" => set_modes(root, files, 0o555, 0o444),
        "on-a-file-system-without-execute-bits" => set_modes(root, files, 0o666, 0o666),
        "every-file-0777" => set_modes(root, files, 0o777, 0o777),
        "packed-from-another-directory-and-path" => {}
        "with-.git-.DS_Store-and-an-editor-backup" => {
            for path in [".git/HEAD", ".DS_Store", "tools/hello.sh~"] {
                fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
                fs::write(root.join(path), "x").unwrap();
            }
        }
        "with-an-empty-directory" => fs::create_dir(root.join("empty")).unwrap(),
        "one-byte-changed" => fs::write(root.join("skills/a/SKILL.md"), "# b\n").unwrap(),
        "hello.sh-renamed" => {
            fs::rename(root.join("tools/hello.sh"), root.join("tools/hallo.sh")).unwrap();
            fs::write(root.join("pintle.yaml"), MANIFEST.replace("hello", "hallo")).unwrap();
        }
        "shebang-removed-from-hello.sh" => fs::write(root.join("tools/hello.sh"), "echo hello\n").unwrap(),
        // In `same_bytes.rs` and `bundle.rs`, or not to be had in every test's surroundings.
        "directory-read-in-reverse-order"
        | "another-gzip-or-zstd-level"
        | "owner-0-group-0"
        | "extended-attributes-set"
        | "SOURCE_DATE_EPOCH-set" => return false,
        _ => panic!("{id} is a variation that this test does not know"),
    }
    true
}

// C33
#[test]
fn one_tree_has_one_digest_however_it_lies_on_the_disk() {
    let case: Value = serde_json::from_str(include_str!("cases/C33-bundle-tree.json")).unwrap();
    let files = tree(&case);
    let plain = tempfile::tempdir().unwrap();
    write(plain.path(), &files);
    let wanted = digest(plain.path());
    let mut made = 0;
    for variation in case["variations"].as_array().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let id = variation["id"].as_str().unwrap();
        if vary(id, folder.path(), &files) {
            assert_eq!(digest(folder.path()) == wanted, variation["same_digest"] == true, "{id}");
            made += 1;
        }
    }
    assert_eq!(made, 13);
}

// C33
#[test]
fn what_is_unpacked_has_the_modes_of_what_it_is_and_packs_to_the_same_again() {
    let case: Value = serde_json::from_str(include_str!("cases/C33-bundle-tree.json")).unwrap();
    let (plain, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(plain.path(), &tree(&case));
    let packed = pack(plain.path(), out.path(), &mut |_, _| {}).unwrap();
    let unpacked = out.path().join("unpacked");
    unpack(File::open(&packed.path).unwrap(), &unpacked, &Limits::default()).unwrap();
    for (path, mode) in [("bin/server", 0o755), ("tools/hello.sh", 0o755), ("pintle.yaml", 0o644)] {
        assert_eq!(fs::metadata(unpacked.join(path)).unwrap().permissions().mode() & 0o777, mode, "{path}");
    }
    assert_eq!(digest(&unpacked), packed.content_digest.to_string());
}

// C34
#[test]
fn a_bash_tool_with_windows_line_ends_is_named_with_its_remedy_and_left_as_it_is() {
    let (crlf, lf) = (include_bytes!("cases/C34-crlf-tool.sh"), include_bytes!("cases/C34-lf-tool.sh"));
    assert!(crlf.windows(2).any(|two| two == b"\r\n") && !lf.contains(&b'\r'), "the files are as published");
    for (bytes, is_fine) in [(&crlf[..], false), (&lf[..], true)] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("pintle.yaml"),
            "name: demo\nversion: 1.0.0\ntools:\n  a: { bash: a.bash }\n",
        )
        .unwrap();
        fs::write(folder.path().join("a.bash"), bytes).unwrap();
        let found: Vec<String> = lint(folder.path()).iter().map(ToString::to_string).collect();
        let out = tempfile::tempdir().unwrap();
        let packed = pack(folder.path(), out.path(), &mut |_, _| {});
        if is_fine {
            assert!(found.is_empty() && packed.is_ok(), "{found:?}");
        } else {
            assert!(
                found.iter().any(|line| line.starts_with("a.bash:1: error") && line.contains("LF line ends"))
            );
            assert!(packed.unwrap_err().to_string().contains("a.bash"));
        }
        assert_eq!(fs::read(folder.path().join("a.bash")).unwrap(), bytes, "nothing is rewritten");
    }
}
