//! The observer from outside: it sees what was said on the wire and what the tool servers logged, and
//! judges calls by that. It shares no code with the guard, the reconciler or the accept rule.

mod wire;

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::v1;
use sha2::{Digest as _, Sha256};

use wire::Key;
pub(crate) use wire::Position;

/// A digest, as it is on the wire.
type Sum = Vec<u8>;

/// For a moment after the plan took a plugin away, the node may not have stopped its calls yet: the time
/// in which the simulated agent's reconciler begins its next turn.
const TURN_MS: u64 = 10;

/// A listing a tool server completed, or as much of it as it sent.
#[derive(Clone, Debug)]
struct Page {
    asked_at: u64,
    /// Words' hash by function.
    shown: BTreeMap<String, Sum>,
}

/// One run of a tool server.
#[derive(Clone, Debug, Default)]
struct Run {
    /// When it said last that its list changed.
    noticed_at: Option<u64>,
    /// The newest list that ended.
    newest: Option<Page>,
    /// An empty list counts only when the next is empty too (20-listings, 4).
    was_empty: bool,
}

/// One boot of a node, as seen from outside.
#[derive(Clone, Debug, Default)]
struct Boot {
    /// What the Hello of its present stream said to be held.
    said: BTreeMap<i32, Key>,
    /// What was confirmed or acknowledged in this boot.
    holds: BTreeMap<i32, Key>,
    /// By plugin: versions that were assigned in this boot and whose replacement was not called since,
    /// each with its content and since when it is not assigned any more.
    may: BTreeMap<String, Vec<May>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct May {
    version: String,
    content: Sum,
}

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    bodies: BTreeMap<Sum, Bytes>,
    manifests: BTreeMap<Key, BTreeMap<String, Sum>>,
    boots: BTreeMap<usize, Boot>,
    /// By node and part: the highest that it ever said to hold.
    highest: BTreeMap<(usize, i32), Position>,
    runs: BTreeMap<u64, Run>,
    /// By node and plugin: until when a plugin that the plan took away may still be called, and in which versions.
    leaving: BTreeMap<(usize, String), (u64, Vec<May>)>,
    /// Reports that nodes sent: (node, boot, sequence) -> (plugin@version, tool).
    reports: BTreeMap<(usize, u32, u64), (String, String)>,
    /// Of these, the newest of each tool that was acknowledged.
    pub(crate) acknowledged: BTreeMap<(usize, String, String), (u32, u64)>,
    pub(crate) calls: u64,
}

/// A call that reached a tool server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) node: usize,
    pub(crate) plugin: &'a str,
    pub(crate) version: &'a str,
    /// Of the bundle that the server was started from.
    pub(crate) content: &'a [u8],
    pub(crate) tool: &'a str,
    pub(crate) function: &'a str,
    /// The run of the tool server.
    pub(crate) run: u64,
}

impl Observer {
    /// A node's agent began.
    pub(crate) fn booted(&mut self, node: usize) {
        self.boots.insert(node, Boot::default());
        self.leaving.retain(|(of, _), _| *of != node);
    }

    /// A tool server began.
    pub(crate) fn tool_began(&mut self, run: u64) {
        self.runs.insert(run, Run::default());
    }

    /// A tool server said that its list changed.
    pub(crate) fn tool_noticed(&mut self, run: u64, now: u64) {
        self.runs.entry(run).or_default().noticed_at = Some(now);
    }

    /// A tool server ended a list that was asked for then, or broke it off after this.
    pub(crate) fn tool_listed(&mut self, run: u64, asked_at: u64, shown: &[(String, String)]) {
        let shown = shown.iter().map(|(name, canonical)| (name.clone(), sum(canonical.as_bytes())));
        let shown: BTreeMap<String, Sum> = shown.collect();
        let run = self.runs.entry(run).or_default();
        let counts = !shown.is_empty() || run.was_empty;
        run.was_empty = shown.is_empty();
        if counts {
            run.newest = Some(Page { asked_at, shown });
        }
    }

    /// A tool server ended.
    pub(crate) fn tool_ended(&mut self, run: u64) {
        self.runs.remove(&run);
    }

    /// A server's message reaches a node.
    ///
    /// # Errors
    /// S3 as far as the wire shows it.
    pub(crate) fn hears(&mut self, node: usize, boot: u32, message: &v1::ServerMessage, now: u64) {
        use v1::server_message::Message;
        match &message.message {
            Some(Message::Welcome(welcome)) => {
                let seen = self.boots.entry(node).or_default();
                for part in &welcome.current {
                    if let Some(key) = seen.said.get(part).cloned() {
                        seen.holds.insert(*part, key);
                    }
                }
                self.assigned(node, now);
            }
            Some(Message::Part(update)) => {
                self.keep(&update.bodies);
                if let Some(key) = update.head.as_ref().and_then(Key::of) {
                    let manifest = update.manifest.iter();
                    let manifest = manifest.map(|entry| (entry.name.clone(), entry.digest.clone()));
                    self.manifests.insert(key, manifest.collect());
                }
            }
            Some(Message::Bodies(bodies)) => self.keep(&bodies.bodies),
            Some(Message::ReportAck(ack)) => {
                if let Some((version, tool)) = self.reports.get(&(node, boot, ack.sequence)) {
                    let key = (node, version.clone(), tool.clone());
                    let newest = self.acknowledged.entry(key).or_default();
                    *newest = (*newest).max((boot, ack.sequence));
                }
            }
            _ => {}
        }
    }

    /// A node says something.
    ///
    /// # Errors
    /// S5, as a sentence.
    pub(crate) fn says(
        &mut self,
        node: usize,
        boot: u32,
        message: &v1::NodeMessage,
        now: u64,
    ) -> Result<(), String> {
        use v1::node_message::Message;
        match &message.message {
            Some(Message::Hello(hello)) => {
                let mut said = BTreeMap::new();
                for held in &hello.held {
                    let Some(key) = held.head.as_ref().and_then(Key::of) else { continue };
                    self.rises(node, held.part, key.position, "its Hello says that it holds")?;
                    said.insert(held.part, key);
                }
                for ((_, part), highest) in self.highest.range((node, 0)..(node + 1, 0)) {
                    if !said.contains_key(part) {
                        return Err(format!(
                            "S5: its Hello says that it holds no part {part}, and it held {highest}"
                        ));
                    }
                }
                self.boots.entry(node).or_default().said = said;
            }
            Some(Message::Ack(ack)) => {
                let position = Position { epoch: ack.epoch, generation: ack.generation };
                self.rises(node, ack.part, position, "it acknowledges")?;
                let is_it =
                    |key: &&Key| key.part == ack.part && key.position == position && key.digest == ack.digest;
                let key = self.manifests.keys().find(is_it).cloned();
                if let Some(key) = key {
                    self.boots.entry(node).or_default().holds.insert(ack.part, key);
                }
                self.assigned(node, now);
            }
            Some(Message::Listing(report)) => {
                let version = format!("{}@{}", report.plugin, report.version);
                self.reports.insert((node, boot, report.sequence), (version, report.tool.clone()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Judges a call (S1, and S2 as far as it goes).
    ///
    /// # Errors
    /// Why it is forbidden, as a sentence.
    pub(crate) fn call(&mut self, call: Call<'_>, now: u64) -> Result<(), String> {
        self.calls += 1;
        let Call { node, plugin, version, tool, function, .. } = call;
        let what = format!("{plugin}@{version} {tool}.{function}");
        let boot = self.boots.get(&node).ok_or("S1: a call without an agent")?;
        if boot.holds.len() < 4 {
            return Err(format!("S1: {what} was called before the node held the set of this boot"));
        }
        let may = boot.may.get(plugin).into_iter().flatten().find(|may| may.version == version);
        let leaves = self.leaving.get(&(node, plugin.to_owned())).is_some_and(|(until, _)| now <= *until);
        match may {
            None if leaves => {}
            None => return Err(format!("S1: {what} was called, which is neither assigned nor outgoing")),
            Some(may) if may.content != call.content => {
                return Err(format!("S2: {what} was called in a bundle that the plan does not name"));
            }
            Some(_) => {}
        }
        let approved = self.approved(boot, plugin, version, tool, function);
        let approved = approved.ok_or_else(|| format!("S1: {what} was called, which nobody approved"))?;
        let run = self.runs.get(&call.run).ok_or_else(|| format!("S1: {what}: its server is not running"))?;
        let newest = run.newest.as_ref().ok_or_else(|| {
            format!("S1: {what} was called before its server had listed it since it was started")
        })?;
        if run.noticed_at.is_some_and(|noticed| noticed > newest.asked_at) {
            return Err(format!("S1: {what} was called before a list asked for after its change had ended"));
        }
        match newest.shown.get(function) {
            Some(shown) if *shown == approved => {}
            Some(_) => return Err(format!("S1: {what} was called while it says something else")),
            None => return Err(format!("S1: {what} was called while it is not listed")),
        }
        self.called(node, plugin, version);
        Ok(())
    }

    /// What the node's trust names for a function.
    fn approved(&self, boot: &Boot, plugin: &str, version: &str, tool: &str, function: &str) -> Option<Sum> {
        let trust = boot.holds.get(&v1::Part::Trust.into())?;
        let digest = self.manifests.get(trust)?.get(&format!("{plugin}@{version}"))?;
        let entry: v1::TrustEntry = self.body(digest)?;
        let tool = entry.tools.into_iter().find(|one| one.tool == tool)?;
        tool.functions.into_iter().find(|one| one.name == function).map(|one| one.hash)
    }

    /// The replacement of an outgoing version is called: the outgoing one is not any more.
    fn called(&mut self, node: usize, plugin: &str, version: &str) {
        let assigned = self.now_assigned(node).remove(plugin);
        if let Some(may) = self.boots.get_mut(&node).and_then(|boot| boot.may.get_mut(plugin)) {
            may.retain(|one| one.version == version || Some(one) == assigned.as_ref());
        }
    }

    /// The node may hold another plan or other grants: what is assigned now may be called.
    fn assigned(&mut self, node: usize, now: u64) {
        let assigned = self.now_assigned(node);
        let Some(boot) = self.boots.get_mut(&node) else { return };
        let gone: Vec<String> =
            boot.may.keys().filter(|plugin| !assigned.contains_key(*plugin)).cloned().collect();
        for plugin in gone {
            let may = boot.may.remove(&plugin).unwrap_or_default();
            self.leaving.insert((node, plugin), (now + TURN_MS, may));
        }
        for (plugin, version) in assigned {
            // Between a plan and its grants, which come one after the other, the node was not woken: what it called
            // before is outgoing.
            let left = self.leaving.remove(&(node, plugin.clone()));
            let left = left.filter(|(until, _)| now <= *until).map(|(_, may)| may).unwrap_or_default();
            let may = boot.may.entry(plugin).or_default();
            may.extend(left);
            may.retain(|one| one.version != version.version);
            may.push(version);
        }
    }

    /// What the node is to serve, as NAME@VERSION.
    pub(crate) fn serves(&self, node: usize) -> Vec<String> {
        let assigned = self.now_assigned(node).into_iter();
        assigned.map(|(plugin, may)| format!("{plugin}@{}", may.version)).collect()
    }

    fn now_assigned(&self, node: usize) -> BTreeMap<String, May> {
        let manifest = |part: v1::Part| {
            let key = self.boots.get(&node)?.holds.get(&part.into())?;
            self.manifests.get(key)
        };
        let (Some(plan), Some(grants)) = (manifest(v1::Part::Plan), manifest(v1::Part::Grants)) else {
            return BTreeMap::new();
        };
        let mut assigned = BTreeMap::new();
        for (plugin, digest) in plan {
            let Some(entry) = self.body::<v1::PlanEntry>(digest) else { continue };
            let grant = grants.get(plugin).and_then(|digest| self.body::<v1::GrantEntry>(digest));
            let granted = grant.filter(|grant| grant.r#use == "serve").and_then(|grant| {
                let candidate = entry.candidate.clone()?;
                (entry.candidate_source == grant.source && candidate.version == grant.version)
                    .then_some(candidate)
            });
            if let Some(version) = granted.or(entry.installed) {
                assigned.insert(
                    plugin.clone(),
                    May { version: version.version, content: version.content_digest },
                );
            }
        }
        assigned
    }

    fn rises(&mut self, node: usize, part: i32, position: Position, what: &str) -> Result<(), String> {
        let highest = self.highest.entry((node, part)).or_insert(position);
        if position < *highest {
            return Err(format!("S5: {what} {} of part {part}, and it held {}", position, *highest));
        }
        *highest = position;
        Ok(())
    }

    fn keep(&mut self, bodies: &[Bytes]) {
        for body in bodies {
            self.bodies.insert(sum(body), body.clone());
        }
    }

    fn body<T: prost::Message + Default>(&self, digest: &[u8]) -> Option<T> {
        T::decode(self.bodies.get(digest)?.clone()).ok()
    }

    /// What nodes were told is recorded is forgotten: the database was restored from an older copy.
    /// What is on its way to them now says nothing either.
    pub(crate) fn restored(&mut self) {
        self.acknowledged.clear();
        self.reports.clear();
    }
}

fn sum(bytes: &[u8]) -> Sum {
    Sha256::digest(bytes).to_vec()
}
