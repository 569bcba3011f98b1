//! Random entries, one random edit of each: the hash changes with all that a JSON reader could see, but for what
//! the rules call equal. What they call equal is said here a second time, slowly.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::select;

use super::random::Dice;
use super::*;
use crate::digest::ListingHash;

mod model;

use model::{Doc, Document, Units, units};

/// What an edit must do to the hash, where that can be told from the edit alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Yes,
    No,
    /// As the model says.
    Maybe,
}

/// A value in the entry, and whether it lies below `_meta`.
fn descend<'d>(entry: &'d mut Document, dice: &mut Dice<'_>) -> (&'d mut Doc, bool) {
    let at = dice.below(entry.members.len());
    let (name, mut doc) = entry.members.get_mut(at).map(|(name, doc)| (name, doc)).unwrap();
    let in_meta = model::visible(name) == "_meta";
    while dice.roll(5) > 0 {
        let count = doc.len();
        if count == 0 {
            break;
        }
        let at = dice.below(count);
        doc = match doc {
            Doc::Array(items) => &mut items[at],
            Doc::Object(members) => &mut members[at].1,
            _ => unreachable!("others have no parts"),
        };
    }
    (doc, in_meta)
}

/// One edit of the entry; `fresh` and `name` are new to it. `None` if it does not apply here.
fn edit(entry: &mut Document, fresh: &Doc, name: &Units, dice: &mut Dice<'_>) -> Option<Seen> {
    let kind = dice.roll(12);
    let seen = match kind {
        0 => return Some(Seen::No),
        1 => {
            entry.name = units(["g", "f_2", "h.1"][dice.below(3)]);
            return Some(Seen::No);
        }
        2 => return edit_of_meta(entry, fresh, dice),
        3 => return edit_of_members(&mut entry.members, fresh, name, dice).then_some(Seen::Maybe),
        _ => Seen::Yes,
    };
    let (doc, in_meta) = descend(entry, dice);
    let seen = if in_meta { Seen::Maybe } else { seen };
    let done = match (kind, &mut *doc) {
        (4, Doc::Text(text)) => return respell_hidden(text, dice).then_some(Seen::No),
        (5, Doc::Object(members)) => {
            let at = dice.below(members.len().max(1));
            return respell_hidden(&mut members.get_mut(at)?.0, dice).then_some(Seen::No);
        }
        (6, doc) => replace(doc, fresh),
        (7, Doc::Object(members)) => edit_of_members(members, fresh, name, dice),
        (7 | 8, Doc::Array(items)) => edit_of_items(items, fresh, dice),
        (8 | 9, Doc::Text(text)) => {
            edit_of_text(text, dice);
            true
        }
        (8 | 9, Doc::Number(number)) => edit_of_number(number, dice),
        (8, Doc::Bool(bool)) => {
            *bool = !*bool;
            true
        }
        (_, doc) => retype(doc),
    };
    done.then_some(seen)
}

/// What is removed before hashing: members of ours, and what the manifest ignores.
fn edit_of_meta(entry: &mut Document, fresh: &Doc, dice: &mut Dice<'_>) -> Option<Seen> {
    let meta = entry.members.iter_mut().find(|(name, _)| model::visible(name) == "_meta");
    let Some((_, Doc::Object(members))) = meta else { return None };
    let name = units(["dev.pintle/x", "dev.pintle/\u{200B}", "build"][dice.below(3)]);
    match members.iter().position(|(other, _)| model::visible(other) == model::visible(&name)) {
        Some(at) if dice.roll(2) == 0 => {
            members.remove(at);
        }
        Some(at) => members[at].1 = fresh.clone(),
        None => members.push((name, fresh.clone())),
    }
    Some(Seen::No)
}

fn edit_of_members(members: &mut Vec<(Units, Doc)>, fresh: &Doc, name: &Units, dice: &mut Dice<'_>) -> bool {
    let at = dice.below(members.len().max(1));
    match dice.roll(3) {
        0 if at < members.len() => {
            members.remove(at);
        }
        1 if at < members.len() && model::visible(&members[at].0) != model::visible(name) => {
            members[at].0.clone_from(name);
        }
        _ => members.push((name.clone(), fresh.clone())),
    }
    let mut names = BTreeSet::new();
    // A member twice is refused, which is another test's.
    members.iter().all(|(name, _)| names.insert(name.clone()))
}

fn edit_of_items(items: &mut Vec<Doc>, fresh: &Doc, dice: &mut Dice<'_>) -> bool {
    let at = dice.below(items.len().max(1));
    let other = dice.below(items.len().max(1));
    match dice.roll(3) {
        0 if at < items.len() => {
            items.remove(at);
        }
        1 if at < items.len() && model::plain(&items[at]) != model::plain(&items[other]) => {
            items.swap(at, other);
        }
        _ => items.insert(at.min(items.len()), fresh.clone()),
    }
    true
}

/// One UTF-16 unit more, less, or another.
fn edit_of_text(text: &mut Units, dice: &mut Dice<'_>) {
    let unit =
        [0x61, 0x200B, 0x0D, 0x0A, 0xD83D, 0xDE42, 0x2067, 0x7F, 0xA0, 0x5C, 0xFE0F, 0][dice.below(12)];
    let at = dice.below(text.len().max(1));
    match dice.roll(3) {
        0 if at < text.len() => {
            text.remove(at);
        }
        1 if at < text.len() && text[at] != unit => text[at] = unit,
        _ => text.insert(at, unit),
    }
}

fn edit_of_number(number: &mut f64, dice: &mut Dice<'_>) -> bool {
    let before = *number;
    *number = match dice.roll(4) {
        0 => -before,
        1 => before + 1.0,
        2 => before.next_up(),
        _ => before.next_down(),
    };
    // Zero has two spellings with a sign, and one hash.
    number.is_finite() && model::plain(&Doc::Number(before)) != model::plain(&Doc::Number(*number))
}

fn replace(doc: &mut Doc, fresh: &Doc) -> bool {
    let other = model::plain(doc) != model::plain(fresh);
    doc.clone_from(fresh);
    other
}

/// The nearest value of another type.
fn retype(doc: &mut Doc) -> bool {
    *doc = match doc {
        Doc::Null => Doc::Text(units("null")),
        Doc::Bool(bool) => Doc::Text(units(&bool.to_string())),
        Doc::Number(number) => Doc::Text(units(&number.to_string())),
        Doc::Text(text) => Doc::Array(vec![Doc::Text(text.clone())]),
        Doc::Array(items) if items.is_empty() => Doc::Object(Vec::new()),
        Doc::Array(items) => Doc::Object(
            items.iter().enumerate().map(|(i, item)| (units(&i.to_string()), item.clone())).collect(),
        ),
        Doc::Object(members) if members.is_empty() => Doc::Null,
        Doc::Object(members) => Doc::Array(members.iter().map(|(_, value)| value.clone()).collect()),
    };
    true
}

/// A hidden character as it is written out, or what is written so as the character.
fn respell_hidden(text: &mut Units, dice: &mut Dice<'_>) -> bool {
    let before = text.clone();
    let written = model::visible(text);
    *text = if dice.roll(2) == 0 { units(&written) } else { model::hide(&written) };
    *text != before && model::visible(text) == written
}

fn entry_text(entry: &Document, dice: &mut Dice<'_>) -> String {
    let mut raw = String::new();
    entry.spell(dice, &mut raw);
    raw
}

fn name() -> impl Strategy<Value = Units> {
    let protocol = select(vec![
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "icons",
        "execution",
    ]);
    let fixed = prop_oneof![protocol, select(vec!["_meta", "enum", "type", "a", "b", "const"])];
    let fixed = prop_oneof![fixed.prop_map(units), Just(units("e\u{200B}num")), Just(units("\\u{200B}"))];
    prop_oneof![3 => fixed, 1 => model::text()]
        .prop_filter("the name is the entry's own", |name| model::visible(name) != "name")
}

fn entry_with_meta() -> impl Strategy<Value = Document> {
    let meta_name = select(vec!["build", "dev.pintle/x", "a", "b"]).prop_map(units);
    let meta = prop::collection::vec((meta_name, model::doc()), 0..4);
    let members = prop::collection::vec((name(), model::doc()), 1..5);
    (members, prop::option::of(meta)).prop_map(|(mut members, meta)| {
        if let Some(meta) = meta {
            members.retain(|(name, _)| model::visible(name) != "_meta");
            members.push((units("_meta"), Doc::Object(meta)));
        }
        Document { name: units("f"), members }.tidied()
    })
}

proptest! {
    #[test]
    fn the_hash_changes_with_all_that_a_reader_could_see_and_with_nothing_else(
        entry in entry_with_meta(),
        fresh in model::doc(),
        name in name(),
        bits in prop::collection::vec(any::<u8>(), 1..120),
    ) {
        let mut dice = Dice::new(&bits);
        let ignore = [MetaPointer::parse("/_meta/build").unwrap(), MetaPointer::parse("/_meta/a/0").unwrap()];
        let mut edited = entry.clone();
        let Some(seen) = edit(&mut edited, &fresh, &name, &mut dice) else { return Ok(()) };

        let (before, after) = (entry.plain(), edited.plain());
        let differs = before != after;
        match seen {
            Seen::Yes => prop_assert!(differs, "the model misses an edit: {:?} {:?}", entry, edited),
            Seen::No => prop_assert!(!differs, "the model sees an edit: {:?} {:?}", entry, edited),
            Seen::Maybe => {}
        }

        let (raw, raw_edited) = (entry_text(&entry, &mut dice), entry_text(&edited, &mut dice));
        let judged = (judge_entry(&raw, &ignore), judge_entry(&raw_edited, &ignore));
        for (judged, document, raw) in [(&judged.0, &entry, &raw), (&judged.1, &edited, &raw_edited)] {
            match judged {
                // What reads alike once visible is refused, and only that.
                Err(fault) => prop_assert!(document.has_twins(), "{} {}", fault, raw),
                Ok(judged) => {
                    prop_assert!(!document.has_twins(), "{}", raw);
                    // A model reads what was hashed: the canonical form says all that the model says.
                    prop_assert_eq!(model::read(&judged.canonical), document.plain(), "{}", raw);
                    prop_assert_eq!(judged.hash, ListingHash::of_canonical(&judged.canonical));
                }
            }
        }
        let (Ok(one), Ok(other)) = judged else { return Ok(()) };
        prop_assert_eq!(one.hash != other.hash, differs, "{}\n{}", raw, raw_edited);
        if one.hash == other.hash {
            prop_assert_eq!(&one.canonical, &other.canonical);
            prop_assert_eq!(shown_form(&one.canonical), shown_form(&other.canonical));
            prop_assert_eq!(one.not_shown, other.not_shown);
        }
    }
}
