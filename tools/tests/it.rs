//! The crate against real processes and endpoints: Python servers that misbehave as they are told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests fail by panicking"
)]

mod it {
    pub(crate) mod cancel;
    pub(crate) mod dialog;
    pub(crate) mod framing;
    pub(crate) mod http;
    pub(crate) mod list;
    pub(crate) mod older;
    pub(crate) mod process;
    pub(crate) mod redirect;
    pub(crate) mod resume;
    pub(crate) mod secrets;
    pub(crate) mod session;
    pub(crate) mod start;
    pub(crate) mod stdio;
    pub(crate) mod support;
}
