//! What the node has to report, kept until the control plane has it.
//!
//! Listing reports are level-triggered: the newest of a (version, tool, connection) stands for all
//! before it, so the spool holds one each, and a node that started again lists anew instead of reading
//! old ones. The supervisor puts them in, the link sends them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::digest::ListingHash;
use domain::id::{PluginName, PluginVersion, ToolId};
use proto::convert::Report;
use tokio::sync::watch;

type Key = (PluginVersion, ToolId, Arc<str>);

/// Texts of one listing, by hash.
pub(crate) type Texts = BTreeMap<ListingHash, Arc<str>>;

/// The reports of a node.
#[derive(Debug)]
pub(crate) struct Spool {
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

/// A plugin whose bundle is not what the plan says, and how.
pub(crate) type Mismatch = (PluginName, Arc<str>);

#[derive(Debug, Default)]
struct Inner {
    /// The sequence given last; rises within one boot.
    sequence: u64,
    /// The newest epoch of the control plane's database that was heard of.
    epoch: u64,
    /// The run of the server that was heard of last.
    server: Box<str>,
    entries: BTreeMap<Key, Entry>,
    /// One per plugin, until it was sent; found again at each try to install.
    mismatches: BTreeMap<PluginName, Arc<str>>,
}

#[derive(Debug)]
struct Entry {
    report: Arc<Report>,
    texts: Texts,
    acknowledged: bool,
}

impl Default for Spool {
    fn default() -> Self {
        Self { inner: Mutex::default(), changed: watch::Sender::new(0) }
    }
}

impl Spool {
    /// Keeps a report in place of the last one of its tool, with the next sequence. One that says the
    /// same as the last changes nothing.
    pub(crate) fn put(&self, mut report: Report, texts: Texts) {
        let mut inner = self.lock();
        let key = (report.version.clone(), report.tool.clone(), Arc::clone(&report.connection));
        if let Some(entry) = inner.entries.get(&key) {
            report.sequence = entry.report.sequence;
            if *entry.report == report {
                return;
            }
        }
        inner.sequence += 1;
        report.sequence = inner.sequence;
        let entry = Entry { report: Arc::new(report), texts, acknowledged: false };
        inner.entries.insert(key, entry);
        drop(inner);
        self.changed.send_modify(|number| *number += 1);
    }

    /// The bundle of a plugin is not what the plan says.
    pub(crate) fn put_mismatch(&self, (plugin, reason): Mismatch) {
        self.lock().mismatches.insert(plugin, reason);
        self.changed.send_modify(|number| *number += 1);
    }

    /// What was found since it was asked last.
    pub(crate) fn take_mismatches(&self) -> Vec<Mismatch> {
        std::mem::take(&mut self.lock().mismatches).into_iter().collect()
    }

    /// Forgets a version that is gone from the node.
    pub(crate) fn forget(&self, version: &PluginVersion) {
        self.lock().entries.retain(|(of, _, _), _| of != version);
    }

    /// Reports that the control plane does not have, with a sequence above `after`, ascending.
    pub(crate) fn waiting(&self, after: u64) -> Vec<Arc<Report>> {
        let inner = self.lock();
        let waiting = inner.entries.values().filter(|entry| !entry.acknowledged);
        let mut waiting: Vec<Arc<Report>> =
            waiting.map(|entry| Arc::clone(&entry.report)).filter(|report| report.sequence > after).collect();
        waiting.sort_by_key(|report| report.sequence);
        waiting
    }

    /// The control plane has the report of that sequence.
    pub(crate) fn acknowledge(&self, sequence: u64) {
        let mut inner = self.lock();
        for entry in inner.entries.values_mut().filter(|entry| entry.report.sequence == sequence) {
            entry.acknowledged = true;
        }
    }

    /// The control plane's database is of this epoch. A new one was restored from an older copy and may have
    /// lost what it acknowledged: everything waits again. Whether it is new.
    pub(crate) fn of_epoch(&self, epoch: u64) -> bool {
        let mut inner = self.lock();
        if epoch <= inner.epoch {
            return false;
        }
        inner.epoch = epoch;
        for entry in inner.entries.values_mut() {
            entry.acknowledged = false;
        }
        true
    }

    /// Another run of a server than before: what one acknowledged that has ended since may be lost with its database,
    /// so everything waits again.
    pub(crate) fn of_server(&self, server: &str) {
        let mut inner = self.lock();
        if &*inner.server == server {
            return;
        }
        inner.server = server.into();
        for entry in inner.entries.values_mut() {
            entry.acknowledged = false;
        }
    }

    /// What is known of a version is said once more, as something new.
    pub(crate) fn say_again(&self, version: &PluginVersion) {
        let mut inner = self.lock();
        let mut sequence = inner.sequence;
        for (_, entry) in inner.entries.iter_mut().filter(|((of, ..), _)| of == version) {
            sequence += 1;
            Arc::make_mut(&mut entry.report).sequence = sequence;
            entry.acknowledged = false;
        }
        let is_any = sequence > inner.sequence;
        inner.sequence = sequence;
        drop(inner);
        if is_any {
            self.changed.send_modify(|number| *number += 1);
        }
    }

    /// The texts that some report of now has, of those asked for.
    pub(crate) fn texts(&self, hashes: &[ListingHash]) -> Vec<Arc<str>> {
        let inner = self.lock();
        let find = |hash| inner.entries.values().find_map(|entry| entry.texts.get(hash)).cloned();
        hashes.iter().filter_map(find).collect()
    }

    /// Told at each new report.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tool: &str, complete: bool) -> Report {
        Report {
            sequence: 0,
            version: PluginVersion::parse("team@1.0.0").unwrap(),
            tool: ToolId::parse(tool).unwrap(),
            connection: "".into(),
            complete,
            incomplete_reason: "".into(),
            functions: Vec::new(),
            address_class: "".into(),
            warnings: Vec::new(),
        }
    }

    fn waiting(spool: &Spool) -> Vec<(String, u64)> {
        spool.waiting(0).iter().map(|report| (report.tool.to_string(), report.sequence)).collect()
    }

    #[test]
    fn what_a_database_of_an_older_epoch_acknowledged_waits_again() {
        let spool = Spool::default();
        spool.of_epoch(1);
        spool.put(report("a", true), Texts::new());
        spool.acknowledge(1);
        assert!(!spool.of_epoch(1) && waiting(&spool).is_empty(), "the same database");
        assert!(spool.of_epoch(2));
        assert_eq!(waiting(&spool), [("a".to_owned(), 1)]);
        spool.acknowledge(1);
        assert!(!spool.of_epoch(1) && waiting(&spool).is_empty(), "an older one says nothing");
    }

    #[test]
    fn what_another_run_of_a_server_acknowledged_waits_again() {
        let spool = Spool::default();
        spool.of_server("one");
        spool.put(report("a", true), Texts::new());
        spool.acknowledge(1);
        spool.of_server("one");
        assert!(waiting(&spool).is_empty());
        spool.of_server("two");
        assert_eq!(waiting(&spool), [("a".to_owned(), 1)]);
    }

    #[test]
    fn what_is_said_again_of_a_version_is_newer_than_all_before() {
        let spool = Spool::default();
        spool.put(report("a", true), Texts::new());
        spool.put(report("b", true), Texts::new());
        spool.acknowledge(1);
        spool.acknowledge(2);
        spool.say_again(&PluginVersion::parse("other@1.0.0").unwrap());
        assert!(waiting(&spool).is_empty());
        spool.say_again(&PluginVersion::parse("team@1.0.0").unwrap());
        assert_eq!(waiting(&spool), [("a".to_owned(), 3), ("b".to_owned(), 4)]);
        spool.put(report("a", true), Texts::new());
        assert_eq!(waiting(&spool).len(), 2, "it says the same");
    }

    #[test]
    fn an_acknowledgement_of_an_older_report_does_not_drop_a_newer_one() {
        let spool = Spool::default();
        spool.put(report("a", false), Texts::new());
        spool.put(report("a", true), Texts::new());
        spool.acknowledge(1);
        assert_eq!(waiting(&spool), [("a".to_owned(), 2)]);
        spool.acknowledge(2);
        assert_eq!(waiting(&spool), []);
    }

    #[test]
    fn only_a_report_that_says_something_else_is_sent_again() {
        let spool = Spool::default();
        spool.put(report("a", true), Texts::new());
        spool.put(report("b", true), Texts::new());
        spool.put(report("a", true), Texts::new());
        assert_eq!(waiting(&spool), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!(spool.waiting(1).len(), 1);
    }

    #[test]
    fn a_text_is_given_while_a_report_has_it() {
        let spool = Spool::default();
        let hash = ListingHash::of_canonical("{}");
        spool.put(report("a", true), Texts::from([(hash, "{}".into())]));
        assert_eq!(spool.texts(&[hash, ListingHash::of_canonical("[]")]), ["{}".into()]);
        spool.forget(&PluginVersion::parse("team@1.0.0").unwrap());
        assert!(spool.texts(&[hash]).is_empty());
    }
}
