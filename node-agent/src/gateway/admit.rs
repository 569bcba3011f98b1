//! From a name to a permit: asks the table, and waits, bounded, for what is on its way.

use std::time::Duration;

use domain::guard::{Denial, Permit, Wait};
use domain::refusal::Code;
use tokio::time::{Instant, timeout, timeout_at};

use super::Shared;

/// A permit for the function of that model name or ID.
///
/// # Errors
/// The table's last word, after what could change it was waited for.
pub(super) async fn admit(shared: &Shared, name: &str) -> Result<Permit, Denial> {
    match shared.upstream.table().permit(name, shared.upstream.now_ms()) {
        Err(Denial { wait: Some(_), .. }) => wait(shared, name).await,
        outcome => outcome,
    }
}

/// One new listing of the tool, shared by all that wait for it. How it ended, the table says.
pub(super) async fn relist(shared: &Shared, name: &str) {
    let slot = shared.upstream.table().slot(name).cloned();
    if let Some(slot) = slot {
        let listing = shared.upstream.relist(&slot.version, &slot.id.tool);
        let _ = timeout(shared.config.relist_wait, listing).await;
    }
}

async fn wait(shared: &Shared, name: &str) -> Result<Permit, Denial> {
    let started = Instant::now();
    let mut listed = false;
    loop {
        // Subscribed before the table is asked, so that no change between the two is missed.
        let mut changed = shared.upstream.changed();
        let denial = match shared.upstream.table().permit(name, shared.upstream.now_ms()) {
            Ok(permit) => return Ok(permit),
            Err(denial) => denial,
        };
        match denial.wait {
            None => return Err(denial),
            Some(Wait::Listing) if listed => return Err(denial),
            Some(Wait::Listing) => {
                listed = true;
                relist(shared, name).await;
            }
            Some(Wait::Change) => {
                let end = started + patience(shared, denial.refusal.code);
                if !matches!(timeout_at(end, changed.changed()).await, Ok(Ok(()))) {
                    return Err(denial);
                }
            }
        }
    }
}

const fn patience(shared: &Shared, code: Code) -> Duration {
    match code {
        Code::Relisting => shared.config.relist_wait,
        _ => shared.config.set_wait,
    }
}
