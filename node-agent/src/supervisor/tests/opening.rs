//! How tools are opened over the starts of a node.

use super::*;

/// A tool server in shell that writes down each method it is asked for, and speaks the era that a file names:
/// one of the modern era ends at a handshake.
const SERVER: &str = r#"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  method=${line#*\"method\":\"}; method=${method%%\"*}
  echo "$method" >> "$HOME/asked"
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case "$(cat "$1.era") $method" in
    'modern server/discover') answer '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}' ;;
    'modern initialize') exit 7 ;;
    'older initialize') answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}' ;;
    *' tools/list') answer "{\"tools\":[$(cat "$1")]}" ;;
    *' notifications/'*) ;;
    *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

const ENTRIES: &[(&str, &str)] = &[("hello", "one")];

/// Where a tool's memory is, below the node's folder.
const FILE: &str = "work/team@1.0.0/team.opening";

/// Starts a node with the tool and stops it when it was listed; the messages that opened the tool.
async fn run(folder: tempfile::TempDir, era: &str) -> (tempfile::TempDir, Vec<String>) {
    std::fs::write(folder.path().join("list.era"), era).unwrap();
    let bench = Bench::on(folder, ENTRIES, SERVER);
    let before = bench.asked();
    bench.until("team.hello", "permitted").await;
    bench.sup.stop_all(Duration::from_secs(10)).await;
    let mut opened = bench.asked_for().split_off(before);
    opened.retain(|method| matches!(&**method, "server/discover" | "initialize"));
    (bench.folder, opened)
}

#[tokio::test]
async fn a_node_that_is_started_again_does_not_probe_a_tool_of_the_handshake_era() {
    let (folder, opened) = run(tempfile::tempdir().unwrap(), "older").await;
    assert_eq!(opened, ["server/discover", "initialize"]);
    let (folder, opened) = run(folder, "older").await;
    assert_eq!(opened, ["initialize"]);
    // Without the file, and with one that cannot be read, it is as before.
    std::fs::remove_file(folder.path().join(FILE)).unwrap();
    let (folder, opened) = run(folder, "older").await;
    assert_eq!(opened, ["server/discover", "initialize"]);
    std::fs::write(folder.path().join(FILE), "handshake").unwrap();
    let (_folder, opened) = run(folder, "older").await;
    assert_eq!(opened, ["server/discover", "initialize"]);
}

#[tokio::test]
async fn a_tool_that_does_not_start_as_it_is_remembered_is_probed_again() {
    let (folder, _) = run(tempfile::tempdir().unwrap(), "older").await;
    let (folder, opened) = run(folder, "modern").await;
    assert_eq!(opened, ["initialize", "server/discover"], "it ended at the handshake");
    let (folder, opened) = run(folder, "modern").await;
    assert_eq!(opened, ["server/discover"], "what did not hold is forgotten");
    assert!(!folder.path().join(FILE).exists());
}
