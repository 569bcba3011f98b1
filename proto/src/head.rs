//! Who signed a head: the check that a node makes of every part, and a server of what a node says
//! it holds.
//!
//! A head is signed with ed25519 by a key whose certificate one of the fleet's authorities issued
//! for exactly that purpose; the certificate travels with the head. Signing lives in the control
//! plane, which alone has the key.

use domain::digest::Digest;
use domain::plugin_set::Head;
use prost::Message as _;
use x509_parser::asn1_rs::BitString;
use x509_parser::oid_registry::OID_SIG_ED25519;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::verify::verify_signature;
use x509_parser::x509::AlgorithmIdentifier;

use crate::{convert, identity, v1};

/// Most bytes of a statement: its names are bounded, so a longer one is no head.
const STATEMENT_MAX: usize = 4_096;

/// Most bytes of a signer's certificate.
const SIGNER_MAX: usize = 8_192;

/// Why a head is not believed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Statement or certificate longer than any real one.
    #[error("read a signed head: {field} has {got} of at most {most} bytes")]
    Long {
        /// Which field.
        field: &'static str,
        /// Its length.
        got: usize,
        /// What it may have.
        most: usize,
    },
    /// The statement is no head.
    #[error("read the statement of a signed head")]
    Statement(#[source] convert::Error),
    /// The signer or an authority is no certificate.
    #[error("read the certificate of {whose}")]
    Certificate {
        /// The signer, or an authority.
        whose: &'static str,
    },
    /// No authority that is trusted issued the signer's certificate.
    #[error(
        "trust the signer of a head: none of the {authorities} trusted authorities issued its certificate"
    )]
    Issuer {
        /// How many are trusted.
        authorities: usize,
    },
    /// The certificate was issued for something else, such as a node.
    #[error("trust the signer of a head: its certificate names `{got}`, expected `{expected}`")]
    Purpose {
        /// What it names.
        got: String,
        /// What it should name.
        expected: String,
    },
    /// Signed outside of the time for which the signer was certified.
    #[error(
        "trust the signer of a head: its certificate was not in force at {issued}, when the head was signed"
    )]
    NotInForce {
        /// When the head says it was signed.
        issued: domain::time::Timestamp,
    },
    /// The signature is not the signer's over this statement.
    #[error("verify the signature of a head")]
    Signature,
    /// Another fleet's.
    #[error("accept a head of fleet `{got}`: this one is `{expected}`")]
    Fleet {
        /// What the head says.
        got: String,
        /// What was expected.
        expected: String,
    },
}

/// The URI that a signer's certificate must carry, and no other.
pub fn signer_uri(fleet: &str) -> String {
    format!("spiffe://{fleet}/signer/heads")
}

/// The bytes that are signed.
pub fn statement(head: &Head) -> Vec<u8> {
    v1::HeadStatement::from(head).encode_to_vec()
}

/// SHA-256 of a certificate's `SubjectPublicKeyInfo`, as a join string names the authority.
///
/// # Errors
/// `der` is no certificate.
pub fn key_digest(der: &[u8]) -> Result<Digest, Error> {
    let (_, certificate) = read(der, "an authority")?;
    Ok(Digest::of(certificate.public_key().raw))
}

/// Believes a head if its signature holds and one of `authorities` (certificates, DER) issued its
/// signer for heads of `fleet`.
///
/// No clock is asked: the signer must have been in force when the head says it was signed.
///
/// # Errors
/// Says which of it does not hold.
pub fn verify<A: AsRef<[u8]>>(
    signed: &v1::SignedHead,
    fleet: &str,
    authorities: &[A],
) -> Result<Head, Error> {
    bounded("statement", signed.statement.len(), STATEMENT_MAX)?;
    bounded("signer", signed.signer.len(), SIGNER_MAX)?;
    let (_, signer) = read(&signed.signer, "the signer of a head")?;
    issued_by_one_of(&signer, authorities)?;
    let expected = signer_uri(fleet);
    let uris = identity::certificate_uris(&signed.signer).unwrap_or_default();
    if uris.as_slice() != [expected.as_str()] {
        return Err(Error::Purpose { got: uris.join(" "), expected });
    }
    is_signed(&signer, signed)?;
    let wire = v1::HeadStatement::decode(signed.statement.as_slice())
        .map_err(|source| Error::Statement(convert::Error::Decode { message: "HeadStatement", source }))?;
    let head = Head::try_from(wire).map_err(Error::Statement)?;
    if head.fleet.as_ref() != fleet {
        return Err(Error::Fleet { got: head.fleet.as_ref().to_owned(), expected: fleet.to_owned() });
    }
    in_force(&signer, head)
}

/// By `ring`, as certificates are: the signer's key was certified, so no stricter rule is needed for
/// which keys count.
fn is_signed(signer: &X509Certificate<'_>, signed: &v1::SignedHead) -> Result<(), Error> {
    let algorithm = AlgorithmIdentifier::new(OID_SIG_ED25519, None);
    let signature = BitString::new(0, &signed.signature);
    verify_signature(signer.public_key(), &algorithm, &signature, &signed.statement)
        .map_err(|_| Error::Signature)
}

fn in_force(signer: &X509Certificate<'_>, head: Head) -> Result<Head, Error> {
    let issued = head.issued.as_millis().div_euclid(1_000);
    let validity = signer.validity();
    if (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&issued) {
        Ok(head)
    } else {
        Err(Error::NotInForce { issued: head.issued })
    }
}

fn issued_by_one_of<A: AsRef<[u8]>>(signer: &X509Certificate<'_>, authorities: &[A]) -> Result<(), Error> {
    for authority in authorities {
        let (_, authority) = read(authority.as_ref(), "an authority")?;
        if signer.verify_signature(Some(authority.public_key())).is_ok() {
            return Ok(());
        }
    }
    Err(Error::Issuer { authorities: authorities.len() })
}

fn read<'a>(der: &'a [u8], whose: &'static str) -> Result<(&'a [u8], X509Certificate<'a>), Error> {
    X509Certificate::from_der(der).map_err(|_| Error::Certificate { whose })
}

fn bounded(field: &'static str, got: usize, most: usize) -> Result<(), Error> {
    if got > most { Err(Error::Long { field, got, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
