//! Names of functions: which a server may use, which are ours, and which pass for another's.
//!
//! Names are judged one by one and never refused as a whole, never shortened, never numbered
//! (20-listings, 3). A node's guard and a snapshot ask here; between plugins of an edge the control
//! plane asks with all their tools at once. Calls are routed by table, never by taking a name apart.

mod warned;

pub use warned::{warned, warned_title};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::id::{FunctionId, ToolId};
use crate::listing::Unreadable;
use crate::visible::make_visible;

/// The longest name that the protocol allows, in characters (MCP 2026-07-28, tools).
pub const FUNCTION_NAME_MAX: usize = 128;

/// What most model APIs take for a model name, in characters; longer ones are warned of.
pub const MODEL_NAME_SUITS: usize = 64;

/// The names that one tool lists, in any order.
#[derive(Debug, Clone)]
pub struct ToolNames<'a> {
    /// The tool.
    pub tool: &'a ToolId,
    /// One for each entry that has a readable name. For a tool that is not listed at present,
    /// those of its snapshot, so that no newcomer takes their place meanwhile.
    pub functions: Vec<ListedName<'a>>,
}

/// The name of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedName<'a> {
    /// As made visible.
    pub name: &'a str,
    /// Whether the entry is readable. One that is not is left out as such; here it only counts as
    /// having used the name.
    pub readable: bool,
}

/// Why a function is left out. Of several reasons the first in this order counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// Its entry breaks a rule of readable entries.
    Unreadable(Unreadable),
    /// The name is not of the protocol's form.
    Name(NameFault),
    /// Its tool's ID is the platform's.
    Reserved,
    /// Its server lists the name more than once.
    Twice {
        /// How often, unreadable entries counted.
        times: usize,
    },
    /// Models could not tell it from another function.
    Collides {
        /// The one name that models would see.
        model_name: String,
        /// Whom it could pass for, ascending.
        with: Vec<FunctionId>,
    },
}

impl LeftOut {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable(_) => "unreadable",
            Self::Name(_) => "name",
            Self::Reserved => "reserved",
            Self::Twice { .. } => "twice",
            Self::Collides { .. } => "collides",
        }
    }
}

/// A sentence without its stop and without the function's name, which stands before it.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "its listing cannot be read: {why}"),
            Self::Name(why) => write!(f, "its name is not one that the protocol allows: {why}"),
            Self::Reserved => f.write_str("its tool's ID is reserved for Pintle's own functions"),
            Self::Twice { times } => {
                write!(f, "its server lists {times} functions of that name, so it could pass for either")
            }
            Self::Collides { model_name, with } => {
                write!(f, "models would see it as {model_name}, so it could pass for ")?;
                let shown = with.iter().take(3);
                for (index, other) in shown.enumerate() {
                    write!(f, "{}{other}", if index == 0 { "" } else { ", " })?;
                }
                match with.len().saturating_sub(3) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
        }
    }
}

/// What is wrong with a function's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// It has no characters.
    #[error("it is empty")]
    Empty,
    /// It has more than [`FUNCTION_NAME_MAX`] characters.
    #[error("it has {got} characters, at most {FUNCTION_NAME_MAX} are allowed")]
    TooLong {
        /// How many.
        got: usize,
    },
    /// It has a character outside the protocol's set.
    #[error("it has `{got}`, only A-Z, a-z, 0-9, _, - and . are allowed")]
    Character {
        /// The first such character, made visible.
        got: String,
    },
}

/// Checks that a name is 1 to 128 of `A-Z a-z 0-9 _ - .`.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_function_name(name: &str) -> Result<(), NameFault> {
    let outside = |c: &char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '-' | '.');
    if name.is_empty() {
        return Err(NameFault::Empty);
    }
    if let Some(c) = name.chars().find(outside) {
        return Err(NameFault::Character { got: make_visible(c.encode_utf8(&mut [0; 4])).into_owned() });
    }
    if name.len() > FUNCTION_NAME_MAX {
        return Err(NameFault::TooLong { got: name.len() });
    }
    Ok(())
}

/// The platform's own tool ID, which nobody else may take.
pub const PLATFORM_TOOL: &str = "pintle";

/// Whether the model names of a tool's functions would begin `pintle__`, in any letter case: no
/// tool, agent, harness, session tool or run-time registration may take such an ID.
pub fn is_reserved_tool(tool: &str) -> bool {
    let seen = model_prefix(tool).to_ascii_lowercase();
    seen.strip_prefix(PLATFORM_TOOL).is_some_and(|rest| rest.starts_with("__"))
}

/// Whether functions of two tools could have one model name: written as model names, their IDs are
/// equal or one begins with the other's followed by `_`. Such tools of a version take their first
/// snapshot together (20-listings, 3).
pub fn tools_may_collide(a: &ToolId, b: &ToolId) -> bool {
    let (a, b) = (a.as_str().replace('.', "__"), b.as_str().replace('.', "__"));
    let leads = |short: &str, long: &str| {
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    leads(&a, &b) || leads(&b, &a)
}

/// A tool's ID as the model names of its functions begin.
fn model_prefix(tool: &str) -> String {
    format!("{}__", tool.replace('.', "__"))
}

/// Judges the names of tools that models see together; the order in which they are given does not
/// matter. What is missing in the answer may be listed.
///
/// `approved` says whether a function stands in the approved snapshot of an installed version:
/// such a one stays where a newcomer collides with it. What is left out for another reason collides
/// with nothing.
pub fn judge_names(
    tools: &[ToolNames<'_>],
    approved: &dyn Fn(&FunctionId) -> bool,
) -> BTreeMap<FunctionId, LeftOut> {
    let mut left_out = BTreeMap::new();
    let mut by_model_name: BTreeMap<String, Vec<FunctionId>> = BTreeMap::new();
    for ((tool, name), uses) in count_uses(tools) {
        if uses.readable == 0 {
            continue;
        }
        let id = FunctionId::new(tool, name);
        let reason = match check_function_name(name) {
            Err(fault) => LeftOut::Name(fault),
            Ok(()) if is_reserved_tool(tool.as_str()) => LeftOut::Reserved,
            Ok(()) if uses.all > 1 => LeftOut::Twice { times: uses.all },
            Ok(()) => {
                by_model_name.entry(id.model_name()).or_default().push(id);
                continue;
            }
        };
        left_out.insert(id, reason);
    }
    for (model_name, ids) in by_model_name {
        collide(&model_name, &ids, approved, &mut left_out);
    }
    left_out
}

/// Leaves out those of one model name that do not stay.
fn collide(
    model_name: &str,
    ids: &[FunctionId],
    approved: &dyn Fn(&FunctionId) -> bool,
    left_out: &mut BTreeMap<FunctionId, LeftOut>,
) {
    if ids.len() < 2 {
        return;
    }
    let approved: BTreeSet<&FunctionId> = ids.iter().filter(|id| approved(id)).collect();
    // Two approved ones cannot come about; if they did, neither could be told from the other.
    let stays = if approved.len() == 1 { approved.first().copied() } else { None };
    for id in ids.iter().filter(|id| Some(*id) != stays) {
        let with = ids.iter().filter(|other| *other != id).cloned().collect();
        left_out.insert(id.clone(), LeftOut::Collides { model_name: model_name.to_owned(), with });
    }
}

#[derive(Default)]
struct Uses {
    all: usize,
    readable: usize,
}

fn count_uses<'a>(tools: &[ToolNames<'a>]) -> BTreeMap<(&'a ToolId, &'a str), Uses> {
    let mut counted: BTreeMap<_, Uses> = BTreeMap::new();
    for tool in tools {
        for listed in &tool.functions {
            let uses = counted.entry((tool.tool, listed.name)).or_default();
            uses.all += 1;
            uses.readable += usize::from(listed.readable);
        }
    }
    counted
}

#[cfg(test)]
mod tests;
