//! What the gateway needs of the node: the table of calls and a way to the tools.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::guard::{Denial, Slot, Table};
use domain::id::{PluginVersion, ToolId};
use domain::listing::RealText;
use tokio::sync::watch;
use tools::{Call, CallError, RawResult};

use super::breaker::Breaker;

/// Asked at the moment of writing to the tool: makes the permit again.
pub type BeforeWrite = Arc<dyn Fn() -> Result<(), Denial> + Send + Sync>;

/// A call under way; dropping it cancels the call.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<RawResult, CallError<Denial>>> + Send + 'a>>;

/// What a tool's manifest says of its calls; `None` leaves it to the node's settings, which are never passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// Under way at once.
    pub calls: Option<usize>,
    /// For one call.
    pub deadline: Option<Duration>,
}

/// What calls of one running tool go by.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What its manifest says.
    pub limits: CallLimits,
    /// Whether they are held back.
    pub breaker: Arc<Breaker>,
}

/// The node as the gateway sees it.
pub trait Upstream: Send + Sync + 'static {
    /// The table of this moment.
    fn table(&self) -> Arc<Table>;

    /// Told of each new table.
    fn changed(&self) -> watch::Receiver<u64>;

    /// The node's monotonic clock, in milliseconds.
    fn now_ms(&self) -> u64;

    /// Waits for one new listing of the tool, shared by all that ask; returns however it ended.
    fn relist<'a>(
        &'a self,
        version: &'a PluginVersion,
        tool: &'a ToolId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

    /// Calls the function of that slot. `before_write` is asked when the request is about to go.
    fn call<'a>(&'a self, slot: &'a Slot, call: Call, before_write: BeforeWrite) -> CallFuture<'a>;

    /// Texts of the function's input schema that were written out in its listing, with what its
    /// server takes instead. Empty for nearly every function.
    fn real_texts(&self, slot: &Slot) -> Arc<[RealText]>;

    /// What calls of the function's tool go by.
    fn terms(&self, _slot: &Slot) -> Terms {
        Terms::default()
    }
}
