//! What a tool is started from: a command or a URL, everything resolved, and the limits it lives under.
//!
//! Not here: manifests, variables, secrets, pins and policy; the node has decided all that before.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::listing::ListLimits;
use domain::origin::{AddressClass, ClassPolicy, ShownUrl};
use http::HeaderMap;
use url::Url;

use crate::confine::Confinement;
use crate::dialog::Offers;

/// What to start or reach.
#[derive(Debug, Clone)]
pub enum ToolSpec {
    /// An MCP server as a process of ours, over stdio.
    Command(CommandSpec),
    /// An MCP server somewhere, over streamable HTTP.
    Url(UrlSpec),
}

impl ToolSpec {
    /// Opens it in another way, where what it was made from does not say which.
    pub fn open_by(&mut self, known: Opening) {
        match self {
            Self::Command(CommandSpec { opening, .. }) | Self::Url(UrlSpec { opening, .. }) => {
                if *opening == Opening::Probe {
                    *opening = known;
                }
            }
        }
    }
}

/// A tool that is a process of ours (30-nodes 4, "Tool processes").
#[derive(Clone)]
pub struct CommandSpec {
    /// Program and arguments, variables put in. The program is absolute or a name on `path`.
    pub command: Vec<String>,
    /// Besides the fixed ones, which these may not replace: `PATH`, `HOME`, `TMPDIR`.
    pub env: Vec<(String, String)>,
    /// The tool's own folder: current directory, `HOME` and `TMPDIR`. It exists.
    pub work_dir: PathBuf,
    /// `PATH`, the node's setting; the program is looked up on it too.
    pub path: String,
    /// The program to start a shim from ([`crate::shim::program`]), which ends the tool and all it started
    /// when this process ends, however that happens. `None` starts the tool without.
    pub shim: Option<PathBuf>,
    /// Where what it writes to stderr is kept: up to 1 MiB, and as much in `NAME.log.1`, visible, with the
    /// time before each line. Its folder is made. `None` keeps only the end, in memory.
    pub log: Option<PathBuf>,
    /// What the kernel allows the process.
    pub process: ProcessLimits,
    /// What it may reach; `None`: all that the agent's user may. Needs a shim.
    pub confine: Option<Confinement>,
    /// What it is told that agents can be asked for.
    pub offers: Offers,
    /// How it is opened.
    pub opening: Opening,
    /// What we wait for and read.
    pub limits: Limits,
}

/// How a tool is opened: by what it turned out to speak the last time ([`crate::Tool::opening`]), or by what
/// its manifest says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Opening {
    /// By the modern probe, then the handshake, over HTTP last by the transport of 2024-11-05.
    #[default]
    Probe,
    /// By the handshake; by the probe if it is declined as one of the other era does. Saves a server that
    /// stays silent at the probe the wait for it.
    Handshake,
    /// Over HTTP by the transport of 2024-11-05 only.
    Older,
}

/// Limits of a tool's processes; each has its own memory and files. `None` leaves the node's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessLimits {
    /// Bytes of data segment and heap (`RLIMIT_DATA`; not address space, of which run times reserve
    /// more than they use).
    pub memory: Option<u64>,
    /// Open files (`RLIMIT_NOFILE`).
    pub files: Option<u64>,
    /// Processes at once; looked at by the shim, which ends all of them when there are more. Not
    /// `RLIMIT_NPROC`, which counts all processes of the user and never holds for root.
    pub processes: Option<u64>,
}

/// A tool that is an endpoint somewhere.
#[derive(Clone)]
pub struct UrlSpec {
    /// The endpoint; its origin is the only one that ever gets a request.
    pub url: Url,
    /// Sent with each request, credentials among them.
    pub headers: Headers,
    /// Which addresses its host may be.
    pub addresses: AddressRule,
    /// Setting `tools.resolve`: the address of a host, instead of asking DNS.
    pub resolve: Vec<(String, IpAddr)>,
    /// Setting `tools.extra_ca`: certificates (PEM) trusted besides the system's.
    pub extra_ca: Vec<Vec<u8>>,
    /// Setting `tools.egress_proxy`: what stands between this node and all endpoints but those on this machine.
    pub proxy: Option<EgressProxy>,
    /// What it is told that agents can be asked for.
    pub offers: Offers,
    /// How it is opened.
    pub opening: Opening,
    /// What we wait for and read.
    pub limits: Limits,
}

/// Headers that go with each request; whoever keeps a copy may replace them while the tool runs, such as a token that
/// ended.
#[derive(Clone, Default)]
pub struct Headers(Arc<ArcSwap<HeaderMap>>);

impl Headers {
    /// These from here on.
    pub fn replace(&self, headers: HeaderMap) {
        self.0.store(Arc::new(headers));
    }

    /// As they are now.
    pub(crate) fn now(&self) -> HeaderMap {
        self.0.load().as_ref().clone()
    }
}

impl From<HeaderMap> for Headers {
    fn from(headers: HeaderMap) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(headers)))
    }
}

/// Without their values, which may be secrets.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.load().keys()).finish()
    }
}

/// An HTTP proxy, whose list of allowed hosts stands in for the address guard.
#[derive(Clone)]
pub struct EgressProxy {
    /// Where it is; without user name and password.
    pub url: Url,
    /// User name and password, sent to it as `Proxy-Authorization`.
    pub credentials: Option<(String, String)>,
}

/// Without what may be a secret.
impl fmt::Debug for EgressProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = ShownUrl::from(&self.url);
        f.debug_struct("EgressProxy").field("url", &url).finish_non_exhaustive()
    }
}

/// Without arguments and values of the environment, which may hold secrets.
impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSpec")
            .field("program", &self.command.first())
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("work_dir", &self.work_dir)
            .field("opening", &self.opening)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Without values of headers, which may hold secrets.
impl fmt::Debug for UrlSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UrlSpec")
            .field("url", &ShownUrl::from(&self.url))
            .field("headers", &self.headers)
            .field("addresses", &self.addresses)
            .field("opening", &self.opening)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Which addresses may be connected to (20-listings 7), judged by [`domain::origin::judge_class`].
/// Link-local and metadata ones never are.
#[derive(Debug, Clone, Default)]
pub struct AddressRule {
    /// The pinned class, once there is one.
    pub pinned: Option<AddressClass>,
    /// What the edge's policy allows besides public addresses.
    pub policy: ClassPolicy,
    /// The node's own listeners; an unspecified address stands for all of this machine's.
    pub never: Vec<SocketAddr>,
}

/// What is waited for and read, each bounded.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For an answer to the modern probe over stdio before the handshake is tried: servers of the
    /// older era may stay silent, and each such start waits this long. Five times as long over HTTP.
    pub probe: Duration,
    /// For the whole start, launchers that download first included.
    pub start: Duration,
    /// For a whole list, all pages.
    pub list: Duration,
    /// Bytes of one message, answer body or event; a line over it is thrown away as it comes.
    pub message_bytes: usize,
    /// Entries, pages and bytes of one list.
    pub pages: ListLimits,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            probe: Duration::from_secs(2),
            start: Duration::from_mins(1),
            list: Duration::from_mins(1),
            message_bytes: 16 << 20,
            pages: ListLimits::default(),
        }
    }
}
