//! A server on free ports with a data folder of its own, and what is done on its people's port.

use control_plane::operation::By;
use control_plane::operation::assign::assign;
use control_plane::operation::create_edge::create_edge;
use control_plane::operation::issue_join_token::issue_join_token;
use control_plane::operation::push_version::push_version;
use control_plane::store::{Blobs, Store};
use control_plane::{Config, Server};
use domain::audit::Origin;
use domain::digest::Digest;
use domain::id::{EdgeName, PluginVersion};
use domain::time::Timestamp;
use futures::stream;
use proto::join_string::JoinString;

use crate::node::{Node, join};

pub(crate) struct Fixture {
    pub(crate) server: Server,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn config(folder: &std::path::Path) -> Config {
    Config {
        people_listen: ([127, 0, 0, 1], 0).into(),
        node_listen: ([127, 0, 0, 1], 0).into(),
        ..Config::new(folder)
    }
}

pub(crate) fn by() -> By {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Timestamp::from_millis(now.as_millis().try_into().unwrap());
    By { now, origin: Origin { actor: "token/admin".to_owned(), source: "test".to_owned() } }
}

pub(crate) fn edge() -> EdgeName {
    EdgeName::parse("eu-1").unwrap()
}

pub(crate) const TEAM: &str = "name: team\nversion: 1.0.0\ntools:\n  team: { command: [\"server\"] }\n";

impl Fixture {
    /// A fleet with the edge `eu-1`.
    pub(crate) async fn new() -> Self {
        rustls::crypto::ring::default_provider().install_default().ok();
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(config(folder.path())).await.unwrap();
        create_edge(server.store(), &by(), &edge()).await.unwrap();
        Self { server, folder }
    }

    pub(crate) async fn join_string(&self, uses: u64) -> JoinString {
        let token = issue_join_token(self.server.store(), &by(), &edge(), uses, 60_000).await.unwrap();
        JoinString {
            address: self.server.advertised_node_address().to_owned(),
            token: token.id,
            secret: token.secret,
            authority: self.authority(),
            fleet: self.server.fleet_id().to_owned(),
        }
    }

    /// The hash of the authority's key, from its file.
    pub(crate) fn authority(&self) -> Digest {
        use rcgen::PublicKeyData as _;
        let pem = std::fs::read_to_string(self.folder.path().join("ca.key")).unwrap();
        Digest::of(&rcgen::KeyPair::from_pem(&pem).unwrap().subject_public_key_info())
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        join(&self.join_string(1).await, name).await.unwrap()
    }

    /// Pushes a version; answers its archive.
    pub(crate) async fn push(&self, manifest: &str) -> Vec<u8> {
        push_to(self.server.store(), self.folder.path(), manifest).await
    }

    pub(crate) async fn assign(&self, version: &str) {
        let version = PluginVersion::parse(version).unwrap();
        assign(self.server.store(), &by(), &edge(), &version).await.unwrap();
    }
}

/// Pushes a version to the server of a data folder; answers its archive.
pub(crate) async fn push_to(store: &Store, folder: &std::path::Path, manifest: &str) -> Vec<u8> {
    let bytes = archive(manifest);
    let blobs = Blobs::open(folder).unwrap();
    let body = stream::iter([Ok::<_, std::io::Error>(bytes.clone())]);
    push_version((store, &blobs), &by(), body, None).await.unwrap();
    bytes
}

pub(crate) fn archive(manifest: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let (plugin, out) = (folder.path().join("plugin"), folder.path().join("out"));
    std::fs::create_dir_all(&plugin).unwrap();
    std::fs::create_dir_all(&out).unwrap();
    std::fs::write(plugin.join("pintle.yaml"), manifest).unwrap();
    let packed = plugin::bundle::pack(&plugin, &out, &mut |_, _| {}).unwrap();
    std::fs::read(packed.path).unwrap()
}
