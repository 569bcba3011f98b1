//! What must hold at the end of faults and after it: S3, L1, L2. S1, S2 and S5 are judged at each step, by
//! the [`observer`](crate::observer); S4 has its place here once there are rollouts.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::id::PluginVersion;
use domain::plugin_set::{Part, Position, Scope};

use super::World;
use super::event::Event;
use super::people::Deed;

/// From the end of faults: a node may come back as late as a minute after that (30-nodes, 2), a half-open
/// link costs 25 s where nobody waits; then L1 gives 30 s.
const SETTLED_MS: u64 = 120_000;

/// For a change of a tool to be listed, reported and recorded.
const REPORTED_MS: u64 = 6_000;

/// After an approval (L2).
const IN_FORCE_MS: u64 = 2_000;

impl World<'_> {
    /// Faults end: everything comes up, everybody reaches everybody.
    pub(super) fn calm(&mut self) {
        self.trace(|| "faults end".to_owned());
        self.is_calm = true;
        self.parted.clear();
        self.conns.values_mut().for_each(|conn| conn.slower = 0);
        for host in &mut self.hosts {
            host.skew_ms = 0;
        }
        for server in 0..self.replicas.len() {
            if let Some(replica) = self.replicas.get_mut(server) {
                replica.skew_ms = 0;
            }
            self.after(100, Event::StartServer { server });
        }
        for node in 0..self.hosts.len() {
            self.after(200, Event::StartNode { node });
        }
        self.after(SETTLED_MS, Event::Settled);
    }

    /// Why a node was told to stay away counts as its reason, where the database was restored.
    pub(super) fn note_goodbye(&mut self, node: usize, why: &str) {
        let is_reason = self.was_restored && why.contains("database");
        if let Some(host) = self.hosts.get_mut(node) {
            host.reason = is_reason.then(|| why.to_owned());
        }
    }

    /// L1: every node is connected, holds the newest of each part, and serves what is assigned to it.
    pub(super) fn settled(&mut self) -> anyhow::Result<()> {
        self.check_records()?;
        let positions: BTreeMap<(Scope, Part), Position> =
            self.database.positions()?.into_iter().map(|(scope, part, at)| ((scope, part), at)).collect();
        for node in 0..self.hosts.len() {
            if let Some(what) = self.is_behind(node, &positions) {
                self.fail(format!("L1: {} {what}", self.name(node)));
                return Ok(());
            }
        }
        self.reword_one();
        self.after(REPORTED_MS, Event::Approve);
        Ok(())
    }

    fn is_behind(&mut self, node: usize, positions: &BTreeMap<(Scope, Part), Position>) -> Option<String> {
        let machine = self.scene.machines.get(node)?;
        let boot = self.hosts.get(node)?.up.as_ref().map(|up| up.boot)?;
        let Some(up) = self.agent(node, boot) else { return Some("is not up".to_owned()) };
        let is_connected = up.agent.is_connected();
        let holds: BTreeMap<Part, Position> =
            up.agent.holds().into_iter().map(|held| (held.part, held.position)).collect();
        let status = up.agent.status();
        if self.hosts.get(node).is_some_and(|host| host.reason.is_some()) {
            return None;
        }
        if !is_connected {
            return Some("is not connected".to_owned());
        }
        for part in Part::ALL {
            let scope = match part {
                Part::Grants => Scope::Node(machine.identity.node.clone()),
                Part::Trust | Part::Plan | Part::Policy => Scope::Edge(machine.identity.edge.clone()),
            };
            let newest = positions.get(&(scope, part)).copied().unwrap_or_default();
            let held = holds.get(&part).copied().unwrap_or_default();
            if held != newest {
                return Some(format!("holds {part} {held}, the database has {newest}"));
            }
        }
        let assigned = self.observer.serves(node);
        let is_assigned = |version: &PluginVersion| assigned.iter().any(|one| *one == version.to_string());
        let stands = |name: &str| status.iter().find(|(version, ..)| version.to_string() == name);
        for name in &assigned {
            match stands(name) {
                Some((_, "serving", _)) => {}
                Some((_, state, reason)) => return Some(format!("has {name} {state}: {reason}")),
                None => return Some(format!("has no {name}, which is assigned")),
            }
        }
        let left = status.iter().find(|(version, ..)| !is_assigned(version));
        left.map(|(version, state, reason)| format!("still has {version} {state}: {reason}"))
    }

    /// One function of what is assigned says something else on every node.
    fn reword_one(&mut self) {
        let scene = self.scene;
        let Some(release) = self.chance.pick(&scene.releases) else { return };
        let Some((tool, functions)) = self.chance.pick(&release.tools) else { return };
        let Some(function) = self.chance.pick(functions).copied() else { return };
        let of = (release.version.clone(), tool.clone());
        self.trace(|| format!("everywhere {} {tool}.{function} says something else", of.0));
        for node in 0..self.hosts.len() {
            self.reword(node, &of, function, 7);
        }
    }

    /// A person approves everything that is open.
    pub(super) fn approve_all(&mut self) -> anyhow::Result<()> {
        for plugin in &self.scene.plugins {
            let open = self.database.open_changes(plugin)?;
            if !open.is_empty() {
                self.after(0, Event::Asked(Deed::Approve(plugin.clone(), open)));
            }
        }
        self.after(IN_FORCE_MS + 50, Event::InForce);
        Ok(())
    }

    /// L2: every connected node calls what is approved, where its tools list it as approved.
    pub(super) fn in_force(&mut self) -> anyhow::Result<()> {
        self.is_over = true;
        for node in 0..self.hosts.len() {
            let Some(boot) = self.hosts.get(node).and_then(|host| host.up.as_ref()).map(|up| up.boot) else {
                continue;
            };
            let Some(up) = self.agent(node, boot).filter(|up| up.agent.is_connected()) else { continue };
            let serving: Vec<PluginVersion> = up.agent.serving();
            for version in serving {
                self.check_version(node, boot, &version)?;
            }
        }
        self.check_records()
    }

    fn check_version(&mut self, node: usize, boot: u32, version: &PluginVersion) -> anyhow::Result<()> {
        let approved = self.database.approved(version)?;
        let scene = self.scene;
        let Some(release) = scene.release(version) else { return Ok(()) };
        for (tool, _) in &release.tools {
            let words = self.says_now(node, &(version.clone(), tool.clone()));
            for (function, variant) in words {
                let text = crate::scene::canonical(function, variant);
                let hash = domain::digest::ListingHash::of_canonical(&text);
                let is_approved = approved.get(&(tool.clone(), Arc::from(function))) == Some(&hash);
                let Some(up) = self.agent(node, boot) else { return Ok(()) };
                if let (true, Err(code)) = (is_approved, up.agent.permit(&format!("{tool}.{function}"))) {
                    let what =
                        format!("{version} {tool}.{function} is approved as it is, and refused: {code}");
                    self.fail(format!("L2: on {} {what}", self.name(node)));
                }
            }
        }
        Ok(())
    }

    /// S3: the audit log only grows.
    pub(super) fn check_audit(&mut self) -> anyhow::Result<()> {
        let length = self.database.audit_length()?;
        if length < self.audit_length {
            self.fail(format!("S3: the audit log has {length} events, it had {}", self.audit_length));
        }
        self.audit_length = length;
        Ok(())
    }

    /// S3: what was acknowledged is there: audit events, approvals, reports.
    fn check_records(&mut self) -> anyhow::Result<()> {
        self.check_audit()?;
        if let Some(fault) = self.database.audit_fault()? {
            self.fail(format!("S3: the audit log does not verify: {fault}"));
        }
        for ((version, tool, function), seen) in self.approved.clone() {
            let now = self.database.approved(&version)?.get(&(tool.clone(), Arc::clone(&function))).copied();
            if now != seen {
                self.fail(format!("S3: an approval of {version} {tool}.{function} is lost"));
            }
        }
        for ((node, version, tool), (boot, sequence)) in self.observer.acknowledged.clone() {
            let Some(machine) = self.scene.machines.get(node) else { continue };
            let (Ok(version), Ok(tool)) = (PluginVersion::parse(&version), domain::id::ToolId::parse(&tool))
            else {
                continue;
            };
            let id = &machine.identity.node;
            let is_there = match self.database.reported(id, &version, &tool)? {
                Some(newest) => {
                    let of = newest.boot.trim_start_matches('b').parse::<u32>().unwrap_or_default();
                    of > boot || (of == boot && newest.sequence >= sequence)
                }
                // What a node says that it has no longer is forgotten.
                None => !self.database.versions_of(id)?.contains(&version),
            };
            if !is_there {
                self.fail(format!(
                    "S3: report {sequence} of boot {boot} about {version} {tool} was acknowledged and is lost (node {})",
                    machine.name
                ));
            }
        }
        Ok(())
    }
}
