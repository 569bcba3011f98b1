use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use domain::id::ToolId;
use domain::plugin_set::{Kind, PlannedTool};

use super::*;

const MANIFEST: &str = "name: team\nversion: 1.0.0\ndescription: d\ntools:\n  team:\n    command: [cat]\n";

/// What a control plane gives, and what it was asked.
#[derive(Default)]
struct Served {
    archive: Vec<u8>,
    /// Bytes after which an answer breaks off.
    cut: Option<usize>,
    asked: Vec<Option<String>>,
}

type Shared = Arc<Mutex<Served>>;

async fn give(State(served): State<Shared>, headers: HeaderMap) -> Response {
    let mut served = served.lock().unwrap();
    let range = headers.get(header::RANGE).map(|range| range.to_str().unwrap().to_owned());
    served.asked.push(range.clone());
    let from = range.map_or(0, |range| {
        range.trim_start_matches("bytes=").trim_end_matches('-').parse::<usize>().unwrap()
    });
    let rest = served.archive[from..].to_vec();
    let status = if from > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let end = served.cut.take().unwrap_or(rest.len());
    (status, rest[..end].to_vec()).into_response()
}

struct Bench {
    folder: tempfile::TempDir,
    served: Shared,
    installer: Installer,
    planned: PlannedVersion,
}

async fn bench(tools: &[(&str, Kind)]) -> Bench {
    rustls::crypto::ring::default_provider().install_default().ok();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("pintle.yaml"), MANIFEST).unwrap();
    let packed = plugin::bundle::pack(&source, &folder.path().join("team.plugin"), &mut |_, _| {}).unwrap();
    let served = Shared::default();
    served.lock().unwrap().archive = std::fs::read(&packed.path).unwrap();
    let router =
        axum::Router::new().route("/bundles/{sha}", axum::routing::get(give)).with_state(Arc::clone(&served));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let data = folder.path().join("node");
    let mut installer = Installer::open(http, "unused:1", &data).unwrap();
    installer.from = format!("http://{address}/bundles/");
    let tools: BTreeMap<ToolId, PlannedTool> = tools
        .iter()
        .map(|(id, kind)| (ToolId::parse(id).unwrap(), PlannedTool { kind: *kind, url: None }))
        .collect();
    let planned = PlannedVersion {
        version: packed.version,
        content_digest: packed.content_digest,
        archive_sha256: packed.archive_sha256,
        archive_length: packed.archive_len,
        tools,
    };
    Bench { folder, served, installer, planned }
}

impl Bench {
    fn entries(&self, folder: &str) -> usize {
        std::fs::read_dir(self.folder.path().join("node").join(folder)).unwrap().count()
    }

    async fn fails(&self, expected: &str) {
        let error = crate::sentence(&self.installer.install(&self.planned).await.unwrap_err());
        assert!(error.contains(expected), "{error}");
        assert_eq!(self.entries("bundles"), 0);
    }
}

#[tokio::test]
async fn bytes_that_differ_are_never_unpacked_and_are_loaded_anew() {
    let bench = bench(&[("team", Kind::Command)]).await;
    let at = bench.served.lock().unwrap().archive.len() / 2;
    bench.served.lock().unwrap().archive[at] ^= 1;
    bench.fails("the SHA-256 of what came is").await;
    assert_eq!(bench.entries("staging"), 0);
    bench.served.lock().unwrap().archive[at] ^= 1;
    bench.installer.install(&bench.planned).await.unwrap();
}

#[tokio::test]
async fn a_download_that_broke_off_goes_on_from_there() {
    let bench = bench(&[("team", Kind::Command)]).await;
    bench.served.lock().unwrap().cut = Some(100);
    bench.fails("it has 100 bytes, the plan says").await;
    let bundle = bench.installer.install(&bench.planned).await.unwrap();
    assert_eq!(bundle.version, bench.planned.version);
    assert_eq!(bench.served.lock().unwrap().asked, [None, Some("bytes=100-".to_owned())]);
    assert_eq!((bench.entries("bundles"), bench.entries("staging")), (1, 0));
}

#[tokio::test]
async fn a_bundle_that_is_not_what_the_plan_says_is_not_placed() {
    let mut bench = bench(&[("other", Kind::Command)]).await;
    bench.fails("its list of tools is team command, the plan says other command").await;
    bench.planned.content_digest = Digest::of(b"another");
    bench.fails("its content digest is").await;
    assert_eq!(bench.entries("staging"), 0);
}

#[tokio::test]
async fn more_bytes_than_the_plan_says_are_not_taken() {
    let mut bench = bench(&[("team", Kind::Command)]).await;
    bench.planned.archive_length -= 1;
    bench.fails("the plan says").await;
}

#[tokio::test]
async fn what_is_installed_is_found_again_and_not_downloaded_twice() {
    let bench = bench(&[("team", Kind::Command)]).await;
    bench.installer.install(&bench.planned).await.unwrap();
    bench.installer.install(&bench.planned).await.unwrap();
    assert_eq!(bench.served.lock().unwrap().asked.len(), 1);
    let found = bench.installer.installed();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, &found[0].1.version), (bench.planned.content_digest, &bench.planned.version));
    bench.installer.remove(&bench.planned.version, bench.planned.content_digest);
    assert_eq!((bench.entries("bundles"), bench.entries("staging")), (0, 0));
}
