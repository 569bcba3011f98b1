//! What the tests of faults have in common: a plugin whose tool changes what it says, and its approval.

use anyhow::{Result, bail, ensure};
use e2e::api::Api;
use e2e::eventually;
use e2e::fleet::{EDGE, Fleet};
use e2e::mutable::Mutable;
use serde_json::{Value, json};

/// A function that never changes.
pub(crate) const BYE: &str = r#"{"name":"bye","description":"Say goodbye.","inputSchema":{"type":"object"}}"#;

/// The function `hello` in one of many forms.
pub(crate) fn hello(form: usize) -> String {
    format!(r#"{{"name":"hello","description":"{}","inputSchema":{{"type":"object"}}}}"#, says(form))
}

/// Its description.
pub(crate) fn says(form: usize) -> String {
    format!("Say hello, in form {form}.")
}

/// Lets the tool list this form of `hello`.
pub(crate) fn list(team: &Mutable, form: usize) {
    team.list(&[&hello(form), BYE]).unwrap();
}

/// Installs `greeter@1.0.0`, whose tool `team` is this server in form 0, on every node.
pub(crate) async fn install_greeter(fleet: &Fleet) -> Mutable {
    let team = Mutable::new(fleet.folder(), "team");
    list(&team, 0);
    fleet.install("greeter", "1.0.0", &json!({"team": {"command": team.command()}})).await.unwrap();
    fleet.callable("team.hello", json!({})).await;
    team
}

/// Lets the tool list another form, and waits until every node refuses it and the change waits for a person.
pub(crate) async fn drift(fleet: &Fleet, team: &Mutable, form: usize) -> Value {
    list(team, form);
    fleet.refused("team.hello", "drifted").await;
    let api = fleet.api(0).unwrap();
    eventually("the change to wait for a person", || waiting(&api, form)).await
}

/// The body that approves this form of `hello`, which must be open.
pub(crate) async fn waiting(api: &Api, form: usize) -> Result<Value> {
    let changes = api.get("/plugins/greeter/changes").await?;
    for change in changes["changes"].as_array().into_iter().flatten() {
        for variant in change["variants"].as_array().into_iter().flatten() {
            if variant["listing"].as_str().is_some_and(|listing| listing.contains(&says(form))) {
                let function = json!({
                    "version": change["version"], "tool": change["tool"], "function": change["function"],
                    "approved": change["approved"]["hash"], "seen": variant["hash"],
                });
                return Ok(json!({"functions": [function], "origins": [], "attended": true}));
            }
        }
    }
    bail!("form {form} is not open: {changes}")
}

/// Approves; the hash that was approved.
pub(crate) async fn approve(api: &Api, body: &Value) -> Result<String> {
    let (status, answer) = api.post("/plugins/greeter/approve", body).await?;
    ensure!(status == 200, "failed to approve: {status} {answer}");
    match answer["approved"][0]["seen"].as_str() {
        Some(hash) => Ok(hash.to_owned()),
        None => bail!("nothing was approved: {answer}"),
    }
}

/// Waits until every connected node, and that is so many, has the newest of each part of the edge's set.
pub(crate) async fn current(api: &Api, nodes: usize) {
    eventually("every node to be current", || async {
        let parts = api.get(&format!("/edges/{EDGE}/parts")).await?;
        for part in ["trust", "plan", "policy"] {
            let part = &parts[part];
            ensure!(part["connected"] == nodes && part["acknowledged"] == nodes, "{parts}");
        }
        Ok(())
    })
    .await;
}

/// What a node says of one version of a plugin.
pub(crate) async fn standing(api: &Api, node: &str, version: &str) -> Result<Value> {
    let node = api.get(&format!("/nodes/{node}")).await?;
    let is_it = |one: &&Value| {
        format!("{}@{}", one["plugin"].as_str().unwrap_or(""), one["version"].as_str().unwrap_or(""))
            == version
    };
    let versions = node["versions"].as_array().into_iter().flatten();
    match versions.into_iter().find(is_it) {
        Some(one) => Ok(one.clone()),
        None => bail!("{version} is not among {node}"),
    }
}

/// Waits until a node serves a version.
pub(crate) async fn serving(api: &Api, node: &str, version: &str) {
    eventually(&format!("{node} to serve {version}"), || async {
        let one = standing(api, node, version).await?;
        ensure!(one["state"] == "serving", "{one}");
        Ok(())
    })
    .await;
}
