//! The node port from outside: a real gRPC client joins, opens a stream, is sent parts, reports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "helpers of tests are tests"
)]

mod authorities;
mod bundles;
mod doors;
mod fixture;
mod identity;
mod join;
mod node;
mod parts;
mod replicas;
mod reports;
mod server;
mod two_servers;
