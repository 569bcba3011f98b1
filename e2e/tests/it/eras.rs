//! Which revision a tool speaks: remembered, and found out anew where it is another one.

use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::json;

const TODAY: &str = r#"{"name":"today","description":"Say the weather.","inputSchema":{"type":"object"}}"#;
const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

#[tokio::test]
async fn a_node_that_is_started_again_does_not_probe_what_it_knows() {
    let mut fleet = Fleet::start(1).await.unwrap();
    let (weather, team) = (Mutable::new(fleet.folder(), "weather"), Mutable::new(fleet.folder(), "team"));
    weather.list(&[TODAY]).unwrap();
    team.list(&[HELLO]).unwrap();
    let (_process, url) = weather.serve(None).await.unwrap();
    let tools = json!({"wx": {"url": url}, "team": {"command": team.command()}});
    fleet.install("greeter", "1.0.0", &tools).await.unwrap();
    for function in ["wx.today", "team.hello"] {
        fleet.callable(function, json!({})).await;
    }
    // A tool may be started again as soon as more is known of it, such as the class of its address.
    let probes = |server: &Mutable| server.opened().iter().filter(|it| *it == "server/discover").count();
    let before = [weather.opened().len(), team.opened().len()];
    assert_eq!([probes(&weather), probes(&team)], [1, 1]);
    fleet.kill_node(0).await.unwrap();
    fleet.restart_node(0).await.unwrap();
    for (function, server, before) in [("wx.today", &weather, before[0]), ("team.hello", &team, before[1])] {
        fleet.callable(function, json!({})).await;
        assert!(server.opened().len() > before, "it was opened again");
        assert_eq!(probes(server), 1, "{:?}", server.opened());
    }
    // Another version has a memory of its own.
    fleet.install("greeter", "1.1.0", &tools).await.unwrap();
    e2e::eventually("1.1.0 to be probed", || async {
        let probed = [probes(&weather), probes(&team)];
        if probed == [2, 2] { Ok(()) } else { anyhow::bail!("{probed:?}") }
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_speaks_another_revision_between_two_calls_is_opened_anew_in_that() {
    let fleet = Fleet::start(1).await.unwrap();
    let weather = Mutable::new(fleet.folder(), "weather");
    weather.list(&[TODAY]).unwrap();
    let (_process, url) = weather.serve(None).await.unwrap();
    fleet.install("greeter", "1.0.0", &json!({"wx": {"url": url}})).await.unwrap();
    fleet.callable("wx.today", json!({})).await;
    let (mut opened, mut calls) = (weather.opened().len(), weather.calls("today"));
    // Nothing is announced, and the timer is minutes away: it is the calls that find out.
    for modern in [true, false, true] {
        weather.tell(&json!({"entries": [TODAY], "silent": true, "modern": modern})).unwrap();
        e2e::eventually("a call in the other revision", || async {
            let outcome = fleet.mcp(0).call("wx.today", json!({})).await?;
            anyhow::ensure!(!outcome.is_error, "{outcome:?}");
            Ok(())
        })
        .await;
        let since = &weather.opened()[opened..];
        assert!(since.iter().any(|method| method == "server/discover"), "{since:?}");
        assert_eq!(since.last().unwrap() == "server/discover", modern, "{since:?}");
        opened += since.len();
        assert_eq!(weather.calls("today"), calls + 1);
        calls += 1;
    }
}
