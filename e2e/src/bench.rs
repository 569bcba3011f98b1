//! The benchmarks, one per file, and what they share.

pub(crate) mod bare;
mod crowd;
pub(crate) mod echo;
mod etcd;
pub(crate) mod figures;
mod fleet;
pub(crate) mod gateway;
pub(crate) mod hop;
pub(crate) mod idle;
mod load;
mod peers;
pub(crate) mod push;
mod sim;
pub(crate) mod storm;
