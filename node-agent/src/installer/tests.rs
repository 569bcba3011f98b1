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
    data: PathBuf,
    served: Shared,
    installer: Installer,
    planned: PlannedVersion,
}

async fn bench(tools: &[(&str, Kind)]) -> Bench {
    bench_on(None, tools, "").await
}

/// With the node's data elsewhere, and a file of some content in the bundle.
async fn bench_on(data: Option<&Path>, tools: &[(&str, Kind)], content: &str) -> Bench {
    rustls::crypto::ring::default_provider().install_default().ok();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("pintle.yaml"), MANIFEST).unwrap();
    std::fs::write(source.join("content"), content).unwrap();
    let packed = plugin::bundle::pack(&source, &folder.path().join("team.plugin"), &mut |_, _| {}).unwrap();
    let served = Shared::default();
    served.lock().unwrap().archive = std::fs::read(&packed.path).unwrap();
    let router =
        axum::Router::new().route("/bundles/{sha}", axum::routing::get(give)).with_state(Arc::clone(&served));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let data = data.map_or_else(|| folder.path().join("node"), Path::to_owned);
    let mut installer = Installer::open(http, "unused:1", &data).unwrap();
    installer.from = format!("http://{address}/bundles/");
    let tools: BTreeMap<ToolId, PlannedTool> = tools
        .iter()
        .map(|(id, kind)| {
            (ToolId::parse(id).unwrap(), PlannedTool { kind: *kind, url: None, connection: None })
        })
        .collect();
    let planned = PlannedVersion {
        version: packed.version,
        content_digest: packed.content_digest,
        archive_sha256: packed.archive_sha256,
        archive_length: packed.archive_len,
        tools,
    };
    Bench { folder, data, served, installer, planned }
}

impl Bench {
    fn entries(&self, folder: &str) -> usize {
        std::fs::read_dir(self.data.join(folder)).unwrap().count()
    }

    async fn install(&self) -> Result<Bundle, Error> {
        self.installer.install(&self.planned, &CancellationToken::new()).await
    }

    async fn fails(&self, expected: &str) {
        let error = crate::sentence(&self.install().await.unwrap_err());
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
    bench.install().await.unwrap();
}

#[tokio::test]
async fn a_download_that_broke_off_goes_on_from_there() {
    let bench = bench(&[("team", Kind::Command)]).await;
    bench.served.lock().unwrap().cut = Some(100);
    bench.fails("it has 100 bytes, the plan says").await;
    let bundle = bench.install().await.unwrap();
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
    bench.install().await.unwrap();
    bench.install().await.unwrap();
    assert_eq!(bench.served.lock().unwrap().asked.len(), 1);
    let found = bench.installer.installed();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, &found[0].1.version), (bench.planned.content_digest, &bench.planned.version));
    delete(&bench.installer.take_away(&bench.planned.version, bench.planned.content_digest));
    assert_eq!((bench.entries("bundles"), bench.entries("staging")), (0, 0));
}

#[tokio::test]
async fn a_download_that_is_given_up_ends_and_leaves_what_it_has_to_be_resumed() {
    let bench = bench(&[("team", Kind::Command)]).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let given_up = bench.installer.install(&bench.planned, &cancel).await;
    assert!(matches!(given_up, Err(Error::Cancelled)), "{given_up:?}");
    assert_eq!(bench.entries("bundles"), 0);
    bench.install().await.unwrap();
}

#[tokio::test]
async fn what_nothing_names_is_swept_and_what_is_named_or_on_its_way_stays() {
    let bench = bench(&[("team", Kind::Command)]).await;
    bench.install().await.unwrap();
    let node = bench.folder.path().join("node");
    let other = Digest::of(b"other");
    std::fs::create_dir(node.join("bundles").join(other.to_string())).unwrap();
    std::fs::create_dir(node.join("work/gone@1.0.0")).unwrap();
    std::fs::create_dir(node.join("work/team@1.0.0")).unwrap();
    let keep = Keep {
        versions: [bench.planned.version.clone()].into(),
        contents: [bench.planned.content_digest].into(),
        archives: BTreeSet::new(),
    };
    let claim = Claim::new(&bench.installer, [other, Digest::of(b"archive")]);
    bench.installer.sweep(&keep);
    assert_eq!((bench.entries("bundles"), bench.entries("work")), (2, 1), "one is on its way");
    drop(claim);
    bench.installer.sweep(&keep);
    assert_eq!((bench.entries("bundles"), bench.entries("staging")), (1, 0));
    assert!(node.join("work/team@1.0.0").is_dir());
}

#[tokio::test]
async fn of_downloads_that_broke_off_the_oldest_go_beyond_the_cap_and_never_a_named_one() {
    let bench = bench(&[("team", Kind::Command)]).await;
    let staging = bench.folder.path().join("node/staging");
    let archives: Vec<Digest> = (0..4_u8).map(|number| Digest::of(&[number])).collect();
    for (age, archive) in archives.iter().enumerate() {
        let file = std::fs::File::create(staging.join(format!("{archive}.part"))).unwrap();
        // Holes: no disk is filled.
        file.set_len(30 << 20).unwrap();
        let day = u64::try_from(age).unwrap() + 1;
        file.set_modified(std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(day * 86_400))
            .unwrap();
    }
    let keep = Keep { archives: [archives[0]].into(), ..Keep::default() };
    bench.installer.sweep(&keep);
    let left = |archive: &Digest| staging.join(format!("{archive}.part")).exists();
    let left: Vec<bool> = archives.iter().map(left).collect();
    assert_eq!(left, [true, false, true, true], "the oldest is named, the next is over the cap of the rest");
}

#[tokio::test]
async fn a_full_disk_fails_an_install_names_its_room_and_keeps_what_is_installed() {
    const TEST: &str =
        "installer::tests::a_full_disk_fails_an_install_names_its_room_and_keeps_what_is_installed";
    use crate::disk::testing::{fill, on_small_disk};
    let Some(disk) = on_small_disk(TEST, 4 << 20) else { return };
    let command = [("team", Kind::Command)];
    let first = bench_on(Some(&disk), &command, "one").await;
    first.install().await.unwrap();

    // Not enough room to begin with.
    let filler = fill(&disk, 512 << 10);
    let second = bench_on(Some(&disk), &command, "two").await;
    let error = crate::sentence(&second.install().await.unwrap_err());
    assert!(error.contains("1.0 MiB to spare") && error.contains("of 4.0 MiB are free"), "{error}");
    assert!(second.served.lock().unwrap().asked.is_empty(), "nothing of it was downloaded");
    std::fs::remove_file(filler).unwrap();

    // It compresses well: what is downloaded fits, what is in it does not.
    let large = bench_on(Some(&disk), &command, &"0".repeat(6 << 20)).await;
    let error = crate::sentence(&large.install().await.unwrap_err());
    assert!(error.contains("write `") && error.contains("of 4.0 MiB are free on its disk"), "{error}");
    let staging: Vec<_> = std::fs::read_dir(disk.join("staging")).unwrap().flatten().collect();
    assert!(
        staging.iter().all(|entry| entry.path().extension().is_some_and(|it| it == "part")),
        "{staging:?}"
    );
    assert!(Space::at(&disk).unwrap().free > SPARE, "what was unpacked is given back");

    let found = first.installer.installed();
    assert_eq!(found.iter().map(|(content, _)| *content).collect::<Vec<_>>(), [first.planned.content_digest]);
    second.install().await.unwrap();
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_gives_what_is_on_it_and_says_so_of_what_is_not() {
    const TEST: &str =
        "installer::tests::a_disk_that_cannot_be_written_gives_what_is_on_it_and_says_so_of_what_is_not";
    use crate::disk::testing::{make_read_only, on_small_disk};
    let Some(disk) = on_small_disk(TEST, 4 << 20) else { return };
    let command = [("team", Kind::Command)];
    bench_on(Some(&disk), &command, "one").await.install().await.unwrap();
    std::fs::write(disk.join("staging/left-behind"), "").unwrap();
    make_read_only(&disk);
    let other = bench_on(Some(&disk), &command, "two").await;
    assert_eq!(other.installer.installed().len(), 1);
    let error = crate::sentence(&other.install().await.unwrap_err());
    assert!(error.contains("Read-only file system"), "{error}");
    let same = bench_on(Some(&disk), &command, "one").await;
    same.install().await.unwrap();
}
