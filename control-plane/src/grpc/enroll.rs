//! The gRPC service `Enroll`: a join token and a signing request become a node's certificate.

use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeName;
use proto::identity::NodeIdentity;
use proto::v1::enroll_server::{Enroll, EnrollServer};
use proto::v1::{JoinRequest, JoinResponse};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use super::Context;
use crate::operation;
use crate::operation::join::{JoinInput, join};
use crate::pki::SigningRequest;
use crate::server::Chain;

/// Most bytes of a request without a certificate behind it: a signing request and some names.
const REQUEST_MAX: usize = 32 * 1024;

/// Joins at once. Each is a transaction, and whoever can reach the port can ask for one.
const JOINS_MAX: usize = 16;

/// How long a join waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(5);

/// The metadata key of a refusal's code.
const CODE: &str = "pintle-code";

struct Door {
    context: Arc<Context>,
    turns: Semaphore,
}

pub(super) fn service(context: Arc<Context>) -> EnrollServer<impl Enroll> {
    EnrollServer::new(Door { context, turns: Semaphore::new(JOINS_MAX) })
        .max_decoding_message_size(REQUEST_MAX)
}

#[tonic::async_trait]
impl Enroll for Door {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let busy = || Status::resource_exhausted("too many nodes join at once; try again");
        let _turn = tokio::time::timeout(TURN_WITHIN, self.turns.acquire())
            .await
            .map_err(|_| busy())?
            .map_err(|_| busy())?;
        let request = request.into_inner();
        let signing = SigningRequest::read(&request.signing_request)
            .map_err(|error| Status::invalid_argument(format!("failed to {error}")))?;
        let node_name = NodeName::parse(&request.node_name)
            .map_err(|error| Status::invalid_argument(format!("failed to {error}")))?;
        let input = JoinInput {
            token_id: request.token_id,
            secret: request.token_secret,
            public_key_sha256: signing.key_digest(),
            node_name,
            agent_version: request.agent_version,
        };
        let context = &self.context;
        let now = (context.clock)();
        let joined = join(&context.store, now, &input).await.map_err(|error| status(&error))?;
        let authority = &context.authority;
        let identity = NodeIdentity {
            fleet: Arc::clone(authority.fleet()),
            edge: joined.edge.clone(),
            node: joined.node_id.clone(),
        };
        let certificate = authority.issue_node(&signing, &identity).map_err(|error| {
            tracing::error!(error = %Chain(&error), "a certificate could not be issued");
            Status::internal("the certificate could not be issued; the server's log says why")
        })?;
        tracing::info!(node.id = %joined.node_id, node.name = %joined.name, edge.name = %joined.edge, "node joined");
        Ok(Response::new(JoinResponse {
            node_id: joined.node_id.to_string(),
            node_name: joined.name.to_string(),
            edge: joined.edge.to_string(),
            fleet: authority.fleet().as_ref().to_owned(),
            certificates: vec![certificate.to_vec()],
            authorities: vec![authority.certificate().to_vec()],
        }))
    }
}

/// What a rule says goes to the node with its remedy; what went wrong inside goes to the log.
fn status(error: &operation::Error) -> Status {
    let Some(refused) = error.refusal() else {
        tracing::error!(error = %Chain(error), "a node could not join");
        return Status::unavailable("the control plane cannot record the join now; try again");
    };
    let text = match &refused.remedy {
        Some(remedy) => format!("{}; {remedy}", refused.detail),
        None => refused.detail.clone(),
    };
    let mut status = Status::permission_denied(text);
    status.metadata_mut().insert(CODE, tonic::metadata::MetadataValue::from_static(refused.code.as_str()));
    status
}
