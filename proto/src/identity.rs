//! A node's identity as its certificate carries it: `spiffe://FLEET/edge/EDGE/node/NODE`.
//!
//! The control plane writes it into the certificates it issues and reads it from the one that a
//! connection showed; a node reads its own.

use std::fmt;
use std::sync::Arc;

use domain::id::{EdgeName, NodeId};
use domain::time::Timestamp;

/// The name under which the control plane's node port is verified, at whatever address it is reached:
/// each of its certificates carries it, so that nodes need not know which names an address has.
pub const SERVER_NAME: &str = "control-plane.pintle";

/// How far certificates are dated back, minutes: clocks that are behind by less take them.
pub const BACKDATED_MINUTES: i64 = 10;

/// How many days after its certificate ended a node may have another for its key alone (30-nodes, 1).
pub const LAPSED_DAYS: i64 = 30;

/// Which node a certificate names (SPIFFE ID, one path per node).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeIdentity {
    /// The fleet's id, which is the trust domain.
    pub fleet: Arc<str>,
    /// The edge that the node joined.
    pub edge: EdgeName,
    /// The node.
    pub node: NodeId,
}

/// A URI that is no node's identity, or a certificate without one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not `spiffe://FLEET/edge/EDGE/node/NODE`.
    #[error("read `{got}` as spiffe://FLEET/edge/EDGE/node/NODE")]
    Form {
        /// What was given, cut to 200 characters.
        got: String,
    },
    /// No certificate.
    #[error("read the certificate of a node")]
    Certificate(#[source] x509_parser::nom::Err<x509_parser::error::X509Error>),
    /// Not exactly one URI among its names.
    #[error("find the one URI that names the node in its certificate: there are {got}")]
    Uris {
        /// How many there are.
        got: usize,
    },
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/edge/{}/node/{}", self.fleet, self.edge, self.node)
    }
}

impl NodeIdentity {
    /// Reads the URI.
    ///
    /// # Errors
    /// [`Error::Form`] with what was given.
    pub fn parse(uri: &str) -> Result<Self, Error> {
        let fault = || Error::Form { got: uri.chars().take(200).flat_map(char::escape_debug).collect() };
        let parts: Vec<&str> = uri.strip_prefix("spiffe://").ok_or_else(fault)?.split('/').collect();
        let [fleet, "edge", edge, "node", node] = parts.as_slice() else { return Err(fault()) };
        if fleet.is_empty() {
            return Err(fault());
        }
        Ok(Self {
            fleet: (*fleet).into(),
            edge: EdgeName::parse(edge).map_err(|_| fault())?,
            node: NodeId::parse(node).map_err(|_| fault())?,
        })
    }

    /// Reads it from a certificate (DER), which must name exactly one URI (SPIFFE X.509-SVID, 2).
    ///
    /// # Errors
    /// No certificate, not one URI, or a URI of another form.
    pub fn of_certificate(der: &[u8]) -> Result<Self, Error> {
        let uris = certificate_uris(der)?;
        match uris.as_slice() {
            [uri] => Self::parse(uri),
            _ => Err(Error::Uris { got: uris.len() }),
        }
    }
}

/// From when to when a certificate (DER) is in force.
///
/// # Errors
/// `der` is no certificate.
pub fn validity(der: &[u8]) -> Result<(Timestamp, Timestamp), Error> {
    use x509_parser::prelude::{FromDer as _, X509Certificate};
    let (_, certificate) = X509Certificate::from_der(der).map_err(Error::Certificate)?;
    let at =
        |time: x509_parser::time::ASN1Time| Timestamp::from_millis(time.timestamp().saturating_mul(1_000));
    Ok((at(certificate.validity().not_before), at(certificate.validity().not_after)))
}

/// The URIs among a certificate's alternative names.
pub(crate) fn certificate_uris(der: &[u8]) -> Result<Vec<String>, Error> {
    use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
    let (_, certificate) = X509Certificate::from_der(der).map_err(Error::Certificate)?;
    let names = certificate.subject_alternative_name().ok().flatten();
    let uris =
        names.into_iter().flat_map(|names| names.value.general_names.iter()).filter_map(|name| match name {
            GeneralName::URI(uri) => Some((*uri).to_owned()),
            _ => None,
        });
    Ok(uris.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_of_another_form_names_no_node() {
        for bad in [
            "",
            "https://f/edge/e/node/n",
            "spiffe://f/edge/e",
            "spiffe://f/edge/e/node/n/more",
            "spiffe:///edge/e/node/n",
            "spiffe://f/edge/E/node/n",
            "spiffe://f/node/n/edge/e",
            "spiffe://f/signer/heads",
        ] {
            assert!(NodeIdentity::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_identity_is_read_back_as_it_was_written() {
        let identity = NodeIdentity::parse("spiffe://fleet-1/edge/eu-1/node/n-7").unwrap();
        assert_eq!(identity.to_string(), "spiffe://fleet-1/edge/eu-1/node/n-7");
        assert_eq!((identity.edge.as_str(), identity.node.as_str()), ("eu-1", "n-7"));
    }
}
