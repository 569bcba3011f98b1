//! Which revision a tool speaks: remembered, and found out anew where it is another one.

use e2e::fleet::Fleet;
use e2e::mutable::Mutable;
use serde_json::json;

const TODAY: &str = r#"{"name":"today","description":"Say the weather.","inputSchema":{"type":"object"}}"#;

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
