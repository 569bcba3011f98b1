//! One look of the fan-out: where the database stands is compared with what was built, and what is newer
//! is built once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::id::{EdgeName, NodeId};
use domain::plugin_set::{Part, Position, Scope};
use futures::StreamExt as _;

use super::{BUILDS_AT_ONCE, EncodedPart, Error, FRESH_MS, Fleet, Known, Standing, lock, part};
use crate::operation::load_part;

impl Fleet {
    /// Compares every edge in memory with the database and builds what is newer, the own parts of its
    /// nodes too if one of them was raised. With `all`, compares everything there is afterwards: what
    /// that finds was missed, and is counted.
    ///
    /// # Errors
    /// The first that could not be read; the others were looked at.
    pub async fn look(&self, all: bool) -> Result<(), Error> {
        self.look_at_standings().await?;
        let _one_look = self.inner.looking.lock().await;
        // Read before the look: whatever is committed later is none that it missed.
        let before = if all { self.positions(None).await? } else { Vec::new() };
        let held = self.held();
        let scopes: Vec<Scope> = lock(&self.inner.edges).keys().cloned().map(Scope::Edge).collect();
        let mut outcome = Ok(());
        if !scopes.is_empty() {
            let positions = self.positions(Some(&scopes)).await?;
            if self.starts_over(&held, &positions) {
                return Ok(());
            }
            outcome = self.look_at(positions).await;
        }
        if all {
            // Each node has grants from its first day on.
            let is_node = |(scope, ..): &&Standing| matches!(scope, Scope::Node(_));
            self.inner.size.store(before.iter().filter(is_node).count() as u64, Ordering::Relaxed);
            let missed = before.iter().filter(|(scope, part, at)| self.is_behind(scope, *part, *at)).count();
            if missed > 0 && outcome.is_ok() {
                self.inner.missed.fetch_add(missed as u64, Ordering::Relaxed);
                tracing::error!(fleet_fanout_missed_total = self.missed(), "the fan-out had missed changes");
            }
            outcome = outcome.and(self.look_at(before).await);
        }
        outcome
    }

    /// Reads where one edge and one of its nodes stand, in a transaction of its own, and builds what is
    /// newer.
    ///
    /// # Errors
    /// The database.
    pub async fn reread(&self, edge: &EdgeName, node: &NodeId) -> Result<(), Error> {
        let _one_look = self.inner.looking.lock().await;
        let scopes = [Scope::Edge(edge.clone()), Scope::Node(node.clone())];
        let mut positions = self.positions(Some(&scopes)).await?;
        // Whether another of the edge's nodes was raised is for the next look to see.
        positions.retain(|(scope, part, _)| !(matches!(scope, Scope::Edge(_)) && *part == Part::Grants));
        self.look_at(positions).await
    }

    /// Changes that only the full compare of each minute found, since this server started.
    pub fn missed(&self) -> u64 {
        self.inner.missed.load(Ordering::Relaxed)
    }

    pub(super) async fn positions(&self, scopes: Option<&[Scope]>) -> Result<Vec<Standing>, Error> {
        load_part::positions(&self.inner.store, scopes).await.map_err(Error::Positions)
    }

    async fn look_at(&self, positions: Vec<Standing>) -> Result<(), Error> {
        let looks = positions.into_iter().map(|(scope, part, position)| async move {
            match &scope {
                Scope::Edge(name) if part == Part::Grants => {
                    Box::pin(self.look_at_nodes_of(name, position)).await
                }
                Scope::Edge(name) => self.look_at_edge(name, part, position).await,
                Scope::Node(node) => self.look_at_grants(node, position).await,
            }
        });
        let looks = futures::stream::iter(looks).buffer_unordered(BUILDS_AT_ONCE);
        looks.fold(Ok(()), |outcome: Result<(), Error>, looked| async { outcome.and(looked) }).await
    }

    /// Whether memory has an older one than that.
    fn is_behind(&self, scope: &Scope, part: Part, position: Position) -> bool {
        let held = match scope {
            Scope::Edge(name) if part == Part::Grants => lock(&self.inner.grants_seen).get(name).copied(),
            Scope::Edge(name) => {
                let edge = lock(&self.inner.edges).get(name).cloned();
                edge.and_then(|edge| edge.set().get(part).map(|built| built.position))
            }
            Scope::Node(node) => lock(&self.inner.known).get(node).map(|known| known.grants.position),
        };
        held.is_some_and(|held| held < position)
    }

    /// An edge's `grants` say only that those of one of its nodes were raised.
    async fn look_at_nodes_of(&self, name: &EdgeName, position: Position) -> Result<(), Error> {
        if lock(&self.inner.grants_seen).get(name).is_some_and(|seen| *seen >= position) {
            return Ok(());
        }
        let nodes: Vec<Scope> = lock(&self.inner.known)
            .iter()
            .filter(|(_, known)| known.record.edge == *name)
            .map(|(node, _)| Scope::Node(node.clone()))
            .collect();
        if !nodes.is_empty() {
            for (scope, _, position) in self.positions(Some(&nodes)).await? {
                if let Scope::Node(node) = scope {
                    self.look_at_grants(&node, position).await?;
                }
            }
        }
        lock(&self.inner.grants_seen).insert(name.clone(), position);
        Ok(())
    }

    async fn look_at_edge(&self, name: &EdgeName, part: Part, position: Position) -> Result<(), Error> {
        let Some(edge) = lock(&self.inner.edges).get(name).cloned() else { return Ok(()) };
        let earlier = edge.set().get(part).cloned();
        if earlier.as_deref().is_some_and(|built| !self.is_due(built, position)) {
            return Ok(());
        }
        let built = self.build(&Scope::Edge(name.clone()), part, earlier.as_deref()).await?;
        edge.replace(Arc::new(built));
        Ok(())
    }

    pub(super) async fn look_at_grants(&self, node: &NodeId, position: Position) -> Result<(), Error> {
        let Some(known) = lock(&self.inner.known).get(node).cloned() else { return Ok(()) };
        if !self.is_due(&known.grants, position) {
            return Ok(());
        }
        let scope = Scope::Node(node.clone());
        let grants = Arc::new(self.build(&scope, Part::Grants, Some(&known.grants)).await?);
        let edge = lock(&self.inner.edges).get(&known.record.edge).cloned();
        // How it stands may have changed while they were built.
        if let Some(now) = lock(&self.inner.known).get_mut(node) {
            *now = Arc::new(Known { record: now.record.clone(), grants: Arc::clone(&grants) });
        }
        if let Some(edge) = edge {
            edge.signal(node, |own| own.grants = grants);
        }
        Ok(())
    }

    /// Newer in the database, or signed so long ago that a node might soon take it for stale.
    fn is_due(&self, built: &EncodedPart, position: Position) -> bool {
        position > built.position || (self.inner.clock)().millis_since(built.issued) > FRESH_MS / 2
    }

    pub(super) async fn build(
        &self,
        scope: &Scope,
        part: Part,
        earlier: Option<&EncodedPart>,
    ) -> Result<EncodedPart, Error> {
        let fault = |source| Error::Load { scope: scope.clone(), source };
        let loaded = load_part::load_part(&self.inner.store, scope, part).await.map_err(fault)?;
        let (position, content) = loaded.ok_or_else(|| Error::Unknown { scope: scope.clone(), part })?;
        let mut draft = part::Draft::new(scope.clone(), position, &content);
        if let Some(wanted) = draft.new_texts(earlier) {
            let most = part::TEXTS_ALONG_MAX;
            draft.add_texts(load_part::listing_texts(&self.inner.store, &wanted, most).await.map_err(fault)?);
        }
        draft.sign(&self.inner.signer, (self.inner.clock)(), earlier).map_err(|source| Error::Sign {
            scope: scope.clone(),
            part,
            source,
        })
    }
}
