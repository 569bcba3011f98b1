//! A transaction that may write: it keeps the raised heads and the audit events together.

use std::collections::BTreeSet;

use domain::audit::{Event, Origin};
use domain::id::{EdgeName, NodeId};
use domain::plugin_set::{Part, Position, Scope};
use domain::time::Timestamp;

use super::sql::{Statement, Transaction, args};
use super::{CHANNEL, Error, Store, audits, heads, meta, orphans};

// These two are PostgreSQL's alone, so they are not among the statements that both engines prepare.

/// One lock for all writers of a fleet; the number is "pintle" in ASCII.
const LOCK: Statement =
    Statement { name: "LOCK", sql: "select 1 where pg_advisory_xact_lock(123598127000677) is not null" };
const NOTIFY: Statement = Statement { name: "NOTIFY", sql: "select 1 where pg_notify($1, '') is not null" };

/// A transaction that may write. Dropped, nothing of it is kept.
///
/// It sees and keeps out all other writers of the fleet, so what was read is still true when it
/// commits.
#[derive(Debug)]
pub struct WriteTx {
    tx: Transaction,
    store: Store,
    raised: BTreeSet<(Scope, Part)>,
    wakes: bool,
    events: Vec<(Origin, Event)>,
    /// Whether heads were raised by the transaction itself.
    has_raised: bool,
}

impl WriteTx {
    pub(super) async fn begin(store: &Store) -> Result<Self, Error> {
        let mut tx = store.pool().begin_write().await?;
        if tx.is_postgres() {
            tx.rows(LOCK, args![]).await?;
        }
        let raised = BTreeSet::new();
        Ok(Self { tx, store: store.clone(), raised, wakes: false, events: Vec::new(), has_raised: false })
    }

    /// The transaction itself, for reading and recording.
    pub(crate) const fn tx(&mut self) -> &mut Transaction {
        &mut self.tx
    }

    /// Has this part of this scope raised at commit.
    pub(crate) fn raise(&mut self, scope: Scope, part: Part) {
        self.raised.insert((scope, part));
    }

    /// Has the grants of a node raised at commit, and those of its edge: an edge has none of its own,
    /// but whoever looks sees by them that one of its nodes' changed, without reading all of those.
    pub(crate) fn raise_grants(&mut self, edge: &EdgeName, node: &NodeId) {
        self.raise(Scope::Node(node.clone()), Part::Grants);
        self.raise(Scope::Edge(edge.clone()), Part::Grants);
    }

    /// Raises all heads to a new epoch, since nodes hold proof of what this database does not.
    pub(crate) async fn rewind(
        &mut self,
        epoch: u64,
        proven: &[(Scope, Part, Position)],
    ) -> Result<(), Error> {
        self.has_raised = true;
        orphans::remember(&mut self.tx, epoch).await?;
        meta::set_epoch(&mut self.tx, epoch).await?;
        heads::raise_all(&mut self.tx, epoch, proven).await
    }

    /// Has servers read again how nodes stand, from the commit on.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) async fn stands_differently(&mut self) -> Result<(), Error> {
        self.wakes = true;
        meta::raise(&mut self.tx, meta::STANDINGS).await
    }

    /// Adds what happened to the audit log at commit.
    pub(crate) fn audit(&mut self, origin: &Origin, event: Event) {
        self.events.push((origin.clone(), event));
    }

    /// Raises the heads in ascending order, appends the events, makes it all durable, and wakes
    /// those who hand out the plugin set.
    ///
    /// # Errors
    /// [`Error::Unaudited`] if a head is raised but nothing says why (law 2); what the database says.
    pub(crate) async fn commit(mut self, now: Timestamp) -> Result<(), Error> {
        if let (Some((scope, _)), true) = (self.raised.first(), self.events.is_empty()) {
            return Err(Error::Unaudited { scope: scope.to_string() });
        }
        heads::raise(&mut self.tx, &self.raised).await?;
        audits::append(&mut self.tx, now, &self.events).await?;
        let wakes = self.wakes || self.has_raised || !self.raised.is_empty();
        if self.tx.is_postgres() && wakes {
            self.tx.rows(NOTIFY, args![CHANNEL]).await?;
        }
        self.tx.commit().await?;
        self.store.count_write();
        if wakes {
            self.store.wake();
        }
        Ok(())
    }
}
