//! People: they assign, take away and approve, each through some server, which may be killed meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::audit::FunctionDifference;
use domain::id::{EdgeName, NodeName, PluginName, PluginVersion};
use domain::time::Timestamp;

use super::World;
use super::event::Event;

/// What a person asks for.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// A version for an edge.
    Assign(EdgeName, PluginVersion),
    /// A plugin away from an edge.
    Unassign(EdgeName, PluginName),
    /// A version for some nodes of an edge.
    Try(EdgeName, PluginVersion, BTreeSet<NodeName>),
    /// A plugin's candidate away from an edge.
    EndTry(EdgeName, PluginName),
    /// What was shown of a plugin's changes.
    Approve(PluginName, Vec<FunctionDifference>),
}

impl World<'_> {
    /// A person thinks of something.
    pub(super) fn person(&mut self) -> anyhow::Result<()> {
        if self.is_calm {
            return Ok(());
        }
        let again = self.chance.between(300, self.profile.people_every_ms);
        self.after(again, Event::Person);
        let scene = self.scene;
        let Some(plugin) = self.chance.pick(&scene.plugins) else { return Ok(()) };
        let Some(edge) = self.chance.pick(&scene.edges) else { return Ok(()) };
        let what = self.chance.below(100);
        let deed = if what < 45 {
            let open = self.database.open_changes(plugin)?;
            let shown: Vec<FunctionDifference> =
                open.into_iter().filter(|_| self.chance.happens(800)).collect();
            if shown.is_empty() {
                return Ok(());
            }
            Deed::Approve(plugin.clone(), shown)
        } else if what < 55 {
            self.what_to_try(edge, plugin)
        } else if what < 92 {
            let versions: Vec<&PluginVersion> = scene.versions_of(plugin).collect();
            let Some(version) = self.chance.pick(&versions) else { return Ok(()) };
            Deed::Assign(edge.clone(), (*version).clone())
        } else {
            Deed::Unassign(edge.clone(), plugin.clone())
        };
        // People take their time between what they see and what they do.
        let delay = self.chance.between(1, 1_500);
        self.after(delay, Event::Asked(deed));
        Ok(())
    }

    /// Half of the time a candidate ends, or ends what was never tried.
    fn what_to_try(&mut self, edge: &EdgeName, plugin: &PluginName) -> Deed {
        let scene = self.scene;
        let of_plugin: Vec<&PluginVersion> = scene.versions_of(plugin).collect();
        let version = self.chance.pick(&of_plugin).copied();
        let here = scene.machines.iter().take(self.hosts.len()).filter(|one| one.identity.edge == *edge);
        let nodes: Vec<NodeName> = here.filter_map(|one| NodeName::parse(one.name).ok()).collect();
        let nodes = nodes.into_iter().filter(|_| self.chance.happens(600)).collect();
        match version.filter(|_| self.chance.happens(600)) {
            Some(version) => Deed::Try(edge.clone(), version.clone(), nodes),
            None => Deed::EndTry(edge.clone(), plugin.clone()),
        }
    }

    /// The request is with a server.
    pub(super) fn asked(&mut self, deed: Deed) {
        let servers = self.replicas.len() as u64;
        let server = usize::try_from(self.chance.below(servers)).unwrap_or_default();
        let Some(replica) = self.replicas.get(server).filter(|replica| replica.server.is_some()) else {
            return;
        };
        let incarnation = replica.incarnation;
        let latency = self.work_latency();
        let wall_ms = self.server_wall(server);
        let by = (server, incarnation);
        self.after(latency, Event::Done { deed, asked_at: self.now, wall_ms, by });
    }

    /// The server commits it. One that was killed before did nothing.
    pub(super) fn done(
        &mut self,
        deed: &Deed,
        (asked_at, wall_ms): (u64, i64),
        (server, incarnation): (usize, u32),
    ) -> anyhow::Result<()> {
        let is_up = |replica: &super::Replica| replica.server.is_some() && replica.incarnation == incarnation;
        if !self.replicas.get(server).is_some_and(is_up) {
            return Ok(());
        }
        let now = Timestamp::from_millis(wall_ms);
        self.server_clock(server);
        match deed {
            Deed::Assign(edge, version) => {
                let done = self.database.assign(now, edge, version);
                self.trace(|| format!("a person assigns {version} to {edge}: {done:?}"));
            }
            Deed::Unassign(edge, plugin) => {
                let done = self.database.unassign(now, edge, plugin);
                self.trace(|| format!("a person takes {plugin} from {edge}: {done:?}"));
            }
            Deed::Try(edge, version, nodes) => {
                let done = self.database.try_candidate(now, edge, version, nodes);
                let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
                self.trace(|| format!("a person tries {version} on {} of {edge}: {done:?}", names.join(" ")));
            }
            Deed::EndTry(edge, plugin) => {
                let done = self.database.end_candidate(now, edge, plugin);
                self.trace(|| format!("a person ends the candidate of {plugin} on {edge}: {done:?}"));
            }
            Deed::Approve(plugin, shown) => {
                let done = self.database.approve(now, plugin, shown.clone());
                self.trace(|| {
                    format!(
                        "a person approves {}: {}",
                        brief(shown),
                        match &done {
                            Ok(done) => format!("done {}", brief(done)),
                            Err(reason) => reason.clone(),
                        }
                    )
                });
                for one in done.unwrap_or_default() {
                    let key = (one.version, one.tool, Arc::clone(&one.function));
                    self.approved.insert(key, one.seen);
                }
            }
        }
        self.touched(asked_at);
        self.pump_all(server);
        self.check_audit()
    }
}

fn brief(functions: &[FunctionDifference]) -> String {
    let one = |one: &FunctionDifference| {
        let seen = one.seen.map_or_else(|| "gone".to_owned(), |hash| short(&hash.to_string()));
        format!("{} {}.{} {seen}", one.version, one.tool, one.function)
    };
    functions.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The start of a hash.
pub(crate) fn short(hash: &str) -> String {
    hash.rsplit(':').next().unwrap_or_default().chars().take(6).collect()
}
