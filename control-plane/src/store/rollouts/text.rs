//! Plans and states of rollouts as JSON: plans as the API has them, states as the database keeps them.

use std::collections::BTreeMap;

use domain::id::{EdgeName, NodeId, PluginVersion};
use domain::rollout::{OnChanges, OnFailure, Part, Pause, Phase, Plan, Run, Share, State, Step, Wave};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Unless a plan says otherwise: an hour.
const DEADLINE_MS: u64 = 3_600_000;

/// Unless a plan says otherwise: five minutes.
const GRACE_MS: u64 = 300_000;

/// Unless a step says otherwise: ten minutes.
const HOLD_MS: u64 = 600_000;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    waves: Vec<WaveText>,
    #[serde(default = "deadline")]
    progress_deadline_ms: u64,
    #[serde(default = "grace")]
    offline_grace_ms: u64,
    #[serde(default)]
    failed_nodes: u32,
    #[serde(default = "wait")]
    on_changes: String,
    #[serde(default = "roll_back")]
    on_failure: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WaveText {
    #[serde(default)]
    name: String,
    edges: Vec<String>,
    #[serde(default = "one")]
    parallel_edges: u32,
    #[serde(default)]
    steps: Vec<StepText>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    nodes: Value,
    #[serde(default)]
    hold_ms: Option<u64>,
}

const fn deadline() -> u64 {
    DEADLINE_MS
}
const fn grace() -> u64 {
    GRACE_MS
}
const fn one() -> u32 {
    1
}
fn wait() -> String {
    "wait".to_owned()
}
fn roll_back() -> String {
    "roll_back".to_owned()
}

/// Reads a plan for a version. Whether it can be carried out is [`Plan::check`]'s.
///
/// # Errors
/// What is wrong with the text, for people.
pub(crate) fn read_plan(to: &PluginVersion, text: &str) -> Result<Plan, String> {
    let plan: PlanText = serde_json::from_str(text).map_err(|fault| fault.to_string())?;
    let waves: Result<Vec<Wave>, String> = plan.waves.into_iter().enumerate().map(read_wave).collect();
    let on_changes = match &*plan.on_changes {
        "wait" => OnChanges::Wait,
        "go_on" => OnChanges::GoOn,
        other => return Err(format!("on_changes is {other:?}; wait and go_on are")),
    };
    let on_failure = match &*plan.on_failure {
        "roll_back" => OnFailure::RollBack,
        "pause" => OnFailure::Pause,
        other => return Err(format!("on_failure is {other:?}; roll_back and pause are")),
    };
    Ok(Plan {
        to: to.clone(),
        waves: waves?,
        progress_deadline_ms: plan.progress_deadline_ms,
        offline_grace_ms: plan.offline_grace_ms,
        failed_nodes: plan.failed_nodes,
        on_changes,
        on_failure,
    })
}

fn read_wave((at, wave): (usize, WaveText)) -> Result<Wave, String> {
    let edges: Result<Vec<EdgeName>, String> =
        wave.edges.iter().map(|edge| EdgeName::parse(edge).map_err(|fault| fault.to_string())).collect();
    let name = if wave.name.is_empty() { (at + 1).to_string() } else { wave.name };
    if name.len() > 100 || name.chars().any(char::is_control) {
        return Err(format!(
            "the name of wave {} is longer than 100 bytes, or has control characters",
            at + 1
        ));
    }
    let mut steps = Vec::new();
    for step in wave.steps {
        let nodes = read_share(&step.nodes)?;
        // The last step's nodes have it already when it is the installed version.
        let otherwise = if nodes == Share::Percent(100) { 0 } else { HOLD_MS };
        steps.push(Step { nodes, hold_ms: step.hold_ms.unwrap_or(otherwise) });
    }
    if steps.is_empty() {
        steps = vec![
            Step { nodes: Share::Count(1), hold_ms: HOLD_MS },
            Step { nodes: Share::Percent(100), hold_ms: 0 },
        ];
    }
    Ok(Wave { name, edges: edges?, parallel_edges: wave.parallel_edges, steps })
}

fn read_share(value: &Value) -> Result<Share, String> {
    let wrong = || {
        format!(
            "a step is for {value} nodes; write a number of nodes, such as 3, or a share, such as \"10%\""
        )
    };
    match value {
        Value::Number(number) => {
            number.as_u64().and_then(|count| u32::try_from(count).ok()).map(Share::Count).ok_or_else(wrong)
        }
        Value::String(text) => {
            let percent = text.strip_suffix('%').ok_or_else(wrong)?;
            percent.parse().map(Share::Percent).map_err(|_| wrong())
        }
        _ => Err(wrong()),
    }
}

fn share_value(share: Share) -> Value {
    match share {
        Share::Count(count) => Value::from(count),
        Share::Percent(percent) => Value::from(format!("{percent}%")),
    }
}

/// A plan as JSON, without its version.
pub(crate) fn plan_value(plan: &Plan) -> Value {
    let wave = |wave: &Wave| WaveText {
        name: wave.name.clone(),
        edges: wave.edges.iter().map(|edge| edge.as_str().to_owned()).collect(),
        parallel_edges: wave.parallel_edges,
        steps: wave
            .steps
            .iter()
            .map(|step| StepText { nodes: share_value(step.nodes), hold_ms: Some(step.hold_ms) })
            .collect(),
    };
    let text = PlanText {
        waves: plan.waves.iter().map(wave).collect(),
        progress_deadline_ms: plan.progress_deadline_ms,
        offline_grace_ms: plan.offline_grace_ms,
        failed_nodes: plan.failed_nodes,
        on_changes: match plan.on_changes {
            OnChanges::Wait => wait(),
            OnChanges::GoOn => "go_on".to_owned(),
        },
        on_failure: match plan.on_failure {
            OnFailure::RollBack => roll_back(),
            OnFailure::Pause => "pause".to_owned(),
        },
    };
    serde_json::to_value(text).unwrap_or_default()
}

pub(crate) fn plan_text(plan: &Plan) -> String {
    plan_value(plan).to_string()
}

#[derive(Serialize, Deserialize)]
struct StateText {
    phase: PhaseText,
    wave: usize,
    edges: BTreeMap<String, RunText>,
    moved_at: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PhaseText {
    Pending,
    Progressing,
    Paused { since: i64, failed: Option<String>, unapproved: Option<String> },
    RollingBack { reason: String },
    Completed,
    RolledBack { reason: String },
}

#[derive(Serialize, Deserialize)]
struct RunText {
    members: Vec<String>,
    step: usize,
    part: PartText,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartText {
    Installing,
    Holding(i64),
    Promoted,
    Reverted,
}

pub(crate) fn state_text(state: &State) -> String {
    let phase = match state.phase.clone() {
        Phase::Pending => PhaseText::Pending,
        Phase::Progressing => PhaseText::Progressing,
        Phase::Paused { since, why } => {
            let (failed, unapproved) = match why {
                Pause::Person => (None, None),
                Pause::Failed(reason) => (Some(reason), None),
                Pause::Unapproved(what) => (None, Some(what)),
            };
            PhaseText::Paused { since: since.as_millis(), failed, unapproved }
        }
        Phase::RollingBack { reason } => PhaseText::RollingBack { reason },
        Phase::Completed => PhaseText::Completed,
        Phase::RolledBack { reason } => PhaseText::RolledBack { reason },
    };
    let run = |(edge, run): (&EdgeName, &Run)| {
        let part = match run.part {
            Part::Installing => PartText::Installing,
            Part::Holding(since) => PartText::Holding(since.as_millis()),
            Part::Promoted => PartText::Promoted,
            Part::Reverted => PartText::Reverted,
        };
        let members = run.members.iter().map(|node| node.as_str().to_owned()).collect();
        (edge.as_str().to_owned(), RunText { members, step: run.step, part })
    };
    let text = StateText {
        phase,
        wave: state.wave,
        edges: state.edges.iter().map(run).collect(),
        moved_at: state.moved_at.as_millis(),
    };
    serde_json::to_string(&text).unwrap_or_default()
}

pub(crate) fn read_state(text: &str) -> Result<State, String> {
    let state: StateText = serde_json::from_str(text).map_err(|fault| fault.to_string())?;
    let phase = match state.phase {
        PhaseText::Pending => Phase::Pending,
        PhaseText::Progressing => Phase::Progressing,
        PhaseText::Paused { since, failed, unapproved } => {
            let failed = failed.map(Pause::Failed);
            let why = failed.or_else(|| unapproved.map(Pause::Unapproved)).unwrap_or(Pause::Person);
            Phase::Paused { since: Timestamp::from_millis(since), why }
        }
        PhaseText::RollingBack { reason } => Phase::RollingBack { reason },
        PhaseText::Completed => Phase::Completed,
        PhaseText::RolledBack { reason } => Phase::RolledBack { reason },
    };
    let run = |(edge, run): (String, RunText)| {
        let edge = EdgeName::parse(&edge).map_err(|fault| fault.to_string())?;
        let node = |node: &String| NodeId::parse(node).map_err(|fault| fault.to_string());
        let part = match run.part {
            PartText::Installing => Part::Installing,
            PartText::Holding(since) => Part::Holding(Timestamp::from_millis(since)),
            PartText::Promoted => Part::Promoted,
            PartText::Reverted => Part::Reverted,
        };
        let members = run.members.iter().map(node).collect::<Result<_, String>>()?;
        Ok((edge, Run { members, step: run.step, part }))
    };
    Ok(State {
        phase,
        wave: state.wave,
        edges: state.edges.into_iter().map(run).collect::<Result<_, String>>()?,
        moved_at: Timestamp::from_millis(state.moved_at),
    })
}
