//! One tree gives the same bytes, in whatever order and at whatever time its files were made, and
//! unpacks to the same tree.
#![allow(clippy::unwrap_used, reason = "a test that fails here has found a fault")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use plugin::bundle::{Limits, Packed, pack, unpack};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

const MANIFEST: &[u8] = b"name: demo\nversion: 1.0.0\ntools:\n  t: { command: [x] }\n";

/// Paths and contents. Letters and folders are few, so that folders are shared and nested.
fn trees() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let path = "[abü]{1,3}(/[abü#]{1,3}){0,3}";
    let content = prop_oneof![
        vec(any::<u8>(), 0..2_000),
        "[ -~]{0,40}".prop_map(|text| format!("#!/bin/sh\n{text}\n").into_bytes()),
    ];
    btree_map(path, content, 0..12).prop_map(|files| {
        // A path that is a folder of another cannot be a file as well.
        let folders: BTreeSet<String> = files
            .keys()
            .flat_map(|path| path.match_indices('/').map(|(at, _)| path[..at].to_owned()))
            .collect();
        let mut files: BTreeMap<_, _> = files
            .into_iter()
            .filter(|(path, bytes)| !folders.contains(path) && !is_crlf_script(bytes))
            .collect();
        files.insert("pintle.yaml".to_owned(), MANIFEST.to_vec());
        files
    })
}

/// What is refused for its line ends is another test's business.
fn is_crlf_script(bytes: &[u8]) -> bool {
    plugin::script::fault(bytes, true).is_some()
}

fn write(root: &Path, files: &[(&String, &Vec<u8>)], time: u64) {
    for (path, bytes) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(time);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
}

fn packed(root: &Path) -> (Packed, Vec<u8>) {
    let out = tempfile::tempdir().unwrap();
    let packed = pack(root, out.path(), &mut |_, _| {}).unwrap();
    let bytes = fs::read(&packed.path).unwrap();
    (packed, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_tree_is_one_bundle_and_comes_back_whole(
        (files, order) in trees().prop_flat_map(|files| {
            let order: Vec<usize> = (0..files.len()).collect();
            (Just(files), Just(order).prop_shuffle())
        }),
        times in (0..4_000_000_000_u64, 0..4_000_000_000_u64),
    ) {
        let listed: Vec<_> = files.iter().collect();
        let shuffled: Vec<_> = order.iter().filter_map(|at| listed.get(*at).copied()).collect();
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(one.path(), &listed, times.0);
        write(two.path(), &shuffled, times.1);
        let (first, bytes) = packed(one.path());
        prop_assert_eq!(&bytes, &packed(two.path()).1);

        let out = tempfile::tempdir().unwrap();
        let staging = out.path().join("staging");
        let inspected = unpack(&bytes[..], &staging, &Limits::default()).unwrap();
        prop_assert_eq!(inspected.content_digest, first.content_digest);
        let back: BTreeMap<String, Vec<u8>> = inspected
            .files
            .iter()
            .map(|file| (file.path.clone(), fs::read(staging.join(&file.path)).unwrap()))
            .collect();
        prop_assert_eq!(&back, &files);
        prop_assert_eq!(&packed(&staging).1, &bytes);
    }
}
