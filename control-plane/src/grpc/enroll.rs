//! The gRPC services `Enroll` and `Identity`: a join token and a signing request become a node's certificate,
//! and a node's key has it renewed.
//!
//! A node whose certificate is in force asks `Identity`, behind mutual TLS. One whose certificate has ended
//! cannot get through TLS with it, so it asks `Enroll` without any: its signing request proves that it has the
//! key that it joined with, and what it gets is worth nothing to anybody else.

use std::sync::Arc;
use std::time::Duration;

use domain::id::{EdgeName, NodeId, NodeName};
use proto::identity::NodeIdentity;
use proto::v1::enroll_server::{Enroll, EnrollServer};
use proto::v1::identity_server::{Identity, IdentityServer};
use proto::v1::{JoinRequest, JoinResponse, RenewRequest, RenewResponse};
use tokio::sync::{Semaphore, SemaphorePermit};
use tonic::{Request, Response, Status};

use super::Context;
use super::door::Peer;
use crate::operation;
use crate::operation::join::{JoinInput, join};
use crate::operation::renew::renew;
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
    turns: Arc<Semaphore>,
}

/// Both services; they take turns together.
pub(super) fn services(context: &Arc<Context>) -> (EnrollServer<impl Enroll>, IdentityServer<impl Identity>) {
    let turns = Arc::new(Semaphore::new(JOINS_MAX));
    let door = || Door { context: Arc::clone(context), turns: Arc::clone(&turns) };
    (
        EnrollServer::new(door()).max_decoding_message_size(REQUEST_MAX),
        IdentityServer::new(door()).max_decoding_message_size(REQUEST_MAX),
    )
}

#[tonic::async_trait]
impl Enroll for Door {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let _turn = self.turn().await?;
        let request = request.into_inner();
        let signing = read(&request.signing_request)?;
        let node_name = NodeName::parse(&request.node_name)
            .map_err(|error| Status::invalid_argument(format!("failed to {error}")))?;
        let context = &self.context;
        let now = (context.clock)();
        let input = JoinInput {
            token_id: request.token_id,
            secret: request.token_secret,
            public_key_sha256: signing.key_digest(),
            node_name,
            agent_version: request.agent_version,
            certified: context.authority.certified(now),
        };
        let joined = join(&context.store, now, &input)
            .await
            .map_err(|error| status(&error, "a node could not join"))?;
        let certificate = self.issue(&signing, &joined.edge, &joined.node_id)?;
        tracing::info!(node.id = %joined.node_id, node.name = %joined.name, edge.name = %joined.edge, "node joined");
        Ok(Response::new(JoinResponse {
            node_id: joined.node_id.to_string(),
            node_name: joined.name.to_string(),
            edge: joined.edge.to_string(),
            fleet: context.authority.fleet().as_ref().to_owned(),
            certificates: vec![certificate],
            authorities: self.authorities(),
        }))
    }

    async fn renew_lapsed(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        let _turn = self.turn().await?;
        self.renew(&read(&request.into_inner().signing_request)?).await
    }
}

#[tonic::async_trait]
impl Identity for Door {
    async fn renew(&self, request: Request<RenewRequest>) -> Result<Response<RenewResponse>, Status> {
        let _turn = self.turn().await?;
        let peer = request.extensions().get::<Peer>().and_then(|peer| peer.node.clone());
        let signing = read(&request.into_inner().signing_request)?;
        // Its own key, and no other's that it may also have.
        if peer.is_none_or(|peer| peer.key != signing.key_digest()) {
            return Err(Status::permission_denied(
                "the signing request is of another key than the certificate",
            ));
        }
        Self::renew(self, &signing).await
    }
}

impl Door {
    async fn turn(&self) -> Result<SemaphorePermit<'_>, Status> {
        let busy = || Status::resource_exhausted("too many nodes join at once; try again");
        let turn = tokio::time::timeout(TURN_WITHIN, self.turns.acquire()).await;
        turn.map_err(|_| busy())?.map_err(|_| busy())
    }

    async fn renew(&self, signing: &SigningRequest) -> Result<Response<RenewResponse>, Status> {
        let context = &self.context;
        let now = (context.clock)();
        let certified = context.authority.certified(now);
        let node = renew(&context.store, now, &signing.key_digest(), &certified)
            .await
            .map_err(|error| status(&error, "a certificate could not be renewed"))?;
        let certificate = self.issue(signing, &node.edge, &node.id)?;
        tracing::debug!(node.id = %node.id, node.name = %node.name, "a certificate was renewed");
        let response = RenewResponse { certificates: vec![certificate], authorities: self.authorities() };
        Ok(Response::new(response))
    }

    fn issue(&self, signing: &SigningRequest, edge: &EdgeName, node: &NodeId) -> Result<Vec<u8>, Status> {
        let authority = &self.context.authority;
        let identity =
            NodeIdentity { fleet: Arc::clone(authority.fleet()), edge: edge.clone(), node: node.clone() };
        let certificate =
            authority.issue_node(signing, &identity, (self.context.clock)()).map_err(|error| {
                tracing::error!(error = %Chain(&error), "a certificate could not be issued");
                Status::internal("the certificate could not be issued; the server's log says why")
            })?;
        Ok(certificate.to_vec())
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.context.authority.certificates().map(|der| der.to_vec()).collect()
    }
}

fn read(signing_request: &[u8]) -> Result<SigningRequest, Status> {
    SigningRequest::read(signing_request)
        .map_err(|error| Status::invalid_argument(format!("failed to {error}")))
}

/// What a rule says goes to the node with its remedy; what went wrong inside goes to the log.
fn status(error: &operation::Error, what: &'static str) -> Status {
    let Some(refused) = error.refusal() else {
        tracing::error!(error = %Chain(error), "{what}");
        return Status::unavailable("the control plane cannot record it now; try again");
    };
    let text = match &refused.remedy {
        Some(remedy) => format!("{}; {remedy}", refused.detail),
        None => refused.detail.clone(),
    };
    let mut status = Status::permission_denied(text);
    status.metadata_mut().insert(CODE, tonic::metadata::MetadataValue::from_static(refused.code.as_str()));
    status
}
