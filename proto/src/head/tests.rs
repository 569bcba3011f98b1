use domain::plugin_set::{Part, Position, Scope};
use domain::time::Timestamp;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, PKCS_ED25519,
    PublicKeyData as _, SanType, SigningKey as _,
};

use super::*;

struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    Authority { certificate: params.self_signed(&key).unwrap(), issuer: Issuer::new(params, key) }
}

struct Signer {
    key: KeyPair,
    certificate: Vec<u8>,
}

impl Authority {
    fn signer(&self, uri: &str) -> Signer {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().to_vec();
        Signer { key, certificate }
    }

    fn der(&self) -> Vec<u8> {
        self.certificate.der().to_vec()
    }
}

fn sample() -> Head {
    Head {
        fleet: "f1".into(),
        scope: Scope::parse("edge/eu-1").unwrap(),
        part: Part::Trust,
        position: Position { epoch: 1, generation: 3 },
        digest: Digest::of(b"manifest"),
        issued: Timestamp::from_millis(1_796_056_331_042),
        fresh_until: Timestamp::from_millis(1_796_056_391_042),
    }
}

fn sign(signer: &Signer, head: &Head) -> v1::SignedHead {
    let statement = statement(head);
    let signature = signer.key.sign(&statement).unwrap();
    v1::SignedHead { statement, signature, signer: signer.certificate.clone() }
}

#[test]
fn a_head_that_the_fleet_did_not_sign_is_not_believed() {
    let ours = authority();
    let other = authority();
    let signer = ours.signer(&signer_uri("f1"));
    let good = sign(&signer, &sample());
    let changed = statement(&Head { digest: Digest::of(b"other"), ..sample() });
    let stranger = sign(&other.signer(&signer_uri("f1")), &sample());
    let a_node = sign(&ours.signer("spiffe://f1/edge/eu-1/node/n1"), &sample());
    let rows = [
        (v1::SignedHead { statement: changed, ..good.clone() }, "verify the signature"),
        (v1::SignedHead { signature: vec![0; 64], ..good.clone() }, "verify the signature"),
        (v1::SignedHead { signature: vec![], ..good.clone() }, "verify the signature"),
        (v1::SignedHead { signer: vec![], ..good.clone() }, "read the certificate of the signer"),
        (v1::SignedHead { signer: stranger.signer.clone(), ..good.clone() }, "none of the 1 trusted"),
        (
            v1::SignedHead { signer: a_node.signer.clone(), ..good.clone() },
            "expected `spiffe://f1/signer/heads`",
        ),
        (v1::SignedHead { statement: vec![0; 5_000], ..good }, "5000 of at most 4096 bytes"),
        (v1::SignedHead::default(), "read the certificate of the signer"),
        (stranger, "none of the 1 trusted"),
        (a_node, "expected `spiffe://f1/signer/heads`"),
        (sign(&signer, &Head { fleet: "f2".into(), ..sample() }), "head of fleet `f2`: this one is `f1`"),
        (
            sign(&signer, &Head { issued: Timestamp::from_millis(-99_000_000_000_000), ..sample() }),
            "not in force",
        ),
    ];
    for (signed, expected) in rows {
        let error = verify(&signed, "f1", &[ours.der()]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} has no `{expected}`");
    }
}

#[test]
fn a_head_signed_for_heads_by_one_of_the_authorities_is_believed() {
    let (old, new) = (authority(), authority());
    let signed = sign(&new.signer(&signer_uri("f1")), &sample());
    assert_eq!(verify(&signed, "f1", &[old.der(), new.der()]).unwrap(), sample());
}

#[test]
fn the_digest_of_an_authority_is_that_of_its_public_key_alone() {
    let authority = authority();
    let expected = Digest::of(&authority.issuer.key().subject_public_key_info());
    assert_eq!(key_digest(&authority.der()).unwrap(), expected);
    assert!(key_digest(b"no certificate").is_err());
}
