//! The gateway's view of a real node: its guard and its running tools.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use domain::guard::{Slot, Table};
use domain::id::{PluginVersion, ToolId};
use domain::listing::RealText;
use tokio::sync::watch;
use tools::{Call, CallError};

use super::upstream::{BeforeWrite, CallFuture, Terms, Upstream};
use crate::guard::{Guard, Running, Runtime};

/// A node's guard and its running tools.
#[derive(Clone, Debug)]
pub struct Live {
    guard: Arc<Guard>,
    runtime: Arc<Runtime>,
}

impl Live {
    /// Serves what these hold.
    pub const fn new(guard: Arc<Guard>, runtime: Arc<Runtime>) -> Self {
        Self { guard, runtime }
    }
}

impl Upstream for Live {
    fn table(&self) -> Arc<Table> {
        self.guard.table()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.guard.changed()
    }

    fn now_ms(&self) -> u64 {
        self.runtime.now_ms()
    }

    fn relist<'a>(
        &'a self,
        version: &'a PluginVersion,
        tool: &'a ToolId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(self.runtime.relist(version, tool))
    }

    fn call<'a>(&'a self, slot: &'a Slot, call: Call, before_write: BeforeWrite) -> CallFuture<'a> {
        Box::pin(async move {
            match self.runtime.running(&slot.version, &slot.id.tool) {
                Some(Running { tool, relist, .. }) => {
                    let outcome = tool.call(call, move || before_write()).await;
                    if let Err(CallError::Failed(error)) = &outcome
                        && (error.may_be_of_another_era()
                            || matches!(error, tools::Error::Unauthorized { .. }))
                    {
                        // Its list finds out, and has it opened anew or shown other credentials.
                        relist.ask();
                    }
                    outcome
                }
                // It was stopped since the permit was made; the table says why, or names its successor.
                None => match before_write() {
                    Ok(()) => Err(CallError::Failed(tools::Error::Stopped { sent: false })),
                    Err(denial) => Err(CallError::Refused(denial)),
                },
            }
        })
    }

    fn real_texts(&self, slot: &Slot) -> Arc<[RealText]> {
        self.runtime.real_texts(&slot.version, &slot.id)
    }

    fn terms(&self, slot: &Slot) -> Terms {
        self.runtime.terms(&slot.version, &slot.id.tool)
    }
}
