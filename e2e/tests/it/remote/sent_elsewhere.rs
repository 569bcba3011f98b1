//! A server that sends its callers elsewhere: nothing goes there.

use e2e::door::{Answer, Authority, Door};
use e2e::eventually;
use e2e::fleet::{Fleet, Plan};
use serde_json::json;

use super::{named, weather};

async fn fleet(flags: Vec<String>) -> Fleet {
    Fleet::start_as(Plan { nodes: 1, node_flags: flags, ..Plan::default() }).await.unwrap()
}

/// The refusal of a call, once it has this code.
async fn refused(fleet: &Fleet, function: &str, code: &str) -> String {
    fleet.refused(function, code).await.remove(0)
}

// R3.74 R3.75
#[tokio::test]
async fn redirects_out_of_the_origin_or_that_change_the_method_are_refused_and_nothing_is_sent_there() {
    let authority = Authority::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("authority.pem");
    std::fs::write(&pem, &authority.pem).unwrap();
    let mut flags = named();
    flags.extend(["--set".to_owned(), format!("tools.extra_ca={}", pem.display())]);
    let fleet = fleet(flags).await;
    let (first, _process, on) = weather(&fleet, "first").await;
    let one = Door::open(on.clone()).await.unwrap();
    let secure = Door::open_tls(&authority, "secure.tools.example", on.clone()).await.unwrap();
    let two = Door::open(Answer::Status(200)).await.unwrap();
    let (plain, tls) = (one.port(), secure.port());
    let at_one = format!("http://one.tools.example:{plain}");
    let at_secure = format!("https://secure.tools.example:{tls}");
    let tools = json!({
        "wx": {"url": format!("{at_one}/mcp"), "allow_http": true},
        "tls": {"url": format!("{at_secure}/mcp")},
    });
    fleet.install("greeter", "1.0.0", &tools).await.unwrap();
    fleet.callable("wx.today", json!({})).await;
    fleet.callable("tls.today", json!({})).await;
    let calls = first.calls("today");

    let elsewhere = format!("http://two.tools.example:{}/mcp", two.port());
    let other_origin = |from: &str, to: &str| {
        format!(
            "{from} sent us to {to}, which is another origin; if the tool moved, its plugin must name that URL"
        )
    };
    let upgraded = format!("https://one.tools.example:{plain}/mcp");
    let downgraded = format!("http://secure.tools.example:{}/mcp", two.port());
    let same = |path: &str| format!("{at_one}{path}");
    let rows: Vec<(&str, &Door, u16, String, String)> = vec![
        ("wx", &one, 307, elsewhere.clone(), other_origin(&at_one, &elsewhere)),
        ("wx", &one, 308, elsewhere.clone(), other_origin(&at_one, &elsewhere)),
        ("wx", &one, 302, elsewhere.clone(), other_origin(&at_one, &elsewhere)),
        ("wx", &one, 307, upgraded.clone(), other_origin(&at_one, &upgraded)),
        ("tls", &secure, 307, downgraded.clone(), other_origin(&at_secure, &downgraded)),
        (
            "wx",
            &one,
            302,
            "/v2".to_owned(),
            format!("{at_one} answered 302, which is not followed here; the URL to use is {}", same("/v2")),
        ),
        (
            "wx",
            &one,
            303,
            "/v2".to_owned(),
            format!("{at_one} answered 303, which is not followed here; the URL to use is {}", same("/v2")),
        ),
    ];
    for (tool, door, status, location, sentence) in rows {
        door.answers(Answer::Redirect(status, location.clone()));
        let function = format!("{tool}.today");
        let said = refused(&fleet, &function, "redirected").await;
        // The call found it out, or a list that was asked for meanwhile did; each names where it leads.
        let by_list = format!("sent this call on to {location}, which is not within its origin");
        assert!(said.contains(&sentence) || said.contains(&by_list), "{status} to {location}: {said}");
        door.answers(on.clone());
        fleet.callable(&function, json!({})).await;
    }
    assert_eq!(two.log(), [], "nothing is sent there");
    assert!(one.log().iter().all(|asked| asked.path == "/mcp"), "no other path either: {:?}", one.log());
    assert!(first.calls("today") >= calls);
}

#[tokio::test]
async fn an_endpoint_event_that_names_another_origin_is_refused_and_nothing_is_sent_there() {
    let fleet = fleet(named()).await;
    let two = Door::open(Answer::Status(202)).await.unwrap();
    let place = format!("http://two.tools.example:{}/messages", two.port());
    let one = Door::open(Answer::Place(place.clone())).await.unwrap();
    let url = format!("http://one.tools.example:{}/sse", one.port());
    let tools = json!({"wx": {"url": url, "allow_http": true, "transport": "sse"}});
    fleet.install("greeter", "1.0.0", &tools).await.unwrap();
    let said = refused(&fleet, "wx.today", "redirected").await;
    let (at_one, at_two) = (one.port(), two.port());
    let told = format!(
        "wx at http://one.tools.example:{at_one} sent this call on to http://two.tools.example:{at_two}, which is \
         not within its origin, so it was not followed."
    );
    assert!(said.starts_with(&told), "{said}");
    assert_eq!(two.log(), []);
    assert!(one.log().iter().all(|asked| asked.method == "GET"), "{:?}", one.log());
}

/// The name is resolved anew at each connection; what changes is the node's own setting `tools.resolve`, over a
/// restart, since no DNS server of ours can be put under a machine's resolver. That the address is judged when a
/// connection is made, and not the name, is held by `tools::it::http::addresses_are_judged_before_anything_is_connected_to`.
#[tokio::test]
async fn a_name_that_comes_to_another_class_of_address_is_refused_and_nothing_is_sent_there() {
    let mut fleet = fleet(named()).await;
    let (_first, _process, on) = weather(&fleet, "first").await;
    let one = Door::open(on.clone()).await.unwrap();
    let url = format!("http://one.tools.example:{}/mcp", one.port());
    fleet.install("greeter", "1.0.0", &json!({"wx": {"url": url, "allow_http": true}})).await.unwrap();
    fleet.callable("wx.today", json!({})).await;
    eventually("the class of its address to be pinned", || async {
        let events = fleet.get("/audit?name=plugin.endpoint.pinned").await?.to_string();
        if events.contains("loopback") { Ok(()) } else { anyhow::bail!("{events}") }
    })
    .await;

    // This machine's own private address, where there is one; else one that nobody has.
    let own = std::net::UdpSocket::bind("0.0.0.0:0")
        .and_then(|socket| socket.connect("10.255.255.254:9").and_then(|()| socket.local_addr()))
        .map(|address| address.ip())
        .ok()
        .filter(|ip| matches!(ip, std::net::IpAddr::V4(v4) if v4.is_private()));
    let address = own.unwrap_or_else(|| "10.255.255.1".parse().unwrap());
    let listening = match own {
        Some(ip) => Door::open_at((ip, one.port()).into(), on).await.ok(),
        None => None,
    };
    fleet.kill_node(0).await.unwrap();
    let set = |address: &str| vec!["--set".to_owned(), format!("tools.resolve=one.tools.example={address}")];
    fleet.set_node_flags(set(&address.to_string()));
    let asked = one.log().len();
    fleet.restart_node(0).await.unwrap();
    let said = refused(&fleet, "wx.today", "address").await;
    assert!(said.contains(&format!("one.tools.example is {address}")), "{said}");
    assert!(said.contains("private") && said.contains("loopback"), "{said}");
    for never in ["169.254.169.254", "0.0.0.0"] {
        fleet.kill_node(0).await.unwrap();
        fleet.set_node_flags(set(never));
        fleet.restart_node(0).await.unwrap();
        let said = refused(&fleet, "wx.today", "address").await;
        assert!(said.contains(never), "{said}");
    }
    assert_eq!(one.log().len(), asked, "and nothing to where it was");
    assert!(listening.is_none_or(|door| door.log().is_empty()), "nothing is sent there");
}
