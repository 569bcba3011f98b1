//! Signed parts for tests here and of streams.

use std::path::Path;

use domain::plugin_set::{Position, Scope};
use domain::time::Timestamp;
use proto::convert::Content;

use super::EncodedPart;
use super::part::Draft;
use crate::pki::{Authority, HeadSigner};

pub(crate) fn signer(folder: &Path) -> (Authority, HeadSigner) {
    let authority = Authority::open(&folder.join("ca.key"), "f-1", None).unwrap();
    let signer = HeadSigner::open(&folder.join("signer.key"), &authority).unwrap();
    (authority, signer)
}

pub(crate) fn built(
    signer: &HeadSigner,
    scope: Scope,
    position: Position,
    content: &Content,
    earlier: Option<&EncodedPart>,
) -> EncodedPart {
    let now = Timestamp::from_millis(1_796_056_331_042);
    Draft::new(scope, position, content).sign(signer, now, earlier).unwrap()
}
