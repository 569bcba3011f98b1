//! Remote tools with a connection: reached with what people set, and nothing of it is anywhere else.

use std::path::Path;

use e2e::door::{Answer, Door};
use e2e::fleet::{EDGE, Fleet, Plan};
use e2e::mutable::Mutable;
use e2e::process::Process;
use serde_json::json;

const TODAY: &str =
    r#"{"name":"today","description":"Say today's weather.","inputSchema":{"type":"object"}}"#;
const HELLO: &str = r#"{"name":"hello","description":"Say hello.","inputSchema":{"type":"object"}}"#;

/// Files below a folder whose bytes hold `needle`.
fn holding(folder: &Path, needle: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            holding(&path, needle, found);
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(needle.len()).any(|window| window == needle.as_bytes()))
        {
            found.push(path.display().to_string());
        }
    }
}

/// Waits until a call is refused for want of a secret, in these words.
async fn says(fleet: &Fleet, words: &str) {
    e2e::eventually(&format!("a refusal that says {words}"), || async {
        let outcome = fleet.mcp(0).call("wx.today", json!({})).await?;
        let is_so = outcome.refusal.as_deref() == Some("secret_unavailable") && outcome.text.contains(words);
        if is_so { Ok(()) } else { anyhow::bail!("{outcome:?}") }
    })
    .await;
}

async fn set(fleet: &Fleet, more: &[&str]) -> anyhow::Result<String> {
    fleet.cli(&[&["connection", "set", "greeter/crm"], more].concat()).await
}

async fn refuses_what_is_wrong(fleet: &Fleet) {
    for (bad, told) in [
        (["--param", "hosts=one"], "it has host"),
        (["--param", "token=x"], "--secret token"),
        (["--param", "host=evil.example/"], "cannot stand in a URL"),
        (["--header", "Host: x"], "no header that a connection may set"),
        (["--header", "X-Key: ${env.HOME}"], "no parameter"),
        (["--secret-env", "token=HOME"], "PINTLE_SECRET_"),
        (["--secret-path", "token=/etc/passwd"], "--secrets-folder"),
    ] {
        let fault = set(fleet, &bad).await.unwrap_err().to_string();
        assert!(fault.contains(told), "{bad:?}: {fault}");
    }
}

// R3.67
#[tokio::test]
async fn a_tool_is_reached_with_its_connection_and_the_secret_is_in_no_file_log_or_answer() {
    let names = ["one", "two"].map(|name| format!("tools.resolve={name}.tools.example=127.0.0.1"));
    let flags = names.into_iter().flat_map(|set| ["--set".to_owned(), set]).collect();
    let fleet = Fleet::start_as(Plan { nodes: 1, node_flags: flags, ..Plan::default() }).await.unwrap();
    let (weather, team) = (Mutable::new(fleet.folder(), "weather"), Mutable::new(fleet.folder(), "team"));
    weather.list(&[TODAY]).unwrap();
    team.list(&[HELLO]).unwrap();
    let (_process, url) = weather.serve(None).await.unwrap();
    let to = url.trim_end_matches("/mcp").to_owned();
    let wants = |secret: &str| Answer::PassOnFor(to.clone(), format!("Bearer {secret}"));
    let one = Door::open(wants("s3cret-first")).await.unwrap();
    let secrets = tempfile::tempdir().unwrap();
    let file = |text: &str| {
        let path = secrets.path().join(text);
        std::fs::write(&path, format!("{text}\n")).unwrap();
        format!("token={}", path.display())
    };
    let tools = json!({
        "wx": {"url": format!("http://${{params.host}}.tools.example:{}/mcp", one.port()), "allow_http": true,
               "connection": "crm"},
        "team": {"command": team.command()},
    });
    let connections = json!({"crm": {"params": {"host": {"required": true}, "token": {"secret": true}}}});
    let folder = fleet.write_plugin_with("greeter", "1.0.0", &tools, &connections).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    fleet.cli(&["assign", "greeter@1.0.0", "--edge", EDGE]).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    let said = fleet.refused("wx.today", "secret_unavailable").await.remove(0);
    assert!(said.contains("pintle connection set greeter/crm"), "{said}");

    refuses_what_is_wrong(&fleet).await;
    let given = file("s3cret-first");
    set(&fleet, &["--param", "host=one", "--secret-file", &given, "--bearer", "token"]).await.unwrap();
    fleet.callable("wx.today", json!({})).await;
    assert!(one.log().iter().all(|asked| asked.authorization.as_deref() == Some("Bearer s3cret-first")));
    let tested = fleet.cli(&["connection", "test", "greeter/crm"]).await.unwrap();
    assert!(tested.contains("comes to authorization at http://one.tools.example"), "{tested}");

    // Another secret is in force without a restart of anything.
    one.answers(wants("s3cret-second"));
    let said = fleet.refused("wx.today", "secret_unavailable").await.remove(0);
    assert!(said.contains("401"), "{said}");
    let given = file("s3cret-second");
    set(&fleet, &["--secret-file", &given]).await.unwrap();
    fleet.callable("wx.today", json!({})).await;

    // Credentials are for the host that they were given for.
    let two = Door::open(wants("s3cret-second")).await.unwrap();
    let moved = fleet.cli_output(&["connection", "set", "greeter/crm", "--param", "host=two"]).await.unwrap();
    let text = String::from_utf8_lossy(&moved.stderr).into_owned();
    assert_eq!(moved.status.code(), Some(3), "{text}");
    assert!(text.contains("these secrets were dropped: token"), "{text}");
    says(&fleet, "lacks token").await;
    assert_eq!(two.log(), []);
    fleet.callable("team.hello", json!({})).await;

    let shown = fleet.cli(&["connection", "list"]).await.unwrap();
    let audit = fleet.cli(&["audit", "list", "--json"]).await.unwrap();
    let api = fleet.get("/connections").await.unwrap().to_string();
    for text in [&shown, &audit, &api, &fleet.node_log(0)] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    let mut found = Vec::new();
    holding(fleet.folder(), "s3cret", &mut found);
    assert_eq!(found, Vec::<String>::new());
    fleet.cli(&["connection", "rm", "greeter/crm"]).await.unwrap();
    says(&fleet, "was not set").await;
    assert!(fleet.cli(&["connection", "rm", "greeter/crm"]).await.is_err(), "once");
    fleet.cli(&["audit", "verify"]).await.unwrap();
}

/// An authorization server of npm.
struct Authorizer {
    issuer: String,
    process: Process,
}

impl Authorizer {
    async fn start(fleet: &Fleet) -> Self {
        let mut command = tokio::process::Command::new(e2e::process::node_js());
        command.arg(e2e::process::here().join("peers/authorization_server.mjs"));
        command.arg(format!("{}/oauth/callback", fleet.people));
        let mut process = Process::start(command, &fleet.folder().join("authorizer.log")).unwrap();
        let said = process.json().await.unwrap();
        Self { issuer: said["issuer"].as_str().unwrap().to_owned(), process }
    }

    async fn gave(&mut self, grant: &str) {
        assert_eq!(self.process.json().await.unwrap()["grant"], grant);
    }

    async fn ends_access_tokens(&self) {
        http().post(format!("{}/test/end", self.issuer)).send().await.unwrap();
    }

    async fn asked(&self, place: &str, token: &str) -> reqwest::Response {
        let request = http().post(format!("{}/token/{place}", self.issuer));
        let request = request
            .basic_auth("pintle", Some("c1ient-s3cret"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("token={token}"));
        request.send().await.unwrap()
    }

    /// RFC 7009.
    async fn takes_back(&self, token: &str) {
        assert!(self.asked("revocation", token).await.status().is_success());
    }

    /// RFC 7662.
    async fn knows(&self, token: &str) -> bool {
        let said: serde_json::Value = self.asked("introspection", token).await.json().await.unwrap();
        said["active"] == true
    }
}

fn http() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A fleet of one node whose `wx.today` is behind an authorization server.
async fn protected() -> (Fleet, Authorizer, Door, Mutable, Process) {
    let flags = ["--set", "tools.resolve=one.tools.example=127.0.0.1"].map(str::to_owned).into();
    let fleet = Fleet::start_as(Plan { nodes: 1, node_flags: flags, ..Plan::default() }).await.unwrap();
    let authorizer = Authorizer::start(&fleet).await;
    let weather = Mutable::new(fleet.folder(), "weather");
    weather.list(&[TODAY]).unwrap();
    let (process, url) = weather.serve(None).await.unwrap();
    let door = Door::open(Answer::Status(503)).await.unwrap();
    let resource = format!("http://127.0.0.1:{}/mcp", door.port());
    door.answers(Answer::Protected {
        to: url.trim_end_matches("/mcp").to_owned(),
        issuer: authorizer.issuer.clone(),
        resource: resource.clone(),
    });
    let tools = json!({"wx": {"url": resource, "connection": "crm"}});
    let connections = json!({"crm": {"params": {"key": {"secret": true}}}});
    let folder = fleet.write_plugin_with("greeter", "1.0.0", &tools, &connections).unwrap();
    fleet.cli(&["plugin", "push", &folder.to_string_lossy()]).await.unwrap();
    fleet.cli(&["assign", "greeter@1.0.0", "--edge", EDGE]).await.unwrap();
    (fleet, authorizer, door, weather, process)
}

async fn sets(fleet: &Fleet, grant: &str) {
    let secrets = tempfile::tempdir().unwrap();
    let path = secrets.path().join("key");
    std::fs::write(&path, "c1ient-s3cret\n").unwrap();
    let secret = format!("key={}", path.display());
    let words = [
        "connection",
        "set",
        "greeter/crm",
        "--oauth",
        grant,
        "--client-id",
        "pintle",
        "--client-secret",
        "key",
        "--secret-file",
        &secret,
        "--scope",
        "mcp",
    ];
    fleet.cli(&words).await.unwrap();
}

/// The tokens that the tool's server was shown, in order, each once.
fn tokens(door: &Door) -> Vec<String> {
    let mut shown: Vec<String> = door.log().into_iter().filter_map(|asked| asked.authorization).collect();
    shown.dedup();
    shown
}

fn nowhere(fleet: &Fleet, secrets: &[String]) {
    for secret in secrets {
        let mut found = Vec::new();
        holding(fleet.folder(), secret.trim_start_matches("Bearer "), &mut found);
        assert_eq!(found, Vec::<String>::new(), "{secret}");
    }
}

/// The token that the tool's server was shown last.
fn last_token(door: &Door) -> String {
    tokens(door).pop().unwrap().trim_start_matches("Bearer ").to_owned()
}

/// Somebody signs in at the authorization server and gives leave.
async fn authorizes(fleet: &Fleet, authorizer: &mut Authorizer) {
    let away = fleet.cli_json(&["connection", "authorize", "greeter/crm"]).await.unwrap();
    let url = away["url"].as_str().unwrap();
    assert!(url.contains("code_challenge_method=S256") && url.contains("resource="), "{url}");
    let mut browser = tokio::process::Command::new(e2e::process::node_js());
    browser.arg(e2e::process::here().join("peers/browser.mjs")).arg(url);
    let seen = browser.output().await.unwrap();
    let page = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(page.contains("greeter/crm is connected"), "{page} {}", String::from_utf8_lossy(&seen.stderr));
    authorizer.gave("authorization_code").await;
}

// R3.98
#[tokio::test]
async fn a_client_of_an_authorization_server_has_its_token_refreshed_when_it_was_taken_back() {
    let (fleet, mut authorizer, door, _weather, _process) = protected().await;
    sets(&fleet, "client-credentials").await;
    fleet.callable("wx.today", json!({})).await;
    authorizer.gave("client_credentials").await;
    authorizer.ends_access_tokens().await;
    fleet.callable("wx.today", json!({})).await;
    authorizer.gave("client_credentials").await;
    let shown = tokens(&door);
    assert!(shown.len() >= 2 && shown[0] != shown[shown.len() - 1], "{}", shown.len());
    nowhere(&fleet, &[shown, vec!["c1ient-s3cret".to_owned()]].concat());

    // With another secret it gets nothing, which is told with what to do.
    let secrets = tempfile::tempdir().unwrap();
    let path = secrets.path().join("key");
    std::fs::write(&path, "wr0ng-s3cret").unwrap();
    let given = format!("key={}", path.display());
    fleet.cli(&["connection", "set", "greeter/crm", "--secret-file", &given]).await.unwrap();
    says(&fleet, "pintle connection set greeter/crm").await;
    let tested = fleet.cli_output(&["connection", "test", "greeter/crm"]).await.unwrap();
    let text = String::from_utf8_lossy(&tested.stderr).into_owned();
    assert!(text.contains("invalid_client") && tested.status.code() == Some(3), "{text}");
    sets(&fleet, "client-credentials").await;
    fleet.callable("wx.today", json!({})).await;
}

// R3.98
#[tokio::test]
async fn a_person_authorizes_a_connection_whose_token_is_refreshed_and_then_taken_back() {
    let (fleet, mut authorizer, door, _weather, _process) = protected().await;
    sets(&fleet, "code").await;
    says(&fleet, "pintle connection authorize greeter/crm").await;
    authorizes(&fleet, &mut authorizer).await;
    fleet.callable("wx.today", json!({})).await;
    let first = last_token(&door);

    // The tool's server takes that token no longer: the next one comes by the refresh token.
    authorizer.ends_access_tokens().await;
    fleet.callable("wx.today", json!({})).await;
    authorizer.gave("refresh_token").await;
    assert_ne!(last_token(&door), first);

    // All access is taken back there: a person has to authorize it again, which is told and audited.
    authorizer.takes_back(&last_token(&door)).await;
    says(&fleet, "pintle connection authorize greeter/crm").await;
    let listed = fleet.cli(&["connection", "list"]).await.unwrap();
    assert!(listed.contains("refused"), "{listed}");
    let audit = fleet.get("/audit?name=connection.refused").await.unwrap().to_string();
    assert!(audit.contains("greeter/crm") && audit.contains("invalid_grant"), "{audit}");
    authorizes(&fleet, &mut authorizer).await;
    fleet.callable("wx.today", json!({})).await;

    // What is removed here is taken back there.
    let last = last_token(&door);
    assert!(authorizer.knows(&last).await);
    fleet.cli(&["connection", "rm", "greeter/crm"]).await.unwrap();
    e2e::eventually("the token to be taken back", || async {
        anyhow::ensure!(!authorizer.knows(&last).await, "it is good");
        Ok(())
    })
    .await;
    nowhere(&fleet, &[tokens(&door), vec!["c1ient-s3cret".to_owned()]].concat());
    // A state is good once.
    let again = http().get(format!("{}/oauth/callback?state=x&code=y", fleet.people)).send().await.unwrap();
    assert_eq!(again.status(), 400);
    fleet.cli(&["audit", "verify"]).await.unwrap();
}
