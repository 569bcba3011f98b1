//! What a move of a rollout does to an edge.

use domain::audit::Event;
use domain::id::{EdgeName, PluginVersion};
use domain::plugin_set::{Part, Scope};
use domain::rollout::Action;

use crate::operation::assign::{check_and_pin, install};
use crate::operation::{By, Error, unassign_candidate};
use crate::store::candidates::{self, Candidate};
use crate::store::{Rollout, WriteTx, assignments};

pub(super) async fn act(
    tx: &mut WriteTx,
    by: &By,
    rollout: &mut Rollout,
    action: &Action,
) -> Result<(), Error> {
    match action {
        Action::Begin(edge) => begin(tx, by, rollout, edge).await,
        Action::Grant(edge, nodes) => {
            let candidate = candidate(by, rollout, edge);
            for node in nodes {
                candidates::grant(tx.tx(), node, &candidate, by.as_stored()).await?;
                tx.raise_grants(edge, node);
            }
            Ok(())
        }
        Action::TakeBack(edge, nodes) => {
            for node in nodes {
                candidates::take_back(tx.tx(), node, &rollout.plan.to.plugin).await?;
                tx.raise_grants(edge, node);
            }
            Ok(())
        }
        Action::Promote(edge) => install(tx, by, edge, &rollout.plan.to).await.map(|_| ()),
        Action::Revert { edge, promoted: false } => end(tx, by, rollout, edge).await,
        Action::Revert { edge, promoted: true } => go_back(tx, by, rollout, edge).await,
    }
}

fn candidate(by: &By, rollout: &Rollout, edge: &EdgeName) -> Candidate {
    Candidate {
        source: rollout.source(edge).into(),
        version: rollout.plan.to.clone(),
        set_at: by.now,
        set_by: rollout.started_by.clone(),
    }
}

async fn begin(tx: &mut WriteTx, by: &By, rollout: &mut Rollout, edge: &EdgeName) -> Result<(), Error> {
    let checked = check_and_pin(tx, by, edge, &rollout.plan.to).await?;
    rollout.before.insert(edge.clone(), checked.installed.map(|installed| installed.version));
    let candidate = candidate(by, rollout, edge);
    candidates::put(tx.tx(), edge, &candidate).await?;
    tx.raise(Scope::Edge(edge.clone()), Part::Trust);
    tx.raise(Scope::Edge(edge.clone()), Part::Plan);
    Ok(())
}

/// The edge tries the version no longer.
async fn end(tx: &mut WriteTx, by: &By, rollout: &Rollout, edge: &EdgeName) -> Result<(), Error> {
    let candidate = candidates::of_plugin(tx.tx(), edge, &rollout.plan.to.plugin).await?;
    match candidate.filter(|candidate| *candidate.source == *rollout.source(edge)) {
        Some(candidate) => unassign_candidate::end(tx, by, edge, &candidate, false).await,
        None => Ok(()),
    }
}

/// What was installed before is again, if what is installed is still this rollout's doing.
async fn go_back(tx: &mut WriteTx, by: &By, rollout: &Rollout, edge: &EdgeName) -> Result<(), Error> {
    let plugin = &rollout.plan.to.plugin;
    let assigned = assignments::of_edge(tx.tx(), edge).await?;
    let is_ours = assigned.iter().any(|one| one.version == rollout.plan.to);
    if !is_ours {
        return Ok(());
    }
    if let Some(version) = rollout.before.get(edge).cloned().flatten() {
        let before = PluginVersion { plugin: plugin.clone(), version };
        return install(tx, by, edge, &before).await.map(|_| ());
    }
    assignments::delete(tx.tx(), edge, plugin).await?;
    let event = Event::EdgeAssignmentUnset { edge: edge.clone(), version: rollout.plan.to.clone() };
    tx.audit(&by.origin, event);
    tx.raise(Scope::Edge(edge.clone()), Part::Trust);
    tx.raise(Scope::Edge(edge.clone()), Part::Plan);
    Ok(())
}
