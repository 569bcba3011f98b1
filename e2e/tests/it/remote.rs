//! Remote tools: pinned to their origin, called nowhere else.

mod proxied;
mod sent_elsewhere;
mod trying;

use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::json;

const TODAY: &str =
    r#"{"name":"today","description":"Say today's weather.","inputSchema":{"type":"object"}}"#;
const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

/// Host names that this machine stands for.
const NAMES: [&str; 3] = ["one.tools.example", "two.tools.example", "secure.tools.example"];

/// Flags that have a node find those names here.
fn named() -> Vec<String> {
    NAMES.iter().flat_map(|name| ["--set".to_owned(), format!("tools.resolve={name}=127.0.0.1")]).collect()
}

/// A mutable server that lists `today`, and the origin to pass requests on to.
async fn weather(fleet: &Fleet, name: &str) -> (Mutable, e2e::process::Process, e2e::door::Answer) {
    let weather = Mutable::new(fleet.folder(), name);
    weather.list(&[TODAY]).unwrap();
    let (process, url) = weather.serve(None).await.unwrap();
    let answer = e2e::door::Answer::PassOn(url.trim_end_matches("/mcp").to_owned());
    (weather, process, answer)
}

/// Runs the line that `approve-tools` prints.
async fn approve(fleet: &Fleet) -> String {
    let output = fleet.cli_output(&["plugin", "approve-tools", "greeter"]).await.unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let line =
        text.lines().find(|line| line.contains("approve-tools") && line.contains("--yes")).expect(&text);
    let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word != "plugin").collect();
    fleet.cli(&words).await.unwrap()
}

// R3.62 R3.63 R3.64 R3.66 R3.68 R3.69
#[tokio::test]
async fn a_remote_tool_that_moves_waits_while_the_other_tools_of_its_version_work() {
    let fleet = Fleet::start(2).await.unwrap();
    let (weather, moved, team) = (
        Mutable::new(fleet.folder(), "weather"),
        Mutable::new(fleet.folder(), "moved"),
        Mutable::new(fleet.folder(), "team"),
    );
    weather.list(&[TODAY]).unwrap();
    moved.list(&[TODAY]).unwrap();
    team.list(&[HELLO]).unwrap();
    let (_first, url) = weather.serve(None).await.unwrap();
    let (_second, new_url) = moved.serve(None).await.unwrap();
    let tools = |url: &str| json!({"wx": {"url": url}, "team": {"command": team.command()}});
    fleet.install("greeter", "1.0.0", &tools(&url)).await.unwrap();
    fleet.callable("wx.today", json!({})).await;

    fleet.install("greeter", "1.1.0", &tools(&new_url)).await.unwrap();
    let origin = |url: &str| url.trim_end_matches("/mcp").to_owned();
    for sentence in fleet.refused("wx.today", "origin_moved").await {
        let told = format!("wx of greeter@1.1.0 moved from {} to {}", origin(&url), origin(&new_url));
        assert!(sentence.starts_with(&told), "{sentence}");
    }
    fleet.callable("team.hello", json!({})).await;
    assert_eq!(moved.calls("today"), 0);
    let list = fleet.cli(&["plugin", "list"]).await.unwrap();
    let notice = format!("endpoint moved: wx: {} -> {}", origin(&url), origin(&new_url));
    assert!(list.contains(&notice), "{list}");

    approve(&fleet).await;
    fleet.callable("wx.today", json!({})).await;
    assert!(moved.calls("today") >= 2);

    // Going back needs no approval: a version keeps its own pins.
    fleet.cli(&["assign", "greeter@1.0.0", "--edge", "eu-1"]).await.unwrap();
    let before = weather.calls("today");
    e2e::eventually("a call at the first origin", || async {
        for node in fleet.nodes() {
            node.mcp.call("wx.today", json!({})).await?;
        }
        if weather.calls("today") > before { Ok(()) } else { anyhow::bail!("not yet") }
    })
    .await;
}

// R3.73
#[tokio::test]
async fn another_path_on_the_same_origin_is_no_move() {
    let fleet = Fleet::start(1).await.unwrap();
    let weather = Mutable::new(fleet.folder(), "weather");
    weather.list(&[TODAY]).unwrap();
    let (_process, url) = weather.serve(None).await.unwrap();
    fleet.install("greeter", "1.0.0", &json!({"wx": {"url": url}})).await.unwrap();
    fleet.callable("wx.today", json!({})).await;
    fleet.install("greeter", "1.1.0", &json!({"wx": {"url": format!("{url}/v2")}})).await.unwrap();
    e2e::eventually("1.1.0 to serve", || async {
        let nodes = fleet.get("/plugins/greeter").await?.to_string();
        if nodes.contains(r#""state":"serving","#) && nodes.contains("1.1.0") {
            Ok(())
        } else {
            anyhow::bail!("{nodes}")
        }
    })
    .await;
    fleet.callable("wx.today", json!({})).await;
}
