//! Everything fails that can: processes are killed and stopped, links stall and break, disks fill up. Real
//! processes, and after each fault the same questions: is everything that was acknowledged still there, was
//! nothing called that must not be, does it all go on by itself.

#![allow(missing_docs, reason = "tests are sentences")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod churn;
mod database;
mod full_disk;
mod kills;
mod links;
mod replicas;
mod restored;
mod stage;
mod stops;
