//! `ListingReport`: what one listing of one tool showed on one node.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::digest::ListingHash;
use domain::id::{PluginVersion, ToolId};

use super::fields::{at_most, cut, digest, plugin_version, short, tool, twice, value};
use super::{Error, FUNCTIONS_MAX, LIST_MAX, NAME_MAX, TEXT_MAX};
use crate::v1;

/// What one listing showed. Level-triggered: the newest of a (version, tool, connection) stands for
/// all before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Rises within one boot of the node; an older one changes nothing.
    pub sequence: u64,
    /// The version whose tool was listed.
    pub version: PluginVersion,
    /// The tool.
    pub tool: ToolId,
    /// Over which connection; empty when none is needed.
    pub connection: Arc<str>,
    /// Whether the list was read to its end.
    pub complete: bool,
    /// Why it was not, else empty.
    pub incomplete_reason: Arc<str>,
    /// What was listed, in the server's order; each name once.
    pub functions: Vec<ReportedFunction>,
    /// Of the address that a remote tool was reached at: public, private or loopback; else empty.
    pub address_class: Arc<str>,
    /// What people should know of the list as a whole.
    pub warnings: Vec<Arc<str>>,
}

/// One function of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedFunction {
    /// As listed; made visible where it is no name that could be called.
    pub name: Arc<str>,
    /// What it said of itself.
    pub seen: Seen,
    /// Why it is not shown to models though it may be called.
    pub not_shown: Option<Arc<str>>,
}

/// What a function said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The hash of its listing.
    Hash(ListingHash),
    /// It is left out.
    LeftOut {
        /// The refusal's code, 1 to 64 of `a-z` and `_`.
        code: Arc<str>,
        /// The reason as a sentence.
        reason: Arc<str>,
    },
}

impl From<&Report> for v1::ListingReport {
    /// Texts and the names of what is left out are cut to their limits.
    fn from(report: &Report) -> Self {
        Self {
            sequence: report.sequence,
            plugin: report.version.plugin.as_str().to_owned(),
            version: report.version.version.to_string(),
            tool: report.tool.as_str().to_owned(),
            connection: report.connection.as_ref().to_owned(),
            complete: report.complete,
            incomplete_reason: cut(&report.incomplete_reason, TEXT_MAX).to_owned(),
            functions: report.functions.iter().map(Into::into).collect(),
            address_class: report.address_class.as_ref().to_owned(),
            warnings: report.warnings.iter().map(|text| cut(text, TEXT_MAX).to_owned()).collect(),
        }
    }
}

impl From<&ReportedFunction> for v1::ListedFunction {
    fn from(function: &ReportedFunction) -> Self {
        let mut wire = Self {
            name: cut(&function.name, NAME_MAX).to_owned(),
            not_shown: cut(function.not_shown.as_deref().unwrap_or_default(), TEXT_MAX).to_owned(),
            ..Self::default()
        };
        match &function.seen {
            Seen::Hash(hash) => wire.hash = hash.digest().as_bytes().to_vec(),
            Seen::LeftOut { code, reason } => {
                code.as_ref().clone_into(&mut wire.left_out);
                cut(reason, TEXT_MAX).clone_into(&mut wire.left_out_reason);
            }
        }
        wire
    }
}

impl TryFrom<v1::ListingReport> for Report {
    type Error = Error;

    fn try_from(wire: v1::ListingReport) -> Result<Self, Error> {
        let fields = ("ListingReport.plugin", "ListingReport.version");
        at_most("ListingReport.functions", wire.functions.len(), FUNCTIONS_MAX, "functions")?;
        at_most("ListingReport.warnings", wire.warnings.len(), LIST_MAX, "warnings")?;
        let functions: Vec<ReportedFunction> =
            wire.functions.iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        let functions = each_name_once(functions)?;
        let class = match wire.address_class.as_str() {
            "" | "public" | "private" | "loopback" => wire.address_class.as_str().into(),
            other => return Err(value("ListingReport.address_class", other, "public, private or loopback")),
        };
        Ok(Self {
            sequence: wire.sequence,
            version: plugin_version(fields, &wire.plugin, &wire.version)?,
            tool: tool("ListingReport.tool", &wire.tool)?,
            connection: short("ListingReport.connection", &wire.connection)?,
            complete: wire.complete,
            incomplete_reason: cut(&wire.incomplete_reason, TEXT_MAX).into(),
            functions,
            address_class: class,
            warnings: wire.warnings.iter().map(|text| cut(text, TEXT_MAX).into()).collect(),
        })
    }
}

impl TryFrom<&v1::ListedFunction> for ReportedFunction {
    type Error = Error;

    fn try_from(wire: &v1::ListedFunction) -> Result<Self, Error> {
        let seen = match (wire.hash.is_empty(), wire.left_out.as_str()) {
            (false, "") => Seen::Hash(ListingHash::from_digest(digest("ListedFunction.hash", &wire.hash)?)),
            (true, "") => return Err(Error::Missing { field: "ListedFunction.hash" }),
            (true, code) if is_code(code) => {
                Seen::LeftOut { code: code.into(), reason: cut(&wire.left_out_reason, TEXT_MAX).into() }
            }
            (true, code) => return Err(value("ListedFunction.left_out", code, "1 to 64 of a-z and _")),
            (false, code) => {
                return Err(value("ListedFunction.left_out", code, "nothing, since there is a hash"));
            }
        };
        let not_shown = cut(&wire.not_shown, TEXT_MAX);
        Ok(Self {
            name: short("ListedFunction.name", &wire.name)?,
            seen,
            not_shown: (!not_shown.is_empty()).then(|| not_shown.into()),
        })
    }
}

/// Names that are left out may repeat (two long ones cut to the same) and count once; one with a hash
/// may not, since which of two hashes counts would be anyone's choice.
fn each_name_once(functions: Vec<ReportedFunction>) -> Result<Vec<ReportedFunction>, Error> {
    let mut hashed: BTreeMap<Arc<str>, bool> = BTreeMap::new();
    let mut once = Vec::with_capacity(functions.len());
    for function in functions {
        let has_hash = matches!(function.seen, Seen::Hash(_));
        match hashed.insert(Arc::clone(&function.name), has_hash) {
            None => once.push(function),
            Some(false) if !has_hash => {}
            Some(_) => return Err(twice("ListedFunction.name", &function.name)),
        }
    }
    Ok(once)
}

pub(super) fn is_code(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}
