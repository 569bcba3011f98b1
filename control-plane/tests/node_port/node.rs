//! A node as far as the wire shows one: joins with a key, connects with its certificate, speaks.

use std::sync::Arc;

use control_plane::pki;
use domain::digest::Digest;
use domain::id::BootId;
use domain::plugin_set::{Head, Part};
use domain::time::Timestamp;
use proto::convert::{Acked, Hello, NodeSaid, Status};
use proto::identity::SERVER_NAME;
use proto::join_string::JoinString;
use proto::v1::enroll_client::EnrollClient;
use proto::v1::fleet_client::FleetClient;
use proto::v1::server_message::Message;
use proto::v1::{self, JoinRequest, JoinResponse};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status as Refusal, Streaming};

use crate::fixture::by;

/// Takes the server whose chain has the authority of the join string, and no other.
#[derive(Debug)]
struct Pinned(Digest);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let mut roots = RootCertStore::empty();
        let pinned =
            others.iter().filter(|der| proto::head::key_digest(der).is_ok_and(|digest| digest == self.0));
        roots.add_parsable_certificates(pinned.map(|der| der.clone().into_owned()));
        let verifier = WebPkiServerVerifier::builder(Arc::new(roots)).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        verifier.verify_server_cert(leaf, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, leaf, signed, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// TLS without a certificate.
pub(crate) fn anonymous(authority: Digest) -> ClientConfig {
    ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned(authority)))
        .with_no_client_auth()
}

pub(crate) async fn connect(
    address: &str,
    mut tls: ClientConfig,
    alpn: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    tls.alpn_protocols = vec![alpn.to_vec()];
    let tcp = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(tls)).connect(ServerName::try_from(SERVER_NAME).unwrap(), tcp).await
}

pub(crate) async fn channel(address: &str, tls: ClientConfig) -> Result<Channel, tonic::transport::Error> {
    let address = address.to_owned();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let connector = tower::service_fn(move |_: http::Uri| {
        let (address, tls) = (address.clone(), tls.clone());
        async move { connect(&address, tls, b"h2").await.map(hyper_util::rt::TokioIo::new) }
    });
    endpoint.connect_with_connector(connector).await
}

pub(crate) fn request(key: &KeyPair, string: &JoinString, name: &str) -> JoinRequest {
    JoinRequest {
        token_id: string.token.clone(),
        token_secret: string.secret.clone(),
        signing_request: CertificateParams::default().serialize_request(key).unwrap().der().to_vec(),
        node_name: name.to_owned(),
        agent_version: "0.1.0".to_owned(),
    }
}

pub(crate) async fn join(string: &JoinString, name: &str) -> Result<Node, Refusal> {
    join_with(string, name, KeyPair::generate().unwrap()).await
}

pub(crate) async fn join_with(string: &JoinString, name: &str, key: KeyPair) -> Result<Node, Refusal> {
    let channel = channel(&string.address, anonymous(string.authority)).await;
    let channel = channel.map_err(|error| Refusal::unavailable(format!("{error:?}")))?;
    let answer = EnrollClient::new(channel).join(request(&key, string, name)).await?.into_inner();
    Ok(Node { address: string.address.clone(), key, answer })
}

/// A node that joined.
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) key: KeyPair,
    pub(crate) answer: JoinResponse,
}

impl Node {
    pub(crate) fn tls(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let authorities = self.answer.authorities.iter().map(|der| CertificateDer::from(der.clone()));
        roots.add_parsable_certificates(authorities);
        let chain = self.answer.certificates.iter().map(|der| CertificateDer::from(der.clone())).collect();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap()
    }

    /// Opens a stream without a word.
    pub(crate) async fn stream(&self) -> Result<Stream, Refusal> {
        let channel = channel(&self.address, self.tls()).await;
        let channel = channel.map_err(|error| Refusal::unavailable(format!("{error:?}")))?;
        let (said, messages) = mpsc::channel(16);
        let opened = FleetClient::new(channel).session(ReceiverStream::new(messages)).await?;
        let authorities = self.answer.authorities.clone();
        Ok(Stream { said, heard: opened.into_inner(), fleet: self.answer.fleet.clone(), authorities })
    }

    /// Opens a stream, says Hello, and hears the Welcome.
    pub(crate) async fn session(&self, held: Vec<(Part, v1::SignedHead)>) -> (Stream, v1::Welcome) {
        let mut stream = self.stream().await.unwrap();
        stream.say(NodeSaid::Hello(Box::new(hello(held)))).await;
        match stream.hear().await {
            Message::Welcome(welcome) => (stream, welcome),
            other => panic!("no welcome: {other:?}"),
        }
    }

    /// A stream whose node has acknowledged everything, and the heads of it.
    pub(crate) async fn current(&self) -> (Stream, Vec<(Part, v1::SignedHead)>) {
        let (mut stream, _) = self.session(Vec::new()).await;
        let mut held = Vec::new();
        for _ in Part::ALL {
            let (head, update) = stream.part().await;
            held.push((head.part, update.head.unwrap()));
            stream.ack(&head).await;
        }
        (stream, held)
    }
}

pub(crate) fn hello(held: Vec<(Part, v1::SignedHead)>) -> Hello {
    Hello {
        boot: BootId::parse("b-1").unwrap(),
        agent_version: "0.1.0".into(),
        protocol: 1,
        held,
        versions: Vec::new(),
        bodies: Vec::new(),
        status: Status::default(),
        clock: Timestamp::from_millis(0),
        session: None,
    }
}

/// A stream that a node opened.
pub(crate) struct Stream {
    pub(crate) said: mpsc::Sender<v1::NodeMessage>,
    pub(crate) heard: Streaming<v1::ServerMessage>,
    fleet: String,
    authorities: Vec<Vec<u8>>,
}

impl Stream {
    pub(crate) async fn say(&self, said: NodeSaid) {
        self.said.send((&said).into()).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Message {
        self.heard.message().await.unwrap().expect("the stream is open").message.unwrap()
    }

    /// The next part, whose head must be believed and be that of its manifest.
    pub(crate) async fn part(&mut self) -> (Head, v1::PartUpdate) {
        let Message::Part(update) = self.hear().await else { panic!("no part") };
        let head =
            proto::head::verify(update.head.as_ref().unwrap(), &self.fleet, &self.authorities).unwrap();
        assert_eq!(proto::convert::manifest(&update.manifest).unwrap().digest(), head.digest);
        (head, update)
    }

    pub(crate) async fn ack(&self, head: &Head) {
        let acked = Acked { part: head.part, position: head.position, digest: head.digest };
        self.say(NodeSaid::Ack(acked)).await;
    }

    /// The goodbye's code and reason, and that nothing follows it.
    pub(crate) async fn goodbye(&mut self) -> (String, String) {
        let Message::Goodbye(goodbye) = self.hear().await else { panic!("no goodbye") };
        assert!(self.heard.message().await.unwrap().is_none(), "nothing follows a goodbye");
        (goodbye.code, goodbye.reason)
    }
}

/// A certificate that another fleet's authority issued for the same identity.
pub(crate) fn foreign(node: &Node, folder: &std::path::Path) -> Node {
    let authority = pki::Authority::open(&folder.join("other.key"), &node.answer.fleet, None).unwrap();
    let key = KeyPair::generate().unwrap();
    let der = CertificateParams::default().serialize_request(&key).unwrap();
    let request = pki::SigningRequest::read(der.der()).unwrap();
    let identity = proto::identity::NodeIdentity::of_certificate(&node.answer.certificates[0]).unwrap();
    let certificate = authority.issue_node(&request, &identity, by().now).unwrap().to_vec();
    let answer = JoinResponse { certificates: vec![certificate], ..node.answer.clone() };
    Node { address: node.address.clone(), key, answer }
}
