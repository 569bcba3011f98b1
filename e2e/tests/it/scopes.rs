//! Approvals for one edge, approvals taken back, versions that are reviewed, and five hundred changes at once.

use e2e::eventually;
use e2e::fleet::{EDGE, Fleet, Node};
use e2e::mutable::Mutable;
use serde_json::{Value, json};

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;
const LOUD: &str = r#"{"name":"hello","description":"Shout hello.","inputSchema":{"type":"object"}}"#;
const BYE: &str = r#"{"name":"bye","description":"Say goodbye.","inputSchema":{"type":"object"}}"#;

/// A node on each of two edges, which run one tool.
async fn fleet() -> (Fleet, Mutable) {
    let mut fleet = Fleet::start(1).await.unwrap();
    fleet.cli(&["edge", "create", "other"]).await.unwrap();
    fleet.add_node_to("other", "node-2").await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO, BYE]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.cli(&["assign", "greeter@1.0.0", "--edge", "other"]).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    (fleet, team)
}

async fn comes_to(node: &Node, function: &str, code: Option<&str>) {
    eventually(&format!("{function} on {} to come to {code:?}", node.name), || async {
        let outcome = node.mcp.call(function, json!({})).await?;
        if outcome.refusal.as_deref() == code { Ok(()) } else { anyhow::bail!("{outcome:?}") }
    })
    .await;
}

/// What models read of `hello`.
async fn listed(node: &Node) -> Value {
    let tools = node.mcp.tools().await.unwrap();
    let hello = tools.iter().find(|tool| tool["name"] == "team__hello").unwrap();
    hello["description"].clone()
}

/// Runs a command that prints what it would do, and then the command that it printed.
async fn as_printed(fleet: &Fleet, arguments: &[&str]) -> String {
    let output = fleet.cli_output(arguments).await.unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let line = text.lines().find(|line| line.contains("approve-tools") && line.contains("--yes"));
    let words: Vec<&str> =
        line.expect(&text).split_whitespace().skip_while(|word| *word != "plugin").collect();
    fleet.cli(&words).await.unwrap()
}

async fn seen_by_both(fleet: &Fleet) {
    eventually("both nodes to show the change", || async {
        let changes = fleet.get("/plugins/greeter/changes").await?;
        let total = &changes["changes"][0]["variants"][0]["nodes_total"];
        if *total == 2 { Ok(()) } else { anyhow::bail!("{changes}") }
    })
    .await;
}

#[tokio::test]
async fn an_approval_for_one_edge_is_in_force_there_alone_until_it_is_cleared() {
    let (fleet, team) = fleet().await;
    let [here, there] = fleet.nodes() else { panic!("two nodes") };
    team.list(&[LOUD, BYE]).unwrap();
    fleet.refused("team.hello", "drifted").await;
    seen_by_both(&fleet).await;
    let said = as_printed(&fleet, &["plugin", "approve-tools", "greeter", "--edge", EDGE]).await;
    assert!(said.contains("In force on 1 of 1 nodes"), "{said}");
    comes_to(here, "team.hello", None).await;
    comes_to(there, "team.hello", Some("drifted")).await;
    assert_eq!((listed(here).await, listed(there).await), (json!("Shout hello."), json!("Say hello.")));
    for (edge, text) in [(EDGE, "Shout hello."), ("other", "Say hello.")] {
        let catalog = fleet.cli_json(&["catalog", "--edge", edge]).await.unwrap();
        let row = catalog["items"].as_array().unwrap().iter().find(|row| row["id"] == "team.hello").unwrap();
        assert!(row["listing"].as_str().unwrap().contains(text), "{row}");
    }

    let said = as_printed(&fleet, &["plugin", "approve-tools", "greeter", "--edge", EDGE, "--clear"]).await;
    assert!(said.contains("Cleared 1 change"), "{said}");
    fleet.refused("team.hello", "drifted").await;
    let again = fleet.cli(&["plugin", "approve-tools", "greeter", "--edge", EDGE, "--clear"]).await.unwrap();
    assert!(again.contains("goes by what the fleet does"), "{again}");

    as_printed(&fleet, &["plugin", "approve-tools", "greeter"]).await;
    fleet.callable("team.hello", json!({})).await;
    let said = as_printed(&fleet, &["plugin", "approve-tools", "greeter", "--undo"]).await;
    assert!(said.contains("Took back 1 change"), "{said}");
    fleet.refused("team.hello", "drifted").await;
    let wrong =
        fleet.cli(&["plugin", "approve-tools", "greeter", "--undo", "--yes", "999"]).await.unwrap_err();
    assert!(wrong.to_string().contains("not 999"), "{wrong}");
    let nowhere = fleet.cli(&["plugin", "approve-tools", "greeter", "--edge", "nowhere"]).await.unwrap_err();
    assert!(nowhere.to_string().contains("there is no edge nowhere"), "{nowhere}");
    fleet.cli(&["audit", "verify"]).await.unwrap();
}

#[tokio::test]
async fn with_review_on_a_new_versions_changed_functions_wait_and_the_others_are_called() {
    let (fleet, team) = fleet().await;
    let said = fleet.cli(&["policy", "set", "--review-new-versions", "changed"]).await.unwrap();
    assert!(said.contains("waits for approval"), "{said}");
    let next = Mutable::new(fleet.folder(), "team-next");
    next.list(&[LOUD, BYE]).unwrap();
    fleet.install("greeter", "2.0.0", &json!({"team": {"command": next.command()}})).await.unwrap();
    let here = &fleet.nodes()[0];
    comes_to(here, "team.hello", Some("drifted")).await;
    comes_to(here, "team.bye", None).await;
    let calls = team.calls("bye");
    comes_to(here, "team.bye", None).await;
    assert_eq!(team.calls("bye"), calls, "the new version is what is called");
    let listed = fleet.cli(&["plugin", "list"]).await.unwrap();
    assert!(listed.contains(&format!("team.hello (greeter 2.0.0, edge {EDGE}'s own)")), "{listed}");
    as_printed(&fleet, &["plugin", "approve-tools", "greeter"]).await;
    comes_to(here, "team.hello", None).await;
    comes_to(&fleet.nodes()[1], "team.hello", None).await;

    let said = fleet.cli(&["policy", "set", "--four-eyes", "on"]).await.unwrap();
    assert!(said.contains("nobody approves"), "{said}");
    next.list(&[HELLO, BYE]).unwrap();
    comes_to(here, "team.hello", Some("drifted")).await;
    let refused = fleet.cli(&["plugin", "approve-tools", "greeter", "--yes"]).await;
    assert!(refused.is_err(), "a flag without a hash is no approval");
    let changes = fleet.cli_json(&["plugin", "approve-tools", "greeter"]).await;
    let denied = as_denied(&fleet).await;
    assert!(denied.contains("token/admin pushed greeter@2.0.0"), "{denied} {changes:?}");
}

/// Approves all that waits, as printed, and answers what was said against it.
async fn as_denied(fleet: &Fleet) -> String {
    let output = fleet.cli_output(&["plugin", "approve-tools", "greeter"]).await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("--yes")).expect(&text).to_owned();
    let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word != "plugin").collect();
    fleet.cli(&words).await.unwrap_err().to_string()
}

#[tokio::test]
async fn five_hundred_functions_that_changed_alike_are_one_screen_and_one_approval() {
    let fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    let list = |more: &str| -> Vec<String> {
        (0..500)
            .map(|n| {
                let text = format!("Does the work number {n}.{more}");
                json!({"name": format!("f{n:03}"), "description": text, "inputSchema": {"type": "object"}})
                    .to_string()
            })
            .collect()
    };
    let shows = |list: &[String]| team.list(&list.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    shows(&list(""));
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.f499", json!({})).await;
    shows(&list(" Beta."));
    fleet.refused("team.f499", "drifted").await;
    eventually("all changes to be known", || async {
        let changes = fleet.get("/plugins/greeter/changes").await?;
        let count = changes["changes"].as_array().map_or(0, Vec::len);
        if count == 500 { Ok(()) } else { anyhow::bail!("{count}") }
    })
    .await;
    let output = fleet.cli_output(&["plugin", "approve-tools", "greeter"]).await.unwrap();
    let screen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(screen.starts_with("500 changes in one group:"), "{screen}");
    assert!(screen.contains("500 functions changed alike"), "{screen}");
    assert!(screen.lines().count() < 20, "{screen}");
    let said = as_printed(&fleet, &["plugin", "approve-tools", "greeter"]).await;
    assert!(said.contains("Approved 500 changes."), "{said}");
    for function in ["team.f000", "team.f250", "team.f499"] {
        fleet.callable(function, json!({})).await;
    }
    let rest = fleet.get("/plugins/greeter/changes").await.unwrap();
    assert_eq!(rest["changes"], Value::Array(Vec::new()));
}
