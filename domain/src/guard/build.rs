//! Deciding each function of a view.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::view::{LeftOut, PluginState, RunState, SetState, ToolListing, ToolView, VersionView, View};
use super::{Slot, Table, Verdict, Wait};
use crate::block::Block;
use crate::id::{FunctionId, PluginVersion, ToolId};
use crate::plugin_set::{FunctionTrust, OriginTrust, ToolTrust, VersionTrust};
use crate::refusal::{Code, Refusal};

/// A function that was decided but for its rivals of other plugins.
struct Draft {
    slot: Slot,
    rank: Option<u64>,
}

impl Table {
    /// Decides every function of the view.
    pub fn build(view: &View) -> Self {
        let mut table = Self::default();
        match &view.set {
            SetState::Held => {}
            SetState::Waiting { server, since } => {
                table.closed = Some(Arc::new(Refusal::no_plugin_set(&view.edge, server, *since)));
                return table;
            }
            SetState::Closed(refusal) => {
                table.closed = Some(Arc::new(refusal.clone()));
                return table;
            }
        }
        let mut drafts = Vec::new();
        for (plugin, state) in &view.plugins {
            match state {
                PluginState::Serving(version) => table.add_version(view, version, &mut drafts),
                PluginState::Installing { version, tools, failed, earlier } => {
                    let refusal = Arc::new(Refusal::installing(
                        version,
                        failed.as_deref(),
                        earlier.as_ref(),
                        &view.edge,
                    ));
                    table.refuse_version(view, version, tools, &refusal, &mut drafts);
                }
                PluginState::Unassigned { tools } => {
                    let refusal = Arc::new(Refusal::unassigned(plugin, &view.edge));
                    for tool in tools {
                        table.refuse_tool(tool, &refusal, None);
                    }
                }
            }
        }
        table.settle(drafts);
        table
    }

    fn refuse_tool(&mut self, tool: &ToolId, refusal: &Arc<Refusal>, wait: Option<Wait>) {
        self.tools.insert(format!("{tool}.").into(), (tool.clone(), Arc::clone(refusal), wait));
    }

    /// A version that is not up: what it has in its snapshot stays listed, nothing of it is called.
    fn refuse_version(
        &mut self,
        view: &View,
        version: &PluginVersion,
        tools: &[ToolId],
        refusal: &Arc<Refusal>,
        drafts: &mut Vec<Draft>,
    ) {
        let trust = view.trust.versions.get(version);
        for tool in tools {
            let stopped = trust.and_then(|trust| blocked(view, trust, version, tool, None)).map(Arc::new);
            let refusal = stopped.as_ref().unwrap_or(refusal);
            self.refuse_tool(tool, refusal, None);
            let Some(snapshot) = trust.and_then(|trust| trust.tools.get(tool)) else { continue };
            for (name, function) in &snapshot.functions {
                let stopped = trust.and_then(|trust| blocked(view, trust, version, tool, Some(name)));
                let refusal = stopped.map_or_else(|| Arc::clone(refusal), Arc::new);
                let verdict = Verdict::Refused { refusal, wait: None };
                drafts.push(draft(
                    view,
                    version,
                    FunctionId::new(tool, name),
                    Some(function),
                    false,
                    verdict,
                ));
            }
        }
    }

    fn add_version(&mut self, view: &View, version: &VersionView, drafts: &mut Vec<Draft>) {
        let nothing = ToolTrust::default();
        let trust = view.trust.versions.get(&version.version);
        let mut told = BTreeSet::new();
        for (id, tool) in &version.tools {
            let snapshot = trust.and_then(|trust| trust.tools.get(id)).unwrap_or(&nothing);
            let deciding = Deciding {
                view,
                version: &version.version,
                id,
                tool,
                snapshot,
                trust: trust.map(Arc::as_ref),
            };
            let all = deciding.whole_tool().map(|(refusal, wait)| (Arc::new(refusal), wait));
            if let Some((refusal, wait)) = &all {
                self.refuse_tool(id, refusal, *wait);
            }
            for name in deciding.names() {
                let function = FunctionId { tool: id.clone(), function: Arc::clone(&name) };
                if let Some((known, why)) = version.left_out.get_key_value(&function) {
                    told.insert(known);
                    self.leave_out(function, why);
                    continue;
                }
                let verdict = match &all {
                    Some((refusal, wait)) => Verdict::Refused { refusal: Arc::clone(refusal), wait: *wait },
                    None => deciding.function(&function),
                };
                let listed = tool.listing.as_ref().and_then(|listing| listing.functions.get(&name));
                let is_not_shown = listed.is_some_and(|shown| shown.not_shown.is_some());
                let function_trust = snapshot.functions.get(&name);
                drafts.push(draft(view, &version.version, function, function_trust, is_not_shown, verdict));
            }
        }
        for (function, why) in version.left_out.iter().filter(|(function, _)| !told.contains(function)) {
            self.leave_out(function.clone(), why);
        }
    }

    fn leave_out(&mut self, function: FunctionId, why: &LeftOut) {
        let refusal = Refusal::left_out(why.code, &function, &why.why);
        self.left_out.push((function, Arc::new(refusal)));
    }

    /// Functions of different plugins with one model name: the lower rank stays, and of those that
    /// `trust` does not order none does (20-listings, 3, `collides`).
    fn settle(&mut self, mut drafts: Vec<Draft>) {
        self.slots.reserve(2 * drafts.len());
        self.listed.reserve(drafts.len());
        drafts.sort_by(|a, b| a.slot.model_name.cmp(&b.slot.model_name));
        let mut drafts = drafts.into_iter().peekable();
        while let Some(first) = drafts.next() {
            let name = Arc::clone(&first.slot.model_name);
            let mut rivals = Vec::new();
            while let Some(rival) = drafts.next_if(|draft| draft.slot.model_name == name) {
                rivals.push(rival);
            }
            if rivals.is_empty() {
                self.insert(first.slot);
            } else {
                rivals.insert(0, first);
                self.settle_between(rivals);
            }
        }
    }

    fn settle_between(&mut self, rivals: Vec<Draft>) {
        let ids: Vec<FunctionId> = rivals.iter().map(|draft| draft.slot.id.clone()).collect();
        let lowest = rivals.iter().filter_map(|draft| draft.rank).min();
        let winners = rivals.iter().filter(|draft| draft.rank.is_some() && draft.rank == lowest).count();
        for draft in rivals {
            if winners == 1 && draft.rank.is_some() && draft.rank == lowest {
                self.insert(draft.slot);
                continue;
            }
            let own = &draft.slot.id;
            let others: Vec<String> =
                ids.iter().filter(|id| *id != own).map(|id| format!("`{id}`")).collect();
            let why = format!("models would see it under the same name as {}", others.join(" and "));
            self.leave_out(own.clone(), &LeftOut { code: Code::Collides, why: why.into() });
        }
    }

    fn insert(&mut self, slot: Slot) {
        let slot = Arc::new(slot);
        self.slots.insert(slot.id.to_string().into(), Arc::clone(&slot));
        self.slots.insert(Arc::clone(&slot.model_name), Arc::clone(&slot));
        self.listed.push(slot);
    }
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

fn draft(
    view: &View,
    version: &PluginVersion,
    id: FunctionId,
    trust: Option<&FunctionTrust>,
    is_not_shown: bool,
    verdict: Verdict,
) -> Draft {
    let listing = trust.and_then(|trust| Some((trust.hash, Arc::clone(view.texts.get(&trust.hash)?))));
    let model_name: Arc<str> = id.model_name().into();
    let shown = listing.is_some() && !is_not_shown;
    let slot = Slot { id, model_name, version: version.clone(), listing, shown, verdict };
    Draft { slot, rank: trust.map(|trust| trust.rank) }
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
