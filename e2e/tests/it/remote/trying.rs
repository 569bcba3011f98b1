//! A candidate whose remote tool moved.

use e2e::door::Door;
use e2e::eventually;
use e2e::fleet::{EDGE, Fleet, Node, Plan};
use e2e::mutable::Mutable;
use serde_json::{Value, json};

use super::{HELLO, approve, named, weather};

async fn comes_to(node: &Node, function: &str, code: Option<&str>) -> String {
    eventually(&format!("{function} on {} to come to {code:?}", node.name), || async {
        let outcome = node.mcp.call(function, json!({})).await?;
        if outcome.refusal.as_deref() == code { Ok(outcome.text) } else { anyhow::bail!("{outcome:?}") }
    })
    .await
}

/// How many calls came in at a door; lists and openings are not counted.
fn asked(door: &Door) -> usize {
    door.log().len()
}

// R3.68 R3.69 R3.70 R3.72
#[tokio::test]
async fn a_candidate_that_moved_leaves_the_installed_version_calling_and_the_next_one_starts_there() {
    let plan = Plan { nodes: 2, node_flags: named(), ..Plan::default() };
    let fleet = Fleet::start_as(plan).await.unwrap();
    let (first, _one, to_first) = weather(&fleet, "first").await;
    let (second, _two, to_second) = weather(&fleet, "second").await;
    let one = Door::open(to_first).await.unwrap();
    let two = Door::open(to_second).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    let at_one = format!("http://one.tools.example:{}", one.port());
    let at_two = format!("http://two.tools.example:{}", two.port());
    let tools = |origin: &str| -> Value {
        json!({"wx": {"url": format!("{origin}/mcp"), "allow_http": true}, "team": {"command": team.command()}})
    };
    fleet.install("greeter", "1.0.0", &tools(&at_one)).await.unwrap();
    fleet.callable("wx.today", json!({})).await;

    let folder = fleet.write_plugin("greeter", "1.1.0", &tools(&at_two)).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    fleet
        .cli(&["assign", "greeter@1.1.0", "--edge", EDGE, "--candidate", "--nodes", "node-1"])
        .await
        .unwrap();
    let [trying, staying] = fleet.nodes() else { panic!("two nodes") };
    let sentence = comes_to(trying, "wx.today", Some("origin_moved")).await;
    assert!(
        sentence.starts_with(&format!("wx of greeter@1.1.0 moved from {at_one} to {at_two}")),
        "{sentence}"
    );
    comes_to(trying, "team.hello", None).await;
    assert_eq!(second.calls("today"), 0);
    let calls = first.calls("today");
    comes_to(staying, "wx.today", None).await;
    assert_eq!(first.calls("today"), calls + 1, "the installed version is called where it was");

    approve(&fleet).await;
    comes_to(trying, "wx.today", None).await;
    let (at_first, at_second) = (first.calls("today"), second.calls("today"));
    assert!(at_second > 0);
    comes_to(staying, "wx.today", None).await;
    assert_eq!((first.calls("today"), second.calls("today")), (at_first + 1, at_second), "its own pin");

    // Promoted, it is where the next version starts from.
    fleet.cli(&["assign", "greeter@1.1.0", "--edge", EDGE]).await.unwrap();
    eventually("both nodes to call the promoted version", || async {
        let before = first.calls("today");
        for node in fleet.nodes() {
            node.mcp.call("wx.today", json!({})).await?;
        }
        if first.calls("today") == before { Ok(()) } else { anyhow::bail!("not yet") }
    })
    .await;
    fleet.install("greeter", "1.2.0", &tools(&at_two)).await.unwrap();
    runs(&fleet, "1.2.0").await;
    fleet.callable("wx.today", json!({})).await;
    let asked_before = asked(&one);
    fleet.install("greeter", "1.3.0", &tools(&at_one)).await.unwrap();
    for sentence in fleet.refused("wx.today", "origin_moved").await {
        assert!(sentence.contains(&format!("moved from {at_two} to {at_one}")), "{sentence}");
    }
    fleet.callable("team.hello", json!({})).await;
    let calls = one.log().into_iter().skip(asked_before).filter(|asked| asked.authorization.is_some());
    assert_eq!(calls.count(), 0, "a moved tool is listed without any secret");
}

async fn runs(fleet: &Fleet, version: &str) {
    eventually("all nodes to serve it", || async {
        let plugin = fleet.get("/plugins/greeter").await?;
        let nodes = plugin["nodes"].as_array().cloned().unwrap_or_default();
        let serving =
            nodes.iter().filter(|node| node["version"] == version && node["state"] == "serving").count();
        if serving == fleet.nodes().len() { Ok(()) } else { anyhow::bail!("{plugin}") }
    })
    .await;
}
