//! The wire between node agents and the control plane, and the only door between it and `domain`.
//!
//! [`v1`] is generated from `fleet/v1/fleet.proto` and committed; [`convert`] turns its messages into
//! values of `domain` and back; [`head`] checks who signed a part's head; [`join_string`] and
//! [`identity`] are the two texts that both sides read. Nothing past this crate sees a protobuf
//! message that was not checked.

pub mod convert;
pub mod head;
pub mod identity;
pub mod join_string;

/// Messages and services of `pintle.fleet.v1`, generated.
#[expect(
    missing_docs,
    unused_qualifications,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code; the protocol file carries the documentation"
)]
pub mod v1 {
    include!("generated/pintle.fleet.v1.rs");
}
