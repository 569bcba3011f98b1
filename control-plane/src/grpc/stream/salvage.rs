//! The work of a stream whose node holds more than the database.

use std::sync::Arc;

use super::{Stream, Work};
use crate::grpc::session::{HeldTrust, Input, Set, Shown};
use crate::operation::record_held;
use crate::operation::rewind::{Proof, rewind};
use crate::server::Chain;

impl Stream {
    /// Reads the heads of this node's set again; before that a new epoch is begun, if there is proof.
    pub(super) fn reread(&self, proofs: Option<Vec<Proof>>) -> Work {
        let context = Arc::clone(&self.context);
        let (edge, record) = (Arc::clone(&self.registration.edge), self.registration.record.clone());
        let own = self.registration.own.clone();
        Box::pin(async move {
            if let Some(proofs) = proofs {
                let _turn = context.fleet.turn().await;
                let begun = rewind(&context.store, (context.clock)(), &record, &proofs).await;
                if let Err(error) = begun {
                    tracing::error!(error = %Chain(&error), "a new epoch could not be begun");
                    return Input::Failed;
                }
            }
            if let Err(error) = context.fleet.reread(&edge.name, &record.id).await {
                tracing::error!(error = %Chain(&error), "heads could not be read again");
                return Input::Failed;
            }
            let grants = Some(Arc::clone(&own.borrow().grants));
            Input::Reloaded(Set { edge: edge.set(), grants })
        })
    }

    /// Whether what the node holds is to be read from it.
    pub(super) fn is_lost(&self, held: HeldTrust) -> Work {
        let (context, record) = (Arc::clone(&self.context), self.registration.record.clone());
        Box::pin(async move {
            let _turn = context.fleet.turn().await;
            let at = (held.position, &held.digest, held.forked);
            match record_held::is_lost(&context.store, &record, at).await {
                Ok(is_lost) => Input::Lost(is_lost),
                Err(error) => {
                    tracing::error!(error = %Chain(&error), node.id = %record.id, "what a node holds could not be looked up");
                    Input::Failed
                }
            }
        })
    }

    /// Notes what only the node has.
    pub(super) fn keep_held(&self, shown: Shown) -> Work {
        let (context, record) = (Arc::clone(&self.context), self.registration.record.clone());
        Box::pin(async move {
            let _turn = context.fleet.turn().await;
            let (now, held) = ((context.clock)(), (&shown.digest, &shown.trust));
            match record_held::record_held(&context.store, now, &record, held, &shown.bodies).await {
                Ok(0) => Input::HeldKept,
                Ok(orphans) => {
                    tracing::warn!(orphans, node.id = %record.id, "a node holds approvals that the database lost; pintle doctor lists them");
                    Input::HeldKept
                }
                Err(error) => {
                    tracing::error!(error = %Chain(&error), node.id = %record.id, "what a node holds could not be noted");
                    Input::Failed
                }
            }
        })
    }
}
