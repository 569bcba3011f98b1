//! A node in process: its table is set by hand, its tools are functions of the test.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use domain::digest::ListingHash;
use domain::guard::view::{PluginState, RunState, SetState, Shown, ToolListing, ToolView, VersionView, View};
use domain::guard::{Denial, Slot, Table};
use domain::id::{EdgeName, PluginVersion, ToolId};
use domain::listing::RealText;
use domain::plugin_set::{FunctionTrust, Kind, Policy, ToolTrust, Trust};
use domain::time::Timestamp;
use node_agent::gateway::{
    BeforeWrite, Breaker, CallFuture, CallLimits, Config, Gateway, Terms, Token, Upstream,
};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tools::{Call, CallError, RawProgress, RawResult, Said};

pub type Outcome = Result<RawResult, CallError<Denial>>;
type Tool = dyn Fn(String, Call, BeforeWrite) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync;
type Change = Box<dyn FnOnce(&Node) + Send>;

/// A function as the node has it: `approved` and `listed` are canonical listings.
#[derive(Clone)]
pub struct Function {
    pub name: &'static str,
    pub approved: Option<String>,
    pub listed: Option<String>,
    pub not_shown: bool,
}

/// A function that is listed as approved.
pub fn same(name: &'static str, listing: &str) -> Function {
    Function { name, approved: Some(listing.into()), listed: Some(listing.into()), not_shown: false }
}

/// Takes any arguments.
pub const OPEN: &str = r#"{"description":"Opens","inputSchema":{"type":"object"}}"#;

pub struct Node {
    table: ArcSwap<Table>,
    pub view: Mutex<View>,
    changed: watch::Sender<u64>,
    pub now_ms: AtomicU64,
    pub relists: AtomicUsize,
    on_relist: Mutex<Option<Change>>,
    tool: Box<Tool>,
    pub real_texts: Mutex<Arc<[RealText]>>,
    pub limits: Mutex<CallLimits>,
    breaker: Arc<Breaker>,
}

impl Node {
    pub fn new<F, R>(functions: &[Function], tool: F) -> Arc<Self>
    where
        F: Fn(String, Call, BeforeWrite) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        let view = Mutex::new(view(functions));
        let table = ArcSwap::from_pointee(Table::build(&view.lock().unwrap()));
        Arc::new(Self {
            table,
            view,
            changed: watch::Sender::new(0),
            now_ms: AtomicU64::new(1_000),
            relists: AtomicUsize::new(0),
            on_relist: Mutex::new(None),
            tool: Box::new(move |name, call, before| Box::pin(tool(name, call, before))),
            real_texts: Mutex::new(Arc::new([])),
            limits: Mutex::default(),
            breaker: Arc::default(),
        })
    }

    /// Whose one tool answers with its arguments as structured content.
    pub fn echo(functions: &[Function]) -> Arc<Self> {
        Self::new(functions, |_, call, before| async move {
            before().map_err(CallError::Refused)?;
            let arguments = call.arguments.as_ref().map_or("null", |arguments| arguments.get());
            result(&format!(r#"{{"content":[],"structuredContent":{arguments}}}"#))
        })
    }

    pub fn change(&self, change: impl FnOnce(&mut View)) {
        let mut view = self.view.lock().unwrap();
        change(&mut view);
        self.table.store(Arc::new(Table::build(&view)));
        drop(view);
        self.changed.send_modify(|number| *number += 1);
    }

    pub fn set(&self, functions: &[Function]) {
        self.change(|view| *view = self::view(functions));
    }

    pub fn on_relist(&self, change: impl FnOnce(&Self) + Send + 'static) {
        *self.on_relist.lock().unwrap() = Some(Box::new(change));
    }
}

pub fn result(json: &str) -> Outcome {
    Ok(RawResult(RawValue::from_string(json.to_owned()).unwrap()))
}

impl Upstream for Node {
    fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn relist<'a>(
        &'a self,
        _version: &'a PluginVersion,
        _tool: &'a ToolId,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            self.relists.fetch_add(1, Ordering::SeqCst);
            let change = self.on_relist.lock().unwrap().take();
            if let Some(change) = change {
                change(self);
            }
        })
    }

    fn call<'a>(&'a self, slot: &'a Slot, call: Call, before_write: BeforeWrite) -> CallFuture<'a> {
        (self.tool)(slot.id.function.to_string(), call, before_write)
    }

    fn real_texts(&self, _slot: &Slot) -> Arc<[RealText]> {
        Arc::clone(&self.real_texts.lock().unwrap())
    }

    fn terms(&self, _slot: &Slot) -> Terms {
        Terms { limits: *self.limits.lock().unwrap(), breaker: Arc::clone(&self.breaker) }
    }
}

pub fn version() -> PluginVersion {
    PluginVersion::parse("team@1.2.0").unwrap()
}

pub fn tool_id() -> ToolId {
    ToolId::parse("team").unwrap()
}

pub fn now() -> Timestamp {
    Timestamp::default()
}

/// One plugin `team` with one tool `team`.
pub fn view(functions: &[Function]) -> View {
    let mut trust = ToolTrust { snapshot_taken: true, ..ToolTrust::default() };
    let mut listing = ToolListing { asked_at_ms: 1_000, complete: true, ..ToolListing::default() };
    let mut texts = BTreeMap::new();
    for (rank, function) in functions.iter().enumerate() {
        if let Some(text) = &function.approved {
            let hash = ListingHash::of_canonical(text);
            texts.insert(hash, text.as_str().into());
            trust.functions.insert(function.name.into(), FunctionTrust { hash, rank: rank as u64 });
        }
        if let Some(text) = &function.listed {
            let not_shown = function.not_shown.then(|| "schema".into());
            let shown = Shown { hash: ListingHash::of_canonical(text), not_shown };
            listing.functions.insert(function.name.into(), shown);
        }
    }
    let tool = ToolView {
        kind: Kind::Command,
        origin: None,
        run: RunState::Running,
        listing: Some(Arc::new(listing)),
        relisting: None,
        relist_failed: None,
    };
    let serving =
        VersionView { version: version(), tools: [(tool_id(), tool)].into(), left_out: BTreeMap::new() };
    let mut all = Trust::default();
    Arc::make_mut(all.versions.entry(version()).or_default()).tools.insert(tool_id(), trust);
    View {
        edge: EdgeName::parse("eu-1").unwrap(),
        set: SetState::Held,
        trust: Arc::new(all),
        policy: Policy::default(),
        plugins: [(version().plugin, PluginState::Serving(serving))].into(),
        texts,
    }
}

/// Changes the one tool of a view.
pub fn tool(view: &mut View, change: impl FnOnce(&mut ToolView)) {
    let PluginState::Serving(version) = view.plugins.get_mut("team").unwrap() else { panic!("serving") };
    change(version.tools.get_mut(&tool_id()).unwrap());
}

/// A node's endpoint on a free port.
pub struct Served {
    pub gateway: Gateway,
    pub token: Token,
    pub url: String,
}

pub async fn serve(node: &Arc<Node>) -> Served {
    serve_with(node, |_| {}).await
}

pub async fn serve_with(node: &Arc<Node>, change: impl FnOnce(&mut Config)) -> Served {
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut config = Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
    change(&mut config);
    let token = Token::random();
    let upstream: Arc<dyn Upstream> = Arc::<Node>::clone(node);
    let gateway = Gateway::start(config, token.clone(), upstream).await.unwrap();
    let url = gateway.url();
    Served { gateway, token, url }
}

/// Tells when it is dropped: that a call was given up.
pub struct Dropped(pub mpsc::UnboundedSender<String>, pub String);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(self.1.clone()).ok();
    }
}

/// Reports how far a call is, as its tool would.
pub fn report(call: &Call, params: String) {
    if let Some(listener) = &call.listener {
        listener.hear(Said::Progress(RawProgress(RawValue::from_string(params).unwrap())));
    }
}
