//! The call decision: which functions may be called at this moment, and why others may not.
//!
//! [`view`] describes what a node holds and observes; [`Table::rebuild`] decides each function of a tool
//! once, whenever anything of that changed for it; [`Table::permit`] is the one look-up on the way of a call. A
//! [`Permit`] can be made nowhere else, and serving a call needs one (law 3 of the architecture).
//! The order of the reasons is that of 20-listings, 6.

mod build;
mod part;
#[cfg(test)]
mod tests;
pub mod view;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::digest::ListingHash;
use crate::id::{EdgeName, FunctionId, PluginVersion, ToolId};
use crate::refusal::{Code, Refusal};

/// Names near an unknown one that its refusal mentions.
const NEAREST_MAX: usize = 3;

/// Proof that a function may be called now. Not `Clone`, so that one permit is one call.
#[derive(Debug)]
pub struct Permit {
    slot: Arc<Slot>,
    hash: ListingHash,
}

impl Permit {
    /// What may be called.
    pub fn slot(&self) -> &Arc<Slot> {
        &self.slot
    }

    /// The approved hash that its newest listing showed.
    pub const fn hash(&self) -> ListingHash {
        self.hash
    }
}

/// A call that is not made, and whether waiting for something could change that.
#[derive(Clone, Debug)]
pub struct Denial {
    /// What to answer.
    pub refusal: Arc<Refusal>,
    /// What the caller may wait for, bounded, before it answers so.
    pub wait: Option<Wait>,
}

/// What could turn a denial into a permit without a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The table to change: a set or a listing is on its way.
    Change,
    /// A new listing of the tool, which somebody has to ask for.
    Listing,
}

/// One function as the table has it.
#[derive(Debug)]
pub struct Slot {
    /// Its ID.
    pub id: FunctionId,
    /// The name that models see.
    pub model_name: Arc<str>,
    /// The version that serves it.
    pub version: PluginVersion,
    /// Its snapshot: hash and canonical text. `None` for a function that has none, or whose text is
    /// not here yet.
    pub listing: Option<(ListingHash, Arc<str>)>,
    /// Whether models see it in `tools/list`.
    pub shown: bool,
    verdict: Verdict,
}

impl Slot {
    /// The refusal that the table holds for it, whatever the time; `None` if it is callable.
    pub fn refusal(&self) -> Option<&Arc<Refusal>> {
        match &self.verdict {
            Verdict::Callable { .. } => None,
            Verdict::Refused { refusal, .. } => Some(refusal),
        }
    }
}

#[derive(Debug)]
enum Verdict {
    Callable {
        hash: ListingHash,
        /// When the listing that showed it was asked for; the node's monotonic clock.
        asked_at_ms: u64,
        age_max_ms: u64,
        /// Why a newer listing could not be had, if one was tried.
        relist_failed: Option<Arc<str>>,
    },
    Refused {
        refusal: Arc<Refusal>,
        wait: Option<Wait>,
    },
}

/// Every function of a node, decided. Immutable; a change builds another.
#[derive(Debug, Default)]
pub struct Table {
    /// Set while nothing at all may be called.
    closed: Option<Arc<Refusal>>,
    slots: HashMap<Arc<str>, Arc<Slot>>,
    /// In the order of their model names.
    listed: Vec<Arc<Slot>>,
    /// For names of no slot: what is true of every function of a tool, by `TOOL.`.
    tools: BTreeMap<Box<str>, (ToolId, Arc<Refusal>, Option<Wait>)>,
    left_out: Vec<(FunctionId, Arc<Refusal>)>,
    /// Whose sentences these are.
    edge: Option<EdgeName>,
    /// What each tool comes to.
    parts: build::Parts,
    /// Some functions of different tools have one model name.
    rivals: bool,
}

impl Table {
    /// Decides whether the function that is called `name`, by its model name or its ID, may be
    /// called at `now_ms` (the node's monotonic clock).
    ///
    /// Permits without allocating but for the permit itself, and without a lock.
    ///
    /// # Errors
    /// The first reason that holds, in the order of 20-listings, 6.
    pub fn permit(&self, name: &str, now_ms: u64) -> Result<Permit, Denial> {
        if let Some(refusal) = &self.closed {
            return Err(Denial { refusal: Arc::clone(refusal), wait: Some(Wait::Change) });
        }
        let Some(slot) = self.slots.get(name) else { return Err(self.unknown(name)) };
        match &slot.verdict {
            Verdict::Refused { refusal, wait } => Err(Denial { refusal: Arc::clone(refusal), wait: *wait }),
            Verdict::Callable { hash, asked_at_ms, age_max_ms, relist_failed } => {
                let age_ms = now_ms.saturating_sub(*asked_at_ms);
                if age_ms <= *age_max_ms {
                    return Ok(Permit { slot: Arc::clone(slot), hash: *hash });
                }
                let reason = relist_failed.as_deref().unwrap_or("it was not asked yet");
                let refusal = Refusal::listing_stale(&slot.id, age_ms, *age_max_ms, reason);
                Err(Denial { refusal: Arc::new(refusal), wait: Some(Wait::Listing) })
            }
        }
    }

    /// Asks again at the moment of writing to the tool: whether what `permit` allowed is still
    /// allowed, for the same version.
    ///
    /// # Errors
    /// As [`Table::permit`]; another version in its place is `unassigned` for this call.
    pub fn still(&self, permit: &Permit, now_ms: u64) -> Result<(), Denial> {
        let again = self.permit(&permit.slot.model_name, now_ms)?;
        if again.slot.version == permit.slot.version && again.slot.id == permit.slot.id {
            return Ok(());
        }
        let refusal = Refusal::new(
            Code::Unassigned,
            format!(
                "`{}` was called while {} took the place of {} on this node; nothing was sent. Call it again.",
                permit.slot.id, again.slot.version, permit.slot.version
            ),
        );
        // The successor may be permitted, which asking anew finds out.
        Err(Denial { refusal: Arc::new(refusal), wait: Some(Wait::Change) })
    }

    /// The function of that model name or ID.
    pub fn slot(&self, name: &str) -> Option<&Arc<Slot>> {
        self.slots.get(name)
    }

    /// Why nothing at all may be called, if that is so.
    pub fn closed(&self) -> Option<&Arc<Refusal>> {
        self.closed.as_ref()
    }

    /// Every function but those left out, in the order of their model names. What models see of
    /// them is [`Slot::shown`].
    pub fn functions(&self) -> &[Arc<Slot>] {
        &self.listed
    }

    /// What is left out, each with its reason.
    pub fn left_out(&self) -> &[(FunctionId, Arc<Refusal>)] {
        &self.left_out
    }

    fn unknown(&self, name: &str) -> Denial {
        let by_tool = self
            .tools
            .iter()
            .filter(|(prefix, _)| {
                name.starts_with(&***prefix) || name.starts_with(&prefix.replace('.', "__"))
            })
            .max_by_key(|(prefix, _)| prefix.len());
        if let Some((_, (_, refusal, wait))) = by_tool {
            return Denial { refusal: Arc::clone(refusal), wait: *wait };
        }
        let left_out = self.left_out.iter().find(|(id, _)| id.to_string() == name || id.model_name() == name);
        if let Some((_, refusal)) = left_out {
            return Denial { refusal: Arc::clone(refusal), wait: None };
        }
        let mut near: Vec<(usize, String)> = self
            .listed
            .iter()
            .map(|slot| slot.id.to_string())
            .map(|id| {
                (strsim::levenshtein(&id, name).min(strsim::levenshtein(&id.replace('.', "__"), name)), id)
            })
            .filter(|(distance, id)| *distance <= id.chars().count().max(4) / 2)
            .collect();
        near.sort();
        let near: Vec<String> = near.into_iter().take(NEAREST_MAX).map(|(_, id)| id).collect();
        Denial { refusal: Arc::new(Refusal::unknown_function(name, &near)), wait: None }
    }
}
