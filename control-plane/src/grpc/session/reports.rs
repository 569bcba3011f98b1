//! Reports of listings on their way into the database: the newest of each tool, and those that wait
//! for texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::digest::ListingHash;
use domain::id::{PluginVersion, ToolId};
use proto::convert::{Report, Status};
use proto::v1;
use proto::v1::server_message::Message;

use super::{Effect, Outcome, Output, Session};

/// Most tools whose reports one node may have under way; the others are said again when the node
/// connects next, since reports are kept until acknowledged.
const UNDER_WAY_MAX: usize = 1_000;

/// Most functions in all of them together: a hundred of the largest tools, some 100 MB.
const FUNCTIONS_UNDER_WAY_MAX: usize = 1_000_000;

/// When a report that waits for a text is tried again: another node may have sent it meanwhile, or
/// this one is asked next.
const RETRY_MS: u64 = 2_000;

/// Most texts asked for at once: as many as one list may have functions, so that a first listing takes
/// one question. The node splits its answer into messages.
const WANT_MAX: usize = 10_000;

/// Reports of one node that are recorded at once: those of a node with many tools that connects.
const AT_ONCE: u64 = 200;

/// After those, how often one is: what a node says changes the database and the audit log, and no node
/// fills them alone.
const NEXT_AFTER_MS: u64 = 200;

type Key = (PluginVersion, ToolId, Arc<str>);

#[derive(Debug)]
struct UnderWay {
    report: Arc<Report>,
    /// When it is to be tried again; `None` while it is being recorded.
    retry: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Reports {
    under_way: BTreeMap<Key, UnderWay>,
    /// When the next one may be recorded, as if none had been let through at once.
    due: u64,
}

impl Reports {
    pub(super) fn next_retry(&self) -> Option<u64> {
        self.under_way.values().filter_map(|under_way| under_way.retry).min()
    }

    /// What a node reported of a version that it has no longer says nothing, and its texts are gone there.
    pub(super) fn forget_all_but(&mut self, status: &Status) {
        self.under_way.retain(|(version, ..), under_way| {
            // What is being recorded is acknowledged when it is.
            under_way.retry.is_none() || status.versions.iter().any(|has| has.version == *version)
        });
    }

    fn is_full(&self, more: usize) -> bool {
        let functions = self.under_way.values().map(|under_way| under_way.report.functions.len());
        functions.sum::<usize>() + more > FUNCTIONS_UNDER_WAY_MAX
    }

    fn is_spent(&self, now: u64) -> bool {
        self.due > now + AT_ONCE * NEXT_AFTER_MS
    }

    /// How long the next report waits.
    fn wait(&mut self, now: u64) -> u64 {
        self.due = self.due.max(now) + NEXT_AFTER_MS;
        self.due.saturating_sub(now + AT_ONCE * NEXT_AFTER_MS)
    }

    fn due(&mut self, is_due: impl Fn(u64) -> bool) -> Vec<Arc<Report>> {
        let waiting = self.under_way.values_mut().filter(|under_way| under_way.retry.is_some_and(&is_due));
        waiting
            .map(|under_way| {
                under_way.retry = None;
                Arc::clone(&under_way.report)
            })
            .collect()
    }
}

fn key(report: &Report) -> Key {
    (report.version.clone(), report.tool.clone(), Arc::clone(&report.connection))
}

impl Session {
    pub(super) fn report(&mut self, now: u64, report: Report) {
        let Some(boot) = self.boot.clone() else { return };
        let key = key(&report);
        let is_spent = self.reports.is_spent(now);
        let is_full = self.reports.is_full(report.functions.len())
            || (self.reports.under_way.len() >= UNDER_WAY_MAX && !self.reports.under_way.contains_key(&key));
        match self.reports.under_way.get_mut(&key) {
            Some(under_way) if under_way.report.sequence >= report.sequence => return,
            _ if is_full => return,
            // It waits for its time already: the newest is recorded then.
            Some(UnderWay { report: waiting, retry: Some(_) }) if is_spent => {
                *waiting = Arc::new(report);
                return;
            }
            Some(_) | None => {}
        }
        let report = Arc::new(report);
        let wait = self.reports.wait(now);
        let retry = (wait > 0).then_some(now + wait);
        self.reports.under_way.insert(key, UnderWay { report: Arc::clone(&report), retry });
        if retry.is_none() {
            self.perform(Effect::Record(boot, report));
        }
    }

    pub(super) fn recorded(&mut self, now: u64, report: &Arc<Report>, outcome: Outcome) {
        let key = key(report);
        let newest =
            self.reports.under_way.get_mut(&key).filter(|under_way| Arc::ptr_eq(&under_way.report, report));
        match outcome {
            Outcome::Done => {
                if newest.is_some() {
                    self.reports.under_way.remove(&key);
                }
                self.send(Message::ReportAck(v1::ReportAck { sequence: report.sequence }));
            }
            Outcome::MissingTexts(hashes) => {
                if let Some(under_way) = newest {
                    under_way.retry = Some(now + RETRY_MS);
                    self.want(hashes);
                }
            }
            Outcome::Failed => {
                if let Some(under_way) = newest {
                    under_way.retry = Some(now + RETRY_MS);
                }
            }
        }
    }

    fn want(&mut self, mut hashes: Vec<ListingHash>) {
        hashes.truncate(WANT_MAX);
        self.out.push_back(Output::Want(hashes));
    }

    /// Texts came: whatever waits may be complete.
    pub(super) fn record_waiting(&mut self, _now: u64) {
        let waiting = self.reports.due(|_| true);
        self.record_all(waiting);
    }

    pub(super) fn retry_reports(&mut self, now: u64) {
        let due = self.reports.due(|retry| retry <= now);
        self.record_all(due);
    }

    fn record_all(&mut self, reports: Vec<Arc<Report>>) {
        let Some(boot) = self.boot.clone() else { return };
        for report in reports {
            self.perform(Effect::Record(boot.clone(), report));
        }
    }
}

#[cfg(test)]
impl Session {
    /// The reports that are not acknowledged yet.
    pub(super) fn reports_under_way(&self) -> Vec<&Arc<Report>> {
        self.reports.under_way.values().map(|under_way| &under_way.report).collect()
    }
}
