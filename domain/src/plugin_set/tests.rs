use proptest::prelude::*;

use super::*;
use crate::id::PluginVersion;

fn position(epoch: u64, generation: u64) -> Position {
    Position { epoch, generation }
}

#[test]
fn an_older_generation_is_refused_and_both_sides_are_named() {
    let held = Some((position(1, 9), Digest::of(b"nine")));
    let error = accept(Part::Trust, held, (position(1, 6), Digest::of(b"six"))).unwrap_err();
    assert_eq!(error.to_string(), "accept trust 1.6: it is older than the held 1.9");
}

#[test]
fn the_same_generation_with_another_digest_is_refused_as_forked() {
    let held = Some((position(1, 9), Digest::of(b"nine")));
    let error = accept(Part::Plan, held, (position(1, 9), Digest::of(b"other"))).unwrap_err();
    assert!(matches!(error, AcceptFault::Forked { .. }), "{error}");
}

#[test]
fn a_newer_epoch_is_applied_whatever_its_generation() {
    let held = Some((position(1, 900), Digest::of(b"a")));
    assert_eq!(accept(Part::Trust, held, (position(2, 1), Digest::of(b"b"))), Ok(Acceptance::Apply));
}

fn planned(version: &str) -> PlannedVersion {
    PlannedVersion {
        version: PluginVersion::parse(version).unwrap(),
        content_digest: Digest::of(b"content"),
        archive_sha256: Digest::of(b"archive"),
        archive_length: 1,
        tools: BTreeMap::new(),
    }
}

#[test]
fn a_grant_counts_only_while_the_plan_names_its_source_and_version() {
    let plugin = PlannedPlugin {
        installed: Some(planned("team@1.0.0")),
        candidate: Some(("rollout-1/1".into(), planned("team@1.1.0"))),
    };
    let grant = |source: &str, version: &str, usage| Grant {
        source: source.into(),
        version: PluginVersion::parse(version).unwrap(),
        usage,
    };
    let rows = [
        (None, "team@1.0.0"),
        (Some(grant("rollout-1/1", "team@1.1.0", GrantUse::Serve)), "team@1.1.0"),
        (Some(grant("rollout-1/1", "team@1.1.0", GrantUse::Gate)), "team@1.0.0"),
        (Some(grant("rollout-1/2", "team@1.1.0", GrantUse::Serve)), "team@1.0.0"),
        (Some(grant("rollout-1/1", "team@1.2.0", GrantUse::Serve)), "team@1.0.0"),
    ];
    for (grant, version) in rows {
        let served = assigned(&plugin, grant.as_ref()).unwrap();
        assert_eq!(served.version.to_string(), version, "{grant:?}");
    }
}

proptest! {
    #[test]
    fn nothing_held_ever_moves_backwards(offers in prop::collection::vec((0u64..4, 0u64..6, 0u8..3), 0..60)) {
        let mut held: Option<(Position, Digest)> = None;
        for (epoch, generation, content) in offers {
            let got = (position(epoch, generation), Digest::of(&[content]));
            let before = held;
            match accept(Part::Trust, held, got) {
                Ok(Acceptance::Apply) => held = Some(got),
                Ok(Acceptance::Held) => prop_assert_eq!(held, Some(got)),
                Err(_) => {}
            }
            if let (Some(before), Some(after)) = (before, held) {
                prop_assert!(after.0 >= before.0);
                prop_assert!(after.0 > before.0 || after.1 == before.1);
            }
        }
    }

    #[test]
    fn a_manifest_has_one_digest_whatever_order_it_was_made_in(names in prop::collection::btree_set("[a-z]{1,8}", 0..12)) {
        let forward = Manifest(names.iter().map(|n| (n.as_str().into(), Digest::of(n.as_bytes()))).collect());
        let backward = Manifest(names.iter().rev().map(|n| (n.as_str().into(), Digest::of(n.as_bytes()))).collect());
        prop_assert_eq!(forward.digest(), backward.digest());
    }
}
