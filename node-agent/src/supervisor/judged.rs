//! What one list of a tool showed, judged entry by entry; and what all lists of a version together
//! leave out. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::digest::{Digest, ListingHash};
use domain::guard::view::{LeftOut, Shown, ToolListing};
use domain::id::{FunctionId, PluginVersion, ToolId};
use domain::listing::{List, MetaPointer, NotShown, RealText, Unreadable, judge_entry};
use domain::name::{self, ListedName, ToolNames, judge_names};
use domain::plugin_set::VersionTrust;
use domain::refusal::Code;
use domain::time::Timestamp;
use proto::convert::{Report, ReportedFunction, Seen};

use crate::guard::RealTexts;
use crate::spool::Texts;

/// The newest list of a tool as it was judged: the next one is mostly the same to the byte, and is not judged again.
#[derive(Debug, Default)]
pub(super) struct Newest(Option<(Digest, Arc<Judged>)>);

impl Newest {
    /// As [`Judged::new`]; what it gave before, if it was asked exactly this. `ignore` never changes.
    pub(super) fn judge(
        &mut self,
        list: &List,
        broken: Option<Arc<str>>,
        ignore: &[MetaPointer],
        (class, connection): (&str, &str),
    ) -> Arc<Judged> {
        let odd = list.warnings.iter().map(ToString::to_string);
        let odd: Vec<String> = odd.chain(broken.iter().map(ToString::to_string)).collect();
        let about = format!("{} {class} {connection:?} {odd:?}", list.complete);
        let parts = std::iter::once(about.as_str()).chain(list.entries.iter().map(|entry| &**entry));
        let digest = Digest::of_parts(parts.map(str::as_bytes));
        if let Some((_, judged)) = self.0.as_ref().filter(|(of, _)| *of == digest) {
            return Arc::clone(judged);
        }
        let judged = Arc::new(Judged::new(list, broken, ignore, (class, connection)));
        self.0 = Some((digest, Arc::clone(&judged)));
        judged
    }
}

/// One list of a tool, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    /// Every entry with a readable name, in the server's order; whether the entry is readable.
    names: Vec<(Arc<str>, bool)>,
    functions: BTreeMap<Arc<str>, Function>,
    unreadable: Vec<Unreadable>,
    pub(crate) complete: bool,
    /// Why it is not complete.
    pub(crate) broken: Option<Arc<str>>,
    warnings: Vec<Arc<str>>,
    /// Of the address that a remote tool was reached at; else empty.
    address_class: Arc<str>,
    /// What it was reached with; empty without.
    connection: Arc<str>,
    real_texts: Arc<RealTexts>,
}

#[derive(Debug)]
struct Function {
    hash: ListingHash,
    canonical: Arc<str>,
    not_shown: Option<Arc<str>>,
    real_texts: Arc<[RealText]>,
}

impl Judged {
    /// Judges each entry alone: one bad entry never costs the tool its good ones.
    pub(crate) fn new(
        list: &List,
        broken: Option<Arc<str>>,
        ignore: &[MetaPointer],
        (class, connection): (&str, &str),
    ) -> Self {
        let warnings = list.warnings.iter().map(|warning| warning.to_string().into()).collect();
        let (address_class, connection) = (class.into(), connection.into());
        let mut judged =
            Self { complete: list.complete, broken, warnings, address_class, connection, ..Self::default() };
        for raw in &list.entries {
            match judge_entry(raw, ignore) {
                Ok(entry) => {
                    judged.names.push((Arc::clone(&entry.name), true));
                    let over_http = || NotShown::over_http(&entry.canonical).filter(|_| !class.is_empty());
                    let not_shown = entry.not_shown.or_else(over_http).map(|why| why.to_string().into());
                    let function = Function {
                        hash: entry.hash,
                        canonical: entry.canonical,
                        not_shown,
                        real_texts: entry.real_texts.into(),
                    };
                    judged.functions.insert(entry.name, function);
                }
                Err(unreadable) => {
                    if let Some(name) = &unreadable.name {
                        judged.names.push((name.as_str().into(), false));
                    }
                    judged.unreadable.push(unreadable);
                }
            }
        }
        let hidden = judged.functions.iter().filter(|(_, function)| !function.real_texts.is_empty());
        let real =
            hidden.map(|(name, function)| (Arc::clone(name), Arc::clone(&function.real_texts))).collect();
        judged.real_texts = Arc::new(real);
        judged
    }

    /// As the guard is told it. `since`: since when lists broke off, if this one did.
    pub(crate) fn listing(&self, asked_at_ms: u64, since: Timestamp) -> ToolListing {
        let shown =
            |function: &Function| Shown { hash: function.hash, not_shown: function.not_shown.clone() };
        ToolListing {
            asked_at_ms,
            complete: self.complete,
            incomplete: self.broken.clone().map(|reason| (since, reason)),
            functions: self.functions.iter().map(|(name, one)| (Arc::clone(name), shown(one))).collect(),
        }
    }

    /// What stands behind texts that were written out.
    pub(crate) fn real_texts(&self) -> Arc<RealTexts> {
        Arc::clone(&self.real_texts)
    }

    /// The texts of what it showed.
    pub(crate) fn texts(&self) -> Texts {
        self.functions.values().map(|one| (one.hash, Arc::clone(&one.canonical))).collect()
    }

    /// As the control plane is told it. The spool gives the sequence.
    pub(crate) fn report(
        &self,
        version: &PluginVersion,
        tool: &ToolId,
        left_out: &BTreeMap<FunctionId, LeftOut>,
    ) -> Report {
        let mut functions = Vec::new();
        let mut told = std::collections::BTreeSet::new();
        for (name, _) in &self.names {
            if !told.insert(name) {
                continue;
            }
            let id = FunctionId::new(tool, name);
            let seen = match (left_out.get(&id), self.functions.get(name)) {
                (Some(why), _) => left_out_as(why),
                (None, Some(function)) => Seen::Hash(function.hash),
                (None, None) => continue,
            };
            let not_shown = self.functions.get(name).and_then(|function| function.not_shown.clone());
            functions.push(ReportedFunction { name: Arc::clone(name), seen, not_shown });
        }
        for nameless in self.unreadable.iter().filter(|one| one.name.is_none()) {
            let seen = left_out_as(&unreadable(nameless));
            functions.push(ReportedFunction { name: "".into(), seen, not_shown: None });
        }
        Report {
            sequence: 0,
            version: version.clone(),
            tool: tool.clone(),
            connection: Arc::clone(&self.connection),
            complete: self.complete,
            incomplete_reason: self.broken.clone().unwrap_or_else(|| "".into()),
            functions,
            address_class: Arc::clone(&self.address_class),
            warnings: self.warnings.clone(),
        }
    }
}

/// What is left out of a version, over all its tools. A tool that is not listed at present stands with
/// the names of its snapshot, so that no newcomer takes their place meanwhile.
pub(crate) fn left_out<'a>(
    tools: impl Iterator<Item = (&'a ToolId, Option<&'a Judged>)> + Clone,
    trust: Option<&VersionTrust>,
) -> BTreeMap<FunctionId, LeftOut> {
    let snapshot = |tool: &ToolId| trust.and_then(|trust| trust.tools.get(tool));
    let approved =
        |id: &FunctionId| snapshot(&id.tool).is_some_and(|tool| tool.functions.contains_key(&id.function));
    let names: Vec<ToolNames<'_>> = tools
        .clone()
        .map(|(tool, judged)| {
            let functions = match judged {
                Some(judged) => judged
                    .names
                    .iter()
                    .map(|(name, readable)| ListedName { name, readable: *readable })
                    .collect(),
                None => snapshot(tool)
                    .into_iter()
                    .flat_map(|snapshot| snapshot.functions.keys())
                    .map(|name| ListedName { name, readable: true })
                    .collect(),
            };
            ToolNames { tool, functions }
        })
        .collect();
    let mut all: BTreeMap<FunctionId, LeftOut> =
        judge_names(&names, &approved).into_iter().map(|(id, why)| (id, of_names(&why))).collect();
    for (tool, judged) in tools {
        for one in judged.into_iter().flat_map(|judged| &judged.unreadable) {
            if let Some(name) = &one.name {
                all.entry(FunctionId::new(tool, name)).or_insert_with(|| unreadable(one));
            }
        }
    }
    all
}

fn of_names(why: &name::LeftOut) -> LeftOut {
    let code = Code::ALL.iter().copied().find(|code| code.as_str() == why.code());
    LeftOut { code: code.unwrap_or(Code::Name), why: why.to_string().into() }
}

fn unreadable(one: &Unreadable) -> LeftOut {
    LeftOut { code: Code::Unreadable, why: format!("its listing cannot be read: {one}").into() }
}

fn left_out_as(why: &LeftOut) -> Seen {
    Seen::LeftOut { code: why.code.as_str().into(), reason: Arc::clone(&why.why) }
}
