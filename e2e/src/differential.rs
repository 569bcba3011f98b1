//! The differential test: random exchanges between an agent and a tool, each played directly and through a node,
//! and what arrives at either end compared.
//!
//! Lives here: what is said (`script`, of spelled-out [`json`]), the tool that says it (`mimic`), the agent, and
//! what may be different (`compare`). A seed and a number repeat an exchange.

mod agent;
mod compare;
mod json;
mod lists;
mod mimic;
mod odd;
mod script;
mod stage;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::RwLock;
use tokio::task::JoinSet;

use crate::fleet::Fleet;
use crate::mcp::Endpoint;
use crate::random::Random;
use agent::Agent;
use json::Writer;
use script::{Cancel, Ends, LEVELS, Step};
use stage::Stage;

/// For one exchange; what takes longer has stopped.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of a request; far above what is sent.
const BODY: usize = 16 << 20;
/// In `_meta` of a call: the exchange that it belongs to.
const EXCHANGE: &str = "example.com/exchange";
/// What the protocol has in `_meta` for itself.
const PROTOCOL: &str = "io.modelcontextprotocol/";
/// What all agents can be asked.
const CAPABILITIES: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}"#;

const MODERN: &str = "2026-07-28";
/// The revision that has batches.
const BATCHES: &str = "2025-03-26";
const VERSIONS: [&str; 4] = [MODERN, "2025-11-25", "2025-06-18", BATCHES];
/// Agents of the handshake revisions of one worker: each revision, with and without a level.
const SESSIONS: usize = 6;

/// A family of revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2026-07-28.
    Modern,
    /// Those before it.
    Handshake,
}

impl Era {
    const fn name(self) -> &'static str {
        match self {
            Self::Modern => "modern",
            Self::Handshake => "handshake",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Modern, Self::Handshake].into_iter().find(|era| era.name() == name)
    }
}

/// How an agent reaches the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Node,
}

/// How many exchanges, and which.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many.
    pub exchanges: u64,
    /// What they are drawn from.
    pub seed: u64,
    /// Only the one of this number.
    pub only: Option<u64>,
    /// How many go on at once.
    pub workers: usize,
}

/// What came of them.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many were played.
    pub played: u64,
    /// How many lists were compared besides.
    pub lists: u64,
    /// Those that were different, with how to play each again; no more than a few.
    pub differences: Vec<String>,
}

/// A difference is looked at one by one.
const DIFFERENCES: usize = 5;

/// The tools behind the node: ID, era, whether over stdio.
const TOOLS: [(&str, Era, bool); 4] = [
    ("ms", Era::Modern, true),
    ("hs", Era::Handshake, true),
    ("mh", Era::Modern, false),
    ("hh", Era::Handshake, false),
];

/// The tool of functions that are only listed.
const LISTED: &str = "listed";

struct Test {
    stage: Arc<Stage>,
    plan: Plan,
    direct: String,
    node: Endpoint,
    next: AtomicU64,
    stopped: AtomicBool,
    /// Over stdio what a tool says is whoever's alone calls: such an exchange has the tool to itself.
    alone: RwLock<()>,
}

/// Carries bytes between stdin and stdout and the test that listens there; what nodes start as a tool.
///
/// # Errors
/// Nobody listens there, or no era is of this name.
pub async fn pipe(address: SocketAddr, era: &str) -> Result<()> {
    mimic::pipe(address, Era::named(era).context("failed to find an era of this name")?).await
}

/// Plays exchanges through the first node of a fleet; `program` is what is started as a tool, with `pipe`,
/// the address and the era behind it.
///
/// # Errors
/// The fleet does not serve the tools, or an agent cannot get at it.
pub async fn run(fleet: &Fleet, program: &Path, plan: Plan) -> Result<Report> {
    let stage = Arc::new(Stage::new(lists::functions(plan.seed)));
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let (http, lines) = (TcpListener::bind(local).await?, TcpListener::bind(local).await?);
    let (url, pipe) = (format!("http://{}", http.local_addr()?), lines.local_addr()?);
    let mut serving = JoinSet::new();
    serving.spawn(mimic::serve_http(http, Arc::clone(&stage)));
    serving.spawn(mimic::serve_stdio(lines, Arc::clone(&stage)));
    let workers = if plan.only.is_some() { 1 } else { plan.workers };
    let tools: serde_json::Map<String, Value> = TOOLS
        .map(|(name, era, stdio)| {
            let tool = if stdio {
                json!({"command": [program, "pipe", pipe.to_string(), era.name()]})
            } else {
                json!({"url": format!("{url}/node/{}", era.name())})
            };
            (name.to_owned(), tool)
        })
        .into_iter()
        .collect();
    // Of the same tools over stdio: one for each worker's agent with a session, and one for agents that give up.
    let mut others = Vec::new();
    for (name, _, _) in TOOLS.into_iter().filter(|(_, _, stdio)| *stdio) {
        let names = (0..workers).map(|worker| of_worker(name, worker)).chain([given_up(name)]);
        others.extend(names.filter_map(|other| Some((other, tools.get(name)?.clone()))));
    }
    let mut tools: serde_json::Map<String, Value> = tools.into_iter().chain(others).collect();
    let called: Vec<String> = tools.keys().cloned().collect();
    tools.insert(LISTED.to_owned(), json!({"url": format!("{url}/node/any/list")}));
    fleet.install("mimic", "1.0.0", &Value::Object(tools.clone())).await?;
    for name in called {
        fleet.callable(&format!("{name}.any"), json!({})).await;
        fleet.callable(&format!("{name}.marked"), json!({})).await;
    }
    fleet.callable(&format!("{LISTED}.f0"), json!({})).await;
    let mut report = Report::default();
    for version in VERSIONS {
        let (node, list) = (fleet.mcp(0), format!("{url}/direct/any/list"));
        let direct = Agent::open(Way::Direct, &list, None, version, None).await?;
        let node = Agent::open(Way::Node, &node.url, Some(&node.token), version, None).await?;
        report.differences.extend(lists::difference(&direct, &node, &format!("{LISTED}__")).await?);
        report.lists += 1;
    }
    let test = Arc::new(Test {
        stage,
        direct: format!("{url}/direct/any"),
        node: fleet.mcp(0).clone(),
        next: AtomicU64::new(plan.only.unwrap_or_default()),
        stopped: AtomicBool::new(false),
        alone: RwLock::default(),
        plan,
    });
    let mut working = JoinSet::new();
    for worker in 0..workers {
        working.spawn(Arc::clone(&test).work(worker));
    }
    while let Some(worked) = working.join_next().await {
        let (played, differences) = worked??;
        report.played += played;
        report.differences.extend(differences);
    }
    Ok(report)
}

fn of_worker(tool: &str, worker: usize) -> String {
    format!("{tool}-of-{worker}")
}

/// What is under way of an agent that gave up keeps others from hearing the tool.
fn given_up(tool: &str) -> String {
    format!("{tool}-given-up")
}

/// The two ends of an agent: directly, and through the node.
struct Pair {
    direct: Agent,
    node: Agent,
    level: Option<usize>,
}

impl Test {
    async fn work(self: Arc<Self>, worker: usize) -> Result<(u64, Vec<String>)> {
        let mut pairs = vec![self.pair(MODERN, None).await?];
        for session in 0..SESSIONS {
            let version = VERSIONS.iter().skip(1).cycle().nth(session).copied().unwrap_or(MODERN);
            let level = (session >= SESSIONS / 2).then(|| (session * 5) % LEVELS.len());
            pairs.push(self.pair(version, level).await?);
        }
        let (mut played, mut differences) = (0, Vec::new());
        while !self.stopped.load(Ordering::Relaxed) && differences.len() < DIFFERENCES {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let end = self.plan.only.map_or(self.plan.exchanges, |only| only + 1);
            if number >= end {
                break;
            }
            played += 1;
            let different = match self.exchange(number, worker, &pairs).await {
                Ok(different) => different,
                Err(error) => Some(format!("{error:#}")),
            };
            self.stage.end(number);
            if let Some(difference) = different {
                let again = format!("--seed {} --only {number}", self.plan.seed);
                differences.push(format!("exchange {number} ({again}): {difference}"));
            }
        }
        if differences.len() >= DIFFERENCES {
            self.stopped.store(true, Ordering::Relaxed);
        }
        Ok((played, differences))
    }

    async fn pair(&self, version: &'static str, level: Option<usize>) -> Result<Pair> {
        let direct = Agent::open(Way::Direct, &self.direct, None, version, level).await?;
        let node = Agent::open(Way::Node, &self.node.url, Some(&self.node.token), version, level).await?;
        Ok(Pair { direct, node, level })
    }

    /// Plays one; what was different.
    async fn exchange(&self, number: u64, worker: usize, pairs: &[Pair]) -> Result<Option<String>> {
        let seed = Random::new(self.plan.seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).next();
        let mut random = Random::new(seed);
        // As many of one era as of the other. Over stdio a worker is one agent.
        let pair = if random.below(2) == 0 { 0 } else { 1 + random.below(pairs.len() - 1) };
        let (tool, era, stdio) =
            TOOLS.get(random.below(TOOLS.len())).copied().context("failed to find a tool")?;
        let is_one_agent = stdio && pair > 0;
        let pair = if is_one_agent { 1 + worker % SESSIONS } else { pair };
        let pair = pairs.get(pair).context("failed to find an agent")?;
        if random.below(10) == 0 {
            let mut writer = Writer { random: &mut random, lines: true };
            let odd = odd::odd(&mut writer, &pair.direct);
            let (direct, node) =
                tokio::try_join!(odd::send(&pair.direct, &odd), odd::send(&pair.node, &odd))?;
            return Ok((direct != node).then(|| {
                format!(
                    "{odd:?} of {}\n  directly {direct:?}\n  through the node {node:?}",
                    pair.direct.version
                )
            }));
        }
        let ends = Ends { agent: pair.direct.era, tool: era, stdio, level: pair.level };
        let exchange = script::exchange(random.next(), ends);
        let cancel = exchange.cancel;
        let speaks = exchange.script.steps.iter().any(|step| matches!(step, Step::Ask(_) | Step::Log(..)));
        let is_shared = stdio && ends.agent == Era::Modern && cancel == Cancel::Never;
        let tool = match (stdio, ends.agent) {
            (true, Era::Handshake) => of_worker(tool, worker),
            (true, Era::Modern) if !is_shared => given_up(tool),
            _ => tool.to_owned(),
        };
        let (_alone, _beside) = match (is_shared, speaks) {
            (true, true) => (Some(self.alone.write().await), None),
            (true, false) => (None, Some(self.alone.read().await)),
            (false, _) => (None, None),
        };
        let play = self.stage.begin(number, exchange, ends);
        let prefix = format!("{tool}__");
        let played = async { tokio::try_join!(pair.direct.play(&play, ""), pair.node.play(&play, &prefix)) };
        let about = || format!("{} agent, {tool}, {cancel:?}", pair.direct.version);
        let (direct, node) = played.await.with_context(about)?;
        for way in [Way::Direct, Way::Node] {
            // A call that was cancelled at once may never have come there.
            if cancel != Cancel::AtOnce || !play.seen(way).is_empty() {
                play.ended(way).await.with_context(about)?;
            }
        }
        if stdio && ends.agent == Era::Handshake && cancel != Cancel::Never {
            // What the tool said of it is on its way still, and would be heard in the agent's next call.
            pair.node.call_beside(&format!("{prefix}any")).await?;
        }
        Ok(compare::difference(&play, &direct, &node).map(|difference| format!("{}: {difference}", about())))
    }
}
