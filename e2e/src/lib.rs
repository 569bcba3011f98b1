//! A fleet of real processes, for the end-to-end tests and the benchmarks: the `pintle` binary as server and
//! nodes, each with a folder of its own, tool servers that can be told to change, and a bare MCP client.
//!
//! Nothing here knows how the product works inside: it uses the command, the HTTP API and the MCP endpoint.

pub mod api;
pub mod bridged;
pub mod conformance;
pub mod differential;
pub mod disk;
pub mod door;
pub mod egress;
pub mod fleet;
pub mod front;
pub mod holding;
pub mod kernel;
pub mod mcp;
pub mod mutable;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod random;

use std::future::Future;
use std::time::{Duration, Instant};

/// The longest that anything is waited for: a debug build on two busy cores takes its time, and a wait that
/// ends this way fails its test.
const PATIENCE: Duration = Duration::from_mins(1);

/// Asks until the answer is there.
///
/// # Panics
/// If that takes longer than anything should; the last answer's text is told.
pub async fn eventually<T, E, F, Fut>(what: &str, mut ask: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: std::fmt::Display,
{
    let begin = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(last) if begin.elapsed() > PATIENCE => {
                #[expect(
                    clippy::panic,
                    reason = "the harness of tests: a wait that never ends fails the test"
                )]
                {
                    panic!("waited {PATIENCE:?} for {what}; last: {last}")
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
