//! The control plane: what the fleet is told, by whom, and what became of it.
//!
//! `store` holds the only SQL, `operation` one verb per file, `api` the people's port, `auth` and
//! `audit` who may and who did.

pub mod auth;
pub mod operation;
pub mod store;
