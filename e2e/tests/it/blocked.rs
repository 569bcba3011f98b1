//! A person stops calls: every node goes by that within seconds, also over a restart, until it is lifted.

use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::json;

const HELLO: &str = r#"{"name":"hello","inputSchema":{"type":"object"}}"#;
const BYE: &str = r#"{"name":"bye","inputSchema":{"type":"object"}}"#;

async fn fleet() -> (Fleet, Mutable) {
    let fleet = Fleet::start(2).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO, BYE]).unwrap();
    let tools = json!({"team": {"command": team.command()}});
    fleet.install("greeter", "1.0.0", &tools).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    fleet.callable("team.bye", json!({})).await;
    (fleet, team)
}

#[tokio::test]
async fn a_block_stops_a_function_on_every_node_until_it_is_lifted_and_nothing_else() {
    let (mut fleet, _team) = fleet().await;
    let said =
        fleet.cli(&["block", "--function", "team.hello", "--reason", "it greets too much"]).await.unwrap();
    assert!(said.contains("Blocked function team.hello on every edge."), "{said}");
    assert!(said.contains("In force on 2 of 2 nodes"), "{said}");
    // The command waited for the nodes: not one call more.
    for node in fleet.nodes() {
        let outcome = node.mcp.call("team.hello", json!({})).await.unwrap();
        assert_eq!(outcome.refusal.as_deref(), Some("blocked"), "{outcome:?}");
        let (before, after) = outcome.text.split_once(" at 2").unwrap();
        assert_eq!(before, "token/admin blocked function team.hello");
        assert!(after.contains("): it greets too much. "), "{after}");
        assert!(after.ends_with("with: pintle unblock --function team.hello"), "{after}");
        assert_eq!(node.mcp.call("team.bye", json!({})).await.unwrap().refusal, None);
        assert!(
            node.mcp.names().await.unwrap().contains(&"team__hello".to_owned()),
            "what a model knows stays"
        );
    }

    // A node that comes back goes by it before it calls anything.
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    fleet.callable("team.bye", json!({})).await;
    fleet.refused("team.hello", "blocked").await;

    let listed = fleet.cli(&["blocks"]).await.unwrap();
    assert!(listed.contains("function team.hello") && listed.contains("it greets too much"), "{listed}");
    let said = fleet.cli(&["unblock", "--function", "team.hello"]).await.unwrap();
    assert!(said.contains("Lifted the block of function team.hello on every edge."), "{said}");
    for node in fleet.nodes() {
        assert_eq!(node.mcp.call("team.hello", json!({})).await.unwrap().refusal, None);
    }
    assert!(fleet.cli(&["blocks", "--lifted"]).await.unwrap().contains("lifted by token/admin"));
    fleet.cli(&["audit", "verify"]).await.unwrap();
}

#[tokio::test]
async fn a_new_version_of_a_blocked_tool_is_not_called_and_one_edge_can_be_meant_alone() {
    let (fleet, team) = fleet().await;
    let edge = e2e::fleet::EDGE;
    fleet.cli(&["block", "--tool", "team", "--edge", edge, "--reason", "leaks"]).await.unwrap();
    let sentences = fleet.refused("team.bye", "blocked").await;
    assert!(sentences[0].ends_with(&format!("pintle unblock --tool team --edge {edge}")), "{sentences:?}");

    fleet.install("greeter", "2.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    e2e::eventually("all nodes to run the new version", || async {
        let shown = fleet.cli(&["plugin", "list", "--json"]).await?;
        if shown.contains("2.0.0") { Ok(()) } else { anyhow::bail!("{shown}") }
    })
    .await;
    fleet.refused("team.hello", "blocked").await;

    let none = fleet.cli(&["unblock", "--tool", "team"]).await.unwrap_err().to_string();
    assert!(none.contains("no block of tool team on every edge is in force"), "{none}");
    fleet.cli(&["unblock", "--tool", "team", "--edge", edge]).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
}

#[tokio::test]
async fn what_cannot_be_blocked_is_said_with_the_remedy() {
    let (fleet, _team) = fleet().await;
    let tries: [(&[&str], i32, &str); 6] = [
        (&["block", "--reason", "x"], 2, "--function <TOOL.FUNCTION>"),
        (&["block", "--tool", "team"], 2, "--reason <TEXT>"),
        (&["block", "--tool", "team", "--plugin", "greeter", "--reason", "x"], 2, "cannot be used with"),
        (&["block", "--tool", "nothing", "--reason", "x"], 1, "no version that was pushed has tool nothing"),
        (&["block", "--tool", "team", "--reason", " "], 1, "a block needs a reason"),
        (&["unblock", "5f0c9a1b2c3d4e5f"], 1, "pintle blocks"),
    ];
    for (arguments, exit, sentence) in tries {
        let output = fleet.cli_output(arguments).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
    assert!(fleet.cli(&["blocks"]).await.unwrap().is_empty(), "what is there is said on stderr alone");
}
