//! Listings: what a function says about itself, read strictly, written canonically, hashed.
//!
//! [`judge_entry`] judges one entry of a `tools/list` result alone, [`ListReader`] gathers the
//! pages of a whole list, [`shown_form`] is what models are served. Nothing here asks a server for
//! anything, and `$ref`s are never followed. Names are judged in `name`, changes in `change`.

mod canonical;
mod entry;
mod fault;
mod header;
pub(crate) mod json;
mod meta;
mod pages;
mod reader;
mod reference;
mod scan;
mod shown;
mod word;

pub use entry::{Entry, NotShown, RealText, judge_entry};
pub use fault::{Unreadable, UnreadableFault};
pub use header::header_fault;
pub use meta::{MetaPointer, MetaPointerFault};
pub use pages::{List, ListFault, ListLimits, ListReader, ListWarning, Next};
pub use reference::warned_reference;
pub use shown::shown_form;

/// Profile v1: how deeply an entry may nest; the entry itself is 1. Frozen.
pub const DEPTH: usize = 64;
/// Profile v1: bytes of an entry's canonical form. Frozen.
pub const ENTRY_BYTES: usize = 1 << 20;
/// Profile v1: bytes of one string or member name as the canonical form spells it, without its
/// quotes. Frozen.
pub const STRING_BYTES: usize = 256 << 10;

/// Reads a canonical form back into a tree; `None` if the text is none that a reader would take.
pub(crate) fn read_canonical(text: &str) -> Option<json::Json<'_>> {
    reader::read_document(text).ok()
}

/// The canonical form of part of a listing.
pub(crate) fn canonical_of(json: &json::Json<'_>) -> String {
    canonical::canonical(json, 0)
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
