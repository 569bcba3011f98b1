//! Whether what people looked at is still so.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use domain::audit::FunctionDifference;
use domain::digest::ListingHash;
use domain::id::{EdgeName, PluginVersion, ToolId};

use super::super::Error;
use super::super::reconcile_changes::{recorded, seen_functions};
use super::{Stale, shown};
use crate::store::changes::{self, Shown, State};
use crate::store::{WriteTx, snapshots};

/// How tools stood when the transaction began, for the fleet or an edge, each read once.
#[derive(Default)]
pub(in crate::operation) struct Standing(BTreeMap<((PluginVersion, ToolId), Option<EdgeName>), ToolStanding>);

/// How one tool stood.
pub(in crate::operation) struct ToolStanding {
    /// Who is asked about; `None`: the fleet.
    edge: Option<EdgeName>,
    is_taken: bool,
    approved: BTreeMap<Arc<str>, ListingHash>,
    /// What nodes show and people may have looked at.
    shown: BTreeSet<Shown>,
    /// Decided earlier in the same request.
    done: BTreeSet<Arc<str>>,
}

impl Standing {
    /// How a tool stands. `is_first`: nobody approved it anywhere before, so what nodes showed of it
    /// counts, not changes.
    pub(in crate::operation) async fn of(
        &mut self,
        tx: &mut WriteTx,
        key: &(PluginVersion, ToolId),
        edge: Option<&EdgeName>,
        is_first: bool,
    ) -> Result<&mut ToolStanding, Error> {
        let loaded = match self.0.entry((key.clone(), edge.cloned())) {
            Entry::Occupied(loaded) => return Ok(loaded.into_mut()),
            Entry::Vacant(vacant) => vacant,
        };
        Ok(loaded.insert(ToolStanding::load(tx, key, edge, is_first).await?))
    }
}

impl ToolStanding {
    async fn load(
        tx: &mut WriteTx,
        (version, tool): &(PluginVersion, ToolId),
        edge: Option<&EdgeName>,
        is_first: bool,
    ) -> Result<Self, Error> {
        let snapshot = recorded(&snapshots::of_version(tx.tx(), version, edge).await?, tool);
        let shown = if is_first {
            let seen = seen_functions(tx, version, tool).await?;
            seen.into_iter()
                .map(|(function, hash)| Shown { function, edge: None, seen: Some(hash) })
                .collect()
        } else {
            let variants = changes::of_tool(tx.tx(), version, tool).await?.into_iter();
            variants
                .filter(|variant| matches!(variant.state, State::Open | State::Rejected))
                .map(|variant| Shown { function: variant.function, edge: variant.edge, seen: variant.seen })
                .collect()
        };
        let (edge, done) = (edge.cloned(), BTreeSet::new());
        Ok(Self { edge, is_taken: snapshot.taken, approved: snapshot.functions, shown, done })
    }

    /// Whoever names the function again in the same request is late.
    pub(in crate::operation) fn decided(&mut self, difference: &FunctionDifference) {
        self.done.insert(Arc::clone(&difference.function));
    }

    /// Why a difference is not, or no longer, as it was shown.
    pub(in crate::operation) fn stale(&self, difference: &FunctionDifference) -> Option<Stale> {
        let approved = self.approved.get(&difference.function).copied();
        let reason = if !self.is_taken {
            "no snapshot of the tool was taken yet, so there is nothing to approve".to_owned()
        } else if difference.edge.is_some() && difference.edge != self.edge {
            let own = difference.edge.as_ref().map(EdgeName::as_str).unwrap_or_default();
            format!("it is what edge {own} goes by for itself")
        } else if self.done.contains(&difference.function) {
            "the request names the function twice; the first counts".to_owned()
        } else if approved != difference.approved {
            let who =
                self.edge.as_ref().map_or_else(|| "the fleet".to_owned(), |edge| format!("edge {edge}"));
            format!("{who} goes by {} meanwhile, shown was {}", text(approved), text(difference.approved))
        } else if !self.shown.contains(&shown(difference)) {
            format!("no node shows {} any longer", text(difference.seen))
        } else {
            return None;
        };
        Some(Stale {
            version: difference.version.clone(),
            tool: difference.tool.clone(),
            function: Some(Arc::clone(&difference.function)),
            approved,
            reason,
        })
    }
}

fn text(hash: Option<ListingHash>) -> String {
    hash.map_or_else(|| "no listing".to_owned(), |hash| hash.to_string())
}
