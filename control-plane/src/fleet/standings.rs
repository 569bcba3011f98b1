//! Keeps what this server remembers of nodes in line with how they stand: whoever was expelled or quarantined,
//! on whatever server, is told and let go.
//!
//! Every change of a node's standing counts up one number in its transaction. A look that finds another number
//! than before reads all records again and compares them in full, so nothing can be missed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::id::NodeId;

use super::ending::Ending;
use super::{Error, Farewell, Fleet, Known, lock};
use crate::operation::find_bundle::{records, standings};
use crate::store::NodeRecord;

impl Fleet {
    /// Reads the records of nodes again if any stands differently since the last look.
    ///
    /// # Errors
    /// The database.
    pub(crate) async fn look_at_standings(&self) -> Result<(), Error> {
        let counted = standings(&self.inner.store).await.map_err(Error::Standings)?;
        if self.inner.standings.load(Ordering::Acquire) == counted {
            return Ok(());
        }
        let (counted, records) = records(&self.inner.store).await.map_err(Error::Standings)?;
        let records: BTreeMap<NodeId, NodeRecord> =
            records.into_iter().map(|record| (record.id.clone(), record)).collect();
        // First the number: whoever puts in a record that was read before compares with it afterwards.
        self.inner.standings.fetch_max(counted, Ordering::AcqRel);
        let known: Vec<NodeId> = lock(&self.inner.known).keys().cloned().collect();
        for id in known {
            self.stands(&id, records.get(&id));
        }
        Ok(())
    }

    /// Takes another record of a node in place of the one that is remembered.
    fn stands(&self, id: &NodeId, record: Option<&NodeRecord>) {
        let mut all = lock(&self.inner.known);
        let Some(known) = all.get(id).cloned() else { return };
        let is_same = record.is_some_and(|record| {
            record.standing == known.record.standing && record.known.pick == known.record.known.pick
        });
        if is_same {
            return;
        }
        let farewell = if let Some(record) = record {
            let newer = Known { record: record.clone(), grants: Arc::clone(&known.grants) };
            all.insert(id.clone(), Arc::new(newer));
            Ending::of(record).map(Farewell::Ended)
        } else {
            all.remove(id);
            // Whether it was removed, or a database was put back that does not know it yet, is looked up when it
            // comes back: only the one is told to go for good.
            Some(Farewell::Forgotten)
        };
        drop(all);
        self.forget_counters(id);
        let edge = lock(&self.inner.edges).get(&known.record.edge).cloned();
        if let (Some(edge), Some(farewell)) = (edge, farewell) {
            edge.signal(id, |own| own.farewell = Some(farewell));
        }
    }

    /// Whether records that were read when `counted` stood there may be older than what was looked at since.
    pub(super) fn is_late(&self, counted: u64) -> bool {
        self.inner.standings.load(Ordering::Acquire) > counted
    }
}
