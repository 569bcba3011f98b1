//! What all simulated fleets begin with: one authority, edges, nodes that joined, versions that were
//! pushed.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{EdgeName, NodeName, PluginVersion, ToolId};
use domain::plugin_set::Kind;
use domain::time::Timestamp;
use proto::identity::NodeIdentity;

use super::{Error, failed, person};
use crate::operation::create_edge::create_edge;
use crate::operation::issue_join_token::issue_join_token;
use crate::operation::join::{JoinInput, join};
use crate::operation::start_fleet::start_fleet;
use crate::pki::{Authority, HeadSigner};
use crate::store::plugins::{self, StoredTool, StoredVersion};
use crate::store::{Blobs, Store};

/// A version as it was pushed.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// Which.
    pub version: PluginVersion,
    /// Of its content.
    pub content: Digest,
    /// Its command tools.
    pub tools: Vec<ToolId>,
}

/// A fleet before anything happens in it.
#[derive(Debug)]
pub struct Prepared {
    /// The nodes that joined, as asked for.
    pub nodes: Vec<NodeIdentity>,
    pub(super) authority: Arc<Authority>,
    pub(super) blobs: Blobs,
    pub(super) folder: PathBuf,
    pub(super) database: Vec<u8>,
}

impl Prepared {
    /// Prepares a fleet: `nodes` are edge and name, in the order of their ids.
    ///
    /// # Errors
    /// The machine's.
    pub fn new(
        folder: &Path,
        now: Timestamp,
        nodes: &[(EdgeName, NodeName)],
        versions: &[Pushed],
    ) -> Result<Self, Error> {
        std::fs::create_dir_all(folder)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(prepare(folder, now, nodes, versions))
    }

    /// The authority's certificate (DER): what nodes trust.
    pub fn authority(&self) -> Vec<u8> {
        self.authority.certificate().to_vec()
    }
}

async fn prepare(
    folder: &Path,
    now: Timestamp,
    nodes: &[(EdgeName, NodeName)],
    versions: &[Pushed],
) -> Result<Prepared, Error> {
    let file = folder.join("prepared.db");
    let store =
        Store::open(&format!("sqlite:{}", file.display())).await.map_err(failed("open a database"))?;
    let by = person(now);
    let fleet = start_fleet(&store, &by, "simulated").await.map_err(failed("start a fleet"))?;
    let authority =
        Authority::open(&folder.join("ca.key"), &fleet.id, None).map_err(failed("make an authority"))?;
    HeadSigner::open(&folder.join("signer.key"), &authority).map_err(failed("make a signer of heads"))?;
    let mut joined = Vec::new();
    for (edge, name) in nodes {
        create_edge(&store, &by, edge).await.map_err(failed("make an edge"))?;
        let token = issue_join_token(&store, &by, edge, 1, 60_000).await.map_err(failed("issue a token"))?;
        let input = JoinInput {
            token_id: token.id,
            secret: token.secret,
            public_key_sha256: Digest::of(name.as_str().as_bytes()),
            node_name: name.clone(),
            agent_version: "simulated".to_owned(),
            certified: authority.certified(now),
        };
        let node = join(&store, now, &input).await.map_err(failed("join"))?.node_id;
        joined.push(NodeIdentity { fleet: fleet.id.as_str().into(), edge: edge.clone(), node });
    }
    for version in versions {
        push(&store, now, version).await.map_err(failed("push a version"))?;
    }
    store.close().await;
    Ok(Prepared {
        nodes: joined,
        authority: Arc::new(authority),
        blobs: Blobs::open(folder)?,
        folder: folder.to_owned(),
        database: std::fs::read(&file)?,
    })
}

/// Records what a push would; the bundle itself is simulated.
async fn push(store: &Store, now: Timestamp, pushed: &Pushed) -> Result<(), crate::store::Error> {
    let stored = StoredVersion {
        version: pushed.version.clone(),
        content_digest: pushed.content,
        archive_sha256: pushed.content,
        archive_length: 1,
        description: String::new(),
        manifest: String::new(),
        pushed_at: now,
        pushed_by: "simulation".to_owned(),
    };
    let tool =
        |tool: &ToolId| StoredTool { tool: tool.clone(), kind: Kind::Command, url: None, connection: None };
    let tools: Vec<StoredTool> = pushed.tools.iter().map(tool).collect();
    let mut tx = store.begin_write().await?;
    plugins::insert(tx.tx(), &stored, &tools).await?;
    tx.commit(now).await
}
