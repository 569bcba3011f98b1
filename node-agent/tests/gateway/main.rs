//! The MCP endpoint over real HTTP, in front of an in-process node; and the bridge in front of it.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_in_result,
    clippy::unnecessary_wraps,
    clippy::result_large_err,
    unreachable_pub,
    reason = "what tests share is test code too"
)]

mod bad_input;
mod bridge;
mod bytes;
mod calls;
mod cancel;
mod cases;
mod changes;
mod client;
mod dialog;
mod failing;
mod fuzz;
mod handshake;
mod limits;
mod modern;
mod node;
mod rounds;
mod talking;
