//! The node agent: holds its plugin set, runs the plugins of it, and calls only what is approved.

pub mod guard;
mod ledger;
mod arguments;
