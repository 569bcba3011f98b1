//! A version that some nodes of an edge try beside the installed one.

use e2e::eventually;
use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::json;

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;
const BYE: &str = r#"{"name":"bye","description":"Say bye.","inputSchema":{"type":"object"}}"#;

/// Waits until exactly these nodes show the new version's function, and the others the old one's.
async fn shown(fleet: &Fleet, trying: &[usize]) {
    for index in 0..fleet.nodes().len() {
        let (has, lacks) =
            if trying.contains(&index) { ("team__bye", "team__hello") } else { ("team__hello", "team__bye") };
        eventually(&format!("{has} on node {index}"), || async {
            let names = fleet.mcp(index).names().await?;
            let is = |name: &str| names.iter().any(|one| one == name);
            if is(has) && !is(lacks) { Ok(()) } else { anyhow::bail!("{names:?}") }
        })
        .await;
        eventually(&format!("{has} called on node {index}"), || async {
            let outcome = fleet.mcp(index).call(has, json!({})).await?;
            if outcome.refusal.is_none() { Ok(()) } else { anyhow::bail!("{outcome:?}") }
        })
        .await;
    }
}

// R3.96
#[tokio::test]
async fn a_candidate_runs_where_it_was_granted_and_goes_when_it_is_taken_back_or_promoted() {
    let fleet = Fleet::start(3).await.unwrap();
    let (old, new) = (Mutable::new(fleet.folder(), "old"), Mutable::new(fleet.folder(), "new"));
    old.list(&[HELLO]).unwrap();
    new.list(&[BYE]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": old.command()}})).await.unwrap();
    shown(&fleet, &[]).await;
    let folder =
        fleet.write_plugin("greeter", "1.1.0", &json!({"team": {"command": new.command()}})).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();

    let candidate = ["assign", "greeter@1.1.0", "--edge", "eu-1", "--candidate", "--nodes"];
    let wait = ["node-2", "--wait", "--timeout", "2m"];
    fleet.cli(&[candidate.as_slice(), &wait].concat()).await.unwrap();
    shown(&fleet, &[1]).await;
    let edge = fleet.cli(&["edge", "show", "eu-1"]).await.unwrap();
    assert!(edge.contains("1.1.0") && edge.contains("node-2"), "{edge}");
    let node = fleet.cli(&["node", "show", "node-2"]).await.unwrap();
    assert!(node.contains("yes"), "{node}");

    fleet.cli(&["unassign", "greeter", "--edge", "eu-1", "--candidate"]).await.unwrap();
    shown(&fleet, &[]).await;

    fleet.cli(&[candidate.as_slice(), &["node-1,node-3", "--no-wait"]].concat()).await.unwrap();
    shown(&fleet, &[0, 2]).await;
    fleet.cli(&["assign", "greeter@1.1.0", "--edge", "eu-1"]).await.unwrap();
    shown(&fleet, &[0, 1, 2]).await;
    let audit = fleet.cli(&["audit", "list"]).await.unwrap();
    assert!(audit.contains("edge.candidate.set") && audit.contains("edge.candidate.unset"), "{audit}");
    old.observe(&[HELLO.to_owned()].into()).unwrap();
    new.observe(&[BYE.to_owned()].into()).unwrap();
}
