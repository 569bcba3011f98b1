//! Bundles from the outside: what is packed, and what hand-made archives may not do.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that fails here has found a fault"
)]

use std::fs;
use std::io::{self, Read, Write as _};
use std::path::Path;

use domain::digest::Digest;
use plugin::bundle::{Error, Inspected, Limits, Packed, pack, read_archive, unpack};

const MANIFEST: &str = "name: demo\nversion: 1.0.0\ntools:\n  t: { command: [\"${plugin}/bin/run\"] }\n";

/// The tree of the reports about digests that differ, with whether each file is executable.
const TREE: [(&str, &str, bool); 6] = [
    ("pintle.yaml", MANIFEST, false),
    ("bin/run", "\u{7f}ELF", true),
    ("bin/server", "#!/usr/bin/env bash\nexec cat\n", true),
    ("data/\u{fc}ber.txt", "x\n", false),
    ("skills/a/SKILL.md", "# a\n", false),
    ("tools/hello.sh", "#!/usr/bin/env bash\necho hello\n", true),
];

fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn tree(root: &Path) {
    for (path, text, _) in TREE {
        write(root, path, text);
    }
}

fn packed(root: &Path) -> Result<(Packed, Vec<u8>), Error> {
    let out = tempfile::tempdir().unwrap();
    let packed = pack(root, out.path(), &mut |_, _| {})?;
    let bytes = fs::read(&packed.path).unwrap();
    assert_eq!(packed.archive_len, bytes.len() as u64);
    assert_eq!(packed.archive_sha256, Digest::of(&bytes));
    Ok((packed, bytes))
}

#[track_caller]
fn refused(root: &Path, parts: &[&str]) {
    let out = tempfile::tempdir().unwrap();
    let error = pack(root, out.path(), &mut |_, _| {}).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0, "something was left behind");
}

/// A tar entry whose header is written byte by byte, so that no writer mends it.
fn entry(path: &[u8], kind: u8, mode: u32, size: u64, data: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    let bytes = header.as_mut_bytes();
    bytes[..path.len()].copy_from_slice(path);
    bytes[156] = kind;
    if kind == b'1' || kind == b'2' {
        bytes[157..168].copy_from_slice(b"/etc/passwd");
    }
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
    let mut out = header.as_bytes().to_vec();
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn file(path: &str, text: &str) -> Vec<u8> {
    entry(path.as_bytes(), b'0', 0o644, text.len() as u64, text.as_bytes())
}

fn zipped(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 3).unwrap()
}

/// A bundle with the manifest, then `entries`, then the two end blocks.
fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut tar = file("pintle.yaml", "name: demo\nversion: 1.0.0\ntools: { t: { command: [x] } }\n");
    tar.extend(entries.concat());
    tar.extend([0; 1024]);
    zipped(&tar)
}

/// Reads it both ways, which must agree, and looks that nothing was written outside the folder.
fn read(bytes: &[u8], limits: &Limits) -> Result<Inspected, Error> {
    let parent = tempfile::tempdir().unwrap();
    let unpacked = unpack(bytes, &parent.path().join("staging"), limits);
    let names: Vec<_> = fs::read_dir(parent.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name == "staging"), "{names:?}");
    let judged = read_archive(bytes, limits);
    match (&unpacked, &judged) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(a), Err(b)) => assert_eq!(a.to_string(), b.to_string()),
        (a, b) => panic!("unpack said {a:?}, read_archive said {b:?}"),
    }
    judged
}

#[track_caller]
fn check(bytes: &[u8], parts: &[&str]) {
    let error = read(bytes, &Limits::default()).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

#[test]
fn bytes_that_are_no_bundle_are_told_so() {
    let message = "this is no bundle: expected a zstd-compressed tar with pintle.yaml at its root";
    let tar = file("pintle.yaml", "name: x\n");
    for bytes in [
        &b""[..],
        b"PK\x03\x04",
        b"hello",
        &tar,
        &zipped(b""),
        &zipped(b"hello"),
        &zipped(&[1; 4096]),
        &[0; 4096],
        b"\x28\xb5\x2f\xfd",
    ] {
        check(bytes, &[message]);
    }
}

#[test]
fn an_archive_without_a_manifest_at_its_root_is_refused() {
    let with = |entries: &[Vec<u8>]| zipped(&[entries.concat(), vec![0; 1024]].concat());
    check(&with(&[file("a", "x")]), &["find pintle.yaml at the root"]);
    check(&with(&[file("demo/pintle.yaml", "x")]), &["there is one in `demo`"]);
    check(&with(&[file("pintle.yaml", "name: X\n")]), &["has 3 fault(s)", "pintle.yaml:1"]);
    check(&with(&[file("pintle.yaml", "\u{0}")]), &["no YAML"]);
    let not_utf8 = entry(b"pintle.yaml", b'0', 0o644, 1, b"\xff");
    check(&with(&[not_utf8]), &["pintle.yaml", "not UTF-8"]);
    let large = entry(b"pintle.yaml", b'0', 0o644, 300_000, &vec![b' '; 300_000]);
    check(&with(&[large]), &["300000 bytes in one file", "262144"]);
}

#[test]
fn a_path_that_leads_out_of_the_folder_is_refused_by_name() {
    for (path, part) in [
        ("/etc/passwd", "absolute"),
        ("C:/x", "absolute"),
        ("../x", "`..`"),
        ("a/../../x", "`..`"),
        ("a/..", "`..`"),
        ("./x", "`.`"),
        ("a//b", "empty part"),
        ("a\\..\\x", "backslash"),
        ("a\nb", "control character"),
        ("", "empty"),
    ] {
        check(&archive(&[file(path, "x")]), &[part, "into a bundle"]);
        let folder = entry(path.as_bytes(), b'5', 0o755, 0, b"");
        check(&archive(&[folder]), &[part]);
    }
    check(&archive(&[entry(b"a\xff", b'0', 0o644, 0, b"")]), &["not UTF-8"]);
}

#[test]
fn links_devices_and_unknown_kinds_are_refused_by_name() {
    for (kind, part) in [
        (b'1', "hard link"),
        (b'2', "symbolic link"),
        (b'3', "device"),
        (b'4', "device"),
        (b'6', "pipe"),
        (b'S', "of a kind"),
        (b'Z', "of a kind"),
        (b'K', "of a kind"),
    ] {
        check(&archive(&[entry(b"some/name", kind, 0o644, 0, b"")]), &["`some/name`", part]);
    }
    check(&archive(&[entry(b"run", b'0', 0o4755, 0, b"")]), &["`run`", "setuid"]);
}

#[test]
fn a_link_cannot_be_written_through() {
    let link = entry(b"out", b'2', 0o777, 0, b"");
    check(&archive(&[link, file("out/passwd", "x")]), &["symbolic link"]);
}

#[test]
fn two_names_that_one_disk_takes_for_one_are_refused_with_both() {
    check(
        &archive(&[file("a/README", "1"), file("a/readme", "2")]),
        &["`a/readme`", "`a/README`", "letter case"],
    );
    check(&archive(&[file("A/x", "1"), file("a/y", "2")]), &["`a/y`", "`A`"]);
    check(&archive(&[file("\u{fc}", "1"), file("u\u{308}", "2")]), &["Unicode form"]);
    check(&archive(&[file("a", "1"), file("a", "2")]), &["there twice"]);
    check(&archive(&[file("a", "1"), file("a/b", "2")]), &["a file and a folder"]);
    check(&archive(&[file("PINTLE.yaml", "name: evil\n")]), &["`pintle.yaml`"]);
    check(&archive(&[file("pintle.yaml", "name: evil\n")]), &["there twice"]);
}

#[test]
fn more_than_the_limits_is_refused_before_it_is_written() {
    let limits = Limits {
        files: 3,
        total_bytes: 400,
        file_bytes: 200,
        path_bytes: 20,
        path_depth: 3,
        ..Limits::default()
    };
    let small = |entries: &[Vec<u8>]| read(&archive(entries), &limits).unwrap_err().to_string();
    assert!(small(&[file("a", ""), file("b", ""), file("c", "")]).contains("4 files"));
    assert!(small(&[file("a", &"x".repeat(201))]).contains("201 bytes in one file"));
    assert!(
        small(&[file("a", &"x".repeat(200)), file("b", &"x".repeat(199))]).contains("bytes in all files")
    );
    assert!(small(&[file("a23456789/123456789/1", "")]).contains("longer than the limit"));
    assert!(small(&[file("a/b/c/d", "")]).contains("deeper than the limit"));
    let folders: Vec<_> = (0..20).map(|n| entry(format!("d{n}").as_bytes(), b'5', 0o755, 0, b"")).collect();
    assert!(small(&folders).contains("headers"));
    let lie = entry(b"a", b'0', 0o644, 1 << 40, b"");
    check(&archive(&[lie]), &["`a`", "1099511627776 bytes in one file"]);
}

#[test]
fn a_bomb_is_refused_while_it_unpacks() {
    let limits = Limits { files: 3, ..Limits::default() };
    let bomb = archive(&[file("zeros", &"\0".repeat(64 << 20))]);
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let error = read(&bomb, &limits).unwrap_err().to_string();
    assert!(error.contains("`zeros`") && error.contains("per byte of the archive"), "{error}");
    let archive_bytes = 1_000;
    let noise = (0..40_000).map(|n| format!("{:x}", n * n)).collect::<Vec<_>>().concat();
    let error = read(&archive(&[file("noise", &noise)]), &Limits { archive_bytes, ..limits })
        .unwrap_err()
        .to_string();
    assert!(error.contains("bytes of archive"), "{error}");
}

#[test]
fn a_frame_that_asks_for_gigabytes_of_memory_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&file("pintle.yaml", MANIFEST)).unwrap();
    encoder.flush().unwrap();
    check(&encoder.finish().unwrap(), &["this is no bundle"]);
}

#[test]
fn an_extension_header_cannot_smuggle_or_swell() {
    let pax = |record: &str| {
        let len = (1..100).find(|n| format!("{n} {record}\n").len() == *n).unwrap();
        let text = format!("{len} {record}\n");
        entry(b"x", b'x', 0o644, text.len() as u64, text.as_bytes())
    };
    check(&archive(&[pax("path=../x"), file("a", "x")]), &["`..`"]);
    check(&archive(&[pax("path=/x"), file("a", "x")]), &["absolute"]);
    check(&archive(&[pax("size=0"), file("a", "x")]), &["record that no bundle needs"]);
    check(&archive(&[pax("GNU.sparse.name=b"), file("a", "x")]), &["record that no bundle needs"]);
    check(&archive(&[pax("path=a"), pax("path=b"), file("a", "x")]), &["two extension headers"]);
    let long = entry(b"L", b'L', 0o644, 4, b"../x");
    check(&archive(&[long, file("a", "x")]), &["`..`"]);
    let nul = entry(b"L", b'L', 0o644, 4, b"a\0b\0");
    check(&archive(&[nul, file("a", "x")]), &["NUL"]);
    let swollen = entry(b"L", b'L', 0o644, 1 << 20, &vec![b'a'; 1 << 20]);
    check(&archive(&[swollen, file("a", "x")]), &["larger than any path needs"]);
}

#[test]
fn bytes_after_the_end_are_refused() {
    let good = archive(&[]);
    check(&[&good[..], b"x"].concat(), &["bytes follow after its end"]);
    check(&[&good[..], &good[..]].concat(), &["bytes follow after its end"]);
    let mut tar = file("pintle.yaml", MANIFEST);
    tar.extend([0; 1024]);
    check(&zipped(&[&tar[..], &file("hidden", "x")].concat()), &["bytes follow after its end"]);
    check(&zipped(&[&tar[..], &vec![0; 100_000][..]].concat()), &["bytes follow after its end"]);
}

#[test]
fn an_archive_that_ends_early_or_is_damaged_is_refused_at_every_byte() {
    let whole = archive(&[file("a", "some text"), file("b", "more text")]);
    assert!(read(&whole, &Limits::default()).is_ok());
    for len in 0..whole.len() {
        assert!(read_archive(&whole[..len], &Limits::default()).is_err(), "{len} of {}", whole.len());
    }
    let without_end = zipped(&file("pintle.yaml", MANIFEST));
    check(&without_end, &["ends early", "1 whole files"]);
}

#[test]
fn no_flipped_byte_of_a_packed_bundle_goes_unseen() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let (packed, bytes) = packed(dir.path()).unwrap();
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 0x10;
        // A flag of the frame may change without a meaning; the content never does.
        if let Ok(read) = read_archive(&other[..], &Limits::default()) {
            assert_eq!(read.content_digest, packed.content_digest, "byte {at}");
        }
    }
}

#[test]
fn a_source_that_fails_is_not_taken_for_a_bad_bundle() {
    struct Broken<'a>(&'a [u8]);
    impl Read for Broken<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() { Err(io::ErrorKind::ConnectionReset.into()) } else { self.0.read(buffer) }
        }
    }
    let whole = archive(&[file("a", "some text")]);
    for len in [0, 10, whole.len() - 5] {
        let error = read_archive(Broken(&whole[..len]), &Limits::default()).unwrap_err();
        assert!(matches!(error, Error::Source(_)), "{error:?}");
    }
}

#[test]
fn a_staging_folder_that_is_in_use_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "mine", "x");
    let error = unpack(&archive(&[])[..], dir.path(), &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::NotEmpty(_)), "{error:?}");
    assert_eq!(fs::read(dir.path().join("mine")).unwrap(), b"x");
}

#[cfg(unix)]
#[test]
fn what_no_bundle_holds_is_not_packed() {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    let fresh = || {
        let dir = tempfile::tempdir().unwrap();
        tree(dir.path());
        dir
    };
    let dir = fresh();
    symlink("/etc/passwd", dir.path().join("data/link")).unwrap();
    refused(dir.path(), &["`data/link`", "symbolic link"]);
    let dir = fresh();
    symlink(".", dir.path().join("loop")).unwrap();
    refused(dir.path(), &["`loop`", "symbolic link"]);
    let dir = fresh();
    write(dir.path(), "a\\b", "x");
    refused(dir.path(), &["backslash"]);
    let dir = fresh();
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"a\xff")), "x").unwrap();
    refused(dir.path(), &["not UTF-8"]);
    let dir = fresh();
    write(dir.path(), "README", "x");
    write(dir.path(), "readme", "x");
    refused(dir.path(), &["`README`", "`readme`"]);
    let dir = fresh();
    fs::remove_file(dir.path().join("pintle.yaml")).unwrap();
    refused(dir.path(), &["find pintle.yaml"]);
    let dir = fresh();
    fs::remove_file(dir.path().join("bin/run")).unwrap();
    refused(dir.path(), &["bin/run", "not among the packed files"]);
    let dir = fresh();
    write(dir.path(), ".pintleignore", "a\n[z-a]\n");
    refused(dir.path(), &["line 2 of .pintleignore"]);
}

#[test]
fn a_script_with_windows_line_ends_is_not_packed_and_not_rewritten() {
    const CRLF: &[u8] = include_bytes!("data/crlf-tool.sh");
    const LF: &[u8] = include_bytes!("data/lf-tool.sh");
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    write(dir.path(), "tools/hello.sh", CRLF);
    refused(dir.path(), &["tools/hello.sh", "line 1 ends in CR LF", "LF line ends"]);
    assert_eq!(fs::read(dir.path().join("tools/hello.sh")).unwrap(), CRLF);
    write(dir.path(), "tools/hello.sh", [b"\xef\xbb\xbf", LF].concat());
    refused(dir.path(), &["byte order mark"]);
    write(dir.path(), "tools/hello.sh", LF);
    // Their interpreters are called by name, or read these line ends.
    write(dir.path(), "tools/a.py", "#!/usr/bin/env python3\r\nprint()\r\n");
    write(dir.path(), "tools/a.js", "let a;\r\n");
    write(dir.path(), "a.json", "{}\r\n");
    write(dir.path(), "a.csv", "\u{feff}a,b\r\n");
    write(dir.path(), "tools/cr.sh", "#!/bin/sh\nx='a\r'\n");
    packed(dir.path()).unwrap();
    let bash = "name: demo\nversion: 1.0.0\ntools:\n  t: { bash: tools/plain.bash }\n";
    write(dir.path(), "pintle.yaml", bash);
    write(dir.path(), "tools/plain.bash", "echo\r\n");
    refused(dir.path(), &["tools/plain.bash", "CR LF"]);
}

#[test]
fn what_machines_and_editors_leave_behind_is_not_packed() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let (before, _) = packed(dir.path()).unwrap();
    for path in [
        ".git/HEAD",
        ".DS_Store",
        "tools/hello.sh~",
        "node_modules/a/index.js",
        "sub/node_modules/b.js",
        ".env",
        "old-1.0.0.pintle",
        "__pycache__/a.pyc",
        ".venv/bin/python",
    ] {
        write(dir.path(), path, "x");
    }
    fs::create_dir(dir.path().join("empty")).unwrap();
    let (after, _) = packed(dir.path()).unwrap();
    assert_eq!(before.content_digest, after.content_digest);
    assert_eq!(before.archive_sha256, after.archive_sha256);
}

#[test]
fn an_ignore_file_leaves_out_and_takes_back_in() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    write(dir.path(), ".pintleignore", "*.log\n/skills/\n!node_modules\n!.git\n");
    for path in ["a.log", "node_modules/a/index.js", ".git/HEAD"] {
        write(dir.path(), path, "x");
    }
    let (_, bytes) = packed(dir.path()).unwrap();
    let read = read(&bytes, &Limits::default()).unwrap();
    let paths: Vec<_> = read.files.iter().map(|file| file.path.as_str()).collect();
    let expected = [
        ".pintleignore",
        "bin/run",
        "bin/server",
        "data/\u{fc}ber.txt",
        "node_modules/a/index.js",
        "pintle.yaml",
        "tools/hello.sh",
    ];
    assert_eq!(paths, expected);
}

#[cfg(unix)]
#[test]
fn modes_come_from_what_files_are_and_never_from_the_disk() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let (first, bytes) = packed(dir.path()).unwrap();
    for mode in [0o777, 0o666, 0o664, 0o600, 0o444] {
        for (path, ..) in TREE {
            fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(packed(dir.path()).unwrap().0.archive_sha256, first.archive_sha256, "{mode:o}");
    }
    let out = tempfile::tempdir().unwrap();
    unpack(&bytes[..], &out.path().join("s"), &Limits::default()).unwrap();
    for (path, _, executable) in TREE {
        let mode = fs::metadata(out.path().join("s").join(path)).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, if executable { 0o755 } else { 0o644 }, "{path}");
    }
}

#[test]
fn another_content_is_another_digest_and_another_compressor_is_not() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let (first, bytes) = packed(dir.path()).unwrap();
    let again = zstd::encode_all(&zstd::decode_all(&bytes[..]).unwrap()[..], 19).unwrap();
    assert_ne!(Digest::of(&again), first.archive_sha256);
    assert_eq!(read(&again, &Limits::default()).unwrap().content_digest, first.content_digest);
    for (path, text) in [
        ("skills/a/SKILL.md", "# b\n"),
        ("tools/hello.sh", "echo hello\n"),
        ("tools/hello2.sh", "#!/usr/bin/env bash\necho hello\n"),
    ] {
        let other = tempfile::tempdir().unwrap();
        tree(other.path());
        write(other.path(), path, text);
        assert_ne!(packed(other.path()).unwrap().0.content_digest, first.content_digest, "{path}");
    }
}

#[test]
fn the_digest_of_the_sample_tree_never_changes() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let text: String = {
        let mut files = TREE;
        files.sort_by_key(|(path, ..)| *path);
        let line = |(path, text, executable): (&str, &str, bool)| {
            format!("{} {} {path}\n", if executable { 'x' } else { '-' }, Digest::of(text.as_bytes()))
        };
        files.into_iter().map(line).collect()
    };
    let expected = Digest::of(format!("pintle-content-v1\n{text}").as_bytes());
    assert_eq!(packed(dir.path()).unwrap().0.content_digest, expected);
}

#[test]
fn long_paths_and_plain_tars_of_other_writers_are_read() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let long = format!("{}/{}/f", "d".repeat(200), "\u{fc}".repeat(120));
    write(dir.path(), &long, "x");
    let (first, bytes) = packed(dir.path()).unwrap();
    assert!(read(&bytes, &Limits::default()).unwrap().files.iter().any(|file| file.path == long));
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir("data", dir.path()).unwrap();
    for (path, _, executable) in TREE {
        let text = fs::read(dir.path().join(path)).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(if executable { 0o775 } else { 0o664 });
        header.set_mtime(1_700_000_000);
        builder.append_data(&mut header, path, &text[..]).unwrap();
    }
    let other = read(&zipped(&builder.into_inner().unwrap()), &Limits::default()).unwrap();
    fs::remove_dir_all(dir.path().join("d".repeat(200))).unwrap();
    assert_eq!(other.content_digest, packed(dir.path()).unwrap().0.content_digest);
    assert_ne!(other.content_digest, first.content_digest);
}

#[test]
fn progress_goes_from_nothing_to_everything() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let mut seen = Vec::new();
    pack(dir.path(), &dir.path().join("out.pintle"), &mut |done, total| seen.push((done, total))).unwrap();
    let total: u64 = TREE.iter().map(|(_, text, _)| text.len() as u64).sum();
    assert_eq!(seen.first(), Some(&(0, total)));
    assert_eq!(seen.last(), Some(&(total, total)));
    assert!(seen.is_sorted());
}
