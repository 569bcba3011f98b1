//! Ready configurations for MCP clients, all over the stdio bridge: none holds a token.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, which terminals show as they are")]

use std::path::Path;

use clap::ValueEnum;
use serde_json::json;

/// Clients that a configuration can be printed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    /// Claude Code: .mcp.json in a project
    ClaudeCode,
    /// Codex: ~/.codex/config.toml
    Codex,
    /// OpenCode: opencode.json in a project
    Opencode,
}

/// The configuration that makes `client` start `program mcp --node-data NODE --endpoint URL`.
pub(crate) fn configuration(client: Client, program: &Path, node_data: &Path, endpoint: &str) -> String {
    let (program, node_data) = (program.to_string_lossy(), node_data.to_string_lossy());
    let arguments = ["mcp", "--node-data", &node_data, "--endpoint", endpoint];
    let pretty = |value| serde_json::to_string_pretty(&value).unwrap_or_default();
    match client {
        Client::ClaudeCode => {
            pretty(json!({"mcpServers": {"pintle": {"command": program, "args": arguments}}}))
        }
        Client::Codex => {
            // A TOML basic string takes what a JSON string takes.
            format!("[mcp_servers.pintle]\ncommand = {}\nargs = {}", json!(program), json!(arguments))
        }
        Client::Opencode => {
            let command: Vec<&str> = std::iter::once(program.as_ref()).chain(arguments).collect();
            pretty(json!({
                "$schema": "https://opencode.ai/config.json",
                "mcp": {"pintle": {"type": "local", "command": command, "enabled": true}},
            }))
        }
    }
}

/// Where the configuration goes.
pub(crate) const fn file(client: Client) -> &'static str {
    match client {
        Client::ClaudeCode => ".mcp.json in your project",
        Client::Codex => "~/.codex/config.toml",
        Client::Opencode => "opencode.json in your project",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_starts_the_bridge_and_holds_no_token() {
        for client in [Client::ClaudeCode, Client::Codex, Client::Opencode] {
            let text = configuration(
                client,
                Path::new("/bin/pintle"),
                Path::new("/d/node"),
                "http://127.0.0.1:1/mcp",
            );
            for part in ["/bin/pintle", "\"mcp\"", "/d/node", "http://127.0.0.1:1/mcp"] {
                assert!(text.contains(part), "{text} lacks {part}");
            }
            assert!(!text.contains("Bearer"), "{text}");
        }
    }

    #[test]
    fn the_json_ones_are_json() {
        for client in [Client::ClaudeCode, Client::Opencode] {
            let text = configuration(client, Path::new("/a \"b\"/pintle"), Path::new("/d"), "http://h/mcp");
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON");
        }
    }
}
