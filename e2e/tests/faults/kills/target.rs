//! Who is killed, how, and how it is started again.

use e2e::kernel;
use e2e::random::Random;

use super::Stage;

/// What is killed; in the order in which it has to be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Postgres(Cluster),
    Server,
    /// The tool server over HTTP.
    Remote,
    Node(usize),
    /// A tool over stdio, or the shim above it, by its process.
    Tool(u32),
}

/// What of `PostgreSQL` is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cluster {
    All,
    Postmaster,
    /// One of the processes that it started; it recovers by itself.
    One,
}

/// So many targets, each kind equally often, in a random order.
pub(super) fn sequence(kills: usize, random: &mut Random) -> Vec<Target> {
    let mut sequence = Vec::new();
    while sequence.len() < kills {
        let cluster = [Cluster::All, Cluster::Postmaster, Cluster::One][random.below(3)];
        let tool = if random.below(4) == 0 { Target::Remote } else { Target::Tool(0) };
        let mut round =
            [Target::Server, Target::Node(random.below(super::NODES)), tool, Target::Postgres(cluster)];
        random.shuffle(&mut round);
        sequence.extend(round);
    }
    sequence.truncate(kills);
    sequence
}

impl Stage {
    /// Kills it, if it is not down already; what was killed.
    pub(super) async fn strike(&mut self, target: Target, random: &mut Random) -> Target {
        match target {
            Target::Server => {
                self.fleet.kill_server().await.ok();
            }
            Target::Node(index) => {
                self.fleet.kill_node(index).await.ok();
            }
            Target::Remote => {
                if let Some(mut remote) = self.remote.take() {
                    remote.kill().await.unwrap();
                }
            }
            Target::Postgres(Cluster::All) => {
                self.postgres.kill_all().await.ok();
            }
            Target::Postgres(Cluster::Postmaster) => {
                self.postgres.kill_postmaster().await.ok();
            }
            Target::Postgres(Cluster::One) => self.postgres.kill_one(|count| random.below(count)),
            Target::Tool(_) => {
                let mut tools = [self.team.running(), self.fill.running()].concat();
                tools.sort_unstable();
                let mut pid = tools.get(random.below(tools.len())).copied().unwrap_or_default();
                if random.below(3) == 0 {
                    pid = kernel::parent(pid).unwrap_or(pid);
                }
                // It may have ended by itself; a node's process, or this one, is none of the tools'.
                if pid > 1 && pid != std::process::id() && !self.fleet.node_ids().contains(&pid) {
                    kernel::kill(pid).ok();
                }
                return Target::Tool(pid);
            }
        }
        target
    }

    /// Starts it again; tools over stdio are their nodes' to start.
    pub(super) async fn raise(&mut self, target: Target) {
        match target {
            Target::Postgres(Cluster::One) | Target::Tool(_) => {}
            Target::Postgres(_) => {
                if !self.postgres.is_running() {
                    self.postgres.restart().await.unwrap();
                }
            }
            Target::Server => self.raise_server().await,
            Target::Remote => {
                if self.remote.is_none() {
                    let (remote, _) = self.weather.serve(Some(self.remote_port)).await.unwrap();
                    self.remote = Some(remote);
                }
            }
            Target::Node(index) => {
                if self.fleet.node_id(index).is_err() {
                    self.fleet.restart_node(index).await.unwrap();
                }
            }
        }
    }

    /// A server does not start while its database recovers; whoever keeps it running tries again.
    async fn raise_server(&mut self) {
        if self.fleet.server_id().is_some() {
            return;
        }
        let mut tries = 0;
        while let Err(error) = self.fleet.start_server().await {
            tries += 1;
            assert!(tries < 100, "the server does not start: {error:#}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
}
