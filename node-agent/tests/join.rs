//! Joining, against a server that answers as the test says.

#![allow(clippy::unwrap_used, reason = "what cannot be set up ends the test")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use domain::digest::Digest;
use node_agent::join;
use proto::join_string::JoinString;
use proto::v1;
use proto::v1::enroll_server::{Enroll, EnrollServer};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType,
};
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tonic::{Code, Request, Response, Status};

/// An authority and the certificate of a server.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    key: Digest,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let digest = Digest::of(&key.subject_public_key_info());
        Self { certificate, issuer: Issuer::new(params, key), key: digest }
    }

    fn server(&self) -> rustls::ServerConfig {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        let mut tls =
            rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        tls
    }

    fn node(&self, request: &[u8], uri: &str) -> Vec<u8> {
        let request = CertificateSigningRequestDer::from(request.to_vec());
        let mut request = CertificateSigningRequestParams::from_der(&request).unwrap();
        request.params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        request.signed_by(&self.issuer).unwrap().der().to_vec()
    }
}

/// Answers with what the test put in, once each, and then with a certificate.
#[derive(Clone)]
struct Door {
    authority: Arc<Authority>,
    refusals: Arc<Mutex<Vec<Status>>>,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    uri: &'static str,
}

#[tonic::async_trait]
impl Enroll for Door {
    async fn join(&self, request: Request<v1::JoinRequest>) -> Result<Response<v1::JoinResponse>, Status> {
        let request = request.into_inner();
        self.requests.lock().unwrap().push(request.signing_request.clone());
        if let Some(refusal) = self.refusals.lock().unwrap().pop() {
            return Err(refusal);
        }
        Ok(Response::new(v1::JoinResponse {
            node_id: "n-1".to_owned(),
            node_name: request.node_name,
            edge: "eu-1".to_owned(),
            fleet: "f".to_owned(),
            certificates: vec![self.authority.node(&request.signing_request, self.uri)],
            authorities: vec![self.authority.certificate.to_vec()],
        }))
    }

    async fn renew_lapsed(
        &self,
        _: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        Err(Status::unimplemented("nobody renews here"))
    }
}

struct Bench {
    folder: tempfile::TempDir,
    door: Door,
    address: String,
}

impl Bench {
    async fn new() -> Self {
        Self::with("spiffe://f/edge/eu-1/node/n-1").await
    }

    async fn with(uri: &'static str) -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let authority = Arc::new(Authority::new());
        let door = Door {
            authority: Arc::clone(&authority),
            refusals: Arc::default(),
            requests: Arc::default(),
            uri,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(authority.server()));
        let service = tonic::service::Routes::new(EnrollServer::new(door.clone())).into_axum_router();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, service) = (acceptor.clone(), service.clone());
                tokio::spawn(async move {
                    let Ok(tls) = acceptor.accept(tcp).await else { return };
                    let service = hyper_util::service::TowerToHyperService::new(service);
                    let executor = hyper_util::rt::TokioExecutor::new();
                    let builder = hyper_util::server::conn::auto::Builder::new(executor);
                    let _ = builder.serve_connection(hyper_util::rt::TokioIo::new(tls), service).await;
                });
            }
        });
        Self { folder: tempfile::tempdir().unwrap(), door, address }
    }

    fn string(&self, authority: Digest) -> String {
        let string = JoinString {
            address: self.address.clone(),
            token: "t".to_owned(),
            secret: "s".to_owned(),
            authority,
            fleet: "f".to_owned(),
        };
        string.encode()
    }

    async fn join(&self) -> Result<node_agent::Joined, join::Error> {
        join(&self.string(self.door.authority.key), self.folder.path(), "node-1").await
    }

    /// The error as people read it.
    async fn fails(&self) -> String {
        let error = self.join().await.unwrap_err().to_string();
        assert!(!self.folder.path().join("node.json").exists(), "{error}");
        error
    }
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_asked_anything() {
    let bench = Bench::new().await;
    let expected = Digest::of(b"another");
    let error = join(&bench.string(expected), bench.folder.path(), "node-1").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&expected.to_string()), "{text}");
    assert!(text.contains(&bench.door.authority.key.to_string()), "{text}");
    assert!(bench.door.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_refusal_is_told_in_the_servers_words_and_a_retry_has_the_same_key() {
    let bench = Bench::new().await;
    bench.door.refusals.lock().unwrap().extend([
        Status::new(Code::PermissionDenied, "this join token was used 1 of 1 times"),
        Status::new(Code::Unavailable, "it stops"),
    ]);
    let error = bench.fails().await;
    assert!(error.contains("did not answer (it stops); try again, that is safe"), "{error}");
    let error = bench.fails().await;
    assert!(error.contains("refuses: this join token was used 1 of 1 times"), "{error}");
    let joined = bench.join().await.unwrap();
    assert_eq!((joined.node.as_str(), joined.edge.as_str(), joined.name.as_str()), ("n-1", "eu-1", "node-1"));
    let keys: Vec<Vec<u8>> = bench.door.requests.lock().unwrap().iter().map(|der| public_key(der)).collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "another key");
    assert_eq!(mode(&bench.folder.path().join("node.key")), 0o600);
}

fn public_key(request: &[u8]) -> Vec<u8> {
    let request = CertificateSigningRequestDer::from(request.to_vec());
    CertificateSigningRequestParams::from_der(&request).unwrap().public_key.subject_public_key_info()
}

#[tokio::test]
async fn a_folder_that_is_a_nodes_already_is_left_alone() {
    let bench = Bench::new().await;
    bench.join().await.unwrap();
    let before = std::fs::read(bench.folder.path().join("node.pem")).unwrap();
    let error = bench.join().await.unwrap_err();
    assert!(matches!(&error, join::Error::AlreadyJoined { name, .. } if name == "node-1"), "{error}");
    assert_eq!(std::fs::read(bench.folder.path().join("node.pem")).unwrap(), before);
    assert_eq!(bench.door.requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_folder_of_an_evicted_node_joins_again_with_a_key_of_its_own() {
    let bench = Bench::new().await;
    bench.join().await.unwrap();
    let before = std::fs::read(bench.folder.path().join("node.key")).unwrap();
    let marker = bench.folder.path().join("expelled.json");
    std::fs::write(&marker, r#"{"code":"evicted","reason":"gone","at_ms":0}"#).unwrap();
    std::fs::remove_file(bench.folder.path().join("node.key")).unwrap();
    bench.door.refusals.lock().unwrap().push(Status::new(Code::PermissionDenied, "not yet"));
    let refused = bench.join().await.unwrap_err().to_string();
    assert!(refused.contains("not yet") && marker.exists(), "{refused}");
    bench.join().await.unwrap();
    assert!(!marker.exists());
    assert_ne!(std::fs::read(bench.folder.path().join("node.key")).unwrap(), before);
}

#[tokio::test]
async fn a_server_that_does_not_run_and_a_string_that_is_none_are_told_apart() {
    let bench = Bench::new().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let nobody =
        JoinString { address, ..JoinString::parse(&bench.string(bench.door.authority.key)).unwrap() };
    let error = join(&nobody.encode(), bench.folder.path(), "node-1").await.unwrap_err();
    assert!(matches!(error, join::Error::Unreachable(_)), "{error}");
    let rubbish = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode("rubbish");
    let error = join(&rubbish, bench.folder.path(), "node-1").await.unwrap_err();
    assert!(matches!(error, join::Error::JoinString(_)), "{error}");
    let error = join(&nobody.encode(), bench.folder.path(), "no name").await.unwrap_err();
    assert!(matches!(error, join::Error::Name(_)), "{error}");
}

#[tokio::test]
async fn a_certificate_of_another_fleet_is_not_kept() {
    let bench = Bench::with("spiffe://other/edge/eu-1/node/n-1").await;
    let error = bench.fails().await;
    assert!(error.contains("of fleet other, the join string of f"), "{error}");
}

#[test]
fn a_setting_that_is_none_is_told_before_that_the_machine_has_not_joined() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_pintle-node"));
    program.args(["run", "--set", "gateway.cals=4", "--data"]).arg(folder.path());
    let output = program.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && told.contains("there is no such setting"), "{told}");
}
