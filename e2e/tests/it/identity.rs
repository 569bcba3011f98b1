//! Nodes whose certificates end, that are taken out of the fleet, and that are copied.

use e2e::eventually;
use e2e::fleet::{Fleet, Plan};
use e2e::mutable::Mutable;
use serde_json::{Value, json};

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

async fn fleet(server_flags: &'static [&'static str], nodes: usize) -> (Fleet, Mutable) {
    let fleet = Fleet::start_as(Plan { nodes, server_flags, ..Plan::default() }).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    (fleet, team)
}

async fn events(fleet: &Fleet, name: &str) -> Vec<Value> {
    let page = fleet.get(&format!("/audit?name={name}")).await.unwrap();
    page["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_node_that_is_evicted_while_it_is_called_stops_drops_its_set_and_joins_again_by_one_command() {
    let (mut fleet, team) = fleet(&[], 2).await;
    let calls = async {
        loop {
            let outcome = fleet.mcp(0).call("team.hello", json!({})).await;
            match outcome.as_ref().map(|outcome| outcome.refusal.as_deref()) {
                Ok(Some("node_evicted")) => return outcome.unwrap().text,
                // And those that were under way when their tool was stopped.
                Ok(None | Some("not_running")) | Err(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let evict = fleet.cli(&["node", "evict", "node-1", "--reason", "it was lost"]);
    let (sentence, evicted) = tokio::join!(calls, evict);
    evicted.unwrap();
    for part in ["it was lost", "pintle node token --edge eu-1", "pintle node join STRING --node-data "] {
        assert!(sentence.contains(part), "{sentence}");
    }
    let data = fleet.node_data(0).unwrap();
    eventually("the end of what let it work", || async {
        let left: Vec<_> = ["node.key", "session", "ledger", "bundles"]
            .iter()
            .filter(|one| data.join(one).exists())
            .collect();
        if left.is_empty() { Ok(()) } else { anyhow::bail!("{left:?}") }
    })
    .await;
    let reached = team.calls("hello");
    let refused = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!((refused.refusal.as_deref(), team.calls("hello")), (Some("node_evicted"), reached));
    let other = fleet.mcp(1).call("team.hello", json!({})).await.unwrap();
    assert_eq!(other.refusal, None, "the other node goes on");

    // Started again it still only says so, and tells nobody.
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    let refused = fleet.mcp(0).call("team.hello", json!({})).await.unwrap();
    assert_eq!(refused.refusal.as_deref(), Some("node_evicted"), "{refused:?}");
    let shown = fleet.get("/nodes/node-1").await.unwrap();
    assert_eq!((&shown["standing"], &shown["connected"]), (&json!("evicted"), &json!(false)));

    let token = fleet.cli_json(&["node", "token", "--edge", "eu-1", "--label", "role=test"]).await.unwrap();
    let join = token["join"].as_str().unwrap();
    let folder = data.to_string_lossy().into_owned();
    fleet.kill_node(0).await.unwrap();
    fleet.cli(&["node", "join", join, "--name", "node-1", "--node-data", &folder]).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    let again = fleet.get("/nodes/node-1").await.unwrap();
    assert_eq!((&again["standing"], &again["labels"]["role"]), (&json!("active"), &json!("test")));
    assert_ne!(again["id"], shown["id"]);
    assert_eq!(events(&fleet, "node.evict").await.len(), 1);
    fleet.cli(&["audit", "verify"]).await.unwrap();
    team.observe(&[HELLO.to_owned()].into()).unwrap();
}

#[tokio::test]
async fn a_node_renews_its_certificate_while_it_is_called_and_comes_back_after_it_ended() {
    let (mut fleet, _team) = fleet(&["--node-certificate-life", "4s"], 1).await;
    let since = fleet.get("/nodes/node-1").await.unwrap()["connected_since"].clone();
    eventually("two renewals", || async {
        let outcome = fleet.mcp(0).call("team.hello", json!({})).await?;
        anyhow::ensure!(outcome.refusal.is_none(), "{outcome:?}");
        let renewals = events(&fleet, "node.renew").await;
        anyhow::ensure!(renewals.len() >= 2, "{renewals:?}");
        Ok(())
    })
    .await;
    assert!(events(&fleet, "node.renew").await.iter().all(|event| event["fields"]["lapsed"] == false));
    let now = fleet.get("/nodes/node-1").await.unwrap();
    assert_eq!(now["connected_since"], since, "the stream went on");

    fleet.kill_node(0).await.unwrap();
    eventually("the end of its certificate", || async {
        let node = fleet.get("/nodes/node-1").await?;
        fleet.cli(&["node", "token", "--edge", "eu-1"]).await?;
        let made = events(&fleet, "join_token.create").await;
        // Times are RFC 3339 in UTC with milliseconds, so they are in order as texts are.
        let (now, until) = (made[0]["at"].as_str().unwrap(), node["certificate"]["until"].as_str().unwrap());
        anyhow::ensure!(now > until, "{now} {until}");
        Ok::<(), anyhow::Error>(())
    })
    .await;
    fleet.restart_node(0).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    let lapsed =
        events(&fleet, "node.renew").await.iter().filter(|event| event["fields"]["lapsed"] == true).count();
    assert!(lapsed >= 1);
}

#[tokio::test]
async fn of_a_copied_node_neither_works_until_a_person_picks_one() {
    let (mut fleet, _team) = fleet(&[], 1).await;
    fleet.kill_node(0).await.unwrap();
    let (original, copy) = (fleet.node_data(0).unwrap(), fleet.folder().join("copy"));
    let copied = std::process::Command::new("cp").arg("-a").arg(&original).arg(&copy).status().unwrap();
    assert!(copied.success());
    fleet.restart_node(0).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    fleet.adopt_node("copy", &copy).await.unwrap();
    let sentences = fleet.refused("team.hello", "node_evicted").await;
    assert!(
        sentences.iter().all(|sentence| sentence.contains("copies of node node-1 were seen")),
        "{sentences:?}"
    );

    let sessions = eventually("both sessions", || async {
        let node = fleet.get("/nodes/node-1").await?;
        anyhow::ensure!(node["standing"] == "quarantined", "{node}");
        let sessions: std::collections::BTreeSet<u64> =
            node["sessions"].as_array().unwrap().iter().map(|one| one["session"].as_u64().unwrap()).collect();
        anyhow::ensure!(sessions.len() >= 2, "{node}");
        Ok::<_, anyhow::Error>(sessions)
    })
    .await;
    let shown = fleet.cli(&["node", "show", "node-1"]).await.unwrap();
    let (kept, other) =
        (sessions.iter().max().unwrap().to_string(), sessions.iter().min().unwrap().to_string());
    assert!(shown.contains(&kept) && shown.contains(&other), "{shown}");
    // The original went on, so its counter is the larger one.
    fleet.cli(&["node", "keep", "node-1", "--session", &kept]).await.unwrap();
    eventually("the original to serve and the copy not to", || async {
        let (first, second) = (
            fleet.mcp(0).call("team.hello", json!({})).await?,
            fleet.mcp(1).call("team.hello", json!({})).await?,
        );
        anyhow::ensure!(first.refusal.is_none(), "{first:?}");
        anyhow::ensure!(second.text.contains("a person picked another one"), "{second:?}");
        Ok(())
    })
    .await;
    assert_eq!(events(&fleet, "node.clone").await.len(), 1);
}

/// Makes one step of a roll-over, and starts the server again.
async fn rolls(fleet: &mut Fleet, step: &str) {
    fleet.cli(&["server", "ca", step]).await.unwrap();
    fleet.kill_server().await.unwrap();
    fleet.start_server().await.unwrap();
}

/// Waits until the authority stands as `is_done` says and the node is connected; it is called meanwhile.
async fn until(fleet: &Fleet, what: &str, is_done: fn(&Value) -> bool) {
    eventually(what, || async {
        let outcome = fleet.mcp(0).call("team.hello", json!({})).await?;
        anyhow::ensure!(outcome.refusal.is_none(), "{outcome:?}");
        let status = fleet.get("/status").await?;
        anyhow::ensure!(is_done(&status["authority"]) && status["nodes"]["connected"] == 1, "{status}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_fleet_goes_over_to_another_authority_by_three_commands_while_its_node_serves() {
    let (mut fleet, _team) = fleet(&["--node-certificate-life", "8s"], 1).await;
    let before = fleet.get("/status").await.unwrap()["authority"]["key_sha256"].clone();
    rolls(&mut fleet, "begin").await;
    until(&fleet, "the node to trust both", |authority| {
        authority["next_key_sha256"].is_string() && authority["nodes_without_next"] == 0
    })
    .await;
    rolls(&mut fleet, "switch").await;
    until(&fleet, "the node to have a certificate of the next", |authority| {
        authority["next_key_sha256"].is_null() && authority["nodes_of_others"] == 0
    })
    .await;
    rolls(&mut fleet, "finish").await;
    until(&fleet, "the node to come back", |_| true).await;
    let after = fleet.get("/status").await.unwrap()["authority"]["key_sha256"].clone();
    assert!(after.is_string() && after != before, "{after}");
    assert_eq!(events(&fleet, "fleet.authority.add").await.len(), 1);
    assert_eq!(events(&fleet, "fleet.authority.switch").await.len(), 1);
    fleet.add_node("late").await.unwrap();
    fleet.cli(&["audit", "verify"]).await.unwrap();
}
