//! `pintle up`: a control plane and one node on this machine, from one folder, in one process.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, Result};
use node_agent::{Config as NodeConfig, Node};
use serde_json::{Value, json};

use crate::client::Client;
use crate::config;
use crate::context::Context;
use crate::embed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{bold, dim};
use crate::place::{Place, Running, token_from};

/// What a node writes last when it joins.
const JOINED: &str = "node.json";

/// The edge that it makes.
const EDGE: &str = "local";

/// Flags of `pintle up`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle up\n  pintle up --data ./fleet --listen 127.0.0.1:0 --node-listen 127.0.0.1:0 --mcp-listen 127.0.0.1:0\n  pintle up --print-config claude-code > .mcp.json"
)]
pub(crate) struct Args {
    /// Where people and this program reach the control plane
    #[arg(long, default_value = "127.0.0.1:7400", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Where nodes reach the control plane [default: as before, at first 127.0.0.1:7401]
    #[arg(long, value_name = "ADDR")]
    pub node_listen: Option<SocketAddr>,
    /// Where agents reach the node
    #[arg(long, default_value = "127.0.0.1:7410", value_name = "ADDR")]
    pub mcp_listen: SocketAddr,
    /// A setting of the node; may be given again [`pintle node run --help` lists them]
    #[arg(long = "set", value_name = "NAME=VALUE", env = "PINTLE_NODE_SET", value_delimiter = ',')]
    pub settings: Vec<String>,
    /// Prints the configuration for an MCP client instead of starting anything
    #[arg(long, value_enum, value_name = "CLIENT")]
    pub print_config: Option<config::Client>,
}

/// Starts everything, prints where it is, and runs until Ctrl-C or SIGTERM.
///
/// # Errors
/// A setting is none, an address is in use, or the data cannot be opened.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    if let Some(client) = args.print_config {
        return print_config(client, context);
    }
    let (began, place) = (Instant::now(), &context.place);
    let config = embed::node_config(place.node(), args.mcp_listen, &args.settings)?;
    embed::log_to_stderr();
    std::fs::create_dir_all(place.server())
        .with_context(|| format!("make `{}`", place.server().display()))?;
    let server = embed::start_server(embed::ServerPlan {
        data: place.server(),
        database: None,
        people: args.listen,
        node: node_port(args, place)?,
        node_address: None,
        authority_key: None,
        secrets_key: None,
        secrets_folder: None,
        node_certificate_life: None,
    })
    .await?;
    let people = format!("http://{}", server.people_address());
    let client = Client::new(&people, token_from(&place.admin_token())?)?;
    let node = start_node(config, place, &client).await?;
    let running = Running {
        people,
        node: server.node_address().to_string(),
        mcp: Some(embed::endpoint(&node)),
        pid: std::process::id(),
    };
    place.note_running(&running).context("note what runs in the data folder")?;
    print(context, &running, began)?;
    embed::until_told_to_stop().await?;
    context.out.note("Stopping: finishing calls in flight.");
    node.stop().await;
    server.stop().await;
    Ok(Exit::Done)
}

/// Where nodes connect: a node keeps the address that it joined at, so that stays what it was.
fn node_port(args: &Args, place: &Place) -> Result<SocketAddr, Failure> {
    let has_joined = place.node().join(JOINED).exists();
    let before = place.running()?.filter(|_| has_joined).and_then(|running| running.node.parse().ok());
    match (args.node_listen, before) {
        (None, before) => Ok(before.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 7401)))),
        (Some(wanted), None) => Ok(wanted),
        (Some(wanted), Some(before)) if wanted == before || wanted.port() == 0 => Ok(before),
        (Some(wanted), Some(before)) => Err(Failure::usage(format!(
            "the node in `{}` joined at {before} and would not find the control plane at {wanted}",
            place.node().display()
        ))
        .remedy("leave --node-listen away, or use another data folder")),
    }
}

/// Joins at the first start.
async fn start_node(config: NodeConfig, place: &Place, client: &Client) -> Result<Node> {
    if !place.node().join(JOINED).exists() {
        make_edge(client, EDGE).await?;
        let join = join_string(client, EDGE, 1).await?;
        embed::join(&join, &place.node(), "local").await?;
    }
    embed::start_node(config).await
}

/// Makes an edge unless it is there.
///
/// # Errors
/// As the API's.
pub(crate) async fn make_edge(client: &Client, name: &str) -> Result<()> {
    let edges: Vec<Value> = client.list("/edges").await?;
    if edges.iter().any(|edge| edge.get("name").and_then(Value::as_str) == Some(name)) {
        return Ok(());
    }
    client.post::<Value>("/edges", &json!({"name": name})).await?;
    Ok(())
}

/// A join string for an edge, good for ten minutes.
///
/// # Errors
/// As the API's.
pub(crate) async fn join_string(client: &Client, edge: &str, uses: u64) -> Result<String> {
    let body = json!({"edge": edge, "uses": uses, "ttl_ms": 600_000});
    let token: Value = client.post("/join-tokens", &body).await?;
    let join = token.get("join").and_then(Value::as_str).map(str::to_owned);
    Ok(join.ok_or_else(|| Failure::failed("the control plane answered without a join string"))?)
}

fn print(context: &Context, running: &Running, began: Instant) -> Result<()> {
    let (out, place) = (&context.out, &context.place);
    let mcp_token = place.node().join("mcp.token");
    if out.is_json() {
        out.json(&json!({
            "running": running, "data": place.data(), "token_file": place.admin_token(), "mcp_token_file": mcp_token,
        }))?;
        return Ok(());
    }
    let mcp = running.mcp.as_deref().unwrap_or_default();
    out.line(format_args!(
        "Pintle runs, ready after {:.1} s. {}",
        began.elapsed().as_secs_f64(),
        dim("Ctrl-C stops it.")
    ))?;
    out.line(format_args!("  control plane  {}", bold(&running.people)))?;
    out.line(format_args!("  MCP endpoint   {}", bold(mcp)))?;
    out.line(format_args!("  admin token    {}", place.admin_token().display()))?;
    out.line(format_args!("  MCP token      {}", mcp_token.display()))?;
    let usual = Place::new(None).is_ok_and(|usual| usual.data() == place.data());
    let data = if usual { String::new() } else { format!(" --data {}", place.data().display()) };
    out.line("\nNext, in another terminal:")?;
    out.line(format_args!("  pintle{data} plugin init hello && pintle{data} plugin push hello"))?;
    out.line(format_args!("  pintle{data} assign hello@0.1.0 --edge {EDGE} --wait"))?;
    out.line(format_args!("  pintle{data} up --print-config claude-code > .mcp.json"))?;
    Ok(())
}

fn print_config(client: config::Client, context: &Context) -> Result<Exit> {
    let place = &context.place;
    let Some(endpoint) = place.running()?.and_then(|running| running.mcp) else {
        return Err(Failure::new(
            Exit::Unreachable,
            format!("no node has been started from `{}`", place.data().display()),
        )
        .remedy("start one with `pintle up`")
        .into());
    };
    let program = std::env::current_exe().context("find this program")?;
    let text = config::configuration(client, &program, &place.node(), &endpoint);
    context.out.line(text)?;
    context.out.note(format_args!("Put this into {}.", config::file(client)));
    Ok(Exit::Done)
}
