//! What is seen of a rollout's edges.

use std::collections::BTreeSet;

use domain::id::{EdgeName, NodeId, PluginVersion};
use domain::origin::PinState;
use domain::rollout::{EdgeView, Fleet, NodeView, Progress};
use domain::standing::Standing;
use serde::Deserialize;

use crate::operation::Error;
use crate::store::changes::{self, State};
use crate::store::nodes::versions::{self, NodeVersion};
use crate::store::{NodeRecord, Rollout, Transaction, candidates, edges, nodes, pins};

/// Nodes that are read at once.
const PAGE: u64 = 1_000;

/// Which nodes are connected, at whatever server.
pub trait Presence: Send + Sync {
    /// Whether this one is.
    fn is_connected(&self, node: &NodeRecord) -> bool;
}

/// The edges of the rollout that have begun or may begin next.
pub(super) async fn observe(
    tx: &mut Transaction,
    presence: &dyn Presence,
    rollout: &Rollout,
) -> Result<Fleet, Error> {
    let mut fleet = Fleet::new();
    let begun = rollout.state.edges.keys();
    let next = rollout.plan.waves.get(rollout.state.wave).into_iter().flat_map(|wave| &wave.edges);
    let wanted: BTreeSet<&EdgeName> = begun.chain(next).collect();
    let open = changes::of_plugin(tx, &rollout.plan.to.plugin).await?;
    for edge in wanted {
        if edges::get(tx, edge).await?.is_none() {
            continue;
        }
        let mut view = EdgeView::default();
        let granted: BTreeSet<NodeId> = candidates::nodes_of(tx, &rollout.source(edge))
            .await?
            .into_iter()
            .map(|(_, node)| node)
            .collect();
        let records = nodes_of(tx, edge).await?;
        let ids: Vec<NodeId> = records.iter().map(|record| record.id.clone()).collect();
        let mut said = versions::of_nodes(tx, &ids).await?;
        for record in records {
            let versions = said.remove(&record.id).unwrap_or_default();
            if granted.contains(&record.id) {
                view.granted.insert(record.id.clone());
            }
            if record.standing.standing != Standing::Active {
                continue;
            }
            let away = || record.last_seen_at.unwrap_or(record.joined_at);
            let away_since = (!presence.is_connected(&record)).then(away);
            let progress = match progress(&rollout.plan.to, &versions) {
                // People know nodes by their names.
                Progress::Failed(reason) => Progress::Failed(format!("{}: {reason}", record.name)),
                other => other,
            };
            view.nodes.insert(record.id, NodeView { away_since, progress });
        }
        view.waiting = waiting(tx, edge, &rollout.plan.to, &open).await?;
        fleet.insert(edge.clone(), view);
    }
    Ok(fleet)
}

async fn nodes_of(tx: &mut Transaction, edge: &EdgeName) -> Result<Vec<NodeRecord>, Error> {
    let mut all: Vec<NodeRecord> = Vec::new();
    loop {
        let after = all.last().map(|last| last.name.as_str().to_owned()).unwrap_or_default();
        let page = nodes::list(tx, &after, edge.as_str(), PAGE).await?;
        let is_last = u64::try_from(page.len()).unwrap_or(u64::MAX) < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// What of the version waits for a person on an edge.
async fn waiting(
    tx: &mut Transaction,
    edge: &EdgeName,
    version: &PluginVersion,
    open: &[changes::Variant],
) -> Result<Vec<String>, Error> {
    let concerns = |one: &&changes::Variant| {
        one.version == *version && one.state == State::Open && one.edge.as_ref().is_none_or(|of| of == edge)
    };
    let functions = open.iter().filter(concerns).map(|one| format!("{}.{}", one.tool, one.function));
    let mut waiting: BTreeSet<String> = functions.collect();
    for pin in pins::of_edge(tx, edge, &version.plugin).await? {
        if pin.version == *version && pin.pin.state != PinState::Pinned {
            waiting.insert(format!("the endpoint of {}", pin.tool));
        }
    }
    Ok(waiting.into_iter().map(|text| domain::visible::make_visible_up_to(&text, 200)).collect())
}

#[derive(Deserialize)]
struct ToolSaid {
    tool: String,
    state: String,
    #[serde(default)]
    reason: String,
}

/// How far a node says that it has the version.
fn progress(version: &PluginVersion, said: &[NodeVersion]) -> Progress {
    let Some(said) = said.iter().find(|one| one.version == *version) else { return Progress::Nothing };
    let tools: Vec<ToolSaid> = serde_json::from_str(&said.tools).unwrap_or_default();
    if let Some(tool) = tools.iter().find(|tool| tool.state == "not_running") {
        return Progress::Failed(format!("{} does not run: {}", tool.tool, tool.reason));
    }
    match said.state.as_str() {
        // Where a remote tool is out of reach, nothing is known of the version.
        "serving" if tools.iter().all(|tool| matches!(&*tool.state, "running" | "kind_off")) => {
            Progress::Serving
        }
        "failed" => Progress::Failed(said.reason.clone()),
        _ => Progress::Begun,
    }
}

impl<F: Fn(&NodeRecord) -> bool + Send + Sync> Presence for F {
    fn is_connected(&self, node: &NodeRecord) -> bool {
        self(node)
    }
}
