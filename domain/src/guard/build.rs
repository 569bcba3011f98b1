//! Deciding each function of a view, and putting the table together from what each tool comes to.
//!
//! A tool's share ([`Part`]) is kept with what it was decided from, so that a change of one tool decides that
//! one anew and leaves all others as they were.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::part::{Draft, Origins, Part};
use super::view::{LeftOut, PluginState, SetState, View};
use super::{Slot, Table, Wait};
use crate::id::{FunctionId, PluginName, ToolId};
use crate::refusal::{Code, Refusal};

/// Each tool's share.
pub(super) type Parts = BTreeMap<(PluginName, ToolId), Arc<Part>>;

impl Table {
    /// Decides every function of the view.
    pub fn build(view: &View) -> Self {
        Self::default().rebuild(view)
    }

    /// Decides what of the view is other than it was for this table; the rest is taken from it. Equal to
    /// [`Table::build`], where no text is taken away that the view's trust names.
    #[must_use]
    pub fn rebuild(&self, view: &View) -> Self {
        let mut table = Self { edge: Some(view.edge.clone()), ..Self::default() };
        let nothing = Parts::new();
        let known = if self.edge == table.edge { &self.parts } else { &nothing };
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
        for (plugin, state) in &view.plugins {
            match state {
                PluginState::Serving(version) => {
                    for (id, tool) in &version.tools {
                        let origins = Origins::serving(view, version, id, tool);
                        table.take(view, known.get(&(plugin.clone(), id.clone())), &origins);
                    }
                    let of_no_tool =
                        version.left_out.iter().filter(|(id, _)| !version.tools.contains_key(&id.tool));
                    table.left_out.extend(of_no_tool.map(|(id, why)| left_out(id, why)));
                }
                PluginState::Installing { version, tools, failed, earlier } => {
                    let refusal =
                        Refusal::installing(version, failed.as_deref(), earlier.as_ref(), &view.edge);
                    let refusal = Arc::new(refusal);
                    for id in tools {
                        let origins = Origins::down(view, version, id, &refusal);
                        table.take(view, known.get(&(plugin.clone(), id.clone())), &origins);
                    }
                }
                PluginState::Unassigned { tools } => {
                    let refusal = Arc::new(Refusal::unassigned(plugin, &view.edge));
                    for tool in tools {
                        table.refuse_tool(tool, &refusal, None);
                    }
                }
            }
        }
        if self.rivals || !table.patch(self) {
            table.settle();
        }
        table
    }

    /// Takes a tool's share as it was, if nothing that it depends on changed, or decides it.
    fn take(&mut self, view: &View, known: Option<&Arc<Part>>, origins: &Origins<'_>) {
        let part = match known.filter(|part| part.is_of(origins)) {
            Some(part) => Arc::clone(part),
            None => Arc::new(Part::decide(view, origins)),
        };
        let id = origins.tool();
        if let Some((refusal, wait)) = &part.refusal {
            self.refuse_tool(id, refusal, *wait);
        }
        self.left_out.extend(part.left_out.iter().cloned());
        self.parts.insert((origins.version().plugin.clone(), id.clone()), part);
    }

    fn refuse_tool(&mut self, tool: &ToolId, refusal: &Arc<Refusal>, wait: Option<Wait>) {
        self.tools.insert(format!("{tool}.").into(), (tool.clone(), Arc::clone(refusal), wait));
    }

    /// Makes this table from the one before it and the shares that are others. Answers false, and does nothing,
    /// if most of it is another, or functions of different tools have one model name.
    fn patch(&mut self, before: &Self) -> bool {
        let is_same = |key: &(PluginName, ToolId), part: &Arc<Part>, parts: &Parts| {
            parts.get(key).is_some_and(|other| Arc::ptr_eq(part, other))
        };
        let gone = before.parts.iter().filter(|(key, part)| !is_same(key, part, &self.parts));
        let mut gone: Vec<&Draft> = gone.flat_map(|(_, part)| &part.drafts).collect();
        let came = self.parts.iter().filter(|(key, part)| !is_same(key, part, &before.parts));
        let mut came: Vec<&Draft> = came.flat_map(|(_, part)| &part.drafts).collect();
        if came.len() + gone.len() > before.listed.len() {
            return false;
        }
        let mut slots = before.slots.clone();
        for draft in &gone {
            slots.remove(&draft.id);
            slots.remove(&draft.slot.model_name);
        }
        for draft in &came {
            slots.insert(Arc::clone(&draft.id), Arc::clone(&draft.slot));
            if slots.insert(Arc::clone(&draft.slot.model_name), Arc::clone(&draft.slot)).is_some() {
                return false;
            }
        }
        gone.sort_unstable_by(|a, b| a.slot.model_name.cmp(&b.slot.model_name));
        came.sort_unstable_by(|a, b| a.slot.model_name.cmp(&b.slot.model_name));
        let mut listed = Vec::with_capacity(slots.len() / 2);
        let (mut gone, mut came) = (gone.into_iter().peekable(), came.into_iter().peekable());
        for slot in &before.listed {
            while let Some(first) = came.next_if(|draft| draft.slot.model_name < slot.model_name) {
                listed.push(Arc::clone(&first.slot));
            }
            if gone.next_if(|draft| Arc::ptr_eq(&draft.slot, slot)).is_none() {
                listed.push(Arc::clone(slot));
            }
        }
        listed.extend(came.map(|draft| Arc::clone(&draft.slot)));
        (self.slots, self.listed) = (slots, listed);
        true
    }

    /// Functions of different plugins with one model name: the lower rank stays, and of those that
    /// `trust` does not order none does (20-listings, 3, `collides`).
    fn settle(&mut self) {
        let parts: Vec<Arc<Part>> = self.parts.values().cloned().collect();
        let mut drafts: Vec<&Draft> = parts.iter().flat_map(|part| &part.drafts).collect();
        self.slots.reserve(2 * drafts.len());
        self.listed.reserve(drafts.len());
        drafts.sort_by(|a, b| a.slot.model_name.cmp(&b.slot.model_name));
        for rivals in drafts.chunk_by(|a, b| a.slot.model_name == b.slot.model_name) {
            match rivals {
                [only] => self.insert(only),
                rivals => self.settle_between(rivals),
            }
        }
    }

    fn settle_between(&mut self, rivals: &[&Draft]) {
        self.rivals = true;
        let lowest = rivals.iter().filter_map(|draft| draft.rank).min();
        let winners = rivals.iter().filter(|draft| draft.rank.is_some() && draft.rank == lowest).count();
        for draft in rivals {
            if winners == 1 && draft.rank.is_some() && draft.rank == lowest {
                self.insert(draft);
                continue;
            }
            let own = &draft.slot.id;
            let others: Vec<String> = rivals
                .iter()
                .map(|rival| &rival.slot.id)
                .filter(|id| *id != own)
                .map(|id| format!("`{id}`"))
                .collect();
            let why = format!("models would see it under the same name as {}", others.join(" and "));
            self.left_out.push(left_out(own, &LeftOut { code: Code::Collides, why: why.into() }));
        }
    }

    fn insert(&mut self, draft: &Draft) {
        let slot: &Arc<Slot> = &draft.slot;
        self.slots.insert(Arc::clone(&draft.id), Arc::clone(slot));
        self.slots.insert(Arc::clone(&slot.model_name), Arc::clone(slot));
        self.listed.push(Arc::clone(slot));
    }
}

pub(super) fn left_out(id: &FunctionId, why: &LeftOut) -> (FunctionId, Arc<Refusal>) {
    (id.clone(), Arc::new(Refusal::left_out(why.code, id, &why.why)))
}
