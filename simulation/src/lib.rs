//! A fleet in simulated time: servers and nodes with the product's own decisions, and everything that can
//! go wrong between them, drawn from a seed (80-proof, "Faults").
//!
//! What is real and what is simulated is in `docs/decisions/`. The `simulate` program runs seeds; the
//! tests replay each planted bug.

mod batch;
mod chance;
mod observer;
mod plant;
mod scene;
mod trace;
mod world;

pub use batch::{Batch, Progress, Summary, run_all};
pub use plant::Plant;
pub use scene::Scene;
pub use world::{Options, Outcome, run};
