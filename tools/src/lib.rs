//! Tools.
pub mod envelope;
