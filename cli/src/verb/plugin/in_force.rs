//! How far an approval has come: asks each edge until its connected nodes go by it, within bounds.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::notices::named;
use crate::api::{Parts, Raised};
use crate::client::{Client, escape};
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::{Output, shown};

/// Longest wait: nodes take a second or two, a half-open link eight.
const LONGEST: Duration = Duration::from_secs(10);

/// Between two looks: a person sees "after 0.3 s" and the control plane hardly notices.
const LOOK: Duration = Duration::from_millis(50);

/// Where an approval is in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InForce {
    edges: Vec<EdgeState>,
    took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct EdgeState {
    edge: String,
    acknowledged: u64,
    connected: u64,
    waiting: Vec<String>,
}

impl EdgeState {
    fn is_whole(&self) -> bool {
        self.acknowledged >= self.connected
    }
}

/// Waits until every connected node of the edges holds the generation, at most ten seconds.
///
/// # Errors
/// As the API's.
pub(crate) async fn in_force(client: &Client, out: &Output, raised: &[Raised]) -> Result<InForce, Failure> {
    let began = Instant::now();
    let spinner = Progress::wait(out, "Waiting for the nodes to go by it");
    loop {
        let mut edges = Vec::new();
        for one in raised {
            edges.push(look(client, one).await?);
        }
        let force = InForce { edges, took: began.elapsed() };
        if force.is_whole() || force.took >= LONGEST {
            spinner.end();
            return Ok(force);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn look(client: &Client, raised: &Raised) -> Result<EdgeState, Failure> {
    let parts: Parts = client.get(&format!("/edges/{}/parts", escape(&raised.edge))).await?;
    let trust = parts.trust;
    let is_there = trust.generation >= raised.trust_generation;
    Ok(EdgeState {
        edge: raised.edge.clone(),
        acknowledged: if is_there { trust.acknowledged } else { 0 },
        connected: trust.connected,
        waiting: trust.waiting,
    })
}

impl InForce {
    /// Whether every connected node goes by it.
    pub(crate) fn is_whole(&self) -> bool {
        self.edges.iter().all(EdgeState::is_whole)
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let sum = |count: fn(&EdgeState) -> u64| self.edges.iter().map(count).sum::<u64>();
        let (acknowledged, connected) = (sum(|edge| edge.acknowledged), sum(|edge| edge.connected));
        let took = self.took.as_secs_f64();
        if connected == 0 {
            return vec!["No node is connected; each goes by it when it returns.".to_owned()];
        }
        let mut lines = vec![format!("In force on {acknowledged} of {connected} nodes after {took:.1} s.")];
        for edge in self.edges.iter().filter(|edge| !edge.is_whole()) {
            let names = named(&edge.waiting, edge.connected.saturating_sub(edge.acknowledged));
            lines.push(format!("Not acknowledged on edge {}: {names}", shown::line(&edge.edge)));
        }
        lines
    }

    /// For programs.
    pub(crate) fn as_json(&self) -> Value {
        let edges: Vec<Value> = self
            .edges
            .iter()
            .map(|edge| {
                json!({"edge": edge.edge, "acknowledged": edge.acknowledged, "connected": edge.connected,
                       "waiting": edge.waiting})
            })
            .collect();
        json!({"whole": self.is_whole(), "after_ms": self.took.as_millis(), "edges": edges})
    }
}
