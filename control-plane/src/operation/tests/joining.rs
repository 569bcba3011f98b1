use domain::digest::Digest;
use domain::id::NodeName;
use domain::plugin_set::{Part, Scope};
use domain::time::Timestamp;
use proto::convert::{Status, VersionState, VersionStatus};

use crate::operation::find_bundle::{bundle_for, node_record};
use crate::operation::issue_join_token::{IssuedJoinToken, issue_join_token, revoke_join_token};
use crate::operation::join::{JoinInput, join};
use crate::operation::load_part::{load_part, positions};
use crate::operation::note_node::{note_alive, note_hello, note_status, note_streams};
use crate::operation::testing::{Fleet, TEAM, code, edge, version};
use crate::operation::unassign::unassign;
use crate::store::nodes;
use crate::store::testing::on_both;

fn input(token: &IssuedJoinToken, key: &str, name: &str) -> JoinInput {
    JoinInput {
        token_id: token.id.clone(),
        secret: token.secret.clone(),
        public_key_sha256: Digest::of(key.as_bytes()),
        node_name: NodeName::parse(name).unwrap(),
        agent_version: "0.1.0".to_owned(),
        certified: crate::store::Certified::default(),
    }
}

#[test]
fn a_join_token_that_is_wrong_over_used_up_or_revoked_admits_nobody() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let store = &fleet.store;
        let token = issue_join_token(store, &fleet.by(), &edge(), 1, 60_000).await.unwrap();
        let now = fleet.by().now;
        // While somebody else writes, too: no secret, no place in that queue.
        let writing = store.begin_write().await.unwrap();
        let stranger = JoinInput { secret: "x".to_owned(), ..input(&token, "k", "node-1") };
        assert_eq!(code(join(store, now, &stranger).await), "join_refused");
        drop(writing);
        let wrong = JoinInput { secret: "x".to_owned(), ..input(&token, "k", "node-1") };
        assert_eq!(code(join(store, now, &wrong).await), "join_refused");
        let unknown = JoinInput { token_id: "x".to_owned(), ..input(&token, "k", "node-1") };
        assert_eq!(code(join(store, now, &unknown).await), "join_refused");
        assert_eq!(code(join(store, token.expires_at, &input(&token, "k", "node-1")).await), "join_refused");
        join(store, now, &input(&token, "k", "node-1")).await.unwrap();
        assert_eq!(code(join(store, now, &input(&token, "l", "node-2")).await), "join_refused");
        let other = issue_join_token(store, &fleet.by(), &edge(), 5, 60_000).await.unwrap();
        revoke_join_token(store, &fleet.by(), &other.id).await.unwrap();
        assert_eq!(code(join(store, now, &input(&other, "l", "node-2")).await), "join_refused");
        for (uses, ttl_ms) in [(0, 60_000), (1, 0), (1, u64::MAX)] {
            assert_eq!(code(issue_join_token(store, &fleet.by(), &edge(), uses, ttl_ms).await), "invalid");
        }
    });
}

#[test]
fn joining_again_with_the_same_key_gives_the_same_node_and_uses_nothing_up() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let token = issue_join_token(&fleet.store, &fleet.by(), &edge(), 2, 60_000).await.unwrap();
        let now = fleet.by().now;
        let first = join(&fleet.store, now, &input(&token, "k", "node-1")).await.unwrap();
        assert_eq!(join(&fleet.store, now, &input(&token, "k", "other")).await.unwrap(), first);
        let second = join(&fleet.store, now, &input(&token, "l", "node-1")).await.unwrap();
        assert_eq!((first.name.as_str(), second.name.as_str()), ("node-1", "node-1-2"));
        assert_ne!(first.node_id, second.node_id);
        // Also after the token is used up: the first answer may have been lost.
        assert_eq!(join(&fleet.store, now, &input(&token, "l", "node-1")).await.unwrap(), second);
        let scope = Scope::Node(first.node_id.clone());
        let (position, _) = load_part(&fleet.store, &scope, Part::Grants).await.unwrap().unwrap();
        assert_eq!(position.generation, 1);
        assert_eq!(node_record(&fleet.store, &first.node_id).await.unwrap().unwrap().edge, edge());
    });
}

#[test]
fn a_node_that_says_it_runs_a_version_keeps_that_version_in_its_edges_trust() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = fleet.node(&edge(), "node-1").await;
        fleet.install(TEAM, "team@1.0.0").await;
        let team = version("team@1.0.0");
        unassign(&fleet.store, &fleet.by(), &edge(), &team.plugin).await.unwrap();
        let before = fleet.trust(&edge()).await;
        assert!(!before.1.versions.contains_key(&team));
        let said = [team.clone(), version("never@1.0.0")];
        note_hello(&fleet.store, fleet.by().now, &node, "0.1.0", &said, &Status::default()).await.unwrap();
        let after = fleet.trust(&edge()).await;
        assert!(after.1.versions.contains_key(&team) && after.1.versions.len() == 1);
        assert_eq!(after.0.generation, before.0.generation + 1);
        // Said again it changes nothing; a new state is no change of the set.
        note_hello(&fleet.store, fleet.by().now, &node, "0.1.0", &said, &Status::default()).await.unwrap();
        let status = Status {
            versions: vec![VersionStatus {
                version: team.clone(),
                state: VersionState::Failed,
                reason: "no\u{200b}".into(),
                tools: Vec::new(),
            }],
        };
        note_status(&fleet.store, fleet.by().now, &node, &status).await.unwrap();
        assert_eq!(fleet.trust(&edge()).await.0, after.0);
        note_status(&fleet.store, fleet.by().now, &node, &Status::default()).await.unwrap();
        assert!(fleet.trust(&edge()).await.1.versions.is_empty());
    });
}

#[test]
fn a_node_gets_only_the_archives_that_its_edges_plan_names() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = fleet.node(&edge(), "node-1").await;
        let pushed = fleet.push(TEAM).await.unwrap();
        let key = Digest::of(b"node-1");
        let find = || bundle_for((&fleet.store, &fleet.blobs), (&node, &key), &pushed.archive_sha256);
        assert_eq!(find().await.unwrap(), None);
        fleet.assign(&edge(), "team@1.0.0").await.unwrap();
        assert!(find().await.unwrap().unwrap().is_file());
        let other = Digest::of(b"x");
        assert_eq!(bundle_for((&fleet.store, &fleet.blobs), (&node, &key), &other).await.unwrap(), None);
        let as_other = bundle_for((&fleet.store, &fleet.blobs), (&node, &other), &pushed.archive_sha256);
        assert_eq!(as_other.await.unwrap(), None, "another key is another node");
    });
}

#[test]
fn positions_name_every_part_and_being_seen_never_goes_back() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = fleet.node(&edge(), "node-1").await;
        let all = positions(&fleet.store, None).await.unwrap();
        assert_eq!(all.len(), 4, "{all:?}");
        let scopes = [Scope::Edge(edge())];
        assert_eq!(positions(&fleet.store, Some(&scopes)).await.unwrap().len(), 3);
        for millis in [2_000, 1_000] {
            let at = Timestamp::from_millis(millis);
            note_alive(&fleet.store, at, &[(node.clone(), at)], &[]).await.unwrap();
        }
        let record = node_record(&fleet.store, &node).await.unwrap().unwrap();
        assert_eq!(record.last_seen_at, Some(Timestamp::from_millis(2_000)));
    });
}

#[test]
fn where_a_nodes_stream_is_stands_on_record_until_that_server_takes_it_back() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = fleet.node(&edge(), "a").await;
        let now = fleet.by().now;
        let at = |server: &'static str, is_here: bool| {
            let (store, node) = (fleet.store.clone(), node.clone());
            async move { note_streams(&store, now, server, &[(node, is_here)]).await.unwrap() }
        };
        let elsewhere = |own: &'static str, since: i64| {
            let store = fleet.store.clone();
            async move {
                let mut tx = store.read().await.unwrap();
                nodes::count_elsewhere(&mut tx, own, Timestamp::from_millis(since)).await.unwrap()
            }
        };
        at("one", true).await;
        assert_eq!((elsewhere("one", 0).await, elsewhere("two", 0).await), (0, 1));
        // It went over to another server, and the first says late that it left.
        at("two", true).await;
        at("one", false).await;
        assert_eq!(elsewhere("one", 0).await, 1);
        let later = now.as_millis() + 1;
        assert_eq!(elsewhere("one", later).await, 0, "a server that was killed takes nothing back");
        at("two", false).await;
        assert_eq!(elsewhere("one", 0).await, 0);
    });
}
