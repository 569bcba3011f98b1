//! Whether the origin of a tool in a version is pinned, or moved and waiting for a person.
//!
//! The control plane asks once per (edge, plugin, version, tool), in the transaction that assigns a
//! version or starts a rollout, about the pins as they were before that transaction.

use std::fmt;

use super::address::AddressClass;
use super::tool_url::Origin;

/// Where a manifest says that a remote tool is, and in which form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A fixed host.
    Fixed(Origin),
    /// A host from a connection's parameter. It is not pinned: connecting records the origin, and
    /// calls stay within that.
    FromConnection {
        /// What stands fixed after the parameter, with a port if there is one: `.crm.example`.
        suffix: String,
        /// Whether it is reached by plain http: what goes there can be read on the way.
        in_the_clear: bool,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(origin) => origin.fmt(f),
            Self::FromConnection { suffix, in_the_clear } => {
                f.write_str("a connection's host")?;
                if !suffix.is_empty() {
                    write!(f, " *{suffix}")?;
                }
                if *in_the_clear { f.write_str(" by http") } else { Ok(()) }
            }
        }
    }
}

/// What was decided about a tool's endpoint in a version, on one edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Where the version's manifest says that the tool is.
    pub endpoint: Endpoint,
    /// Of a literal address or `localhost` the manifest's; of a name what the first node to list
    /// the tool completely connected to, unknown until then.
    pub class: Option<AddressClass>,
    /// Whether it may be called there.
    pub state: PinState,
}

/// Whether a tool may be called at its endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PinState {
    /// It may.
    Pinned,
    /// It was somewhere else and waits: `endpoint moved: TOOL: OLD -> NEW`.
    Moved {
        /// Where it was, ascending; several only on an edge that never had the plugin.
        from: Vec<Endpoint>,
    },
    /// Nothing is known to compare it with and it waits: `endpoint new: TOOL: ORIGIN`.
    NewAt,
}

/// What is known of the plugin on the edge that is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEdge<'a> {
    /// The plugin was never installed there.
    NeverInstalled {
        /// Pins of the tool in versions installed elsewhere, the asked version included.
        elsewhere: &'a [Pin],
    },
    /// It is or was.
    Installed {
        /// Pins of the tool in the versions that were installed there and had it, the last
        /// installed first. Empty if none had it.
        tool: &'a [Pin],
    },
}

/// All that a decision needs.
#[derive(Debug, Clone, Copy)]
pub struct PinQuestion<'a> {
    /// Where the asked version's manifest says that the tool is.
    pub endpoint: &'a Endpoint,
    /// The decision for this edge, plugin, version and tool, if there is one.
    pub existing: Option<&'a PinState>,
    /// Endpoints approved fleet-wide for this version and tool.
    pub approved: &'a [Endpoint],
    /// What the edge had.
    pub on_edge: OnEdge<'a>,
    /// Whether any `url` tool of the plugin was pinned anywhere.
    pub any_pinned: bool,
    /// Pins on that edge, of any tool, for the version being replaced.
    pub replaced: &'a [Pin],
}

/// Decides (20-listings, 7). An unapproved move is never a baseline, whatever is handed in.
pub fn decide_pin(question: &PinQuestion<'_>) -> PinState {
    // A decision stays, so that going back to a version needs no approval.
    if let Some(existing) = question.existing {
        return existing.clone();
    }
    if question.approved.contains(question.endpoint) {
        return PinState::Pinned;
    }
    let mut baseline: Vec<Endpoint> = match question.on_edge {
        OnEdge::NeverInstalled { elsewhere } => pinned(elsewhere).cloned().collect(),
        OnEdge::Installed { tool } => pinned(tool).take(1).cloned().collect(),
    };
    if baseline.contains(question.endpoint) {
        return PinState::Pinned;
    }
    if !baseline.is_empty() {
        baseline.sort_unstable();
        baseline.dedup();
        return PinState::Moved { from: baseline };
    }
    let is_first_use = !question.any_pinned;
    // Whoever connects chooses the host, and sees it.
    let by_connection = matches!(question.endpoint, Endpoint::FromConnection { .. });
    let was_there = pinned(question.replaced).any(|endpoint| endpoint == question.endpoint);
    if is_first_use || by_connection || was_there { PinState::Pinned } else { PinState::NewAt }
}

fn pinned(pins: &[Pin]) -> impl Iterator<Item = &Endpoint> {
    pins.iter().filter(|pin| pin.state == PinState::Pinned).map(|pin| &pin.endpoint)
}
