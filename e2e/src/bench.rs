//! The benchmarks, one per file, and what they share.

pub(crate) mod echo;
pub(crate) mod figures;
mod fleet;
pub(crate) mod gateway;
pub(crate) mod hop;
mod load;
mod node;
pub(crate) mod push;
