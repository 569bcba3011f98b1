//! Assigns a version to an edge, and decides there where its remote tools may be called. A candidate
//! that is assigned is no candidate any longer: it was promoted.

use std::collections::BTreeSet;

use domain::audit::Event;
use domain::id::{EdgeName, PluginName, PluginVersion, ToolId};
use domain::origin::{
    Endpoint, OnEdge, Pin, PinQuestion, PinState, class_of_host, decide_pin, parse_tool_url,
};
use domain::plugin_set::{Kind, Part, Scope};

use super::reconcile_changes::reconcile_changes;
use super::{By, Code, Error, review, unassign_candidate};
use crate::connector::problem;
use crate::store::assignments::{self, Assignment};
use crate::store::pins::{self, StoredPin, endpoint_text};
use crate::store::plugins::{self, StoredTool};
use crate::store::{Rollout, Store, Transaction, WriteTx, candidates, edges, policies, rollouts, snapshots};

/// Kinds of tools that nodes run.
pub(crate) const KINDS_BUILT: [Kind; 2] = [Kind::Command, Kind::Url];

/// An assignment as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// Whether anything changed.
    pub changed: bool,
    /// The version that the edge went by before.
    pub earlier: Option<semver::Version>,
    /// Remote tools that wait for a person, since they are at another origin.
    pub waiting: Vec<WaitingTool>,
    /// Tools whose kind the edge's policy forbids: nodes do not run them, and refuse their functions.
    pub off: Vec<OffTool>,
    /// Remote tools whose connection is of no use yet: nodes refuse their functions until it is.
    pub unset: Vec<UnsetTool>,
}

/// A tool of a kind that an edge's policy forbids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffTool {
    /// The tool.
    pub tool: ToolId,
    /// Its kind.
    pub kind: Kind,
}

/// What was found as a version came onto an edge.
pub(super) struct Checked {
    pub(super) installed: Option<PluginVersion>,
    pub(super) waiting: Vec<WaitingTool>,
    pub(super) off: Vec<OffTool>,
    pub(super) unset: Vec<UnsetTool>,
}

/// A remote tool that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingTool {
    /// The tool.
    pub tool: ToolId,
    /// Where it was; empty if it is new beside tools that were pinned.
    pub from: Vec<String>,
    /// Where the version says it is.
    pub to: String,
}

/// A remote tool whose connection is of no use yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsetTool {
    /// Which.
    pub tool: ToolId,
    /// Why, and what to do.
    pub reason: String,
}

/// Makes a version the one that an edge goes by.
///
/// # Errors
/// No such edge or version; a kind of tool that nodes do not run; a tool ID that another plugin of
/// the edge has, both named.
pub async fn assign(
    store: &Store,
    by: &By,
    edge: &EdgeName,
    version: &PluginVersion,
) -> Result<Assigned, Error> {
    let mut tx = store.begin_write().await?;
    if edges::get(tx.tx(), edge).await?.is_none() {
        return Err(Error::no_edge(edge));
    }
    if plugins::get(tx.tx(), version).await?.is_none() {
        return Err(Error::no_version(version));
    }
    refuse_in_rollout(tx.tx(), edge, &version.plugin).await?;
    let assigned = install(&mut tx, by, edge, version).await?;
    if assigned.changed {
        tx.commit(by.now).await?;
    }
    Ok(assigned)
}

/// Makes a version the one that an edge goes by, in a transaction.
///
/// # Errors
/// As [`assign`].
pub(super) async fn install(
    tx: &mut WriteTx,
    by: &By,
    edge: &EdgeName,
    version: &PluginVersion,
) -> Result<Assigned, Error> {
    let Checked { installed: earlier, waiting, off, unset } = check_and_pin(tx, by, edge, version).await?;
    if earlier.as_ref() == Some(version) {
        // Every decision was there already, so nothing was written.
        return Ok(Assigned { changed: false, earlier: Some(version.version.clone()), waiting, off, unset });
    }
    let candidate = candidates::of_plugin(tx.tx(), edge, &version.plugin).await?;
    if let Some(promoted) = candidate.filter(|candidate| candidate.version == *version) {
        unassign_candidate::end(tx, by, edge, &promoted, true).await?;
    }
    let assignment = Assignment {
        edge: edge.clone(),
        version: version.clone(),
        assigned_at: by.now,
        assigned_by: by.origin.actor.clone(),
    };
    assignments::put(tx.tx(), &assignment).await?;
    let earlier = earlier.map(|earlier| earlier.version);
    tx.audit(
        &by.origin,
        Event::EdgeAssignmentSet { edge: edge.clone(), version: version.clone(), earlier: earlier.clone() },
    );
    tx.raise(Scope::Edge(edge.clone()), Part::Trust);
    tx.raise(Scope::Edge(edge.clone()), Part::Plan);
    Ok(Assigned { changed: true, earlier, waiting, off, unset })
}

/// What a rollout is moving is moved by nobody else.
///
/// # Errors
/// A rollout of the plugin is under way on the edge; the remedy ends it.
pub(super) async fn refuse_in_rollout(
    tx: &mut Transaction,
    edge: &EdgeName,
    plugin: &PluginName,
) -> Result<(), Error> {
    let names_it = |rollout: &Rollout| rollout.plan.waves.iter().any(|wave| wave.edges.contains(edge));
    let Some(rollout) = rollouts::of_plugin(tx, plugin).await?.into_iter().find(names_it) else {
        return Ok(());
    };
    let detail = format!("edge {edge} is in rollout {} of {}", rollout.id, rollout.plan.to);
    let remedy = format!("pintle rollout abort {} --reason TEXT", rollout.id);
    Err(Error::with_remedy(Code::InRollout, detail, remedy))
}

/// Checks that the version may be on the edge and decides where its remote tools may be called; answers
/// the installed version, what waits for a person, and what its nodes will not run.
pub(super) async fn check_and_pin(
    tx: &mut WriteTx,
    by: &By,
    edge: &EdgeName,
    version: &PluginVersion,
) -> Result<Checked, Error> {
    let tools = plugins::tools(tx.tx(), version).await?;
    check_kinds(version, &tools)?;
    let assigned: Vec<PluginVersion> =
        assignments::of_edge(tx.tx(), edge).await?.into_iter().map(|one| one.version).collect();
    let tried = candidates::of_edge(tx.tx(), edge).await?.into_iter().map(|one| one.version);
    let others: BTreeSet<PluginVersion> = assigned.iter().cloned().chain(tried).collect();
    check_tool_ids(tx, edge, version, &tools, &others).await?;
    let installed = assigned.into_iter().find(|one| one.plugin == version.plugin);
    let waiting = decide_pins(tx, by, edge, version, (&tools, installed.as_ref())).await?;
    let history = assignments::history(tx.tx(), edge, &version.plugin).await?;
    // Going back to a version needs no review.
    if !history.contains(version) {
        let taken = snapshots::of_version(tx.tx(), version, None).await?.taken;
        for tool in taken.keys() {
            if review::judge(tx, by, edge, version, tool).await? {
                reconcile_changes(tx, by, version, tool).await?;
            }
        }
    }
    let forbidden = policies::get(tx.tx(), edge).await?.forbidden_kinds;
    let off = tools.iter().filter(|tool| forbidden.contains(&tool.kind));
    let off = off.map(|tool| OffTool { tool: tool.tool.clone(), kind: tool.kind }).collect();
    let mut unset = Vec::new();
    for tool in &tools {
        let Some(name) = &tool.connection else { continue };
        if let (_, Some(reason)) = problem(tx.tx(), (version, name), edge).await? {
            unset.push(UnsetTool { tool: tool.tool.clone(), reason });
        }
    }
    Ok(Checked { installed, waiting, off, unset })
}

/// As [`check_kinds`], of a version on record.
pub(super) async fn check_kinds_of(tx: &mut Transaction, version: &PluginVersion) -> Result<(), Error> {
    check_kinds(version, &plugins::tools(tx, version).await?)
}

/// Refuses kinds that no node runs, each tool named.
pub(crate) fn check_kinds(version: &PluginVersion, tools: &[StoredTool]) -> Result<(), Error> {
    let unknown: Vec<String> = tools
        .iter()
        .filter(|tool| !KINDS_BUILT.contains(&tool.kind))
        .map(|tool| format!("{} ({})", tool.tool, tool.kind.as_str()))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let detail = format!("nodes run tools of kind command and url; {version} has {}", unknown.join(", "));
    Err(Error::refused(Code::KindNotBuilt, detail))
}

/// Two plugins of an edge may not have one tool ID, nor IDs that models would read as one.
async fn check_tool_ids(
    tx: &mut WriteTx,
    edge: &EdgeName,
    version: &PluginVersion,
    tools: &[StoredTool],
    others: &BTreeSet<PluginVersion>,
) -> Result<(), Error> {
    let as_model = |tool: &ToolId| tool.as_str().replace('.', "__");
    for other in others.iter().filter(|other| other.plugin != version.plugin) {
        for taken in plugins::tools(tx.tx(), other).await? {
            let Some(tool) = tools.iter().find(|tool| as_model(&tool.tool) == as_model(&taken.tool)) else {
                continue;
            };
            let detail = format!(
                "{version} and {other} of edge {edge} both have the tool ID {}, so calls of one could reach the other",
                tool.tool
            );
            let remedy = format!("pintle unassign {} --edge {edge}", other.plugin);
            return Err(Error::with_remedy(Code::ToolTaken, detail, remedy));
        }
    }
    Ok(())
}

/// Decides for each remote tool by the pins as they were before this transaction.
async fn decide_pins(
    tx: &mut WriteTx,
    by: &By,
    edge: &EdgeName,
    version: &PluginVersion,
    (tools, replaced): (&[StoredTool], Option<&PluginVersion>),
) -> Result<Vec<WaitingTool>, Error> {
    let history = assignments::history(tx.tx(), edge, &version.plugin).await?;
    let known = pins::of_plugin(tx.tx(), &version.plugin).await?;
    let mut waiting = Vec::new();
    for tool in tools {
        let Some(url) = &tool.url else { continue };
        let (endpoint, class) = endpoint_of(url)?;
        let approved = pins::approved(tx.tx(), version, &tool.tool).await?;
        let about = About { edge, tool: &tool.tool, history: &history, known: &known, replaced };
        let existing = about.here(version).map(|stored| stored.pin.state.clone());
        let state = about.decide(&endpoint, existing.as_ref(), &approved);
        if let Some(one) = waiting_tool(&tool.tool, &endpoint, &state) {
            waiting.push(one);
        }
        if existing.is_some() {
            continue;
        }
        let stored = StoredPin {
            edge: edge.clone(),
            version: version.clone(),
            tool: tool.tool.clone(),
            pin: Pin { endpoint, class, state },
        };
        pins::put(tx.tx(), &stored, by.as_stored()).await?;
        tx.audit(&by.origin, pin_event(&stored));
    }
    Ok(waiting)
}

/// What one decision is about.
struct About<'a> {
    edge: &'a EdgeName,
    tool: &'a ToolId,
    history: &'a [PluginVersion],
    known: &'a [StoredPin],
    replaced: Option<&'a PluginVersion>,
}

impl About<'_> {
    /// The decision on this edge for the tool in a version.
    fn here(&self, version: &PluginVersion) -> Option<&StoredPin> {
        self.known
            .iter()
            .find(|pin| pin.edge == *self.edge && pin.version == *version && pin.tool == *self.tool)
    }

    fn decide(&self, endpoint: &Endpoint, existing: Option<&PinState>, approved: &[Endpoint]) -> PinState {
        let copied = |pins: Vec<&StoredPin>| -> Vec<Pin> {
            pins.into_iter().map(|stored| stored.pin.clone()).collect()
        };
        let of_tool = copied(self.history.iter().filter_map(|version| self.here(version)).collect());
        let elsewhere = copied(
            self.known.iter().filter(|pin| pin.edge != *self.edge && pin.tool == *self.tool).collect(),
        );
        let replaced = copied(
            self.known
                .iter()
                .filter(|pin| pin.edge == *self.edge && Some(&pin.version) == self.replaced)
                .collect(),
        );
        decide_pin(&PinQuestion {
            endpoint,
            existing,
            approved,
            on_edge: if self.history.is_empty() {
                OnEdge::NeverInstalled { elsewhere: &elsewhere }
            } else {
                OnEdge::Installed { tool: &of_tool }
            },
            any_pinned: self.known.iter().any(|pin| pin.pin.state == PinState::Pinned),
            replaced: &replaced,
        })
    }
}

/// The event that says what was decided.
pub(crate) fn pin_event(stored: &StoredPin) -> Event {
    let (edge, version, tool) = (stored.edge.clone(), stored.version.clone(), stored.tool.clone());
    let origin = endpoint_text(&stored.pin.endpoint);
    match &stored.pin.state {
        PinState::Pinned => Event::EndpointPinned {
            edge,
            version,
            tool,
            origin,
            address_class: stored.pin.class.map(|class| class.name().to_owned()),
        },
        PinState::Moved { from } => Event::EndpointMoved {
            edge,
            version,
            tool,
            earlier: from.iter().map(endpoint_text).collect(),
            origin,
        },
        PinState::NewAt => Event::EndpointMoved { edge, version, tool, earlier: Vec::new(), origin },
    }
}

fn waiting_tool(tool: &ToolId, endpoint: &Endpoint, state: &PinState) -> Option<WaitingTool> {
    let from = match state {
        PinState::Pinned => return None,
        PinState::Moved { from } => from.iter().map(endpoint_text).collect(),
        PinState::NewAt => Vec::new(),
    };
    Some(WaitingTool { tool: tool.clone(), from, to: endpoint_text(endpoint) })
}

/// Where a manifest's URL says that a tool is, and the class of a literal address.
///
/// Whether plain `http` may be used was judged when the version was pushed.
pub(super) fn endpoint_of(url: &str) -> Result<(Endpoint, Option<domain::origin::AddressClass>), Error> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if let (true, Some((_, suffix))) = (authority.contains("${"), authority.rsplit_once('}')) {
        let suffix = suffix.to_ascii_lowercase();
        let in_the_clear = !url.to_ascii_lowercase().starts_with("https:");
        return Ok((Endpoint::FromConnection { suffix, in_the_clear }, None));
    }
    let tool = parse_tool_url(url, true).map_err(|fault| Error::refused(Code::Invalid, fault.to_string()))?;
    let class = class_of_host(&tool.url).map_err(|fault| Error::refused(Code::Invalid, fault.to_string()))?;
    Ok((Endpoint::Fixed(tool.origin), class))
}
