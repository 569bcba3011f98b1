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

/// Without its value, which may be a secret.
impl std::fmt::Debug for v1::Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::v1::{FetchResponse, Header};

    #[test]
    fn what_a_tool_is_reached_with_is_not_shown_by_its_message() {
        let headers = vec![Header { name: "authorization".to_owned(), value: "s3cret".to_owned() }];
        let shown = format!("{:?}", FetchResponse { headers, ..FetchResponse::default() });
        assert!(shown.contains("authorization") && !shown.contains("s3cret"), "{shown}");
    }
}
