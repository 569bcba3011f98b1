//! The gRPC service `Connections`: what a remote tool is reached with, for the nodes whose set names it.

use std::sync::Arc;

use domain::id::{PluginVersion, ToolId};
use proto::v1::connections_server::{Connections, ConnectionsServer};
use proto::v1::{FetchRequest, FetchResponse, Header};
use tonic::{Request, Response, Status};

use super::Context;
use super::door::Peer;
use crate::connector::{Fault, Wanted};
use crate::server::Chain;

/// Most bytes of a request: some names.
const REQUEST_MAX: usize = 8 * 1024;

struct Door {
    context: Arc<Context>,
}

/// The service.
pub(super) fn service(context: &Arc<Context>) -> ConnectionsServer<impl Connections> {
    ConnectionsServer::new(Door { context: Arc::clone(context) }).max_decoding_message_size(REQUEST_MAX)
}

#[tonic::async_trait]
impl Connections for Door {
    async fn fetch(&self, request: Request<FetchRequest>) -> Result<Response<FetchResponse>, Status> {
        let peer = request.extensions().get::<Peer>().and_then(|peer| peer.node.clone());
        let stranger = || Status::unauthenticated("a node certificate of this fleet is needed");
        let peer = peer.ok_or_else(stranger)?;
        let asked = request.into_inner();
        let wrong = |fault: domain::id::IdFault| Status::invalid_argument(fault.to_string());
        let version = PluginVersion::parse(&format!("{}@{}", asked.plugin, asked.version)).map_err(wrong)?;
        let tool = ToolId::parse(&asked.tool).map_err(wrong)?;
        let node = (&peer.identity.node, &peer.key);
        let connector = &self.context.connector;
        let wanted = Wanted {
            version: &version,
            tool: &tool,
            connection_version: asked.connection_version,
            origin: &asked.origin,
            refused: &asked.refused,
        };
        match connector.of_node(node, &wanted).await {
            Ok(credentials) => {
                let now = (self.context.clock)();
                let left =
                    credentials.until.map(|until| u64::try_from(until.millis_since(now)).unwrap_or(1).max(1));
                let header = |(name, value): (String, crate::vault::Secret)| Header {
                    name,
                    value: value.reveal().to_owned(),
                };
                Ok(Response::new(FetchResponse {
                    headers: credentials.headers.into_iter().map(header).collect(),
                    valid_ms: left.unwrap_or_default(),
                    credential: credentials.name,
                }))
            }
            Err(Fault::Refused(reason)) => Err(Status::permission_denied(reason)),
            Err(Fault::Passing(reason)) => Err(Status::unavailable(reason)),
            Err(Fault::Operation(error)) => {
                tracing::error!(error = %Chain(&error), "what a tool is reached with could not be put together");
                Err(Status::internal("the control plane failed; its log says why"))
            }
        }
    }
}
