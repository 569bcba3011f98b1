//! How every tool of every version on this node stands, as the guard, the reconciler, the spool and
//! the status are told it. Pure: the supervisor changes it while it holds the guard's view.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::fresh::Reliance;
use domain::guard::view::{LeftOut, RunState, SetState, ToolListing, ToolView, VersionView};
use domain::id::{EdgeName, FunctionId, PluginVersion, ToolId};
use domain::plugin_set::{Kind, Policy, Trust};
use domain::reconcile::{self, Listed};
use domain::refusal::{Code, Refusal};
use domain::time::Timestamp;
use proto::convert::{ToolState, ToolStatus};

use super::judged::{Judged, left_out};
use crate::spool::Spool;

/// Kinds of tools that this version of the node runs.
pub(crate) const RUNS: [Kind; 2] = [Kind::Command, Kind::Url];

/// All versions, and whether calls are made at all.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) versions: BTreeMap<PluginVersion, OnBoard>,
    /// Whether each plugin of the set that is gone by was shown to the guard.
    pub(crate) shown: bool,
    /// What the node goes by.
    pub(crate) reliance: Reliance,
    /// Whether it is kept from calling whatever it goes by.
    pub(crate) away: Away,
    /// Where the set comes from, since a view told it.
    server: Arc<str>,
}

/// Whether the fleet keeps a node from calling.
#[derive(Debug)]
pub(crate) enum Away {
    /// It does not.
    Not,
    /// Until it is welcome again: it has copies, or its certificate ended.
    Until(Refusal),
    /// It was evicted or banned.
    ForGood(Refusal),
}

impl Away {
    /// Stands so from now on; what is for good stays.
    pub(crate) fn turn(&mut self, to: Self) {
        if !matches!(self, Self::ForGood(_)) {
            *self = to;
        }
    }
}

impl Default for Board {
    fn default() -> Self {
        Self {
            versions: BTreeMap::new(),
            shown: false,
            reliance: Reliance::Waits,
            away: Away::Not,
            server: "".into(),
        }
    }
}

impl Board {
    /// The state that the guard is to go by, if it is another than `now`.
    pub(crate) fn set_state(&mut self, edge: &EdgeName, now: &SetState) -> Option<SetState> {
        if let SetState::Waiting { server, .. } = now {
            self.server = Arc::clone(server);
        }
        let was_away = matches!(now, SetState::Closed(said) if said.code == Code::NodeEvicted);
        match &self.away {
            Away::Not if was_away => {
                let waiting = SetState::Waiting { server: Arc::clone(&self.server), since: crate::now() };
                Some(self.relied_on(edge, &waiting).unwrap_or(waiting))
            }
            Away::Not => self.relied_on(edge, now),
            Away::Until(refusal) | Away::ForGood(refusal) => match now {
                SetState::Closed(said) if said == refusal => None,
                _ => Some(SetState::Closed(refusal.clone())),
            },
        }
    }

    /// The same, of a node that may call what it goes by.
    fn relied_on(&self, edge: &EdgeName, now: &SetState) -> Option<SetState> {
        match (self.reliance, now) {
            (Reliance::Waits, SetState::Waiting { .. }) => None,
            (Reliance::Waits, _) => {
                Some(SetState::Waiting { server: Arc::clone(&self.server), since: crate::now() })
            }
            // It is being shown what there is.
            _ if !self.shown => None,
            (Reliance::Stale { since, refuses: true }, SetState::Waiting { .. } | SetState::Held) => {
                Some(SetState::Closed(Refusal::set_stale(edge, &self.server, since)))
            }
            (Reliance::Stale { refuses: true, .. }, SetState::Closed(_)) | (_, SetState::Held) => None,
            (_, SetState::Waiting { .. } | SetState::Closed(_)) => Some(SetState::Held),
        }
    }
}

/// One version.
#[derive(Debug, Default)]
pub(crate) struct OnBoard {
    pub(crate) tools: BTreeMap<ToolId, OneTool>,
    left_out: BTreeMap<FunctionId, LeftOut>,
    /// Whether it is called, so that the guard has to be told.
    pub(crate) called: bool,
}

/// One tool.
#[derive(Debug)]
pub(crate) struct OneTool {
    pub(crate) kind: Kind,
    pub(crate) origin: Option<Arc<str>>,
    /// Whether it is kept running.
    pub(crate) on: bool,
    /// Which start of it this is: what an earlier one still says is passed over.
    pub(crate) instance: u64,
    /// Notices that its list changed, since it started.
    pub(crate) notices: u64,
    pub(crate) run: RunState,
    /// What the kernel confines its process to; empty while there is none.
    pub(crate) confined: Arc<str>,
    pub(crate) listing: Option<Arc<ToolListing>>,
    pub(crate) judged: Option<Arc<Judged>>,
    pub(crate) relisting: Option<Timestamp>,
    pub(crate) relist_failed: Option<(Timestamp, Arc<str>)>,
}

impl OneTool {
    /// A tool that was not started yet.
    pub(crate) fn new(tool: &ToolId, kind: Kind, origin: Option<Arc<str>>, now: Timestamp) -> Self {
        let run = if RUNS.contains(&kind) {
            RunState::NotRunning { since: now, reason: "it was not started yet".into() }
        } else {
            let kind = kind.as_str();
            let sentence =
                format!("{tool} is a tool of kind {kind}, which this version of the node does not run.");
            RunState::Refused(Refusal::new(Code::KindOff, sentence))
        };
        Self {
            kind,
            origin,
            on: false,
            instance: 0,
            notices: 0,
            run,
            confined: "".into(),
            listing: None,
            judged: None,
            relisting: None,
            relist_failed: None,
        }
    }

    fn view(&self) -> ToolView {
        ToolView {
            kind: self.kind,
            origin: self.origin.clone(),
            run: self.run.clone(),
            listing: self.listing.clone(),
            relisting: self.relisting,
            relist_failed: self.relist_failed.clone(),
        }
    }

    /// For the reconciler.
    pub(crate) fn observed(&self) -> reconcile::Tool {
        let listed = match (&self.listing, &self.relist_failed) {
            (Some(listing), None) if listing.complete && self.is_up() => Listed::Completely,
            (Some(_), _) | (_, Some(_)) => Listed::Partly,
            (None, None) => Listed::Not,
        };
        reconcile::Tool { kind: self.kind, on: self.on, listed }
    }

    /// For the control plane.
    pub(crate) fn status(&self, tool: &ToolId, policy: &Policy) -> ToolStatus {
        let (state, reason) = match &self.run {
            _ if policy.forbidden_kinds.contains(&self.kind) => (ToolState::KindOff, "".into()),
            _ if !RUNS.contains(&self.kind) => {
                (ToolState::KindOff, "this kind is not run by this version of the node".into())
            }
            RunState::Running if self.listing.is_none() => (ToolState::Starting, "".into()),
            RunState::Running => (ToolState::Running, self.why_not_listed()),
            // What has not failed is on its way, which is no fault of its version.
            RunState::NotRunning { reason, .. } if self.relist_failed.is_none() => {
                (ToolState::Starting, Arc::clone(reason))
            }
            RunState::NotRunning { reason, .. } => (ToolState::NotRunning, Arc::clone(reason)),
            RunState::Unreachable { reason, .. } => (ToolState::Unreachable, Arc::clone(reason)),
            RunState::Refused(refusal) => (ToolState::Unreachable, Arc::clone(&refusal.sentence)),
        };
        ToolStatus { tool: tool.clone(), state, reason, confined: Arc::clone(&self.confined) }
    }

    fn is_up(&self) -> bool {
        matches!(self.run, RunState::Running)
    }

    fn why_not_listed(&self) -> Arc<str> {
        let incomplete = self.listing.as_ref().and_then(|listing| listing.incomplete.as_ref());
        let why = self.relist_failed.as_ref().or(incomplete);
        why.map_or_else(|| "".into(), |(_, reason)| Arc::clone(reason))
    }
}

impl OnBoard {
    /// A version that is not called.
    pub(crate) fn new(tools: BTreeMap<ToolId, OneTool>) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Judges names over all tools anew, and reports each list that says something else by that.
    pub(crate) fn judge(&mut self, version: &PluginVersion, trust: &Trust, spool: &Spool) {
        let tools = self.tools.iter().map(|(id, tool)| (id, tool.judged.as_deref()));
        self.left_out = left_out(tools, trust.versions.get(version).map(AsRef::as_ref));
        for (id, tool) in &self.tools {
            if let Some(judged) = &tool.judged {
                spool.put(judged.report(version, id, &self.left_out), judged.texts());
            }
        }
    }

    /// As the guard is told it.
    pub(crate) fn view(&self, version: &PluginVersion) -> VersionView {
        VersionView {
            version: version.clone(),
            tools: self.tools.iter().map(|(id, tool)| (id.clone(), tool.view())).collect(),
            left_out: self.left_out.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELIANCES: [Reliance; 5] = [
        Reliance::Waits,
        Reliance::Leases { until: Timestamp::from_millis(9) },
        Reliance::Holds,
        Reliance::Stale { since: Timestamp::from_millis(9), refuses: false },
        Reliance::Stale { since: Timestamp::from_millis(9), refuses: true },
    ];

    /// What the guard goes by, told as the supervisor tells it.
    struct Told {
        board: Board,
        edge: EdgeName,
        set: SetState,
    }

    impl Told {
        fn new() -> Self {
            let set = SetState::Waiting { server: "server:7401".into(), since: Timestamp::from_millis(1) };
            Self { board: Board::default(), edge: EdgeName::parse("eu-1").unwrap(), set }
        }

        fn after(&mut self, change: impl FnOnce(&mut Board)) -> &str {
            change(&mut self.board);
            if let Some(next) = self.board.set_state(&self.edge, &self.set) {
                self.set = next;
            }
            assert!(self.board.set_state(&self.edge, &self.set).is_none(), "told once");
            match &self.set {
                SetState::Waiting { server, .. } => {
                    assert_eq!(&**server, "server:7401");
                    "waiting"
                }
                SetState::Held => "held",
                SetState::Closed(refusal) => refusal.code.as_str(),
            }
        }
    }

    fn refusal(sentence: &str) -> Refusal {
        Refusal::new(Code::NodeEvicted, sentence)
    }

    /// As [`super::super::Supervisor::rely`] does, then everything is shown.
    fn rely(board: &mut Board, reliance: Reliance) {
        board.reliance = reliance;
        board.shown = reliance.has_set();
    }

    #[test]
    fn a_node_that_is_away_is_closed_whatever_it_goes_by_before_and_after() {
        for before in RELIANCES {
            let mut told = Told::new();
            told.after(|board| rely(board, before));
            assert_eq!(told.after(|board| board.away.turn(Away::Until(refusal("copies")))), "node_evicted");
            for reliance in RELIANCES {
                assert_eq!(told.after(|board| rely(board, reliance)), "node_evicted", "{reliance:?}");
            }
        }
    }

    #[test]
    fn a_node_that_is_taken_back_goes_by_what_it_would_have_gone_by() {
        for reliance in RELIANCES {
            let mut plain = Told::new();
            let expected = plain.after(|board| rely(board, reliance)).to_owned();
            let mut told = Told::new();
            told.after(|board| board.away.turn(Away::Until(refusal("copies"))));
            told.after(|board| rely(board, reliance));
            assert_eq!(told.after(|board| board.away.turn(Away::Not)), expected, "{reliance:?}");
        }
        let mut told = Told::new();
        told.after(|board| board.away.turn(Away::Until(refusal("copies"))));
        told.after(|board| board.reliance = Reliance::Holds);
        assert_eq!(
            told.after(|board| board.away.turn(Away::Not)),
            "waiting",
            "what there is was not shown yet"
        );
    }

    #[test]
    fn a_node_that_was_expelled_stays_so_whatever_it_hears_later() {
        let mut told = Told::new();
        told.after(|board| rely(board, Reliance::Holds));
        told.after(|board| board.away.turn(Away::Until(refusal("copies"))));
        told.after(|board| board.away.turn(Away::ForGood(refusal("lost"))));
        for later in [Away::Not, Away::Until(refusal("copies"))] {
            assert_eq!(told.after(|board| board.away.turn(later)), "node_evicted");
        }
        for reliance in RELIANCES {
            told.after(|board| rely(board, reliance));
            assert!(matches!(&told.set, SetState::Closed(said) if *said == refusal("lost")), "{reliance:?}");
        }
    }
}
