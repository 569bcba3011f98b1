//! Texts of listings for the nodes that lack them: kept for each edge while they are asked for.

use bytes::Bytes;
use domain::digest::Digest;
use domain::plugin_set::{Part, Scope};

use super::{Edge, Error, Fleet};
use crate::operation::load_part;

/// Most bytes of listing texts kept in memory for an edge's nodes to ask for: 1,000 functions of
/// 16 KB; beyond it they are read again.
const TEXTS_MAX: usize = 16 * 1024 * 1024;

impl Fleet {
    /// Texts that the edge's `trust` names, from memory or the database: as many of them as fit into
    /// `most` bytes, and at least one. Others are left out, so that a node reads only what is its own.
    ///
    /// # Errors
    /// The database.
    pub async fn texts(&self, edge: &Edge, wanted: &[Digest], most: usize) -> Result<Vec<Bytes>, Error> {
        let Some(trust) = edge.set().get(Part::Trust).cloned() else { return Ok(Vec::new()) };
        let wanted: Vec<Digest> =
            wanted.iter().filter(|digest| trust.texts.contains(digest)).copied().collect();
        let mut texts = edge.texts.lock().await;
        let absent: Vec<Digest> =
            wanted.iter().filter(|digest| !texts.contains_key(digest)).copied().collect();
        if !absent.is_empty() {
            let _turn = self.turn().await;
            let scope = Scope::Edge(edge.name.clone());
            let read = load_part::listing_texts(&self.inner.store, &absent, most)
                .await
                .map_err(|source| Error::Load { scope, source })?;
            if texts.values().map(Bytes::len).sum::<usize>() > TEXTS_MAX {
                texts.clear();
            }
            texts.extend(read.into_iter().map(|(digest, text)| (digest, Bytes::from(text))));
        }
        Ok(wanted.iter().filter_map(|digest| texts.get(digest).cloned()).collect())
    }
}
