//! One tool's share of the table: what it was decided from, and what it came to.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::build::left_out;
use super::view::{LeftOut, RunState, ToolListing, ToolView, VersionView, View};
use super::{Slot, Verdict, Wait};
use crate::block::Block;
use crate::digest::ListingHash;
use crate::id::{FunctionId, PluginVersion, ToolId};
use crate::plugin_set::{FunctionTrust, OriginTrust, ToolTrust, VersionTrust};
use crate::refusal::Refusal;

/// A function that was decided but for its rivals of other plugins.
#[derive(Debug)]
pub(super) struct Draft {
    /// The function's ID as text, a key of the table.
    pub(super) id: Arc<str>,
    pub(super) slot: Arc<Slot>,
    pub(super) rank: Option<u64>,
}

/// What one tool comes to.
#[derive(Debug)]
pub(super) struct Part {
    /// What holds for every function of the tool, if anything does.
    pub(super) refusal: Option<(Arc<Refusal>, Option<Wait>)>,
    pub(super) drafts: Vec<Draft>,
    pub(super) left_out: Vec<(FunctionId, Arc<Refusal>)>,
    from: Kept,
    /// Texts of approved listings were not here.
    lacks_texts: bool,
}

/// What a share is decided from.
#[derive(Debug)]
pub(super) struct Origins<'v> {
    version: &'v PluginVersion,
    id: &'v ToolId,
    trust: Option<&'v Arc<VersionTrust>>,
    state: State<'v>,
}

#[derive(Debug)]
enum State<'v> {
    Serving {
        tool: &'v ToolView,
        left_out: Vec<(&'v FunctionId, &'v LeftOut)>,
        kind_off: bool,
        age_max_ms: u64,
    },
    /// It is not up: what it has in its snapshot stays listed, nothing of it is called.
    Down { refusal: &'v Arc<Refusal> },
}

/// The same, kept.
#[derive(Debug)]
struct Kept {
    version: PluginVersion,
    id: ToolId,
    trust: Option<Arc<VersionTrust>>,
    state: KeptState,
}

#[derive(Debug)]
enum KeptState {
    Serving { tool: ToolView, left_out: Vec<(FunctionId, LeftOut)>, kind_off: bool, age_max_ms: u64 },
    Down { refusal: Arc<Refusal> },
}

impl<'v> Origins<'v> {
    /// Of a tool of a version that is called.
    pub(super) fn serving(
        view: &'v View,
        version: &'v VersionView,
        id: &'v ToolId,
        tool: &'v ToolView,
    ) -> Self {
        let from = FunctionId::new(id, "");
        let left_out = version.left_out.range(from..).take_while(|(function, _)| function.tool == *id);
        let state = State::Serving {
            tool,
            left_out: left_out.collect(),
            kind_off: view.policy.forbidden_kinds.contains(&tool.kind),
            age_max_ms: view.policy.listing_age_max_ms(tool.kind),
        };
        let trust = view.trust.versions.get(&version.version);
        Self { version: &version.version, id, trust, state }
    }

    /// Of a tool of a version that is not up.
    pub(super) fn down(
        view: &'v View,
        version: &'v PluginVersion,
        id: &'v ToolId,
        refusal: &'v Arc<Refusal>,
    ) -> Self {
        Self { version, id, trust: view.trust.versions.get(version), state: State::Down { refusal } }
    }

    pub(super) const fn tool(&self) -> &'v ToolId {
        self.id
    }

    pub(super) const fn version(&self) -> &'v PluginVersion {
        self.version
    }

    fn keep(&self) -> Kept {
        let state = match &self.state {
            State::Serving { tool, left_out, kind_off, age_max_ms } => KeptState::Serving {
                tool: (*tool).clone(),
                left_out: left_out.iter().map(|(id, why)| ((*id).clone(), (*why).clone())).collect(),
                kind_off: *kind_off,
                age_max_ms: *age_max_ms,
            },
            State::Down { refusal } => KeptState::Down { refusal: Arc::clone(refusal) },
        };
        Kept { version: self.version.clone(), id: self.id.clone(), trust: self.trust.cloned(), state }
    }
}

impl Part {
    /// Decides a tool.
    pub(super) fn decide(view: &View, origins: &Origins<'_>) -> Self {
        let mut part = Self {
            refusal: None,
            drafts: Vec::new(),
            left_out: Vec::new(),
            from: origins.keep(),
            lacks_texts: false,
        };
        match &origins.state {
            State::Serving { tool, left_out, .. } => part.decide_serving(view, origins, tool, left_out),
            State::Down { refusal } => part.decide_down(view, origins, refusal),
        }
        part
    }

    /// Whether it was decided from the same. Lists are compared by being the same one: each is made once.
    pub(super) fn is_of(&self, origins: &Origins<'_>) -> bool {
        let Kept { version, id, trust, state } = &self.from;
        let same_state = match (state, &origins.state) {
            (
                KeptState::Serving { tool, left_out, kind_off, age_max_ms },
                State::Serving { tool: now, left_out: out, kind_off: off, age_max_ms: age },
            ) => {
                same_tool(tool, now)
                    && (kind_off, age_max_ms) == (off, age)
                    && left_out.iter().map(|(id, why)| (id, why)).eq(out.iter().copied())
            }
            (KeptState::Down { refusal }, State::Down { refusal: now }) => refusal == *now,
            _ => false,
        };
        !self.lacks_texts
            && same_state
            && version == origins.version
            && id == origins.id
            && same_trust(trust.as_ref(), origins.trust, id)
    }

    fn decide_down(&mut self, view: &View, origins: &Origins<'_>, refusal: &Arc<Refusal>) {
        let Origins { version, id, trust, .. } = origins;
        let stopped = trust.and_then(|trust| blocked(view, trust, version, id, None)).map(Arc::new);
        let refusal = stopped.as_ref().unwrap_or(refusal);
        self.refusal = Some((Arc::clone(refusal), None));
        let Some(snapshot) = trust.and_then(|trust| trust.tools.get(*id)) else { return };
        for (name, function) in &snapshot.functions {
            let stopped = trust.and_then(|trust| blocked(view, trust, version, id, Some(name)));
            let refusal = stopped.map_or_else(|| Arc::clone(refusal), Arc::new);
            let verdict = Verdict::Refused { refusal, wait: None };
            self.draft(view, FunctionId::new(id, name), Some(function), false, verdict);
        }
    }

    fn decide_serving(
        &mut self,
        view: &View,
        origins: &Origins<'_>,
        tool: &ToolView,
        out: &[(&FunctionId, &LeftOut)],
    ) {
        let nothing = ToolTrust::default();
        let Origins { version, id, trust, .. } = origins;
        let snapshot = trust.and_then(|trust| trust.tools.get(*id)).unwrap_or(&nothing);
        let deciding = Deciding { view, version, id, tool, snapshot, trust: trust.map(Arc::as_ref) };
        self.refusal = deciding.whole_tool().map(|(refusal, wait)| (Arc::new(refusal), wait));
        self.left_out = out.iter().map(|(id, why)| left_out(id, why)).collect();
        for name in deciding.names() {
            if out.binary_search_by(|(left, _)| left.function.cmp(&name)).is_ok() {
                continue;
            }
            let function = FunctionId { tool: (*id).clone(), function: Arc::clone(&name) };
            let verdict = match &self.refusal {
                Some((refusal, wait)) => Verdict::Refused { refusal: Arc::clone(refusal), wait: *wait },
                None => deciding.function(&function),
            };
            let listed = tool.listing.as_ref().and_then(|listing| listing.functions.get(&name));
            let is_not_shown = listed.is_some_and(|shown| shown.not_shown.is_some());
            self.draft(view, function, snapshot.functions.get(&name), is_not_shown, verdict);
        }
    }

    fn draft(
        &mut self,
        view: &View,
        id: FunctionId,
        trust: Option<&FunctionTrust>,
        is_not_shown: bool,
        verdict: Verdict,
    ) {
        let text = |hash: ListingHash| view.texts.get(&hash).map(|text| (hash, Arc::clone(text)));
        let listing = trust.and_then(|trust| text(trust.hash));
        self.lacks_texts |= trust.is_some() && listing.is_none();
        let model_name: Arc<str> = id.model_name().into();
        let shown = listing.is_some() && !is_not_shown;
        let text = id.to_string().into();
        let version = self.from.version.clone();
        let slot = Arc::new(Slot { id, model_name, version, listing, shown, verdict });
        self.drafts.push(Draft { id: text, slot, rank: trust.map(|trust| trust.rank) });
    }
}

fn same_trust(a: Option<&Arc<VersionTrust>>, b: Option<&Arc<VersionTrust>>, tool: &ToolId) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            Arc::ptr_eq(a, b) || (a.blocks == b.blocks && a.tools.get(tool) == b.tools.get(tool))
        }
        (None, None) => true,
        _ => false,
    }
}

fn same_tool(a: &ToolView, b: &ToolView) -> bool {
    let same_listing = match (&a.listing, &b.listing) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    };
    let rest = |tool: &ToolView| {
        let ToolView { kind, origin, run, listing: _, relisting, relist_failed } = tool.clone();
        (kind, origin, run, relisting, relist_failed)
    };
    same_listing && rest(a) == rest(b)
}

/// The block of a whole tool, or of one function of it; the oldest where there are several.
fn blocked(
    view: &View,
    trust: &VersionTrust,
    version: &PluginVersion,
    tool: &ToolId,
    function: Option<&str>,
) -> Option<Refusal> {
    let covers = |block: &Block| match function {
        None => block.target.covers_tool(version, tool),
        Some(function) => block.target.covers(version, tool, function),
    };
    let all = trust.blocks.iter().filter(|(_, block)| covers(block));
    let (id, block) = all.min_by_key(|(id, block)| (block.at, Arc::clone(id)))?;
    Some(Refusal::blocked(id, block, &view.edge))
}

/// One tool, being decided.
struct Deciding<'v> {
    view: &'v View,
    version: &'v PluginVersion,
    id: &'v ToolId,
    tool: &'v ToolView,
    snapshot: &'v ToolTrust,
    trust: Option<&'v VersionTrust>,
}

impl Deciding<'_> {
    /// What holds for every function of the tool, if anything does.
    fn whole_tool(&self) -> Option<(Refusal, Option<Wait>)> {
        let Self { view, version, id, tool, snapshot, trust } = self;
        if let Some(refusal) = trust.and_then(|trust| blocked(view, trust, version, id, None)) {
            return Some((refusal, None));
        }
        if view.policy.forbidden_kinds.contains(&tool.kind) {
            return Some((Refusal::kind_off(id, tool.kind.as_str(), &view.edge), None));
        }
        let origin = tool.origin.as_deref().unwrap_or_default();
        match &tool.run {
            RunState::Running | RunState::Refused(_) => {}
            RunState::NotRunning { since, reason } => {
                return Some((Refusal::not_running(id, *since, reason), Some(Wait::Change)));
            }
            RunState::Unreachable { since, reason } => {
                return Some((Refusal::unreachable(id, origin, *since, reason), None));
            }
        }
        if let Some(refusal) = self.origin(origin) {
            return Some((refusal, None));
        }
        if let RunState::Refused(refusal) = &tool.run {
            return Some((refusal.clone(), None));
        }
        if !snapshot.snapshot_taken && snapshot.functions.is_empty() {
            return Some((Refusal::no_snapshot(id, version), Some(Wait::Change)));
        }
        None
    }

    /// A remote tool is called only where it is pinned, and only while it is.
    fn origin(&self, origin: &str) -> Option<Refusal> {
        let Self { version, id, tool, snapshot, .. } = self;
        tool.origin.as_ref()?;
        match &snapshot.origin {
            Some(OriginTrust::Pinned { origin: pinned, .. }) if **pinned == *origin => None,
            Some(OriginTrust::Connection) => None,
            Some(OriginTrust::Pinned { origin: pinned, .. }) => {
                Some(Refusal::origin_moved(id, version, &[Arc::clone(pinned)], origin))
            }
            Some(OriginTrust::Moved { earlier, .. }) => {
                Some(Refusal::origin_moved(id, version, earlier, origin))
            }
            Some(OriginTrust::New { .. }) | None => Some(Refusal::origin_moved(id, version, &[], origin)),
        }
    }

    /// Names that the snapshot or the newest list has.
    fn names(&self) -> BTreeSet<Arc<str>> {
        let listed = self.tool.listing.iter().flat_map(|listing| listing.functions.keys());
        self.snapshot.functions.keys().chain(listed).cloned().collect()
    }

    fn function(&self, id: &FunctionId) -> Verdict {
        let refuse = |refusal, wait| Verdict::Refused { refusal: Arc::new(refusal), wait };
        let stopped =
            self.trust.and_then(|trust| blocked(self.view, trust, self.version, self.id, Some(&id.function)));
        if let Some(refusal) = stopped {
            return refuse(refusal, None);
        }
        if let Some(since) = self.tool.relisting {
            return refuse(Refusal::relisting(id, since), Some(Wait::Change));
        }
        let plugin = &self.version.plugin;
        let Some(listing) = &self.tool.listing else {
            return refuse(self.not_listed_yet(id), Some(Wait::Change));
        };
        let approved = self.snapshot.functions.get(&id.function);
        match (listing.functions.get(&id.function), approved) {
            (None, _) if listing.complete => refuse(Refusal::unlisted(id, plugin), None),
            (None, _) => refuse(incomplete(id, listing), None),
            (Some(_), None) => refuse(Refusal::new_function(id, plugin), None),
            (Some(shown), Some(approved)) if shown.hash != approved.hash => {
                refuse(Refusal::drifted(id, plugin), None)
            }
            (Some(shown), Some(_)) => Verdict::Callable {
                hash: shown.hash,
                asked_at_ms: listing.asked_at_ms,
                age_max_ms: self.view.policy.listing_age_max_ms(self.tool.kind),
                relist_failed: self.tool.relist_failed.as_ref().map(|(_, reason)| Arc::clone(reason)),
            },
        }
    }

    fn not_listed_yet(&self, id: &FunctionId) -> Refusal {
        match &self.tool.relist_failed {
            Some((since, reason)) => Refusal::incomplete(id, *since, reason),
            None => Refusal::not_listed_yet(id),
        }
    }
}

fn incomplete(id: &FunctionId, listing: &ToolListing) -> Refusal {
    match &listing.incomplete {
        Some((since, reason)) => Refusal::incomplete(id, *since, reason),
        None => Refusal::not_listed_yet(id),
    }
}
