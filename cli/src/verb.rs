//! One verb per file; this file only hands the command line to the right one.

use anyhow::Result;

use crate::args::Command;
use crate::context::Context;
use crate::exit::Exit;

pub(crate) mod assign;
pub(crate) mod audit;
pub(crate) mod block;
pub(crate) mod blocks;
pub(crate) mod call;
pub(crate) mod catalog;
pub(crate) mod completions;
pub(crate) mod connection;
pub(crate) mod demo;
pub(crate) mod demo_tool;
pub(crate) mod doctor;
pub(crate) mod edge;
pub(crate) mod mcp;
pub(crate) mod node;
pub(crate) mod plugin;
pub(crate) mod policy;
pub(crate) mod rollout;
pub(crate) mod server;
pub(crate) mod unassign;
pub(crate) mod unblock;
pub(crate) mod up;

/// Carries out one command.
///
/// # Errors
/// Whatever keeps it from being done, in words for people.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Plugin(command) => plugin::run(command, context).await,
        Command::Up(args) => Box::pin(up::run(&args, context)).await,
        Command::Demo(args) => Box::pin(demo::run(&args, context)).await,
        Command::Server(args) => Box::pin(server::run(args, context)).await,
        Command::Call(args) => call::run(&args, context).await,
        Command::Mcp(args) => mcp::run(&args, context).await,
        Command::Assign(args) => assign::run(&args, context).await,
        Command::Unassign(args) => unassign::run(&args, context).await,
        Command::Rollout(command) => rollout::run(command, context).await,
        Command::Block(args) => block::run(&args, context).await,
        Command::Unblock(args) => unblock::run(&args, context).await,
        Command::Blocks(args) => blocks::run(&args, context).await,
        Command::Catalog(args) => catalog::run(&args, context).await,
        Command::Node(command) => node::run(command, context).await,
        Command::Edge(command) => edge::run(command, context).await,
        Command::Connection(command) => connection::run(command, context).await,
        Command::Policy(command) => policy::run(command, context).await,
        Command::Audit(command) => audit::run(command, context).await,
        Command::Doctor(args) => doctor::run(&args, context).await,
        Command::Completions(args) => completions::run(&args, context),
        Command::DemoTool(args) => demo_tool::run(args).await,
    }
}
