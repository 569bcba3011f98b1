//! Remote tools behind an egress proxy.

use e2e::door::{Authority, Door};
use e2e::egress::Egress;
use e2e::fleet::{Fleet, Plan};
use serde_json::json;

use super::weather;

#[tokio::test]
async fn remote_tools_are_reached_through_the_proxy_alone_and_only_where_it_allows() {
    let authority = Authority::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let allowed = ["one.tools.example", "secure.tools.example"];
    // `pintle:open sesame`.
    let egress = Egress::open(&allowed, Some("Basic cGludGxlOm9wZW4gc2VzYW1l")).await.unwrap();
    let mut flags = Vec::new();
    for set in [
        format!("tools.egress_proxy={}", egress.url),
        format!("tools.egress_proxy_credentials={}", file("login", "pintle:open sesame\n")),
        format!("tools.extra_ca={}", file("authority.pem", &authority.pem)),
    ] {
        flags.extend(["--set".to_owned(), set]);
    }
    let fleet = Fleet::start_as(Plan { nodes: 1, node_flags: flags, ..Plan::default() }).await.unwrap();
    let (_server, _process, on) = weather(&fleet, "first").await;
    let one = Door::open(on.clone()).await.unwrap();
    let secure = Door::open_tls(&authority, "secure.tools.example", on.clone()).await.unwrap();
    let two = Door::open(on.clone()).await.unwrap();
    let here = Door::open(on).await.unwrap();
    let tools = json!({
        "wx": {"url": format!("http://one.tools.example:{}/mcp", one.port()), "allow_http": true},
        "tls": {"url": format!("https://secure.tools.example:{}/mcp", secure.port())},
        "no": {"url": format!("https://two.tools.example:{}/mcp", two.port())},
        "own": {"url": format!("http://127.0.0.1:{}/mcp", here.port())},
    });
    fleet.install("greeter", "1.0.0", &tools).await.unwrap();
    for function in ["wx.today", "tls.today", "own.today"] {
        fleet.callable(function, json!({})).await;
    }
    let log = egress.log();
    assert!(log.contains(&format!("CONNECT secure.tools.example:{}", secure.port())), "{log:?}");
    assert!(log.contains(&format!("POST one.tools.example:{}", one.port())), "{log:?}");
    assert!(
        !log.iter().any(|line| line.contains("127.0.0.1")),
        "this machine's are reached directly: {log:?}"
    );

    let said = fleet.refused("no.today", "unreachable").await.remove(0);
    assert!(said.contains("the egress proxy did not let it through"), "{said}");
    assert_eq!(two.log(), []);
    let told = fleet.node_log(0);
    assert!(!told.contains("open sesame") && !told.contains("cGludGxl"), "{told}");
}
