//! A person starts a rollout.

use domain::audit::Event;
use domain::rollout::{Plan, State};
use uuid::Uuid;

use crate::operation::assign::{check_kinds_of, refuse_in_rollout};
use crate::operation::{By, Code, Error};
use crate::store::{Rollout, Store, Transaction, assignments, candidates, edges, nodes, plugins, rollouts};

/// A rollout as it was started, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// It; its id is empty if it was only looked at.
    pub rollout: Rollout,
    /// Per edge of the plan, in its order, how many nodes it has.
    pub nodes: Vec<(String, usize)>,
    /// For how long its steps hold altogether, if nothing holds it up.
    pub least_ms: u64,
}

/// Starts one, or says what it would do if `dry` is set. `force` is why a version is started that was rolled back before.
///
/// # Errors
/// The plan cannot be carried out; no such edge or version; an edge has the version already; a rollout of the plugin is under way on one of the edges, or
/// one of them tries a version; the version was rolled back before and `force` says nothing.
pub async fn start_rollout(
    store: &Store,
    by: &By,
    plan: &Plan,
    (force, dry): (Option<&str>, bool),
) -> Result<Started, Error> {
    plan.check().map_err(|fault| Error::refused(Code::Invalid, fault.to_string()))?;
    let mut tx = store.begin_write().await?;
    let to = &plan.to;
    if plugins::get(tx.tx(), to).await?.is_none() {
        return Err(Error::no_version(to));
    }
    check_kinds_of(tx.tx(), to).await?;
    let mut counted = Vec::new();
    for edge in plan.waves.iter().flat_map(|wave| &wave.edges) {
        if edges::get(tx.tx(), edge).await?.is_none() {
            return Err(Error::no_edge(edge));
        }
        refuse_in_rollout(tx.tx(), edge, &to.plugin).await?;
        if let Some(tried) = candidates::of_plugin(tx.tx(), edge, &to.plugin).await? {
            let detail = format!("edge {edge} tries {} on some of its nodes", tried.version);
            let remedy = format!("pintle unassign {} --edge {edge} --candidate", to.plugin);
            return Err(Error::with_remedy(Code::InRollout, detail, remedy));
        }
        let assigned = assignments::of_edge(tx.tx(), edge).await?;
        if assigned.iter().any(|one| one.version == *to) {
            let detail = format!("{to} is the installed version of edge {edge} already; leave the edge out");
            return Err(Error::refused(Code::Invalid, detail));
        }
        let nodes = nodes::list(tx.tx(), "", edge.as_str(), u64::from(u32::MAX)).await?;
        counted.push((edge.to_string(), nodes.len()));
    }
    let reason = check_mark(tx.tx(), plan, force).await?;
    let id = if dry { String::new() } else { Uuid::now_v7().to_string() };
    let rollout = Rollout {
        id: id.clone(),
        plan: plan.clone(),
        state: State::new(by.now),
        before: std::collections::BTreeMap::new(),
        reason: reason.clone(),
        revision: 1,
        started_at: by.now,
        started_by: by.origin.actor.clone(),
        moved_at: by.now,
        ended_at: None,
    };
    let started = Started { rollout, nodes: counted, least_ms: least_ms(plan) };
    if dry {
        return Ok(started);
    }
    rollouts::insert(tx.tx(), (&id, plan, &started.rollout.state), &reason, by.as_stored()).await?;
    let edges = plan.waves.iter().flat_map(|wave| wave.edges.iter().cloned()).collect();
    tx.audit(&by.origin, Event::RolloutStart { rollout: id, version: to.clone(), edges, reason });
    tx.commit(by.now).await?;
    Ok(started)
}

/// A version that was rolled back is not tried again by accident.
async fn check_mark(tx: &mut Transaction, plan: &Plan, force: Option<&str>) -> Result<String, Error> {
    let Some(earlier) = rollouts::rolled_back(tx, &plan.to).await? else {
        return Ok(force.unwrap_or("it was started").to_owned());
    };
    if let Some(reason) = force.map(str::trim).filter(|reason| !reason.is_empty()) {
        return Ok(format!("tried again: {reason}"));
    }
    let why = rollouts::find(tx, &earlier).await?.map(|one| one.reason).unwrap_or_default();
    let detail = format!("{} was rolled back by rollout {earlier}: {why}", plan.to);
    Err(Error::with_remedy(Code::RolledBack, detail, "say why it is tried again with --force REASON"))
}

/// Edges that go side by side hold at the same time.
fn least_ms(plan: &Plan) -> u64 {
    let of_wave = |wave: &domain::rollout::Wave| {
        let rounds =
            u64::try_from(wave.edges.len()).unwrap_or(u64::MAX).div_ceil(u64::from(wave.parallel_edges));
        wave.steps.iter().map(|step| step.hold_ms).sum::<u64>().saturating_mul(rounds)
    };
    plan.waves.iter().map(of_wave).fold(0, u64::saturating_add)
}
