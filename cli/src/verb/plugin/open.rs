//! What waits for a person's decision on one plugin: read, narrowed, shown, chosen from.
//!
//! Shared by `approve-tools` and `reject-tools`. Each [`Item`] is decided on exactly as it was shown: it
//! carries the hashes, or origins, that go back to the control plane.

use serde::Serialize;
use serde_json::{Value, json};

use super::notices::{moved, named};
use crate::api::{Change, Changes, Listing, OpenMove};
use crate::client::{Client, escape};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{bold, diff, dim, shown, waits};

/// From what a person should look at first to what hardly matters (20-listings 5).
const GRADES: [&str; 12] = [
    "hidden_text",
    "renamed",
    "new",
    "hint_laxer",
    "new_required",
    "widened",
    "text",
    "gone",
    "narrowed",
    "hint_stricter",
    "meta_only",
    "notation",
];

/// What to look at; everything if nothing is named.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Filter {
    /// Only this function (Function ID, or the name within its tool); may be repeated
    #[arg(long, value_name = "ID")]
    pub function: Vec<String>,
    /// Only this version
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// Only what concerns this edge, decided for it alone
    #[arg(long, value_name = "EDGE")]
    pub edge: Option<String>,
    /// Only the variant with this hash, where nodes see different ones; may be repeated
    #[arg(long, value_name = "HASH")]
    pub hash: Vec<String>,
}

/// One function of a version, as the API names it in a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FunctionDecision {
    version: String,
    tool: String,
    function: String,
    /// The edge whose own listing that is.
    edge: Option<String>,
    /// The approved hash that was shown, or none.
    approved: Option<String>,
    /// The seen hash, or none for a function that is gone.
    seen: Option<String>,
}

/// One moved tool, as the API names it in a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct OriginDecision {
    version: String,
    tool: String,
    edge: Option<String>,
    from: Vec<String>,
    to: String,
}

/// One thing that is decided as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// Names it after `--yes`.
    pub word: String,
    /// Of several with the same key (a function that nodes see differently) one is chosen.
    pub key: String,
    grades: Vec<String>,
    head: String,
    body: Vec<String>,
    /// The function's ID, or the tool's.
    id: String,
    /// The same for all that changed in the same way, and for nothing else.
    alike: String,
    on: String,
    /// For functions, or those of a moved tool.
    pub functions: Vec<FunctionDecision>,
    /// For a moved tool.
    pub origin: Option<OriginDecision>,
}

/// Reads what waits on a plugin, narrowed by `filter`, the gravest first.
///
/// # Errors
/// As the API's.
pub(crate) async fn load(
    client: &Client,
    plugin: &str,
    filter: &Filter,
    colour: bool,
) -> Result<Vec<Item>, Failure> {
    let mut path = format!("/plugins/{}/changes", escape(plugin));
    if let Some(edge) = &filter.edge {
        path = format!("{path}?edge={}", escape(edge));
    }
    let changes: Changes = client.get(&path).await?;
    Ok(items(&changes, filter, colour))
}

/// What waits, as items.
pub(crate) fn items(changes: &Changes, filter: &Filter, colour: bool) -> Vec<Item> {
    let version_wanted = |version: &str| filter.version.as_ref().is_none_or(|wanted| wanted == version);
    let mut items = Vec::new();
    for open in changes.moved.iter().filter(|open| version_wanted(&open.moved.version)) {
        let item = origin_item(open, filter);
        let is_wanted = filter.function.is_empty() && filter.hash.is_empty();
        if is_wanted && !items.contains(&item) {
            items.push(item);
        }
    }
    for change in changes.changes.iter().filter(|change| version_wanted(&change.version)) {
        let id = format!("{}.{}", change.tool, change.function);
        if !filter.function.is_empty() && !filter.function.iter().any(|f| *f == id || *f == change.function) {
            continue;
        }
        let is_wanted = |item: &Item| filter.hash.is_empty() || filter.hash.contains(&item.word);
        items
            .extend(change.variants.iter().map(|seen| function_item(change, seen, colour)).filter(is_wanted));
    }
    items.sort_by_key(Item::rank);
    items
}

impl Item {
    fn rank(&self) -> (usize, String) {
        let grade = |grade: &String| GRADES.iter().position(|known| known == grade).unwrap_or(0);
        (self.grades.iter().map(grade).min().unwrap_or(0), self.key.clone())
    }

    /// The item for people: what it is, what differs, the word that names it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let grades = self.grades.iter().map(|grade| shown::line(grade)).collect::<Vec<_>>().join(", ");
        let mut lines = vec![format!("{}  {}", bold(&self.head), waits(format!("[{grades}]")))];
        lines.extend(self.body.iter().cloned());
        lines.push(format!("  {}", dim(shown::line(&self.word))));
        lines
    }

    /// The item for programs.
    pub(crate) fn as_json(&self) -> Value {
        json!({"yes": self.word, "functions": self.functions, "origin": self.origin, "grades": self.grades})
    }
}

fn function_item(change: &Change, seen: &Listing, colour: bool) -> Item {
    let id = format!("{}.{}", change.tool, change.function);
    let approved = change.approved.as_ref();
    let hash = |listing: Option<&Listing>| listing.and_then(|listing| listing.hash.clone());
    let what = match (hash(approved).is_some(), seen.hash.is_some()) {
        (true, true) => "changed",
        (false, _) => "new",
        (true, false) => "gone",
    };
    let mut body = diff::listings(
        approved.and_then(|listing| listing.listing.as_deref()),
        seen.listing.as_deref().filter(|_| seen.hash.is_some()),
        colour,
    );
    if seen.listing.is_none() && seen.hash.is_some() {
        body = vec!["  (its text has not reached the control plane yet)".to_owned()];
    }
    body.extend(change.warnings.iter().map(|what| format!("  ! {}", shown::line(what))));
    let alike = json!([
        change.version,
        change.tool,
        change.edge,
        what,
        seen.grades,
        change.warnings,
        seen.nodes,
        diff::edits(
            approved.and_then(|listing| listing.listing.as_deref()),
            seen.listing.as_deref().filter(|_| seen.hash.is_some()),
        ),
    ]);
    let on = if seen.nodes.is_empty() {
        String::new()
    } else {
        format!(", on {}", named(&seen.nodes, seen.nodes_total))
    };
    let own =
        change.edge.as_ref().map(|edge| format!(", edge {}'s own", shown::line(edge))).unwrap_or_default();
    let grades = if seen.grades.is_empty() { change.grades.clone() } else { seen.grades.clone() };
    Item {
        word: seen.hash.clone().unwrap_or_else(|| format!("gone:{id}")),
        key: match &change.edge {
            Some(edge) => format!("{} {id} {edge}", change.version),
            None => format!("{} {id}", change.version),
        },
        head: format!("{} ({}{own}) {what}{on}", shown::line(&id), shown::line(&change.version)),
        grades,
        body,
        id: id.clone(),
        alike: alike.to_string(),
        on,
        functions: vec![FunctionDecision {
            version: change.version.clone(),
            tool: change.tool.clone(),
            function: change.function.clone(),
            edge: change.edge.clone(),
            approved: hash(approved),
            seen: seen.hash.clone(),
        }],
        origin: None,
    }
}

fn origin_item(open: &OpenMove, filter: &Filter) -> Item {
    let at = &open.moved;
    let text = |value: &Value, member: &str| value.get(member).and_then(Value::as_str).map(str::to_owned);
    let mut functions = Vec::new();
    let mut body = Vec::new();
    for listed in &open.functions {
        let (Some(function), Some(hash)) = (text(listed, "function"), text(listed, "hash")) else { continue };
        body.push(format!("  lists {} ({})", shown::line(&function), shown::line(&hash)));
        // What is gone by already needs no decision.
        if text(listed, "approved").as_ref() == Some(&hash) {
            continue;
        }
        functions.push(FunctionDecision {
            version: at.version.clone(),
            tool: at.tool.clone(),
            function,
            edge: None,
            approved: text(listed, "approved"),
            seen: Some(hash),
        });
    }
    Item {
        word: format!("{}={}", at.tool, at.to),
        key: format!("{} {}", at.version, at.tool),
        grades: vec!["moved".to_owned()],
        id: at.tool.clone(),
        alike: format!("{} {} {}", at.version, at.tool, at.to),
        on: String::new(),
        head: format!("{} ({})", moved(at), shown::line(&at.version)),
        body,
        functions,
        origin: Some(OriginDecision {
            version: at.version.clone(),
            tool: at.tool.clone(),
            edge: filter.edge.clone(),
            from: at.from.clone(),
            to: at.to.clone(),
        }),
    }
}

/// The items that `words` name. A word that names none is a change that is not open (any longer).
///
/// # Errors
/// Such a word, or two variants of one function.
pub(crate) fn pick(items: &[Item], words: &[String]) -> Result<Vec<Item>, Failure> {
    if let [word] = words
        && *word == set_word(items)
    {
        return Ok(items.to_vec());
    }
    for word in words {
        if !items.iter().any(|item| item.word == *word) {
            return Err(Failure::new(
                Exit::Open,
                format!("`{}` is not what waits now; nothing was changed", shown::line(word)),
            )
            .remedy("look at what waits now, and approve that: run the command without --yes"));
        }
    }
    let picked: Vec<Item> = items.iter().filter(|item| words.contains(&item.word)).cloned().collect();
    match ambiguous(&picked) {
        Some(key) => Err(Failure::usage(format!("two variants of {} were named", shown::line(&key)))
            .remedy("name the one hash that all nodes shall go by")),
        None => Ok(picked),
    }
}

/// Names all of the items at once, and no other set: SHA-256 over their words.
pub(crate) fn set_word(items: &[Item]) -> String {
    let mut lines: Vec<String> = items.iter().map(|item| format!("{} {}\n", item.key, item.word)).collect();
    lines.sort();
    format!("set:{}", domain::digest::Digest::of(lines.concat().as_bytes()))
}

/// A function of which more than one variant is among the items.
pub(crate) fn ambiguous(items: &[Item]) -> Option<String> {
    let mut keys: Vec<&String> = items.iter().map(|item| &item.key).collect();
    keys.sort();
    keys.windows(2)
        .find(|pair| pair.first() == pair.last())
        .and_then(|pair| pair.first())
        .map(|key| (*key).clone())
}

/// The body of a decision on `items`.
pub(crate) fn decision(items: &[Item]) -> Value {
    let functions: Vec<&FunctionDecision> = items.iter().flat_map(|item| &item.functions).collect();
    let origins: Vec<&OriginDecision> = items.iter().filter_map(|item| item.origin.as_ref()).collect();
    json!({"functions": functions, "origins": origins})
}

mod screen;
#[cfg(test)]
mod tests;

pub(crate) use screen::show;
