//! Exit codes that scripts can rely on; `docs/cli.md` lists them for people.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is so.
    Done,
    /// It failed; stderr says why.
    Failed,
    /// The command line cannot be understood (clap's own code too).
    Usage,
    /// Something waits for a person's decision and nothing was changed.
    Open,
    /// Refused: a call by the node's guard, or a request by the control plane's roles.
    Refused,
    /// Nothing answers at the address.
    Unreachable,
    /// It was done or begun, but what was waited for did not happen in time.
    TimedOut,
}

impl Exit {
    /// The number that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Open => 3,
            Self::Refused => 4,
            Self::Unreachable => 5,
            Self::TimedOut => 6,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
