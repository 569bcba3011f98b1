//! The built `pintle` from outside: its words, exit codes and shapes, and the demo's tool.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may panic")]

mod approve;
mod demo_tool;
mod fake;
mod help;
mod input;
mod listing;
mod logs;
mod push;
mod story;

use std::path::Path;

use assert_cmd::Command;

/// `pintle` with a data folder of its own and nothing from this machine's environment.
fn pintle(data: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pintle"));
    for name in ["PINTLE_SERVER", "PINTLE_TOKEN", "PINTLE_TOKEN_FILE", "PINTLE_NODE_DATA", "PINTLE_ENDPOINT"]
    {
        command.env_remove(name);
    }
    command.env("PINTLE_DATA", data).env("NO_COLOR", "1").timeout(std::time::Duration::from_mins(1));
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}
