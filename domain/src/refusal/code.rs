//! The codes of refusals, in the order in which the guard asks (20-listings, 6).

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// Why a call is not made. Closed: each has a page under `docs/refusals/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// All codes, in the order in which the guard asks.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its stable text.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// The node does not hold its plugin set yet.
    NoPluginSet = "no_plugin_set",
    /// The set is older than the edge allows.
    SetStale = "set_stale",
    /// The node was evicted or banned.
    NodeEvicted = "node_evicted",
    /// A person stopped calls.
    Blocked = "blocked",
    /// No version of the plugin is assigned to the node.
    Unassigned = "unassigned",
    /// The edge does not run tools of this kind.
    KindOff = "kind_off",
    /// The assigned version is not installed yet.
    Installing = "installing",
    /// The tool's process is not up.
    NotRunning = "not_running",
    /// The remote tool cannot be reached.
    Unreachable = "unreachable",
    /// Nothing of that name.
    UnknownFunction = "unknown_function",
    /// Left out: the tool ID is the platform's own.
    Reserved = "reserved",
    /// Left out: no name that may be called.
    Name = "name",
    /// Left out: listed twice.
    Twice = "twice",
    /// Left out: could pass for another function.
    Collides = "collides",
    /// Left out: its listing cannot be read in one way only.
    Unreadable = "unreadable",
    /// The remote tool moved, and nobody approved it.
    OriginMoved = "origin_moved",
    /// The remote tool sent calls elsewhere.
    Redirected = "redirected",
    /// The remote tool's address is not one it may have.
    Address = "address",
    /// Its server does not list it now.
    Unlisted = "unlisted",
    /// The last list broke off before it was shown.
    Incomplete = "incomplete",
    /// Its server said that its list changed; the new one is being read.
    Relisting = "relisting",
    /// The last list is too old, and a new one could not be had.
    ListingStale = "listing_stale",
    /// No first listing was recorded yet.
    NoSnapshot = "no_snapshot",
    /// It was not there when the plugin's tools were approved.
    NewFunction = "new_function",
    /// It lists itself differently from what was approved.
    Drifted = "drifted",
    /// A rule says no.
    Denied = "denied",
    /// The arguments do not fit the approved schema.
    BadArguments = "bad_arguments",
    /// A person has to allow this call.
    AwaitingApproval = "awaiting_approval",
    /// A limit of calls under way, or of calls that fail.
    Busy = "busy",
    /// A limit of time.
    TimedOut = "timed_out",
    /// A secret cannot be had now.
    SecretUnavailable = "secret_unavailable",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
