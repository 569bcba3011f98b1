//! The product as people use it: real processes, real tool servers, real clients.

#![allow(missing_docs, reason = "tests are sentences")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod arrows;
mod asked;
mod bad_input;
mod blocked;
mod candidates;
mod changes;
mod clients;
mod configured;
mod conformance;
mod connected;
mod demo;
mod differential;
mod draining;
mod eras;
mod failing;
mod identity;
mod listings;
mod reach;
mod refusals;
mod remote;
mod restarts;
mod rewound;
mod rollouts;
mod scopes;
mod servers;
mod updates;
