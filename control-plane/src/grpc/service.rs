//! The gRPC service `Fleet`, written by hand for its one method, since generated code would encode
//! every message once for each stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use proto::convert::MESSAGE_MAX;
use proto::v1::NodeMessage;
use proto::v1::server_message::Message;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Code, Request, Response, Status, Streaming};

use super::codec::SessionCodec;
use super::door::Peer;
use super::stream::Admitted;
use super::{Context, session, stream};

/// Messages between a session and its connection. More would only hide that a node is slow.
const OUTBOX: usize = 2;

/// The service; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct FleetService {
    context: Arc<Context>,
}

impl FleetService {
    pub(super) const fn new(context: Arc<Context>) -> Self {
        Self { context }
    }
}

impl NamedService for FleetService {
    const NAME: &'static str = "pintle.fleet.v1.Fleet";
}

impl tower::Service<http::Request<tonic::body::Body>> for FleetService {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let method = Session(Arc::clone(&self.context));
        Box::pin(async move {
            if request.uri().path() != "/pintle.fleet.v1.Fleet/Session" {
                return Ok(Status::new(Code::Unimplemented, "no such method").into_http());
            }
            let mut grpc = Grpc::new(SessionCodec)
                .max_decoding_message_size(MESSAGE_MAX)
                .max_encoding_message_size(usize::MAX);
            Ok(grpc.streaming(method, request).await)
        })
    }
}

struct Session(Arc<Context>);

impl StreamingService<NodeMessage> for Session {
    type Response = Bytes;
    type ResponseStream =
        tokio_stream::adapters::Map<ReceiverStream<Bytes>, fn(Bytes) -> Result<Bytes, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<NodeMessage>>) -> Self::Future {
        let context = Arc::clone(&self.0);
        Box::pin(async move {
            // The door lets nobody without a certificate get here.
            let stranger = || Status::unauthenticated("a node certificate of this fleet is needed");
            let peer = request.extensions().get::<Peer>().cloned().ok_or_else(stranger)?;
            let (out, messages) = mpsc::channel(OUTBOX);
            match stream::admit(&context, &peer).await? {
                Admitted::Stranger => return Err(stranger()),
                Admitted::Turned(turn) => {
                    let goodbye = session::encode(Message::Goodbye(session::goodbye_of(&turn)));
                    // There is room for it: nothing was sent yet.
                    out.try_send(goodbye).ok();
                }
                Admitted::Node(registration) => {
                    let from = (*registration, peer.address.to_string());
                    let session = stream::run(Arc::clone(&context), from, request.into_inner(), out);
                    context.streams.spawn(Box::pin(session));
                }
            }
            let ok: fn(Bytes) -> Result<Bytes, Status> = Ok;
            Ok(Response::new(ReceiverStream::new(messages).map(ok)))
        })
    }
}
