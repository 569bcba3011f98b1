//! The command line: global flags and the tree of verbs. Each verb's own flags are in its file.

#![expect(clippy::doc_markdown, reason = "these comments are help texts, which terminals show as they are")]

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::verb;

/// A fleet control plane, with node agents, for agent-tool plugins.
///
/// Pintle decides which version of which plugin runs where, and calls a function only while it says
/// about itself what people approved.
#[derive(Debug, Parser)]
#[command(
    name = "pintle",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  pintle demo          the whole story in a minute, on a real tool server\n  pintle up            everything on this machine: control plane and one node\n  pintle plugin list   what is installed, what changed and waits\n\nExit codes: 0 done, 1 failed, 2 usage, 3 waits for a person, 4 refused, 5 unreachable, 6 timed out."
)]
pub(crate) struct Cli {
    /// For every verb.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every verb takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Prints the result as JSON on stdout, errors as JSON on stderr
    #[arg(long, global = true)]
    pub json: bool,
    /// The control plane's address [default: the one that `pintle up` runs from the data folder]
    #[arg(long, global = true, value_name = "URL", env = "PINTLE_SERVER")]
    pub server: Option<String>,
    /// The file that holds your token (or set PINTLE_TOKEN) [default: the data folder's admin token]
    #[arg(long, global = true, value_name = "FILE", env = "PINTLE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// The data folder [default: pintle in $XDG_DATA_HOME or ~/.local/share]
    #[arg(long, global = true, value_name = "DIR", env = "PINTLE_DATA")]
    pub data: Option<PathBuf>,
    /// Prints without colours (so does NO_COLOR)
    #[arg(long, global = true)]
    pub no_color: bool,
}

/// Every verb.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs everything on this machine: a control plane and one node
    Up(verb::up::Args),
    /// Plays the whole story on a real tool server, in about a minute
    Demo(verb::demo::Args),
    /// Runs the control plane alone
    Server(verb::server::Args),
    /// Calls a function through a node, guarded like any agent's call
    Call(verb::call::Args),
    /// A node's functions over stdio, for any MCP client
    Mcp(verb::mcp::Args),
    /// Lists, checks, packs and pushes plugins; approves what their tools changed
    #[command(subcommand)]
    Plugin(verb::plugin::Command),
    /// Makes a version the installed one of an edge, or has some of its nodes try it
    Assign(verb::assign::Args),
    /// Takes a plugin, or its candidate, from an edge
    Unassign(verb::unassign::Args),
    /// Moves a version over edges in waves, and over their nodes in steps
    #[command(subcommand)]
    Rollout(verb::rollout::Command),
    /// Stops calls of a function, a tool or a plugin, whatever was approved
    Block(verb::block::Args),
    /// Lifts a block
    Unblock(verb::unblock::Args),
    /// What is blocked, by whom and why
    Blocks(verb::blocks::Args),
    /// Every function that the fleet knows, with its state
    Catalog(verb::catalog::Args),
    /// Join tokens, joining, running a node, the list of nodes, one node
    #[command(subcommand)]
    Node(verb::node::Command),
    /// The named groups of nodes that share a plugin set
    #[command(subcommand)]
    Edge(verb::edge::Command),
    /// What remote tools are reached with: parameters, secrets, tokens
    #[command(subcommand)]
    Connection(verb::connection::Command),
    /// What the whole fleet holds to when listings change: review, notation, four eyes
    #[command(subcommand)]
    Policy(verb::policy::Command),
    /// What happened, and whether the record is whole
    #[command(subcommand)]
    Audit(verb::audit::Command),
    /// What is wrong with the fleet; adopts or drops what a restored database lost
    Doctor(verb::doctor::Args),
    /// Writes the shell's completion script to stdout
    Completions(verb::completions::Args),
    /// A small MCP server that can be told to change
    #[command(hide = true)]
    DemoTool(verb::demo_tool::Args),
}
