use domain::plugin_set::{Kind, Part, Policy, Scope};
use proto::convert::Content;

use crate::operation::load_part::load_part;
use crate::operation::set_policy::{PolicyChange, set_policy};
use crate::operation::testing::{Fleet, TEAM, code, edge};
use crate::store::testing::on_both;

async fn held(fleet: &Fleet) -> (u64, Policy) {
    match load_part(&fleet.store, &Scope::Edge(edge()), Part::Policy).await.unwrap().unwrap() {
        (position, Content::Policy(policy)) => (position.generation, policy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_value_out_of_its_range_is_refused_and_changes_nothing() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let before = held(&fleet).await;
        let events = fleet.logged().await;
        let none = PolicyChange::default();
        let bad = [
            PolicyChange { fresh_for_ms: Some(2_999), ..none.clone() },
            PolicyChange { offline_lease_ms: Some(u64::MAX), ..none.clone() },
            PolicyChange { tool_memory_bytes: Some(1), ..none.clone() },
            PolicyChange { tool_files: Some(3), ..none.clone() },
            PolicyChange { tool_processes: Some(0), strict: Some(true), ..none.clone() },
        ];
        for change in bad {
            assert_eq!(
                code(set_policy(&fleet.store, &fleet.by(), &edge(), &change).await),
                "invalid",
                "{change:?}"
            );
        }
        let nowhere = domain::id::EdgeName::parse("nowhere").unwrap();
        assert_eq!(code(set_policy(&fleet.store, &fleet.by(), &nowhere, &none).await), "not_found");
        assert_eq!((held(&fleet).await, fleet.logged().await), (before, events));
    });
}

#[test]
fn what_is_set_is_told_to_the_nodes_once_and_audited_with_both_values() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let (generation, before) = held(&fleet).await;
        assert_eq!(before, Policy::default());
        let events = fleet.logged().await;
        let change = PolicyChange {
            strict: Some(true),
            offline_lease_ms: Some(86_400_000),
            forbidden_kinds: Some(vec![Kind::Url, Kind::Bash, Kind::Url]),
            tool_files: Some(100),
            ..PolicyChange::default()
        };
        let (policy, changed) = set_policy(&fleet.store, &fleet.by(), &edge(), &change).await.unwrap();
        assert!(changed && policy.strict);
        assert_eq!(policy.offline_lease_ms, Some(86_400_000));
        assert_eq!(policy.forbidden_kinds, [Kind::Url, Kind::Bash]);
        assert_eq!(policy.tool_limits.memory, before.tool_limits.memory);
        assert_eq!(held(&fleet).await, (generation + 1, policy));
        assert_eq!(fleet.events(events).await, ["edge.policy.set"]);
        let (_, again) = set_policy(&fleet.store, &fleet.by(), &edge(), &change).await.unwrap();
        assert!(!again);
        let off = PolicyChange { offline_lease_ms: Some(0), ..PolicyChange::default() };
        let (policy, _) = set_policy(&fleet.store, &fleet.by(), &edge(), &off).await.unwrap();
        assert_eq!((policy.offline_lease_ms, policy.strict), (None, true), "what is not named stays");
        assert_eq!(fleet.logged().await, events + 2);
    });
}

#[test]
fn who_assigns_a_version_is_told_which_of_its_tools_the_edges_policy_keeps_off() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let forbidden = |kinds: &[Kind]| PolicyChange {
            forbidden_kinds: Some(kinds.to_vec()),
            ..PolicyChange::default()
        };
        set_policy(&fleet.store, &fleet.by(), &edge(), &forbidden(&[Kind::Command])).await.unwrap();
        let assigned = fleet.install(TEAM, "team@1.0.0").await;
        let off: Vec<_> = assigned.off.iter().map(|one| (one.tool.as_str(), one.kind)).collect();
        assert_eq!(off, [("team", Kind::Command)]);
        set_policy(&fleet.store, &fleet.by(), &edge(), &forbidden(&[Kind::Url])).await.unwrap();
        let again = fleet.assign(&edge(), "team@1.0.0").await.unwrap();
        assert!(!again.changed && again.off.is_empty());
    });
}
