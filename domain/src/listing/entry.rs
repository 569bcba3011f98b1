//! One entry of a `tools/list` result, judged alone.

use std::sync::Arc;

use super::ENTRY_BYTES;
use super::canonical::canonical;
use super::fault::{Fault, Unreadable, UnreadableFault};
use super::header::header_fault;
use super::json::Json;
use super::meta::MetaPointer;
use super::reader::read_entry;
use super::scan::{Read, Scan};
use crate::digest::ListingHash;

/// A readable entry: a function's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name, visible; `name` judges whether a function may be called so.
    pub name: Arc<str>,
    /// The canonical form without the name: what is hashed, stored, shown and compared.
    pub canonical: Arc<str>,
    /// The hash of the canonical form.
    pub hash: ListingHash,
    /// Why models are not shown it, if so.
    pub not_shown: Option<NotShown>,
    /// Whether anything in it had to be written out, its name included.
    pub hidden: bool,
    /// What stands behind the written texts that a model sends back in arguments: member names,
    /// `enum` and `const` values of `inputSchema`. Empty for nearly every function.
    pub real_texts: Vec<RealText>,
}

/// A text of `inputSchema` that was written out, and what the server takes instead of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealText {
    /// As models read and send it.
    pub written: Arc<str>,
    /// As the server spelled it: a JSON string with its quotes, since half a surrogate pair has no
    /// other form.
    pub real: Arc<str>,
    /// Whether it names a member; else it is a value of an `enum` or a `const`.
    pub is_member_name: bool,
}

/// Why a function is snapshotted, approvable and callable by `pintle call`, but not listed to
/// models. That a model name is too long is for the profile to judge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotShown {
    /// The root of `inputSchema` is no object with `"type": "object"`.
    Schema {
        /// What it is, as a sentence without its stop.
        why: &'static str,
    },
    /// Its `x-mcp-header` is against the protocol, and its tool is reached over HTTP.
    Header {
        /// What it is, as a sentence without its stop.
        why: &'static str,
    },
}

impl NotShown {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Schema { .. } | Self::Header { .. } => "schema",
        }
    }

    /// Why a function of a tool that is reached over HTTP is not shown, beyond what keeps any other from it.
    pub fn over_http(canonical: &str) -> Option<Self> {
        header_fault(canonical).map(|why| Self::Header { why })
    }
}

impl std::fmt::Display for NotShown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Schema { why } => {
                write!(
                    f,
                    "{why}; agents lose the whole list over an input schema without \"type\": \"object\""
                )
            }
            Self::Header { why } => {
                write!(f, "{why}; over HTTP, the protocol has clients drop such a function")
            }
        }
    }
}

/// Reads one entry of a `tools/list` result, given as the raw JSON text of the wire.
///
/// `ignore` are the members of `_meta` that the manifest or an admin ignores; those under
/// `dev.pintle/` are removed in any case (20-listings, 1).
///
/// # Errors
/// The rule of a readable entry that it breaks, where, and its name if one can be read.
pub fn judge_entry(raw: &str, ignore: &[MetaPointer]) -> Result<Entry, Unreadable> {
    let read = read_entry(raw, ignore).map_err(|fault| unreadable(raw, &fault))?;
    let canonical: Arc<str> = canonical(&read.rest, raw.len().min(ENTRY_BYTES)).into();
    if canonical.len() > ENTRY_BYTES {
        return Err(unreadable(raw, &Fault::new(UnreadableFault::EntryTooLarge)));
    }
    Ok(Entry {
        hash: ListingHash::of_canonical(&canonical),
        name: read.name.into(),
        canonical,
        not_shown: schema_fault(&read.rest).map(|why| NotShown::Schema { why }),
        hidden: read.hidden,
        real_texts: read.real,
    })
}

/// What is wrong with the root of `inputSchema`.
fn schema_fault(entry: &Json<'_>) -> Option<&'static str> {
    let Some(schema) = entry.get("inputSchema") else {
        return Some("it has no input schema");
    };
    match schema {
        Json::Object(_) => match schema.get("type") {
            Some(Json::Text(kind)) if kind == "object" => None,
            Some(_) => Some("the root of its input schema has another type than \"object\""),
            None => Some("the root of its input schema has no type"),
        },
        _ => Some("its input schema is no object"),
    }
}

fn unreadable(raw: &str, fault: &Fault) -> Unreadable {
    let name = find_name(raw).ok().flatten();
    Unreadable { name, fault: fault.what().clone(), pointer: fault.pointer() }
}

/// The one `name` of an entry that could not be read otherwise, visible.
fn find_name(raw: &str) -> Read<Option<String>> {
    let mut scan = Scan::new(raw);
    let mut names = Vec::new();
    scan.expect(b'{', "an object")?;
    let mut more = !scan.take(b'}');
    while more {
        let member = scan.name()?;
        scan.expect(b':', "a colon")?;
        if member.visible == "name" {
            let name = if scan.peek() == Some(b'"') { Some(scan.string()?) } else { None };
            if name.is_none() {
                scan.skip()?;
            }
            names.push(name);
        } else {
            scan.skip()?;
        }
        more = scan.take(b',');
    }
    let mut names = names.into_iter();
    match (names.next(), names.next()) {
        (Some(Some(name)), None) => Ok(Some(name.visible.into_owned())),
        _ => Ok(None),
    }
}
