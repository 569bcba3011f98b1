//! A fleet for tests: one edge, plugins packed from a manifest, nodes that list what they are told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use domain::audit::{Origin, Tail};
use domain::digest::{Digest, ListingHash};
use domain::id::{BootId, EdgeName, NodeId, NodeName, PluginName, PluginVersion, ToolId};
use domain::plugin_set::{Kind, Part, Position, Scope, Trust};
use domain::time::Timestamp;
use futures::stream;
use proto::convert::{Content, Report, ReportedFunction, Seen};

use super::assign::{Assigned, assign};
use super::create_edge::create_edge;
use super::find_bundle::node_record;
use super::issue_join_token::issue_join_token;
use super::join::{JoinInput, join};
use super::load_part::load_part;
use super::push_version::{Pushed, push_version};
use super::record_listing::{Recorded, record_listing};
use super::start_fleet::start_fleet;
use super::store_texts::store_texts;
use super::{By, Error};
use crate::store::audits::{self, Filter};
use crate::store::plugins::{self, StoredTool, StoredVersion};
use crate::store::testing::Bench;
use crate::store::{Blobs, Store};

/// A plugin with one local tool.
pub(crate) const TEAM: &str = "name: team\nversion: 1.0.0\ntools:\n  team: { command: [\"server\"] }\n";

/// A plugin `wx` of a version with the tool `wx` at a URL.
pub(crate) fn remote(version: &str, url: &str) -> String {
    format!(
        "name: wx\nversion: {version}\ntools:\n  wx: {{ url: \"{url}\" }}\n  local: {{ command: [\"server\"] }}\n"
    )
}

pub(crate) struct Fleet {
    pub(crate) store: Store,
    pub(crate) blobs: Blobs,
    pub(crate) bench: Bench,
    clock: AtomicI64,
    sequence: AtomicU64,
}

impl Fleet {
    /// A fleet with the edge `eu-1`.
    pub(crate) async fn new(bench: Bench) -> Self {
        let fleet = Self {
            store: bench.store.clone(),
            blobs: Blobs::open(&bench.folder).unwrap(),
            bench,
            clock: AtomicI64::new(1_796_000_000_000),
            sequence: AtomicU64::new(0),
        };
        start_fleet(&fleet.store, &fleet.by(), "test").await.unwrap();
        create_edge(&fleet.store, &fleet.by(), &edge()).await.unwrap();
        fleet
    }

    /// An admin, a second later each time.
    pub(crate) fn by(&self) -> By {
        let origin = Origin { actor: "token/admin".to_owned(), source: "test".to_owned() };
        By { now: Timestamp::from_millis(self.clock.fetch_add(1_000, Ordering::SeqCst)), origin }
    }

    /// Somebody else.
    pub(crate) fn by_other(&self, name: &str) -> By {
        By { origin: Origin { actor: format!("token/{name}"), source: "test".to_owned() }, ..self.by() }
    }

    /// Moves the clock on.
    pub(crate) fn pass(&self, millis: i64) {
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    /// The hash that an edge goes by.
    pub(crate) async fn approved_on(
        &self,
        edge: &EdgeName,
        version: &str,
        function: &str,
    ) -> Option<ListingHash> {
        let (_, trust) = self.trust(edge).await;
        let version = trust.versions.get(&self::version(version))?;
        let tool = version.tools.values().next()?;
        tool.functions.get(&Arc::from(function)).map(|function| function.hash)
    }

    pub(crate) async fn push(&self, manifest: &str) -> Result<Pushed, Error> {
        self.push_bytes(archive(manifest, "").as_slice(), None).await
    }

    pub(crate) async fn push_bytes(&self, bytes: &[u8], announced: Option<Digest>) -> Result<Pushed, Error> {
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> =
            bytes.chunks(1_000).map(|piece| Ok(piece.to_vec())).collect();
        push_version((&self.store, &self.blobs), &self.by(), stream::iter(pieces), announced).await
    }

    /// Records a version with tools of IDs that a new bundle may not have.
    pub(crate) async fn accept_old(&self, version: &PluginVersion, tools: &[&str]) {
        let tools: Vec<_> = tools.iter().map(|id| (*id, Kind::Command, None)).collect();
        self.accept_tools(version, &tools).await;
    }

    /// The same, each tool with its kind and URL.
    pub(crate) async fn accept_tools(&self, version: &PluginVersion, tools: &[(&str, Kind, Option<&str>)]) {
        let stored = StoredVersion {
            version: version.clone(),
            content_digest: Digest::of(version.to_string().as_bytes()),
            archive_sha256: Digest::of(version.to_string().as_bytes()),
            archive_length: 0,
            description: String::new(),
            manifest: String::new(),
            pushed_at: self.by().now,
            pushed_by: "test".to_owned(),
        };
        let tools = tools.iter().map(|(id, kind, url)| StoredTool {
            tool: tool(id),
            kind: *kind,
            url: url.map(str::to_owned),
            connection: None,
        });
        let mut tx = self.store.begin_write().await.unwrap();
        plugins::insert(tx.tx(), &stored, &tools.collect::<Vec<_>>()).await.unwrap();
        tx.commit(self.by().now).await.unwrap();
    }

    pub(crate) async fn assign(&self, edge: &EdgeName, version: &str) -> Result<Assigned, Error> {
        assign(&self.store, &self.by(), edge, &self::version(version)).await
    }

    /// Pushes and assigns to `eu-1`.
    pub(crate) async fn install(&self, manifest: &str, version: &str) -> Assigned {
        self.push(manifest).await.unwrap();
        self.assign(&edge(), version).await.unwrap()
    }

    pub(crate) async fn node(&self, edge: &EdgeName, name: &str) -> NodeId {
        let token = issue_join_token(&self.store, &self.by(), edge, 1, 60_000).await.unwrap();
        let input = JoinInput {
            token_id: token.id,
            secret: token.secret,
            public_key_sha256: Digest::of(name.as_bytes()),
            node_name: NodeName::parse(name).unwrap(),
            agent_version: "0.1.0".to_owned(),
            certified: crate::store::Certified::default(),
        };
        join(&self.store, self.by().now, &input).await.unwrap().node_id
    }

    /// Has a node list a tool completely, and send what texts it is asked for.
    pub(crate) async fn lists(
        &self,
        node: &NodeId,
        version: &str,
        tool: &str,
        functions: &[(&str, &str)],
    ) -> Recorded {
        let report = self.report(version, tool, functions);
        self.sends(node, &report).await
    }

    pub(crate) fn report(&self, version: &str, tool: &str, functions: &[(&str, &str)]) -> Report {
        let functions = functions.iter().map(|(name, text)| ReportedFunction {
            name: (*name).into(),
            seen: Seen::Hash(hash(text)),
            not_shown: None,
        });
        Report {
            sequence: self.sequence.fetch_add(1, Ordering::SeqCst) + 1,
            version: self::version(version),
            tool: self::tool(tool),
            connection: "".into(),
            complete: true,
            incomplete_reason: "".into(),
            functions: functions.collect(),
            address_class: "".into(),
            warnings: Vec::new(),
        }
    }

    pub(crate) async fn sends(&self, node: &NodeId, report: &Report) -> Recorded {
        self.sends_as(node, "boot-1", report).await
    }

    /// As a certain run of the node's agent.
    pub(crate) async fn sends_as(&self, node: &NodeId, boot: &str, report: &Report) -> Recorded {
        let boot = BootId::parse(boot).unwrap();
        let now = self.by().now;
        let recorded = record_listing(&self.store, now, node, &boot, report).await.unwrap();
        let Recorded::MissingTexts(missing) = recorded else { return recorded };
        let name = node_record(&self.store, node).await.unwrap().unwrap().name;
        let texts: Vec<String> = TEXTS.iter().map(|text| canonical(text)).collect();
        let texts: Vec<String> =
            texts.into_iter().filter(|text| missing.contains(&ListingHash::of_canonical(text))).collect();
        assert!(store_texts(&self.store, now, &name, &missing, &texts).await.unwrap().is_empty());
        record_listing(&self.store, now, node, &boot, report).await.unwrap()
    }

    pub(crate) async fn trust(&self, edge: &EdgeName) -> (Position, Trust) {
        let scope = Scope::Edge(edge.clone());
        match load_part(&self.store, &scope, Part::Trust).await.unwrap().unwrap() {
            (position, Content::Trust(trust)) => (position, trust),
            other => panic!("{other:?}"),
        }
    }

    /// The hash that the fleet goes by on `eu-1`.
    pub(crate) async fn approved(&self, version: &str, tool: &str, function: &str) -> Option<ListingHash> {
        let (_, trust) = self.trust(&edge()).await;
        let tool = trust.versions.get(&self::version(version))?.tools.get(&self::tool(tool))?.clone();
        tool.functions.get(&Arc::from(function)).map(|function| function.hash)
    }

    /// Names of all events after the first `from`, in order; the chain is verified on the way.
    pub(crate) async fn events(&self, from: u64) -> Vec<String> {
        let mut tx = self.store.read().await.unwrap();
        let mut tail = Tail::START;
        let records = audits::after(&mut tx, 0, &Filter::default(), 10_000).await.unwrap();
        for record in &records {
            tail.verify(record).unwrap();
        }
        records.into_iter().filter(|record| record.seq > from).map(|record| record.name).collect()
    }

    /// How many events there are.
    pub(crate) async fn logged(&self) -> u64 {
        let mut tx = self.store.read().await.unwrap();
        audits::tail(&mut tx).await.unwrap().seq
    }
}

/// Texts that functions of tests say.
const TEXTS: [&str; 18] =
    ["a", "b", "c", "d", "e", "f", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", ORDERED, REORDERED];

/// Two canonical listings that mean the same.
pub(crate) const ORDERED: &str =
    r#"{"description":"a","inputSchema":{"required":["x","y"],"type":"object"}}"#;
pub(crate) const REORDERED: &str =
    r#"{"description":"a","inputSchema":{"required":["y","x"],"type":"object"}}"#;

/// A listing with this description, or the text itself if it is one.
pub(crate) fn canonical(text: &str) -> String {
    if text.starts_with('{') {
        return text.to_owned();
    }
    format!("{{\"description\":\"{text}\",\"inputSchema\":{{\"type\":\"object\"}}}}")
}

pub(crate) fn hash(text: &str) -> ListingHash {
    ListingHash::of_canonical(&canonical(text))
}

pub(crate) fn edge() -> EdgeName {
    EdgeName::parse("eu-1").unwrap()
}

pub(crate) fn version(text: &str) -> PluginVersion {
    PluginVersion::parse(text).unwrap()
}

pub(crate) fn plugin(text: &str) -> PluginName {
    PluginName::parse(text).unwrap()
}

pub(crate) fn tool(text: &str) -> ToolId {
    ToolId::parse(text).unwrap()
}

/// A bundle with a manifest, and a file of some content.
pub(crate) fn archive(manifest: &str, content: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, out) = (folder.path().join("plugin"), folder.path().join("out"));
    std::fs::create_dir_all(&plugin).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(plugin.join("pintle.yaml"), manifest).unwrap();
    std::fs::write(plugin.join("README.md"), content).unwrap();
    let packed = plugin::bundle::pack(&plugin, &out, &mut |_, _| {}).unwrap();
    std::fs::read(packed.path).unwrap()
}

/// The code of a refusal.
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    match result {
        Err(Error::Refused(refused)) => refused.code.as_str(),
        other => panic!("{other:?}"),
    }
}
