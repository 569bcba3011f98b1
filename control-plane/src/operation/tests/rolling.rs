//! Rollouts as they are recorded: by whichever server looks, once, with their events, over restarts.

use domain::id::{EdgeName, NodeId, NodeName, PluginVersion};
use domain::plugin_set::{Part, Scope};
use domain::rollout::{OnChanges, OnFailure, Plan, Share, Step, Verb, Wave};

use crate::operation::assign::assign;
use crate::operation::create_edge::create_edge;
use crate::operation::rollout::{look, move_on, start_rollout, steer};
use crate::operation::testing::{Fleet, TEAM, code, edge, version};
use crate::store::nodes::versions::{self, NodeVersion};
use crate::store::testing::{Bench, on_both};
use crate::store::{NodeRecord, candidates, rollouts};

const NEW: &str = "name: team\nversion: 1.1.0\ntools:\n  team: { command: [\"server\"] }\n";

fn plan(edges: &[&str]) -> Plan {
    let steps = [(Share::Count(1), 60_000), (Share::Percent(100), 0)];
    let wave = |name: &&str| Wave {
        name: (*name).to_owned(),
        edges: vec![EdgeName::parse(name).unwrap()],
        parallel_edges: 1,
        steps: steps.iter().map(|(nodes, hold_ms)| Step { nodes: *nodes, hold_ms: *hold_ms }).collect(),
    };
    Plan {
        to: version("team@1.1.0"),
        waves: edges.iter().map(wave).collect(),
        progress_deadline_ms: 3_600_000,
        offline_grace_ms: 60_000,
        failed_nodes: 0,
        on_changes: OnChanges::Wait,
        on_failure: OnFailure::RollBack,
    }
}

fn everybody(_: &NodeRecord) -> bool {
    true
}

struct Stage {
    fleet: Fleet,
    nodes: Vec<NodeId>,
}

impl Stage {
    async fn new(bench: Bench) -> Self {
        let fleet = Fleet::new(bench).await;
        fleet.install(TEAM, "team@1.0.0").await;
        fleet.push(NEW).await.unwrap();
        let mut nodes = Vec::new();
        for number in 1..=3 {
            nodes.push(fleet.node(&edge(), &format!("node-{number}")).await);
        }
        Self { fleet, nodes }
    }

    async fn start(&self, edges: &[&str]) -> String {
        let started = start_rollout(&self.fleet.store, &self.fleet.by(), &plan(edges), (None, false)).await;
        started.unwrap().rollout.id
    }

    /// A server looks until it finds nothing more to do; answers how many moves it made.
    async fn settle(&self, id: &str) -> usize {
        let mut moves = 0;
        while move_on(&self.fleet.store, &everybody, id, self.fleet.by().now).await.unwrap() {
            moves += 1;
            assert!(moves < 100);
        }
        moves
    }

    async fn granted(&self, id: &str, edge: &EdgeName) -> Vec<NodeName> {
        let mut tx = self.fleet.store.read().await.unwrap();
        let rollout = rollouts::find(&mut tx, id).await.unwrap().unwrap();
        let granted = candidates::nodes_of(&mut tx, &rollout.source(edge)).await.unwrap();
        granted.into_iter().map(|(name, _)| name).collect()
    }

    async fn says(&self, node: &NodeId, state: &str, tool: &str) {
        let mut tx = self.fleet.store.begin_write().await.unwrap();
        let tools = format!(r#"[{{"tool":"team","state":"{tool}","reason":"it ended","confined":""}}]"#);
        let said = NodeVersion {
            version: version("team@1.1.0"),
            state: state.to_owned(),
            reason: String::new(),
            tools,
        };
        versions::put(tx.tx(), node, &said).await.unwrap();
        tx.commit(self.fleet.by().now).await.unwrap();
    }

    async fn installed(&self, edge: &EdgeName) -> Option<PluginVersion> {
        let mut tx = self.fleet.store.read().await.unwrap();
        let all = crate::store::assignments::of_edge(&mut tx, edge).await.unwrap();
        all.into_iter().map(|one| one.version).next()
    }

    async fn phase(&self, id: &str) -> String {
        let looked = look(&self.fleet.store, &everybody, id, self.fleet.by().now).await.unwrap();
        looked.rollout.state.phase.as_str().to_owned()
    }
}

#[test]
fn a_rollout_is_recorded_move_by_move_and_goes_on_wherever_it_is_looked_at() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let events = stage.fleet.logged().await;
        let id = stage.start(&["eu-1"]).await;
        assert!(stage.settle(&id).await >= 3);
        let first = stage.granted(&id, &edge()).await;
        assert_eq!(first.len(), 1);
        assert_eq!(stage.settle(&id).await, 0, "another server finds nothing to do");
        let canary = stage.nodes.iter().zip(["node-1", "node-2", "node-3"]);
        let canary = canary.clone().find(|(_, name)| *name == first[0].as_str()).unwrap().0.clone();
        stage.says(&canary, "starting", "starting").await;
        assert_eq!(stage.settle(&id).await, 0);
        stage.says(&canary, "serving", "running").await;
        assert_eq!(stage.settle(&id).await, 1);
        stage.fleet.pass(40_000);
        assert_eq!(stage.settle(&id).await, 0, "held on the database's record, by whatever server");
        stage.fleet.pass(30_000);
        stage.settle(&id).await;
        assert_eq!(stage.granted(&id, &edge()).await.len(), 3);
        assert_eq!(stage.installed(&edge()).await, Some(version("team@1.0.0")));
        for node in &stage.nodes {
            stage.says(node, "serving", "running").await;
        }
        stage.settle(&id).await;
        assert_eq!(stage.installed(&edge()).await, Some(version("team@1.1.0")));
        assert_eq!(stage.phase(&id).await, "completed");
        let told = stage.fleet.events(events).await;
        let count = |name: &str| told.iter().filter(|one| *one == name).count();
        assert_eq!((count("rollout.start"), count("edge.assignment.set")), (1, 1), "{told:?}");
        assert!(count("rollout.move") >= 7, "{told:?}");
    });
}

#[test]
fn what_a_rollout_cannot_do_rolls_it_back_with_the_reason() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let (store, by) = (&stage.fleet.store, stage.fleet.by());
        let far = EdgeName::parse("far-1").unwrap();
        create_edge(store, &by, &far).await.unwrap();
        let id = stage.start(&["eu-1", "far-1"]).await;
        for node in &stage.nodes {
            stage.says(node, "serving", "running").await;
        }
        stage.settle(&id).await;
        // Another plugin takes the tool's id on the second edge in the meantime.
        stage
            .fleet
            .push("name: rival\nversion: 1.0.0\ntools:\n  team: { command: [\"server\"] }\n")
            .await
            .unwrap();
        assign(store, &by, &far, &version("rival@1.0.0")).await.unwrap();
        stage.fleet.pass(120_000);
        stage.settle(&id).await;
        stage.fleet.pass(120_000);
        stage.settle(&id).await;
        assert_eq!(stage.phase(&id).await, "rolled_back");
        let reason = look(store, &everybody, &id, by.now).await.unwrap().rollout.reason;
        assert!(reason.contains("rival@1.0.0"), "{reason}");
        assert_eq!(
            stage.installed(&edge()).await,
            Some(version("team@1.0.0")),
            "what was promoted went back"
        );
        assert_eq!(stage.installed(&far).await, Some(version("rival@1.0.0")));
    });
}

#[test]
fn a_rollout_that_failed_leaves_its_mark_and_nothing_else() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let (store, by) = (&stage.fleet.store, stage.fleet.by());
        let id = stage.start(&["eu-1"]).await;
        stage.settle(&id).await;
        for node in &stage.nodes {
            stage.says(node, "serving", "not_running").await;
        }
        stage.settle(&id).await;
        assert_eq!(stage.phase(&id).await, "rolled_back");
        let reason = look(store, &everybody, &id, by.now).await.unwrap().rollout.reason;
        assert!(reason.contains(": node-") && reason.contains("team does not run"), "{reason}");
        assert_eq!(stage.installed(&edge()).await, Some(version("team@1.0.0")));
        let mut tx = store.read().await.unwrap();
        assert!(candidates::of_edge(&mut tx, &edge()).await.unwrap().is_empty());
        drop(tx);
        assert_eq!(code(start_rollout(store, &by, &plan(&["eu-1"]), (None, false)).await), "rolled_back");
        assert_eq!(
            code(start_rollout(store, &by, &plan(&["eu-1"]), (Some(" "), false)).await),
            "rolled_back"
        );
        let dry = start_rollout(store, &by, &plan(&["eu-1"]), (Some("mended"), true)).await.unwrap();
        assert_eq!((dry.nodes, dry.least_ms), (vec![("eu-1".to_owned(), 3)], 60_000));
        start_rollout(store, &by, &plan(&["eu-1"]), (Some("mended"), false)).await.unwrap();
        assert_eq!(code(start_rollout(store, &by, &plan(&["eu-1"]), (Some("x"), false)).await), "in_rollout");
        assert_eq!(
            code(start_rollout(store, &by, &plan(&["nowhere"]), (Some("x"), false)).await),
            "not_found"
        );
        let unknown = Plan { to: version("team@9.0.0"), ..plan(&["eu-1"]) };
        assert_eq!(code(start_rollout(store, &by, &unknown, (None, false)).await), "not_found");
        assert_eq!(code(steer(store, &by, "nothing", &Verb::Pause).await), "not_found");
        assert_eq!(code(steer(store, &by, &id, &Verb::Pause).await), "rollout_differs");
    });
}

#[test]
fn a_rollout_raises_the_parts_that_change_and_no_others() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let id = stage.start(&["eu-1"]).await;
        stage.settle(&id).await;
        let positions = |stage: &Stage| {
            let store = stage.fleet.store.clone();
            let nodes = stage.nodes.clone();
            async move {
                let mut tx = store.read().await.unwrap();
                let mut all = Vec::new();
                for node in nodes {
                    let scope = Scope::Node(node);
                    all.push(crate::store::heads::get(&mut tx, &scope, Part::Grants).await.unwrap());
                }
                all
            }
        };
        let before = positions(&stage).await;
        stage.settle(&id).await;
        assert_eq!(positions(&stage).await, before, "looking raises nothing");
        let said = steer(&stage.fleet.store, &stage.fleet.by(), &id, &Verb::Pause).await.unwrap();
        assert!(said.changed);
        stage.settle(&id).await;
        assert_eq!(positions(&stage).await, before);
    });
}

#[test]
fn of_many_nodes_never_more_have_it_than_the_step_says_and_each_move_is_one_transaction() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let mut nodes = stage.nodes.clone();
        for number in 4..=120 {
            nodes.push(stage.fleet.node(&edge(), &format!("node-{number}")).await);
        }
        let shares = [Share::Count(1), Share::Percent(10), Share::Percent(50), Share::Percent(100)];
        let steps = shares.map(|nodes| Step { nodes, hold_ms: 0 }).to_vec();
        let wave = Wave { steps, ..plan(&["eu-1"]).waves[0].clone() };
        let wanted = Plan { waves: vec![wave], ..plan(&["eu-1"]) };
        let (store, by) = (&stage.fleet.store, stage.fleet.by());
        let id = start_rollout(store, &by, &wanted, (None, false)).await.unwrap().rollout.id;
        let (writes, mut moves, mut seen) = (store.written(), 0, Vec::new());
        let mut told = 0;
        while stage.phase(&id).await != "completed" {
            assert!(move_on(store, &everybody, &id, stage.fleet.by().now).await.unwrap());
            moves += 1;
            let granted = stage.granted(&id, &edge()).await;
            seen.push(granted.len());
            // An observer of its own, at every move: nobody but those of the step has the version.
            let looked = look(store, &everybody, &id, by.now).await.unwrap();
            if let Some(run) = looked.rollout.state.edges.get(&edge()) {
                let most = shares[run.step].of(nodes.len());
                assert!(
                    granted.len() <= most || stage.phase(&id).await == "completed",
                    "{} of {most}",
                    granted.len()
                );
            }
            for node in looked.fleet.values().flat_map(|view| &view.granted) {
                told += 1;
                stage.says(node, "serving", "running").await;
            }
        }
        assert!(
            seen.contains(&1) && seen.contains(&12) && seen.contains(&60) && seen.contains(&120),
            "{seen:?}"
        );
        let own = store.written() - writes - told;
        assert_eq!(own, moves, "one transaction a move, however many nodes it is for");
        assert!(moves < 25, "{moves}");
    });
}
