use domain::digest::Digest;
use domain::time::Timestamp;

use crate::operation::expel::{ban, evict};
use crate::operation::find_bundle::node_record;
use crate::operation::quarantine::quarantine;
use crate::operation::remove_node::remove_node;
use crate::operation::renew::renew;
use crate::operation::testing::{Fleet, code, edge};
use crate::store::Certified;
use crate::store::testing::on_both;

const DAY_MS: i64 = 24 * 3_600_000;

fn until(at: Timestamp) -> Certified {
    Certified { until: Some(at), issuer: "ab".to_owned(), authorities: "ab,cd".to_owned() }
}

#[test]
fn a_key_may_renew_until_thirty_days_after_its_certificate_ended() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let node = fleet.node(&edge(), "node-1").await;
        let (store, key, now) = (&fleet.store, Digest::of(b"node-1"), fleet.by().now);
        let from = fleet.logged().await;
        let end = now.plus_millis(DAY_MS);
        assert_eq!(renew(store, now, &key, &until(end)).await.unwrap().id, node);
        let certificate = node_record(store, &node).await.unwrap().unwrap().certificate;
        assert_eq!(certificate, until(end));
        let last = end.plus_millis(30 * DAY_MS);
        renew(store, last, &key, &until(end)).await.unwrap();
        let late = renew(store, last.plus_millis(1), &key, &until(last)).await;
        let refused = late.as_ref().unwrap_err().refusal().unwrap().clone();
        assert!(refused.detail.contains(&end.to_string()), "{refused:?}");
        assert!(refused.remedy.unwrap().contains("pintle node join STRING"));
        assert_eq!(code(late), "renewal_over");
        assert_eq!(fleet.events(from).await, ["node.renew", "node.renew"]);
        let certificate = node_record(store, &node).await.unwrap().unwrap().certificate;
        assert_eq!(certificate, until(end), "a refusal notes nothing");
    });
}

#[test]
fn a_node_of_a_release_before_has_ninety_days_from_its_join() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        fleet.node(&edge(), "node-1").await;
        let (store, key, now) = (&fleet.store, Digest::of(b"node-1"), fleet.by().now);
        assert_eq!(
            code(renew(store, now.plus_millis(121 * DAY_MS), &key, &until(now)).await),
            "renewal_over"
        );
        renew(store, now.plus_millis(119 * DAY_MS), &key, &until(now)).await.unwrap();
    });
}

#[test]
fn whoever_may_not_work_gets_no_certificate() {
    on_both(|bench| async move {
        let fleet = Fleet::new(bench).await;
        let (store, now) = (&fleet.store, fleet.by().now);
        for name in ["a", "b", "c", "d"] {
            fleet.node(&edge(), name).await;
        }
        evict(store, &fleet.by(), "a", "").await.unwrap();
        evict(store, &fleet.by(), "b", "").await.unwrap();
        remove_node(store, &fleet.by(), "b").await.unwrap();
        ban(store, &fleet.by(), "c", "").await.unwrap();
        let d = crate::operation::find_node::find_node(&mut store.read().await.unwrap(), "d").await.unwrap();
        quarantine(store, now, &d.id, &[]).await.unwrap();
        let rows = [
            ("nobody", "join_refused"),
            ("a", "node_evicted"),
            ("b", "node_evicted"),
            ("c", "node_banned"),
            ("d", "node_quarantined"),
        ];
        let from = fleet.logged().await;
        // While somebody else writes, too: no key of a node, no place in that queue.
        let writing = store.begin_write().await.unwrap();
        for (name, expected) in rows {
            let refused = renew(store, now, &Digest::of(name.as_bytes()), &until(now)).await;
            assert_eq!(code(refused), expected, "{name}");
        }
        drop(writing);
        assert_eq!(fleet.logged().await, from);
    });
}
