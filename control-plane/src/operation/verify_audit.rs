//! Reads the whole audit log and checks that nothing in it was changed.

use domain::audit::{ChainFault, Tail};

use super::Error;
use crate::store::Store;
use crate::store::audits::{self, Filter};

/// Events read at a time: a few megabytes.
const PAGE: u64 = 5_000;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The last good event.
    pub tail: Tail,
    /// The first bad one; what follows it was not read.
    pub fault: Option<ChainFault>,
}

/// Verifies from the first event to the last, as of one moment.
///
/// # Errors
/// What the store says.
pub async fn verify_audit(store: &Store) -> Result<Verified, Error> {
    let mut tx = store.read().await?;
    let mut tail = Tail::START;
    loop {
        let page = audits::after(&mut tx, tail.seq, &Filter::default(), PAGE).await?;
        if page.is_empty() {
            return Ok(Verified { tail, fault: None });
        }
        for record in &page {
            if let Err(fault) = tail.verify(record) {
                return Ok(Verified { tail, fault: Some(fault) });
            }
        }
    }
}
