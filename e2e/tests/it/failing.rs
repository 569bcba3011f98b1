//! Remote tools that stop answering, and come back.

use e2e::fleet::{Fleet, Plan};
use e2e::mcp::Outcome;
use e2e::mutable::Mutable;
use serde_json::json;

const TODAY: &str = r#"{"name":"today","description":"Say the weather.","inputSchema":{"type":"object"}}"#;

const FLAGS: &[&str] = &[
    "--set",
    "gateway.breaker_failures=2",
    "--set",
    "gateway.breaker_wait=2s",
    "--set",
    "gateway.call_deadline=500ms",
];

struct Weather {
    fleet: Fleet,
    server: Mutable,
    _process: e2e::process::Process,
}

impl Weather {
    async fn start() -> Self {
        let fleet = Fleet::start_as(Plan {
            nodes: 1,
            node_flags: FLAGS.iter().map(|flag| (*flag).to_owned()).collect(),
            ..Plan::default()
        })
        .await
        .unwrap();
        let server = Mutable::new(fleet.folder(), "weather");
        server.list(&[TODAY]).unwrap();
        let (process, url) = server.serve(None).await.unwrap();
        fleet.install("weather", "1.0.0", &json!({"wx": {"url": url}})).await.unwrap();
        fleet.callable("wx.today", json!({})).await;
        Self { fleet, server, _process: process }
    }

    /// Nothing is announced: that it is listed again would let calls through.
    fn tell(&self, calls: &str) {
        self.server.tell(&json!({"entries": [TODAY], "calls": calls, "silent": true})).unwrap();
    }

    async fn call(&self) -> Outcome {
        self.fleet.mcp(0).call("wx.today", json!({})).await.unwrap()
    }
}

#[tokio::test]
async fn a_tool_that_stops_answering_is_left_alone_and_called_again_when_it_answers() {
    for (calls, told) in
        [("hang", "failed to get an answer within"), ("drop", "failed to reach http://127.0.0.1")]
    {
        let weather = Weather::start().await;
        weather.tell(calls);
        for _ in 0..2 {
            let outcome = weather.call().await;
            assert!(outcome.is_error && outcome.refusal.as_deref() != Some("busy"), "{outcome:?}");
        }
        let reached = weather.server.calls("today");
        let outcome = weather.call().await;
        assert_eq!(outcome.refusal.as_deref(), Some("busy"), "{outcome:?}");
        for part in [told, "`wx` is not called since", "setting `gateway.breaker_wait`"] {
            assert!(outcome.text.contains(part), "{outcome:?}");
        }
        assert_eq!(weather.server.calls("today"), reached);
        weather.tell("");
        weather.fleet.callable("wx.today", json!({})).await;
        assert_eq!(weather.server.calls("today"), reached + 1, "one call was let through to see");
    }
}

#[tokio::test]
async fn a_tool_that_is_listed_again_is_called_again_before_the_wait_is_over() {
    let weather = Weather::start().await;
    weather.tell("drop");
    for code in [None, None, Some("busy")] {
        assert_eq!(weather.call().await.refusal.as_deref(), code);
    }
    weather.server.list(&[TODAY]).unwrap();
    e2e::eventually("a call", || async {
        let outcome = weather.call().await;
        anyhow::ensure!(!outcome.is_error, "{outcome:?}");
        Ok(())
    })
    .await;
}
