use std::os::unix::fs::PermissionsExt as _;

use domain::plugin_set::{Part, Position, Scope};
use domain::time::Timestamp;
use proto::identity::NodeIdentity;
use rcgen::{CertificateParams, KeyPair, PublicKeyData as _, SanType};

use super::*;

const FLEET: &str = "f-1";

fn request(key: &KeyPair) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI("spiffe://f-1/edge/other/node/boss".try_into().unwrap())];
    params.serialize_request(key).unwrap().der().to_vec()
}

#[test]
fn the_key_of_the_authority_is_made_once_and_only_its_owner_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.key");
    let first = Authority::open(&path, FLEET, None).unwrap();
    let bound = first.key_digest().to_string();
    let again = Authority::open(&path, FLEET, Some(&bound)).unwrap();
    assert_eq!(first.key_digest(), again.key_digest());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn a_server_without_the_fleets_key_says_which_file_to_mount() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.key");
    let missing = Authority::open(&path, FLEET, Some("abc")).unwrap_err().to_string();
    assert!(
        missing.contains("ca.key is not there; mount the key file") && missing.contains("abc"),
        "{missing}"
    );
    assert!(!path.exists(), "no second authority is made");
    Authority::open(&path, FLEET, None).unwrap();
    let other = Authority::open(&path, FLEET, Some("abc")).unwrap_err().to_string();
    assert!(other.contains("the fleet's has abc") && other.contains("mount the key file"), "{other}");
    std::fs::write(&path, "no key").unwrap();
    let broken = Authority::open(&path, FLEET, None).unwrap_err().to_string();
    assert!(broken.contains("read a private key"), "{broken}");
}

#[test]
fn of_a_signing_request_only_the_key_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::open(&folder.path().join("ca.key"), FLEET, None).unwrap();
    let key = KeyPair::generate().unwrap();
    let request = SigningRequest::read(&request(&key)).unwrap();
    assert_eq!(request.key_digest(), Digest::of(&key.subject_public_key_info()));
    let identity = NodeIdentity::parse("spiffe://f-1/edge/eu-1/node/n-1").unwrap();
    let certificate =
        authority.issue_node(&request, &identity, Timestamp::from_millis(1_796_000_000_000)).unwrap();
    assert_eq!(NodeIdentity::of_certificate(&certificate).unwrap(), identity);
    assert_eq!(proto::head::key_digest(&certificate).unwrap(), request.key_digest());
}

#[test]
fn a_signing_request_that_its_key_did_not_sign_is_refused() {
    let key = KeyPair::generate().unwrap();
    let good = request(&key);
    let mut forged = good.clone();
    let at = forged.windows(4).position(|bytes| bytes == b"boss").unwrap();
    forged[at] = b'B';
    let mut longer = good;
    longer.push(0);
    let rows = [
        (forged, "signature"),
        (longer, "bytes follow"),
        (vec![1, 2, 3], "PKCS #10"),
        (vec![0; 9_000], "8192"),
    ];
    for (der, expected) in rows {
        let error = SigningRequest::read(&der).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} has no `{expected}`");
    }
}

#[test]
fn a_head_that_the_server_signs_is_believed_by_nodes_and_by_its_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let authority = Authority::open(&folder.path().join("ca.key"), FLEET, None).unwrap();
        let signer = HeadSigner::open(&folder.path().join("signer.key"), &authority).unwrap();
        (authority, signer)
    };
    let (_, signer) = open();
    let head = domain::plugin_set::Head {
        fleet: FLEET.into(),
        scope: Scope::parse("edge/eu-1").unwrap(),
        part: Part::Plan,
        position: Position { epoch: 1, generation: 2 },
        digest: Digest::of(b"m"),
        issued: Timestamp::from_millis(1_796_056_331_042),
        fresh_until: Timestamp::from_millis(1_796_056_391_042),
    };
    let signed = signer.sign(&head).unwrap();
    let (authority, _) = open();
    let believed = proto::head::verify(&signed, FLEET, &[authority.certificate()]).unwrap();
    assert_eq!(believed, head);
    let mode = std::fs::metadata(folder.path().join("signer.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
