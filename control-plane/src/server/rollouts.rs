//! Moves rollouts on, as every server of the database does: whoever looks first makes the move.

use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Chain;
use crate::fleet::Fleet;
use crate::operation::rollout::move_all;
use crate::store::{NodeRecord, Store};

/// How often rollouts are looked at when nothing wakes a server: holds end, and nodes go away, without a word.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Moves them on until the server stops. A panic is logged, and the next look begins anew.
pub(super) async fn run(
    store: Store,
    fleet: Fleet,
    clock: fn() -> domain::time::Timestamp,
    stop: CancellationToken,
) {
    let mut wakes = store.wakes();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            woken = wakes.changed() => {
                if woken.is_err() {
                    return;
                }
            }
            _ = look.tick() => {}
        }
        let (store, fleet) = (store.clone(), fleet.clone());
        let moved = tokio::spawn(async move {
            let presence =
                |node: &NodeRecord| fleet.presence(&node.id).is_some() || fleet.is_at_another_server(node);
            move_all(&store, &presence, clock).await
        });
        match moved.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(error = %Chain(&error), "rollouts could not be moved on"),
            Err(error) => tracing::error!(%error, "a look at the rollouts broke off"),
        }
    }
}
