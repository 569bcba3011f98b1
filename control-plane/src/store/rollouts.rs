//! Rollouts: their plans, and how far they are.

use std::collections::BTreeMap;

use domain::id::{EdgeName, PluginName, PluginVersion};
use domain::rollout::{Plan, State};
use domain::time::Timestamp;

use self::text::{plan_text, read_plan, read_state, state_text};
use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};
use super::{By, Error};

pub(crate) mod text;

statements! {
    INSERT = "insert into rollouts (id, plugin, version, plan, state, earlier, phase, reason, revision, started_at, started_by, \
              moved_at) values ($1, $2, $3, $4, $5, '{}', $6, $7, 1, $8, $9, $8)";
    UPDATE = "update rollouts set state = $3, earlier = $4, phase = $5, reason = $6, revision = revision + 1, \
              moved_at = $7, ended_at = $8 where id = $1 and revision = $2";
    FIND = "select id, plugin, version, plan, state, earlier, reason, revision, started_at, started_by, moved_at, \
            ended_at from rollouts where id = $1";
    UNDER_WAY = "select id from rollouts where ended_at is null order by id";
    OF_PLUGIN = "select id, plugin, version, plan, state, earlier, reason, revision, started_at, started_by, moved_at, \
                 ended_at from rollouts where plugin = $1 and ended_at is null order by id";
    BEFORE = "select id, plugin, version, plan, state, earlier, reason, revision, started_at, started_by, moved_at, \
              ended_at from rollouts where id < $1 or $1 = '' order by id desc limit $2";
    ROLLED_BACK = "select id from rollouts where plugin = $1 and version = $2 and phase = 'rolled_back' order by id desc limit 1";
}

/// One rollout on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    /// Its id, by which they are ordered.
    pub id: String,
    /// What is wanted.
    pub plan: Plan,
    /// How far it is.
    pub state: State,
    /// What each edge that began had installed before.
    pub before: BTreeMap<EdgeName, Option<semver::Version>>,
    /// Why it stands so.
    pub reason: String,
    /// Another one at each move.
    pub revision: u64,
    /// When it began.
    pub started_at: Timestamp,
    /// By whom.
    pub started_by: String,
    /// When it moved last.
    pub moved_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Rollout {
    /// What its grants on an edge name.
    pub(crate) fn source(&self, edge: &EdgeName) -> String {
        format!("rollout/{}/{edge}", self.id)
    }
}

/// Adds one that was not decided yet.
pub(crate) async fn insert(
    tx: &mut Transaction,
    (id, plan, state): (&str, &Plan, &State),
    reason: &str,
    by: By<'_>,
) -> Result<(), Error> {
    let (plugin, version) = (&plan.to.plugin, &plan.to.version);
    let phase = state.phase.as_str();
    let args = args![id, plugin, version, plan_text(plan), state_text(state), phase, reason, by.at, by.who];
    tx.execute(INSERT, args).await.map(|_| ())
}

/// Writes how far it is, if it still is where it was read; answers whether it was.
pub(crate) async fn update(tx: &mut Transaction, rollout: &Rollout, now: Timestamp) -> Result<bool, Error> {
    let before: BTreeMap<&str, Option<String>> = rollout
        .before
        .iter()
        .map(|(edge, version)| (edge.as_str(), version.as_ref().map(ToString::to_string)))
        .collect();
    let ended_at = rollout.state.is_ended().then(|| now.as_millis());
    let args = args![
        &rollout.id,
        rollout.revision,
        state_text(&rollout.state),
        serde_json::json!(before).to_string(),
        rollout.state.phase.as_str(),
        &rollout.reason,
        now,
        ended_at
    ];
    Ok(tx.execute(UPDATE, args).await? == 1)
}

/// The one of that id.
pub(crate) async fn find(tx: &mut Transaction, id: &str) -> Result<Option<Rollout>, Error> {
    tx.row(FIND, args![id]).await?.as_ref().map(read).transpose()
}

/// Ids of those that have not ended.
pub(crate) async fn under_way(tx: &mut Transaction) -> Result<Vec<String>, Error> {
    tx.rows(UNDER_WAY, args![]).await?.iter().map(|row| row.text(0)).collect()
}

/// Those of a plugin that have not ended.
pub(crate) async fn of_plugin(tx: &mut Transaction, plugin: &PluginName) -> Result<Vec<Rollout>, Error> {
    tx.rows(OF_PLUGIN, args![plugin]).await?.iter().map(read).collect()
}

/// Those before an id, the newest first; from the newest on if it is empty.
pub(crate) async fn page(tx: &mut Transaction, before: &str, limit: u64) -> Result<Vec<Rollout>, Error> {
    tx.rows(BEFORE, args![before, limit]).await?.iter().map(read).collect()
}

/// The newest rollout of the version that was rolled back.
pub(crate) async fn rolled_back(
    tx: &mut Transaction,
    version: &PluginVersion,
) -> Result<Option<String>, Error> {
    let row = tx.row(ROLLED_BACK, args![&version.plugin, &version.version]).await?;
    row.map(|row| row.text(0)).transpose()
}

fn read(row: &Row) -> Result<Rollout, Error> {
    let to = read_version(row, 1)?;
    let (plan, state, before) = (row.text(3)?, row.text(4)?, row.text(5)?);
    let wrong = |what: &'static str, text: &str, fault: String| Error::inconsistent(what, text, fault);
    let before: BTreeMap<String, Option<String>> = serde_json::from_str(&before)
        .map_err(|fault| wrong("what edges had before a rollout", &before, fault.to_string()))?;
    let read_before = |(edge, version): (String, Option<String>)| {
        let edge = EdgeName::parse(&edge).map_err(|fault| fault.to_string())?;
        let version = version.map(|version| semver::Version::parse(&version)).transpose();
        Ok((edge, version.map_err(|fault| fault.to_string())?))
    };
    let before = before.into_iter().map(read_before).collect::<Result<_, String>>();
    Ok(Rollout {
        id: row.text(0)?,
        plan: read_plan(&to, &plan).map_err(|fault| wrong("the plan of a rollout", &plan, fault))?,
        state: read_state(&state).map_err(|fault| wrong("the state of a rollout", &state, fault))?,
        before: before.map_err(|fault| wrong("what edges had before a rollout", "", fault))?,
        reason: row.text(6)?,
        revision: row.count(7)?,
        started_at: row.time(8)?,
        started_by: row.text(9)?,
        moved_at: row.time(10)?,
        ended_at: row.integer_or_null(11)?.map(Timestamp::from_millis),
    })
}
