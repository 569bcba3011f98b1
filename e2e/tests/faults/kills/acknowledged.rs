//! After the kills: everything that was acknowledged is there, nothing was called that must not be, all goes on
//! and nothing is left over.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::ensure;
use e2e::api::Api;
use e2e::fleet::EDGE;
use e2e::{eventually, kernel};
use serde_json::{Value, json};

use super::load::{CALLED, RUN, TODAY, Told, seq_and_hash};
use super::{NODES, Stage};
use crate::stage::{approve, current, hello, list, serving, waiting};

/// Events in one page.
const PAGE: usize = 1_000;

pub(super) async fn verify(stage: &mut Stage, mut told: Told) {
    let api = stage.fleet.api(0).unwrap();
    assert_eq!(told.calls.get("unanswered"), None, "a call was not answered: {:?}", told.calls);
    // One more change, from end to end.
    let form = told.form + 1;
    told.forms.insert(hello(form));
    list(&stage.team, form);
    let body = eventually("the last change to wait for a person", || waiting(&api, form)).await;
    told.approvals.insert(approve(&api, &body).await.unwrap());

    let assigned = assigned(&api, &told).await;
    current(&api, NODES).await;
    for node in stage.fleet.nodes() {
        serving(&api, &node.name, &format!("fill@{assigned}")).await;
    }
    for function in CALLED {
        stage.fleet.callable(function, json!({})).await;
    }
    nothing_is_lost(&api, &told).await;
    stage.fleet.cli(&["audit", "verify"]).await.unwrap();
    stage.team.observe(&told.forms).unwrap();
    stage.fill.observe(&[RUN.to_owned()].into()).unwrap();
    stage.weather.observe(&[TODAY.to_owned()].into()).unwrap();
    nothing_is_left(stage).await;
}

/// The version of `fill` that is assigned: the last one whose assignment was acknowledged, or the one that was
/// asked for after it.
async fn assigned(api: &Api, told: &Told) -> String {
    let edge = api.get(&format!("/edges/{EDGE}")).await.unwrap();
    let assignments = edge["assignments"].as_array().unwrap();
    let fill = assignments.iter().find(|one| one["plugin"] == "fill").expect("fill is assigned");
    let version = fill["version"].as_str().unwrap().to_owned();
    let acknowledged = told.assigned.last().expect("an assignment was acknowledged");
    assert!(
        [acknowledged, &told.asked].contains(&&version),
        "{version}, and {acknowledged} was acknowledged"
    );
    version
}

async fn nothing_is_lost(api: &Api, told: &Told) {
    let events = every_event(api).await;
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).collect::<Vec<_>>();
    let approvals: BTreeSet<&str> = named("plugin.tools.approve")
        .iter()
        .flat_map(|event| event["fields"]["functions"].as_array().unwrap())
        .filter_map(|function| function["seen"].as_str())
        .collect();
    for hash in &told.approvals {
        assert!(approvals.contains(&**hash), "the approval of {hash} is not in the audit log");
    }
    let fill = api.get("/plugins/fill").await.unwrap();
    let kept: BTreeMap<&str, &str> = fill["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["version"].as_str().unwrap(), one["content_digest"].as_str().unwrap()))
        .collect();
    let text = |event: &Value, field: &str| event["fields"][field].as_str().unwrap_or_default().to_owned();
    let pushed: BTreeSet<String> =
        named("plugin.version.push").iter().map(|event| text(event, "version")).collect();
    for (version, digest) in &told.pushes {
        assert_eq!(kept.get(&**version), Some(&&**digest), "fill@{version}");
        assert!(pushed.iter().any(|one| one.ends_with(&**version)), "{version} is not among {pushed:?}");
    }
    let assigned: Vec<String> =
        named("edge.assignment.set").iter().map(|event| text(event, "version")).collect();
    for version in &told.assigned {
        assert!(assigned.iter().any(|one| one.ends_with(&**version)), "{version} is not among {assigned:?}");
    }
    let hashes: BTreeMap<u64, String> = events.iter().map(seq_and_hash).collect();
    for (seq, hash) in &told.events {
        assert_eq!(hashes.get(seq), Some(hash), "event {seq} is not what it was");
    }
}

async fn every_event(api: &Api) -> Vec<Value> {
    let mut events: Vec<Value> = Vec::new();
    loop {
        let after = events.last().map_or(0, |event| event["seq"].as_u64().unwrap());
        let page = api.list(&format!("/audit?after={after}&limit={PAGE}")).await.unwrap();
        if page.is_empty() {
            return events;
        }
        events.extend(page);
    }
}

/// One process of each tool at each node, all of them below their nodes; and none when the nodes are gone.
async fn nothing_is_left(stage: &mut Stage) {
    let nodes = stage.fleet.node_ids();
    eventually("one process of each tool at each node", || async {
        for tool in [&stage.team, &stage.fill] {
            let running = tool.running();
            ensure!(running.len() == NODES, "{running:?}");
            ensure!(
                running.iter().all(|pid| kernel::descends_from(*pid, &nodes)),
                "{running:?} of {nodes:?}"
            );
        }
        let ours = [std::process::id()];
        let strays: Vec<u32> = stage.fleet.processes();
        let strays: Vec<u32> = strays.into_iter().filter(|pid| !kernel::descends_from(*pid, &ours)).collect();
        ensure!(strays.is_empty(), "nobody's: {strays:?}");
        Ok(())
    })
    .await;
    for index in 0..NODES {
        stage.fleet.kill_node(index).await.unwrap();
    }
    eventually("the tools to end with their nodes", || async {
        let left = [stage.team.running(), stage.fill.running()].concat();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await;
}
