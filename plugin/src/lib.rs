//! Plugins on disk: reads manifests, packs and unpacks bundles, lints, and writes new plugins.
//!
//! Files only: nothing here starts a process or opens a socket, so any plugin may be looked at.
//! Everything blocks; async callers wrap it. Called by the CLI (`init`, `lint`, `pack`), the control
//! plane (what is pushed) and the node (what was downloaded).

pub mod bundle;
pub mod init;
pub mod lint;
pub mod manifest;
pub mod script;
