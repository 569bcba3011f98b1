//! Compiled schemas by listing hash: the same text is compiled once, whoever calls it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use domain::digest::ListingHash;
use domain::guard::Table;

use super::Schema;

/// Schemas kept before those that no function of the table has are dropped; a node lists some
/// hundreds of functions.
const SWEEP_AT: usize = 1_024;
/// Schemas kept at most; as many as one tool may list functions.
const MOST: usize = 10_000;

/// Schemas that were needed so far.
#[derive(Debug, Default)]
pub(crate) struct Schemas(RwLock<HashMap<ListingHash, Arc<Schema>>>);

impl Schemas {
    /// The schema of an approved listing, compiled at its first use; `table` says which are still
    /// approved.
    pub(crate) fn of(&self, listing: &(ListingHash, Arc<str>), table: &Table) -> Arc<Schema> {
        let (hash, canonical) = listing;
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned();
        known.unwrap_or_else(|| self.compile(*hash, canonical, table))
    }

    fn compile(&self, hash: ListingHash, canonical: &str, table: &Table) -> Arc<Schema> {
        let schema = Arc::new(Schema::compile(canonical));
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SWEEP_AT {
            let approved = table.functions().iter().filter_map(|slot| Some(slot.listing.as_ref()?.0));
            let approved: std::collections::HashSet<ListingHash> = approved.collect();
            all.retain(|hash, _| approved.contains(hash));
        }
        if all.len() < MOST {
            all.insert(hash, Arc::clone(&schema));
        }
        schema
    }
}
