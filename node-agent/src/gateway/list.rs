//! What models are listed: rendered once per change, then only copied.
//!
//! A table is rebuilt with every listing of a tool; the list is another only if a name, a version
//! or a snapshot in it is. While the node holds no set, it stays what it was before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use domain::digest::ListingHash;
use domain::guard::{Slot, Table};
use domain::id::PluginVersion;
use domain::listing::shown_form;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tools::envelope::{self, quoted};

use super::protocol::{LISTING_KEY, PLUGIN_KEY};
use super::{Shared, Upstream, mark};

/// Changes within this are announced as one: tools that announce in bursts change often, and a
/// second is the promise.
const GATHER: Duration = Duration::from_millis(100);
/// Before a cursor's name.
const CURSOR: &str = "after:";

/// The list of this moment, and who is told of the next.
pub(super) struct Lists {
    current: ArcSwap<Listed>,
    rendering: Mutex<()>,
    revision: watch::Sender<u64>,
    page_entries: usize,
    page_bytes: usize,
}

/// The list that belongs to a table.
struct Listed {
    table: Arc<Table>,
    list: Arc<List>,
}

/// Rendered entries in the order of their names.
#[derive(Default)]
pub(super) struct List {
    /// Rises with each real change; 0 before the first table.
    pub(super) revision: u64,
    entries: Vec<Entry>,
    /// Where pages begin; page 0 first.
    pages: Vec<Page>,
}

struct Entry {
    name: Arc<str>,
    version: PluginVersion,
    hash: ListingHash,
    text: Arc<str>,
}

/// A page, ready to be sent.
pub(super) struct Page {
    /// A JSON array.
    pub(super) tools: Arc<str>,
    /// The cursor of the next one.
    pub(super) next: Option<String>,
    first: usize,
}

impl Lists {
    pub(super) fn new(page_entries: usize, page_bytes: usize) -> Self {
        let listed = Listed { table: Arc::new(Table::default()), list: Arc::new(List::default()) };
        Self {
            current: ArcSwap::from_pointee(listed),
            rendering: Mutex::new(()),
            revision: watch::Sender::new(0),
            page_entries,
            page_bytes,
        }
    }

    /// The list of the newest table; rendered here if nobody did yet.
    pub(super) fn current(&self, upstream: &dyn Upstream) -> Arc<List> {
        let listed = self.current.load();
        if Arc::ptr_eq(&listed.table, &upstream.table()) {
            return Arc::clone(&listed.list);
        }
        let _one = self.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked for again in here, so that an older table never takes the place of a newer one.
        let table = upstream.table();
        let before = self.current.load_full();
        if Arc::ptr_eq(&before.table, &table) {
            return Arc::clone(&before.list);
        }
        let list = self.follow(&before.list, &table);
        let revision = list.revision;
        self.current.store(Arc::new(Listed { table, list: Arc::clone(&list) }));
        self.revision.send_if_modified(|known| std::mem::replace(known, revision) != revision);
        list
    }

    /// Told of each real change, by its revision.
    pub(super) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn follow(&self, before: &Arc<List>, table: &Table) -> Arc<List> {
        if table.closed().is_some() {
            return Arc::clone(before);
        }
        let known: HashMap<&str, &Entry> = before.entries.iter().map(|entry| (&*entry.name, entry)).collect();
        let shown = table.functions().iter().filter(|slot| slot.shown);
        let entries: Vec<Entry> = shown
            .filter_map(|slot| {
                let listing = slot.listing.as_ref()?;
                let same = known.get(&*slot.model_name).filter(|entry| entry.is_of(slot, listing.0));
                let text = same.map_or_else(|| render(slot, listing), |entry| Arc::clone(&entry.text));
                Some(Entry {
                    name: Arc::clone(&slot.model_name),
                    version: slot.version.clone(),
                    hash: listing.0,
                    text,
                })
            })
            .collect();
        let same = |(a, b): (&Entry, &Entry)| a.name == b.name && a.hash == b.hash && a.version == b.version;
        if before.revision > 0
            && entries.len() == before.entries.len()
            && entries.iter().zip(&before.entries).all(same)
        {
            return Arc::clone(before);
        }
        let pages = self.pages(&entries);
        Arc::new(List { revision: before.revision + 1, entries, pages })
    }

    fn pages(&self, entries: &[Entry]) -> Vec<Page> {
        let mut pages = Vec::new();
        let mut first = 0;
        while pages.is_empty() || first < entries.len() {
            let page = self.page(entries, first);
            first += page.1.max(1);
            pages.push(page.0);
        }
        pages
    }

    /// A page and how many entries it has.
    fn page(&self, entries: &[Entry], first: usize) -> (Page, usize) {
        let rest = entries.get(first..).unwrap_or_default();
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.text.len();
            bytes <= self.page_bytes
        };
        let count = rest.iter().take(self.page_entries).take_while(fits).count().max(1).min(rest.len());
        let texts: Vec<&str> = rest.iter().take(count).map(|entry| &*entry.text).collect();
        let tools = format!("[{}]", texts.join(",")).into();
        let last = rest.get(count.wrapping_sub(1)).filter(|_| count < rest.len());
        let next = last.map(|entry| format!("{CURSOR}{}", entry.name));
        (Page { tools, next, first }, count)
    }

    /// The page behind a cursor, the first one without. `None` for a cursor that is none of ours.
    pub(super) fn at(&self, list: &List, cursor: Option<&str>) -> Option<(Arc<str>, Option<String>)> {
        let first = match cursor {
            None => 0,
            Some(cursor) => {
                let name = cursor.strip_prefix(CURSOR)?;
                list.entries.partition_point(|entry| *entry.name <= *name)
            }
        };
        if let Ok(at) = list.pages.binary_search_by_key(&first, |page| page.first)
            && let Some(page) = list.pages.get(at)
        {
            return Some((Arc::clone(&page.tools), page.next.clone()));
        }
        if first >= list.entries.len() {
            return Some(("[]".into(), None));
        }
        // The list changed since the cursor was given; pages have no moment in common.
        let (page, _) = self.page(&list.entries, first);
        Some((page.tools, page.next))
    }
}

impl Entry {
    fn is_of(&self, slot: &Slot, hash: ListingHash) -> bool {
        self.hash == hash && self.version == slot.version
    }
}

/// The snapshot as models are served it, under its model name, with our marks.
fn render(slot: &Slot, (hash, canonical): &(ListingHash, Arc<str>)) -> Arc<str> {
    let shown = shown_form(canonical);
    let marks = [(PLUGIN_KEY, Some(&*mark::plugin(slot))), (LISTING_KEY, Some(&*quoted(&hash.to_string())))];
    let marked = envelope::with_meta(&shown, &marks);
    let rest = marked.strip_prefix('{').unwrap_or("}");
    format!(r#"{{"name":{},{rest}"#, quoted(&slot.model_name)).into()
}

/// The list for a request: waits, bounded, for the set of a node that has just started.
pub(super) async fn wanted(shared: &Shared) -> Arc<List> {
    let end = Instant::now() + shared.config.set_wait;
    loop {
        let mut changed = shared.upstream.changed();
        let list = shared.lists.current(&*shared.upstream);
        if list.revision > 0 || shared.upstream.table().closed().is_none() {
            return shared.lists.current(&*shared.upstream);
        }
        if !matches!(timeout_at(end, changed.changed()).await, Ok(Ok(()))) {
            return list;
        }
    }
}

/// Keeps the list up with the table, so that whoever listens is told within a second.
pub(super) async fn watch(shared: Arc<Shared>) {
    let mut changed = shared.upstream.changed();
    loop {
        shared.lists.current(&*shared.upstream);
        let gone = tokio::select! {
            () = shared.shutdown.cancelled() => true,
            change = changed.changed() => change.is_err(),
        };
        if gone {
            return;
        }
        tokio::select! {
            () = shared.shutdown.cancelled() => return,
            () = tokio::time::sleep(GATHER) => {}
        }
    }
}
