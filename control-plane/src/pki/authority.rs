//! The authority itself: its key, and the certificates that it issues.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use domain::digest::Digest;
use domain::time::Timestamp;
use proto::identity::{BACKDATED_MINUTES, NodeIdentity, SERVER_NAME};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType, SubjectPublicKeyInfo,
};
use rustls_pki_types::CertificateDer;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use super::{Error, key_file};
use crate::store::Certified;

/// Life of a node's certificate unless the server is told otherwise: nodes renew it at half of it, so that a
/// control plane that is away for half a day costs nobody its certificate.
pub const NODE_CERTIFICATE_LIFE: Duration = Duration::from_hours(24);

/// Life of the node port's certificate, which the server makes anew each day.
pub const SERVER_CERTIFICATE_DAYS: u64 = 30;

/// Life of the authority's and the head signer's certificates; both are made anew at each start.
const AUTHORITY_CERTIFICATE_DAYS: u64 = 3_650;

/// How far the others are dated back.
const BACKDATED: Duration = Duration::from_mins(BACKDATED_MINUTES.unsigned_abs());

/// How far the authority's and the signer's are dated back, so that heads that an earlier start of
/// the server signed count too.
const AUTHORITY_BACKDATED_DAYS: u64 = 3_650;

/// Most bytes of a signing request: an RSA-4096 one with a dozen attributes.
const REQUEST_MAX: usize = 8 * 1024;

/// The fleet's certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    key_digest: Digest,
    fleet: Arc<str>,
    node_life: Duration,
    /// Trusted beside it, while a fleet goes over to another.
    others: Vec<CertificateDer<'static>>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("key_digest", &self.key_digest).finish_non_exhaustive()
    }
}

/// A signing request whose signature holds. Only its key is taken; names in it count for nothing.
#[derive(Debug)]
pub struct SigningRequest {
    key: SubjectPublicKeyInfo,
    key_digest: Digest,
}

impl SigningRequest {
    /// Reads a PKCS #10 request (DER) and checks that who made it has the private key.
    ///
    /// # Errors
    /// [`Error::Request`] says what is wrong.
    pub fn read(der: &[u8]) -> Result<Self, Error> {
        let fault = |reason| Error::Request { reason };
        if der.len() > REQUEST_MAX {
            return Err(fault("it is longer than 8192 bytes"));
        }
        let (rest, request) =
            X509CertificationRequest::from_der(der).map_err(|_| fault("it is no PKCS #10 request (DER)"))?;
        if !rest.is_empty() {
            return Err(fault("bytes follow it"));
        }
        request.verify_signature().map_err(|_| fault("its signature is not that of its key"))?;
        let spki = request.certification_request_info.subject_pki.raw;
        let key =
            SubjectPublicKeyInfo::from_der(spki).map_err(|_| fault("its kind of key is not supported"))?;
        Ok(Self { key, key_digest: Digest::of(spki) })
    }

    /// SHA-256 of its `SubjectPublicKeyInfo`: what a node is known by.
    pub const fn key_digest(&self) -> Digest {
        self.key_digest
    }
}

impl Authority {
    /// Opens the key at `path`. If there is none and the fleet has none either (`bound`), makes it.
    ///
    /// # Errors
    /// The fleet has another key, or one that is not here: the message says which file to mount.
    pub fn open(path: &Path, fleet: &str, bound: Option<&str>) -> Result<Self, Error> {
        let key = match (key_file::read(path)?, bound) {
            (Some(key), _) => key,
            (None, None) => key_file::create(path, &PKCS_ECDSA_P256_SHA256)?,
            (None, Some(expected)) => {
                return Err(Error::NoAuthority { path: path.to_owned(), expected: expected.to_owned() });
            }
        };
        let authority = Self::of_key(key, fleet)?;
        bound.map_or(Ok(()), |expected| authority.check_bound(path, expected))?;
        Ok(authority)
    }

    /// Whether this is the key that the database names.
    ///
    /// # Errors
    /// [`Error::OtherAuthority`] names both and the file.
    pub fn check_bound(&self, path: &Path, expected: &str) -> Result<(), Error> {
        if self.key_digest.to_string() == expected {
            return Ok(());
        }
        Err(Error::OtherAuthority {
            path: path.to_owned(),
            got: self.key_digest,
            expected: expected.to_owned(),
        })
    }

    fn of_key(key: KeyPair, fleet: &str) -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("Pintle fleet {fleet}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        span(
            &mut params,
            SystemTime::now(),
            days(AUTHORITY_BACKDATED_DAYS),
            days(AUTHORITY_CERTIFICATE_DAYS),
        );
        let issue = |source| Error::Issue { whose: "the fleet's authority".to_owned(), source };
        let certificate = params.self_signed(&key).map_err(issue)?.der().clone();
        let key_digest = Digest::of(&key.subject_public_key_info());
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
            key_digest,
            fleet: fleet.into(),
            node_life: NODE_CERTIFICATE_LIFE,
            others: Vec::new(),
        })
    }

    /// The same, with another life of nodes' certificates.
    #[must_use]
    pub const fn with_node_life(mut self, life: Duration) -> Self {
        self.node_life = life;
        self
    }

    /// The same, with another authority that is trusted beside it.
    #[must_use]
    pub fn beside(mut self, other: &Self) -> Self {
        self.others.push(other.certificate.clone());
        self
    }

    /// All certificates that are trusted, its own first.
    pub fn certificates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        std::iter::once(&self.certificate).chain(&self.others)
    }

    /// What the record says of a certificate that it issues to a node at `now`.
    pub fn certified(&self, now: Timestamp) -> Certified {
        let life = i64::try_from(self.node_life.as_millis()).unwrap_or(i64::MAX);
        let digests = self.certificates().filter_map(|der| proto::head::key_digest(der).ok());
        let digests: Vec<String> = digests.map(|digest| digest.to_string()).collect();
        Certified {
            until: Some(now.plus_millis(life)),
            issuer: self.key_digest.to_string(),
            authorities: digests.join(","),
        }
    }

    /// Its certificate.
    pub const fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// SHA-256 of its `SubjectPublicKeyInfo`: what join strings and the database name it by.
    pub const fn key_digest(&self) -> Digest {
        self.key_digest
    }

    /// The fleet's id.
    pub const fn fleet(&self) -> &Arc<str> {
        &self.fleet
    }

    /// A certificate for a node's key, for TLS clients only, that lives from `now` on.
    ///
    /// # Errors
    /// [`Error::Issue`].
    pub fn issue_node(
        &self,
        request: &SigningRequest,
        identity: &NodeIdentity,
        now: Timestamp,
    ) -> Result<CertificateDer<'static>, Error> {
        let whose = identity.to_string();
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        let mut params = leaf(identity.node.as_str(), vec![uri(&whose)?], usage);
        let now = SystemTime::UNIX_EPOCH
            + Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or_default());
        span(&mut params, now, BACKDATED, self.node_life);
        self.sign(&params, &request.key, whose)
    }

    /// A certificate for the node port, for TLS servers only. It carries [`SERVER_NAME`] and the
    /// `hosts` (names or IP addresses) at which the port is reached.
    ///
    /// # Errors
    /// [`Error::Issue`].
    pub fn issue_server(&self, key: &KeyPair, hosts: &[String]) -> Result<CertificateDer<'static>, Error> {
        let whose = "the node port".to_owned();
        let name = |host: &str| match host.parse() {
            Ok(address) => Ok(SanType::IpAddress(address)),
            Err(_) => host.try_into().map(SanType::DnsName),
        };
        let hosts = hosts.iter().map(String::as_str);
        let names = std::iter::once(SERVER_NAME).chain(hosts).map(name).collect::<Result<_, _>>();
        let names = names.map_err(|source| Error::Issue { whose: whose.clone(), source })?;
        let mut params = leaf(SERVER_NAME, names, ExtendedKeyUsagePurpose::ServerAuth);
        span(&mut params, SystemTime::now(), BACKDATED, days(SERVER_CERTIFICATE_DAYS));
        self.sign(&params, key, whose)
    }

    /// A certificate for a key that signs heads. It serves neither end of a TLS connection.
    pub(super) fn issue_signer(&self, key: &KeyPair) -> Result<CertificateDer<'static>, Error> {
        let whose = proto::head::signer_uri(&self.fleet);
        let usage = ExtendedKeyUsagePurpose::CodeSigning;
        let mut params = leaf("head signer", vec![uri(&whose)?], usage);
        span(
            &mut params,
            SystemTime::now(),
            days(AUTHORITY_BACKDATED_DAYS),
            days(AUTHORITY_CERTIFICATE_DAYS),
        );
        self.sign(&params, key, whose)
    }

    fn sign(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
        whose: String,
    ) -> Result<CertificateDer<'static>, Error> {
        let signed = params.signed_by(key, &self.issuer).map_err(|source| Error::Issue { whose, source })?;
        Ok(signed.der().clone())
    }
}

fn leaf(name: &str, names: Vec<SanType>, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.subject_alt_names = names;
    params.extended_key_usages = vec![usage];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params
}

fn uri(text: &str) -> Result<SanType, Error> {
    text.try_into().map(SanType::URI).map_err(|source| Error::Issue { whose: text.to_owned(), source })
}

const fn days(days: u64) -> Duration {
    Duration::from_hours(days * 24)
}

fn span(params: &mut CertificateParams, now: SystemTime, backdated: Duration, life: Duration) {
    params.not_before = (now - backdated).into();
    params.not_after = (now + life).into();
}
