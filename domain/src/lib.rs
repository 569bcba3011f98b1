//! The decisions of Pintle, pure: no async, files, sockets, clock, randomness, environment or SQL.
//!
//! Time, ids and randomness are arguments; what comes out is a value. Every other crate of the
//! workspace either brings bytes to this one's doors or carries out what it decided. No type here
//! derives serde: each door (wire, store, API, ledger) owns its own format.

pub mod audit;
pub mod block;
pub mod breaker;
pub mod change;
pub mod clone;
pub mod connection;
pub mod digest;
pub mod fresh;
pub mod guard;
pub mod id;
pub mod label;
pub mod listing;
pub mod name;
pub mod origin;
pub mod plugin_set;
pub mod reconcile;
pub mod refusal;
pub mod review;
pub mod role;
pub mod rollout;
pub mod snapshot;
pub mod standing;
pub mod time;
pub mod visible;
