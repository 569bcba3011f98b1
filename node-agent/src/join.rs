//! Joining a fleet with one string: the node makes its key, asks for a certificate for it, and keeps
//! both (30-nodes, 1).
//!
//! The first contact is authenticated both ways: the server's certificate must come from the authority
//! whose key the string names, and the token says that the node may join. A retry after anything that
//! went wrong uses the same key, so it gives the same node.

mod pinned;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{EdgeName, IdFault, NodeId, NodeName};
use domain::time::Timestamp;
use futures::future::BoxFuture;
use proto::identity::{LAPSED_DAYS, NodeIdentity};
use proto::join_string::{self, JoinString};
use proto::v1::{self, enroll_client::EnrollClient};
use rcgen::{CertificateParams, KeyPair};

use crate::expulsion::Expulsion;
use crate::identity::{self, Files, write_private};
use crate::link::connect;

/// A node that has joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its identity in the fleet.
    pub node: NodeId,
    /// As its people call it; the control plane may have changed it.
    pub name: String,
    /// The edge that its token was for.
    pub edge: EdgeName,
    /// The fleet's id.
    pub fleet: Arc<str>,
    /// The control plane's node port.
    pub address: String,
}

/// Why a node did not join.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No join string.
    #[error(transparent)]
    JoinString(#[from] join_string::Error),
    /// No name for a node.
    #[error("name the node")]
    Name(#[source] IdFault),
    /// The folder is a joined node's.
    #[error(
        "join with the folder `{}`: it already belongs to node {name}; run that node, or give another folder with --data",
        .data.display()
    )]
    AlreadyJoined {
        /// The folder.
        data: PathBuf,
        /// The node's name.
        name: String,
    },
    /// The server cannot be reached.
    #[error("reach the control plane; check that it runs and that this machine can reach its node port")]
    Unreachable(#[source] connect::Error),
    /// The server is somebody else.
    #[error(
        "trust the server at {address}: its certificate is not from the authority that the join string names \
         (key {expected}, got {got}); ask whoever made the string whether the address is right"
    )]
    OtherAuthority {
        /// Where.
        address: String,
        /// The key's digest in the string.
        expected: Digest,
        /// Those of the authorities that it showed, or a word.
        got: String,
    },
    /// The server refuses: token wrong, expired, revoked or used up, or the like.
    #[error("join the fleet: the control plane at {address} refuses: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// Its sentence.
        reason: String,
    },
    /// The connection broke, or the server failed.
    #[error(
        "join the fleet: the control plane at {address} did not answer ({reason}); try again, that is safe"
    )]
    NoAnswer {
        /// Where.
        address: String,
        /// What the connection said.
        reason: String,
    },
    /// The answer is not one that this node can use.
    #[error("use the control plane's answer: {0}")]
    Answer(String),
    /// Key or signing request could not be made.
    #[error("make the node's key")]
    Key(#[source] rcgen::Error),
    /// The identity could not be read or kept.
    #[error(transparent)]
    Identity(#[from] identity::Error),
}

/// Joins the fleet that `join_string` is of, and keeps the node's identity in the folder `data`, which
/// is made if it is not there.
///
/// # Errors
/// Says what is wrong and what to do; nothing is half joined, and a retry is safe.
pub fn join<'a>(join_string: &'a str, data: &'a Path, name: &'a str) -> BoxFuture<'a, Result<Joined, Error>> {
    Box::pin(run(join_string, data, name))
}

async fn run(join_string: &str, data: &Path, name: &str) -> Result<Joined, Error> {
    let to = JoinString::parse(join_string)?;
    let name = NodeName::parse(name).map_err(Error::Name)?;
    let files = Files::new(data);
    std::fs::create_dir_all(data).map_err(|source| identity::Error::Io {
        verb: "make the folder",
        path: data.to_owned(),
        source,
    })?;
    if let Some(about) = files.about()?
        && !may_rejoin(data, &files)?
    {
        return Err(Error::AlreadyJoined { data: data.to_owned(), name: about.name });
    }
    let key = own_key(&files)?;
    let request = CertificateParams::default().serialize_request(&key).map_err(Error::Key)?;
    let request = v1::JoinRequest {
        token_id: to.token.clone(),
        token_secret: to.secret.clone(),
        signing_request: request.der().to_vec(),
        node_name: name.as_str().to_owned(),
        agent_version: crate::VERSION.to_owned(),
    };
    let answer = ask(&to, request).await?;
    let joined = check(&to, &key, &answer)?;
    let about = identity::About { address: to.address, name: joined.name.clone() };
    files.write(&answer.certificates, &answer.authorities, &about)?;
    Expulsion::forget(data)?;
    Ok(joined)
}

/// Whether the folder's node is of its fleet no longer: it was evicted (its key is gone then, and it becomes
/// another node), or its certificate ended so long ago that its key alone does not do.
fn may_rejoin(data: &Path, files: &Files) -> Result<bool, Error> {
    if Expulsion::read(data)?.is_some() {
        return Ok(true);
    }
    let certificates = files.certificates(&files.certificate)?;
    let until =
        certificates.first().and_then(|leaf| proto::identity::validity(leaf).ok()).map(|(_, until)| until);
    let days = |until: Timestamp| crate::now().millis_since(until) / (24 * 3_600_000);
    Ok(until.is_some_and(|until| days(until) >= LAPSED_DAYS))
}

/// The key of an earlier try, or a new one, which is on the disk before anybody hears of it.
fn own_key(files: &Files) -> Result<KeyPair, Error> {
    if let Some(text) = files.key_text()? {
        return KeyPair::from_pem(&text).map_err(Error::Key);
    }
    let key = KeyPair::generate().map_err(Error::Key)?;
    write_private(&files.key, key.serialize_pem().as_bytes())?;
    Ok(key)
}

async fn ask(to: &JoinString, request: v1::JoinRequest) -> Result<v1::JoinResponse, Error> {
    let (tls, shown) =
        pinned::client_config(to.authority).map_err(|error| Error::Answer(error.to_string()))?;
    let channel = connect::open(&to.address, tls).await.map_err(|error| match (&error, shown.get()) {
        (connect::Error::Tls { .. }, Some(got)) => {
            Error::OtherAuthority { address: to.address.clone(), expected: to.authority, got }
        }
        _ => Error::Unreachable(error),
    })?;
    let answer = EnrollClient::new(channel).join(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| {
        let address = to.address.clone();
        match status.code() {
            tonic::Code::Unavailable
            | tonic::Code::Unknown
            | tonic::Code::Cancelled
            | tonic::Code::Internal => Error::NoAnswer { address, reason: status.message().to_owned() },
            _ => Error::Refused { address, reason: status.message().to_owned() },
        }
    })
}

/// The certificate must be for the key that was made here and name what the answer says.
fn check(to: &JoinString, key: &KeyPair, answer: &v1::JoinResponse) -> Result<Joined, Error> {
    let leaf =
        answer.certificates.first().ok_or_else(|| Error::Answer("it has no certificate".to_owned()))?;
    let me = NodeIdentity::of_certificate(leaf).map_err(|error| Error::Answer(crate::sentence(&error)))?;
    let certified = proto::head::key_digest(leaf).map_err(|error| Error::Answer(crate::sentence(&error)))?;
    let own = Digest::of(&rcgen::PublicKeyData::subject_public_key_info(key));
    if certified != own {
        return Err(Error::Answer("its certificate is for another key than this node's".to_owned()));
    }
    if *me.fleet != *to.fleet {
        let got = &me.fleet;
        return Err(Error::Answer(format!(
            "its certificate is of fleet {got}, the join string of {}",
            to.fleet
        )));
    }
    let trusted = answer.authorities.iter().filter_map(|der| proto::head::key_digest(der).ok());
    if !trusted.into_iter().any(|digest| digest == to.authority) {
        return Err(Error::Answer("its authorities lack the one that the join string names".to_owned()));
    }
    let name = NodeName::parse(&answer.node_name).map_err(|error| Error::Answer(error.to_string()))?;
    Ok(Joined {
        node: me.node,
        name: name.as_str().to_owned(),
        edge: me.edge,
        fleet: me.fleet,
        address: to.address.clone(),
    })
}
