//! The one door between the wire and `domain`: `TryFrom` inward, `From` outward.
//!
//! Inward, each field is checked once and a fault names the field; what comes out cannot be wrong.
//! Outward nothing fails. How a part's resources are cut, named and addressed is in [`content`]; what
//! a node says is in [`node`]. Called by the control plane's streams and the node's link and ledger.

pub mod content;
mod fields;
pub mod head;
pub mod node;
mod plan;
mod policy;
pub mod report;
pub mod status;
mod trust;

#[cfg(test)]
mod tests;

pub use content::{Content, PartContent, Rejected, Resource, decode_resource, encode_resource};
pub use fields::{digests, manifest, manifest_entries, part};
pub use node::{Acked, Hello, NodeSaid, Refused, SessionProof, counter_in, wire_digests};
pub use report::{Report, ReportedFunction, Seen};
pub use status::{Status, ToolState, ToolStatus, VersionState, VersionStatus};

use domain::digest::DigestFault;
use domain::id::IdFault;

/// Most bytes of one message in either direction: the largest part (10,000 resources of 1 KB) and
/// the largest listing report (10,000 functions) fit, and one stream cannot hold a server's memory.
pub const MESSAGE_MAX: usize = 16 * 1024 * 1024;

/// Most functions in one tool's report: what a tool may list.
pub const FUNCTIONS_MAX: usize = 10_000;

/// Blocks of one version; people set them one by one.
pub const BLOCKS_MAX: usize = 1_000;

/// Most bytes of a function's name in a report: four times what may be called, so that a name that
/// is left out for its length can still be recognised.
pub const NAME_MAX: usize = 512;

/// Most bytes of a sentence of a node (a reason, a warning): longer ones are cut, since what a tool
/// prints gets into them.
pub const TEXT_MAX: usize = 1_000;

/// Most entries of any list for which no other limit is given (tools, warnings, versions, digests
/// asked for): above what any node has, below what would cost memory.
pub const LIST_MAX: usize = 10_000;

/// A message that is not what the protocol allows, by the field that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A field that must be there is not.
    #[error("read {field}: it is missing")]
    Missing {
        /// The field, as `Message.field`.
        field: &'static str,
    },
    /// A name that breaks its rule.
    #[error("read {field}")]
    Id {
        /// The field.
        field: &'static str,
        /// The rule that was broken.
        #[source]
        source: IdFault,
    },
    /// No digest.
    #[error("read {field}")]
    Digest {
        /// The field.
        field: &'static str,
        /// What was given.
        #[source]
        source: DigestFault,
    },
    /// A value that is none of those that the field may have.
    #[error("read {field}: got `{got}`, expected {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// What was given, cut to 100 characters.
        got: String,
        /// What would be right.
        expected: &'static str,
    },
    /// More entries or bytes than the field may have.
    #[error("read {field}: it has {got} of at most {most} {unit}")]
    TooMany {
        /// The field.
        field: &'static str,
        /// How many there are.
        got: usize,
        /// How many there may be.
        most: usize,
        /// Of what.
        unit: &'static str,
    },
    /// The same name twice in what is keyed by it.
    #[error("read {field}: `{name}` is there twice")]
    Twice {
        /// The field.
        field: &'static str,
        /// The name.
        name: String,
    },
    /// Bytes that are no such message.
    #[error("decode {message}")]
    Decode {
        /// The message.
        message: &'static str,
        /// Where decoding stopped.
        #[source]
        source: prost::DecodeError,
    },
    /// A resource under a name that is not its own.
    #[error("read resource `{name}` of {part}: it calls itself `{own}`")]
    Misnamed {
        /// The part.
        part: domain::plugin_set::Part,
        /// The name in the manifest.
        name: String,
        /// What its content says.
        own: String,
    },
    /// A body that the manifest names was not there.
    #[error("read resource `{name}` of {part}: its body {digest} is missing")]
    NoBody {
        /// The part.
        part: domain::plugin_set::Part,
        /// The name in the manifest.
        name: String,
        /// What it should be.
        digest: domain::digest::Digest,
    },
}
