//! The control plane: what the fleet is told, by whom, and what became of it.
//!
//! `store` holds the only SQL, `operation` one verb per file, `api` the people's port, `auth` who may.

pub mod api;
pub mod auth;
pub mod connector;
pub mod fleet;
pub mod grpc;
pub mod oauth;
pub mod operation;
pub mod pki;
pub mod server;
pub mod simulation;
pub mod store;
pub mod vault;

pub use server::{Config, Server};
