//! The call table of this node, and the tools that its calls go to.
//!
//! [`Guard`] owns the one [`View`] of what the node holds and observes and publishes the [`Table`]
//! that `domain::guard` decided from it; [`Runtime`] knows the running tools. The link, the
//! reconciler and the supervisor write here, the gateway reads. Nothing is decided here.

mod runtime;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use domain::guard::Table;
use domain::guard::view::View;
use tokio::sync::watch;

pub use runtime::Runtime;
pub(crate) use runtime::{Clock, Lists, RealTexts, Relist, Running, SimulatedClock};

/// The table of calls, rebuilt whenever something that it depends on changes.
#[derive(Debug)]
pub struct Guard {
    view: Mutex<View>,
    table: ArcSwap<Table>,
    changed: watch::Sender<u64>,
}

impl Guard {
    /// Decides the first table.
    pub fn new(view: View) -> Self {
        let table = ArcSwap::from_pointee(Table::build(&view));
        Self { view: Mutex::new(view), table, changed: watch::Sender::new(0) }
    }

    /// The table as it is now. Lock-free; a call asks for it again at the moment of writing.
    pub fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    /// Told each time another table took the place of the last; the number only ever rises.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Changes what the node holds or observes. If `change` says that it did, the table is rebuilt for the
    /// tools that it concerns and published before this returns, so that whoever comes later sees it.
    ///
    /// Blocks, and never for longer than a rebuild of everything takes (10,000 functions: about ten
    /// milliseconds); so it may be called where a tool's messages are read.
    pub fn update(&self, change: impl FnOnce(&mut View) -> bool) -> bool {
        let mut view = self.lock();
        let changed = change(&mut view);
        if changed {
            let next = self.table.load().rebuild(&view);
            self.table.store(Arc::new(next));
            self.changed.send_modify(|number| *number += 1);
        }
        changed
    }

    /// Reads what the node holds and observes. As bounded as `read` is.
    pub fn read<T>(&self, read: impl FnOnce(&View) -> T) -> T {
        read(&self.lock())
    }

    /// A writer that panicked left the view between two changes of one plugin at worst, and the next
    /// change of it sets it whole.
    fn lock(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
