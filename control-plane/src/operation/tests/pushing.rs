use std::io;

use domain::digest::Digest;
use futures::stream;

use crate::operation::assign::KINDS_BUILT;
use crate::operation::push_version::push_version;
use crate::operation::testing::{Fleet, TEAM, archive, code};
use crate::store::testing::on_both;

fn left_behind(fleet: &Fleet) -> usize {
    std::fs::read_dir(fleet.bench.folder.join("blobs/tmp")).unwrap().count()
}

#[test]
fn bytes_that_are_no_bundle_are_refused_and_leave_nothing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let events = fleet.logged().await;
        let whole = archive(TEAM, "");
        for bytes in
            [&b""[..], b"no bundle at all", &whole[..whole.len() / 2], &[&whole[..], b"more"].concat()]
        {
            assert_eq!(code(fleet.push_bytes(bytes, None).await), "bad_bundle");
        }
        assert_eq!(code(fleet.push_bytes(&whole, Some(Digest::of(b"other"))).await), "archive_differs");
        assert_eq!(left_behind(&fleet), 0);
        assert_eq!(fleet.logged().await, events);
    });
}

#[test]
fn an_upload_that_ends_early_is_refused_and_leaves_nothing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let pieces = [Ok(b"half".to_vec()), Err(io::Error::other("connection reset"))];
        let pushed =
            push_version((&fleet.store, &fleet.blobs), &fleet.by(), stream::iter(pieces), None).await;
        assert_eq!(code(pushed), "archive_differs");
        assert_eq!(left_behind(&fleet), 0);
    });
}

#[test]
fn a_version_is_pushed_once_and_its_content_never_changes() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let first = fleet.push(TEAM).await.unwrap();
        assert!(first.created);
        let bytes = archive(TEAM, "");
        assert_eq!(std::fs::read(fleet.blobs.path(&first.archive_sha256)).unwrap(), bytes);
        let again = fleet.push_bytes(&bytes, Some(Digest::of(&bytes))).await.unwrap();
        assert!(!again.created);
        assert_eq!(again.archive_sha256, first.archive_sha256);
        let other = fleet.push_bytes(&archive(TEAM, "other"), None).await.unwrap_err();
        assert!(other.to_string().contains(&first.content_digest.to_string()), "{other}");
        assert_eq!(code::<()>(Err(other)), "version_differs");
        assert_eq!(left_behind(&fleet), 0);
        let events = fleet.events(0).await;
        assert_eq!(events.iter().filter(|name| *name == "plugin.version.push").count(), 1);
    });
}

// C37
#[test]
fn a_version_with_build_metadata_is_never_taken_for_the_one_without() {
    on_both(|bench| async move {
        let case: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/cases/C37-same-version-new-content.json"))
                .unwrap();
        let version = case["first"]["version"].as_str().unwrap();
        assert_eq!(case["second"]["version"], version);
        let text = |of: &str| case[of]["files"]["skills/a/SKILL.md"].as_str().unwrap().to_owned();
        let manifest = |version: &str| TEAM.replace("1.0.0", version);
        let fleet = Fleet::new(bench).await;
        let first = fleet.push_bytes(&archive(&manifest(version), &text("first")), None).await.unwrap();
        let again = fleet.push_bytes(&archive(&manifest(version), &text("first")), None).await.unwrap();
        assert!(first.created && !again.created && first.content_digest == again.content_digest);
        let second = fleet.push_bytes(&archive(&manifest(version), &text("second")), None).await;
        assert_eq!(code(second), "version_differs");
        let build = fleet.push_bytes(&archive(&manifest("1.0.0+build.2"), &text("second")), None).await;
        // Refused or a version of its own; in either case 1.0.0 is what it was.
        assert!(build.is_err() || build.is_ok_and(|pushed| pushed.created));
        let next = fleet.push_bytes(&archive(&manifest("1.0.1"), &text("first")), None).await.unwrap();
        assert!(next.created);
        let again = fleet.push_bytes(&archive(&manifest(version), &text("first")), None).await.unwrap();
        assert!(!again.created && again.content_digest == first.content_digest);
    });
}

#[test]
fn kinds_that_nodes_do_not_run_are_refused_by_name() {
    assert_eq!(KINDS_BUILT.len(), 2);
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let manifest = "name: sh\nversion: 1.0.0\ntools:\n  lines: { node: \"tools\" }\n";
        let error = match fleet.push(manifest).await {
            Err(error) => error,
            Ok(pushed) => panic!("{pushed:?}"),
        };
        assert!(error.to_string().contains("lines (node)"), "{error}");
    });
}

#[test]
fn what_an_upload_left_is_removed_at_the_next_start() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        std::fs::write(fleet.bench.folder.join("blobs/tmp/left"), b"half").unwrap();
        crate::store::Blobs::open(&fleet.bench.folder).unwrap();
        assert_eq!(left_behind(&fleet), 0);
    });
}
