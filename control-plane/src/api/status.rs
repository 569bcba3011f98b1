//! The fleet at a glance.

use axum::Json;
use axum::extract::State;
use domain::origin::PinState;
use serde_json::json;

use super::AppState;
use super::answer::Answer;
use crate::operation::roll_authority::progress;
use crate::store::{audits, changes, edges, meta, nodes, orphans, pins, plugins};

/// More edges or plugins than this are not counted further.
const COUNT_MAX: u64 = 100_000;

/// `GET /status`.
pub(super) async fn show(State(state): State<AppState>) -> Answer {
    let authority = progress(&state.store).await?;
    let mut tx = state.store.read().await?;
    let plugins = plugins::names(&mut tx, "", COUNT_MAX).await?;
    let mut waiting_origins = 0;
    for plugin in &plugins {
        let pins = pins::of_plugin(&mut tx, plugin).await?;
        waiting_origins += pins.iter().filter(|pin| pin.pin.state != PinState::Pinned).count();
    }
    let tail = audits::tail(&mut tx).await?;
    let elsewhere = match state.fleet.others() {
        Some((own, since)) => nodes::count_elsewhere(&mut tx, own, since).await?,
        None => 0,
    };
    Ok(Json(json!({
        "fleet": {
            "id": meta::get(&mut tx, meta::FLEET_ID).await?,
            "name": meta::get(&mut tx, meta::FLEET_NAME).await?,
            "epoch": meta::epoch(&mut tx).await?,
        },
        "authority": {
            "key_sha256": authority.issuing,
            "next_key_sha256": authority.next,
            "nodes_without_next": authority.distrusting.len(),
            "nodes_of_others": authority.of_others.len(),
        },
        "version": env!("CARGO_PKG_VERSION"),
        "node_address": state.door.node_address,
        "nodes": { "total": nodes::count(&mut tx).await?, "connected": state.fleet.connected() + elsewhere },
        "edges": edges::list(&mut tx, "", COUNT_MAX).await?.len(),
        "plugins": plugins.len(),
        "open_changes": changes::count_open(&mut tx).await?,
        "waiting_origins": waiting_origins,
        "database": { "writes": state.store.written() },
        "fanout_missed": state.fleet.missed(),
        "orphans": orphans::count_open(&mut tx).await?,
        "audit": { "events": tail.seq, "head": tail.hash.to_string() },
    })))
}
