//! What goes wrong, each with a clear error and nothing lost.

use e2e::eventually;
use e2e::fleet::{EDGE, Fleet};
use e2e::mutable::Mutable;
use e2e::process::python;
use serde_json::{Value, json};

const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

async fn fails(fleet: &Fleet, arguments: &[&str], told: &[&str]) {
    let output = fleet.cli_output(arguments).await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "pintle {arguments:?} succeeded");
    for told in told {
        assert!(text.contains(told), "pintle {arguments:?} does not tell {told:?}: {text}");
    }
}

#[tokio::test]
async fn bad_bundles_and_urls_are_refused_and_what_was_good_stays() {
    let fleet = Fleet::start(0).await.unwrap();
    let path = |name: &str| fleet.folder().join(name).to_string_lossy().into_owned();
    std::fs::write(path("no.pintle"), "this is text").unwrap();
    fails(&fleet, &["plugin", "push", &path("no.pintle")], &["no bundle"]).await;
    fails(&fleet, &["plugin", "push", &path("absent.pintle")], &["absent.pintle"]).await;

    let command = json!({"team": {"command": ["/bin/true"]}});
    let folder = fleet.write_plugin("greeter", "1.0.0", &command).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    std::fs::write(folder.join("more.txt"), "other bytes").unwrap();
    fails(&fleet, &["plugin", "push", &folder.to_string_lossy()], &["greeter", "1.0.0"]).await;

    for (url, told) in [
        ("mcp.example.com/mcp", "wx"),
        ("https://user:pw@mcp.example.com/", "user names and passwords"),
        ("http://mcp.example.com/mcp", "allow_http"),
    ] {
        let folder = fleet.write_plugin("remote", "1.0.0", &json!({"wx": {"url": url}})).unwrap();
        fails(&fleet, &["plugin", "push", &folder.to_string_lossy()], &[told]).await;
    }
    fails(&fleet, &["assign", "greeter@9.9.9", "--edge", EDGE], &["greeter@9.9.9"]).await;
    fails(&fleet, &["assign", "greeter@1.0.0", "--edge", "nowhere"], &["nowhere"]).await;

    let plugins = fleet.get("/plugins").await.unwrap();
    assert_eq!(plugins["items"].as_array().map(Vec::len), Some(1), "{plugins}");
    fleet.cli(&["audit", "verify"]).await.unwrap();
}

#[tokio::test]
async fn an_upload_that_lies_or_breaks_off_leaves_nothing_behind() {
    use futures::stream::{self, StreamExt as _};

    let fleet = Fleet::start(0).await.unwrap();
    let folder =
        fleet.write_plugin("greeter", "1.0.0", &json!({"team": {"command": ["/bin/true"]}})).unwrap();
    let bundle = fleet.folder().join("greeter.pintle");
    fleet
        .cli(&["plugin", "pack", &folder.to_string_lossy(), "--out", &bundle.to_string_lossy()])
        .await
        .unwrap();
    let bytes = std::fs::read(&bundle).unwrap();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = |body: reqwest::Body, sha256: Option<&str>, token: &str| {
        let mut request = http.post(format!("{}/api/v1/plugins/versions", fleet.people)).bearer_auth(token);
        if let Some(sha256) = sha256 {
            request = request.header("Pintle-Archive-Sha256", sha256);
        }
        request.header("Content-Type", "application/octet-stream").body(body).send()
    };
    let token = fleet.token().unwrap();
    let lied = post(bytes.clone().into(), Some(&"0".repeat(64)), &token).await.unwrap();
    assert!(lied.status().is_client_error(), "{}", lied.status());
    let nobody = post(bytes.clone().into(), None, "pat_wrong_token").await.unwrap();
    assert_eq!(nobody.status(), 401);
    let half = bytes[..bytes.len() / 2].to_vec();
    let broken = stream::iter([Ok(half), Err(std::io::Error::other("the cable is out"))]).boxed();
    post(reqwest::Body::wrap_stream(broken), None, &token).await.unwrap_err();
    let plugins = fleet.get("/plugins").await.unwrap();
    assert_eq!(plugins["items"].as_array().map(Vec::len), Some(0), "{plugins}");
    let whole = post(bytes.into(), None, &token).await.unwrap();
    assert_eq!(whole.status(), 201);
}

/// Tools that do not come up, with what the plugin's page must tell; the good tool beside them is called.
#[tokio::test]
async fn tools_that_do_not_work_are_named_with_the_reason_and_cost_no_other_its_calls() {
    let fleet = Fleet::start(1).await.unwrap();
    let team = Mutable::new(fleet.folder(), "team");
    team.list(&[HELLO]).unwrap();
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    let python = python().to_string_lossy().into_owned();
    let bad: &[(&str, Value)] = &[
        ("absent", json!(["/no/such/program"])),
        ("exits", json!([python, "-c", "import sys; sys.exit('out of cheese')"])),
        ("noise", json!([python, "-c", "print('hello there')"])),
    ];
    for (name, command) in bad {
        fleet.install(name, "1.0.0", &json!({*name: {"command": command}})).await.unwrap();
    }
    fleet.callable("team.hello", json!({})).await;
    for (name, told) in [("absent", "/no/such/program"), ("exits", "out of cheese"), ("noise", "exit")] {
        eventually(&format!("{name}'s reason"), || async {
            let page = fleet.get(&format!("/plugins/{name}")).await?.to_string();
            if page.contains(told) { Ok(()) } else { anyhow::bail!("{page}") }
        })
        .await;
        let refused = fleet.mcp(0).call(&format!("{name}.anything"), json!({})).await.unwrap();
        assert!(refused.refusal.is_some(), "{refused:?}");
    }
    fleet.callable("team.hello", json!({})).await;
}

#[tokio::test]
async fn odd_listings_cost_only_their_odd_functions() {
    let fleet = Fleet::start(1).await.unwrap();
    let (twice, none, many) = (
        Mutable::new(fleet.folder(), "twice"),
        Mutable::new(fleet.folder(), "none"),
        Mutable::new(fleet.folder(), "many"),
    );
    let other = HELLO.replace("hello.", "something else.");
    let broken = r#"{"name":"broken","description":"a","description":"b","inputSchema":{"type":"object"}}"#;
    let wave = r#"{"name":"wave","inputSchema":{"type":"object"}}"#;
    twice
        .list(&[HELLO, &other, broken, wave, r#"{"name":"bad name","inputSchema":{"type":"object"}}"#])
        .unwrap();
    none.list(&[]).unwrap();
    let entries: Vec<String> = (0..10_000)
        .map(|number| {
            format!(
                r#"{{"name":"f{number}","description":"Number {number}.","inputSchema":{{"type":"object"}}}}"#
            )
        })
        .collect();
    many.tell(&json!({"entries": entries, "page": 1000})).unwrap();
    for (name, tool) in [("twice", &twice), ("none", &none), ("many", &many)] {
        fleet.install(name, "1.0.0", &json!({name: {"command": tool.command()}})).await.unwrap();
    }
    fleet.callable("twice.wave", json!({})).await;
    fleet.refused("twice.hello", "twice").await;
    fleet.refused("twice.broken", "unreadable").await;
    fleet.refused("none.anything", "unknown_function").await;
    fleet.callable("many.f9999", json!({})).await;
    eventually("the reasons in the list", || async {
        let list = fleet.cli(&["plugin", "list"]).await?;
        if ["hello", "twice", "broken", "unreadable"].iter().all(|told| list.contains(told)) {
            Ok(())
        } else {
            anyhow::bail!("{list}")
        }
    })
    .await;
    assert_eq!(fleet.mcp(0).names().await.unwrap().len(), 10_001);
}

#[tokio::test]
async fn wrong_tokens_and_addresses_are_told_apart() {
    let mut fleet = Fleet::start(0).await.unwrap();
    let people = fleet.people.clone();
    let wrong = fleet.folder().join("wrong.token");
    std::fs::write(&wrong, "pat_0_0").unwrap();
    let wrong = wrong.to_string_lossy().into_owned();
    fails(&fleet, &["edge", "list", "--server", &people, "--token-file", &wrong], &["token"]).await;
    fails(&fleet, &["node", "join", "pintle1.nonsense", "--node-data", "/dev/null/x"], &["join string"])
        .await;
    fleet.kill_server().await.unwrap();
    let output = fleet.cli_output(&["edge", "list"]).await.unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
}
