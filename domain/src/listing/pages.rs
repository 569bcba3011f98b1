//! A whole list, page by page: which cursor to ask for next, and when it is complete.
//!
//! Pure: the caller asks the server and hands in each result as raw JSON.

use std::collections::BTreeSet;
use std::fmt;

use super::fault::Fault;
use super::scan::{Read, Scan};
use crate::visible::make_visible_up_to;

/// What a node takes of one list; settings of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLimits {
    /// Entries in all. 10,000 is ten times the largest server seen.
    pub entries: usize,
    /// Pages in all: a server that pages for ever ends here. One entry a page is still a list.
    pub pages: usize,
    /// Bytes of all results. 32 MiB bounds what a node holds for one tool.
    pub bytes: usize,
}

impl Default for ListLimits {
    fn default() -> Self {
        Self { entries: 10_000, pages: 1_000, bytes: 32 << 20 }
    }
}

/// What to do after a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Ask for the page at this cursor, which may be empty.
    Ask {
        /// Exactly as the server sent it.
        cursor: String,
    },
    /// The list was read to its end.
    Done,
}

/// Why a list could not be read to its end. What was read before stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListFault {
    /// The result is no JSON, or not of the form of a list.
    #[error("read page {page} of the list: {why}")]
    Page {
        /// The page, from 1.
        page: usize,
        /// What is wrong, as a sentence without its stop.
        why: String,
    },
    /// A limit was passed.
    #[error("read the list: it has more than {limit} {what}; `{setting}` sets the limit")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
        /// The node's setting.
        setting: &'static str,
    },
}

/// Something odd about a list that is complete nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListWarning {
    /// A page brought back the cursor it was asked with; it added nothing.
    SameCursor {
        /// Visible, cut to 100 characters.
        cursor: String,
    },
    /// A page brought a cursor that had been asked for before it.
    EarlierCursor {
        /// Visible, cut to 100 characters.
        cursor: String,
    },
}

impl fmt::Display for ListWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameCursor { cursor } => write!(
                f,
                "the page asked for with cursor `{cursor}` brought back that cursor, so it was taken for none"
            ),
            Self::EarlierCursor { cursor } => write!(
                f,
                "a page brought the cursor `{cursor}`, which had been asked for, so it was taken for the last"
            ),
        }
    }
}

/// A list as far as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// The raw JSON of each entry, in the server's order.
    pub entries: Vec<Box<str>>,
    /// Whether it was read to its end. If not, nothing is taken for gone.
    pub complete: bool,
    /// What was odd about it.
    pub warnings: Vec<ListWarning>,
}

/// Gathers the pages of one list.
#[derive(Debug, Clone)]
pub struct ListReader {
    limits: ListLimits,
    list: List,
    asked: BTreeSet<String>,
    pages: usize,
    bytes: usize,
}

impl ListReader {
    /// A list of which nothing was asked yet.
    pub const fn new(limits: ListLimits) -> Self {
        let list = List { entries: Vec::new(), complete: false, warnings: Vec::new() };
        Self { limits, list, asked: BTreeSet::new(), pages: 0, bytes: 0 }
    }

    /// Takes the raw `result` of one page, and the cursor it was asked with.
    ///
    /// # Errors
    /// What is wrong with the page, or the limit that the list passed; it is incomplete then, and
    /// entries read up to there stay.
    pub fn page(&mut self, raw_result_json: &str, asked_cursor: Option<&str>) -> Result<Next, ListFault> {
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(raw_result_json.len());
        if self.bytes > self.limits.bytes {
            return Err(limit("bytes", self.limits.bytes, "tools.list_bytes"));
        }
        let page = read_page(raw_result_json).map_err(|fault| self.page_fault(fault.what().to_string()))?;
        let Page { entries: Some(entries), cursor } = page else {
            return Err(self.page_fault("its `tools` is no array".to_owned()));
        };
        self.asked.extend(asked_cursor.map(str::to_owned));
        let cursor = match cursor {
            Cursor::None => None,
            Cursor::Text(cursor) => Some(cursor),
            Cursor::Unusable(why) => {
                self.add(&entries)?;
                return Err(self.page_fault(why.to_owned()));
            }
        };
        if let (Some(cursor), true) = (&cursor, cursor.as_deref() == asked_cursor) {
            self.list.warnings.push(ListWarning::SameCursor { cursor: excerpt(cursor) });
            return Ok(self.done());
        }
        self.add(&entries)?;
        match cursor {
            None => Ok(self.done()),
            Some(cursor) if self.asked.contains(&cursor) => {
                self.list.warnings.push(ListWarning::EarlierCursor { cursor: excerpt(&cursor) });
                Ok(self.done())
            }
            Some(_) if self.pages >= self.limits.pages => {
                Err(limit("pages", self.limits.pages, "tools.list_pages"))
            }
            Some(cursor) => Ok(Next::Ask { cursor }),
        }
    }

    /// The list as far as it was read; complete only after [`Next::Done`].
    pub fn finish(self) -> List {
        self.list
    }

    fn add(&mut self, entries: &[&str]) -> Result<(), ListFault> {
        let room = self.limits.entries.saturating_sub(self.list.entries.len());
        self.list.entries.extend(entries.iter().take(room).map(|entry| Box::from(*entry)));
        if entries.len() > room {
            return Err(limit("entries", self.limits.entries, "tools.list_entries"));
        }
        Ok(())
    }

    const fn done(&mut self) -> Next {
        self.list.complete = true;
        Next::Done
    }

    const fn page_fault(&self, why: String) -> ListFault {
        ListFault::Page { page: self.pages, why }
    }
}

const fn limit(what: &'static str, limit: usize, setting: &'static str) -> ListFault {
    ListFault::Limit { what, limit, setting }
}

fn excerpt(cursor: &str) -> String {
    make_visible_up_to(cursor, 100)
}

struct Page<'a> {
    entries: Option<Vec<&'a str>>,
    cursor: Cursor,
}

enum Cursor {
    None,
    Text(String),
    Unusable(&'static str),
}

/// Reads a result's shell: `tools` and `nextCursor`, everything else is passed over.
fn read_page(raw: &str) -> Read<Page<'_>> {
    let mut scan = Scan::new(raw);
    let mut page = Page { entries: None, cursor: Cursor::None };
    let (mut tools, mut cursors) = (0, 0);
    scan.expect(b'{', "an object")?;
    let mut more = !scan.take(b'}');
    while more {
        let member = scan.name()?;
        scan.expect(b':', "a colon")?;
        match &*member.visible {
            "tools" => {
                tools += 1;
                page.entries = read_entries(&mut scan)?;
            }
            "nextCursor" => {
                cursors += 1;
                page.cursor = read_cursor(&mut scan)?;
            }
            _ => {
                scan.skip()?;
            }
        }
        more = scan.take(b',');
        if !more {
            scan.expect(b'}', "a comma or }")?;
        }
    }
    scan.end()?;
    // Which of two a client takes depends on the client, so neither is taken.
    if tools > 1 || cursors > 1 {
        return Err(Fault::new(super::UnreadableFault::Twice));
    }
    Ok(page)
}

/// The source of each item, or `None` if this is no array.
fn read_entries<'a>(scan: &mut Scan<'a>) -> Read<Option<Vec<&'a str>>> {
    if !scan.take(b'[') {
        return scan.skip().map(|_| None);
    }
    let mut entries = Vec::new();
    let mut more = !scan.take(b']');
    while more {
        entries.push(scan.skip()?);
        more = scan.take(b',');
        if !more {
            scan.expect(b']', "a comma or ]")?;
        }
    }
    Ok(Some(entries))
}

/// A cursor goes back exactly as it came, so what cannot is told.
fn read_cursor(scan: &mut Scan<'_>) -> Read<Cursor> {
    match scan.peek() {
        Some(b'"') => {
            let token = scan.skip()?;
            Ok(serde_json::from_str(token).map_or(
                Cursor::Unusable("its `nextCursor` has half a surrogate pair, so it cannot be sent back"),
                Cursor::Text,
            ))
        }
        Some(b'n') => scan.skip().map(|_| Cursor::None),
        _ => scan.skip().map(|_| Cursor::Unusable("its `nextCursor` is neither a string nor null")),
    }
}
