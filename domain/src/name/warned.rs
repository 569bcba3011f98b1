//! What is odd about names that may be used: people are told, nothing is refused.
//!
//! Clients write names in their own ways. Codex takes every character but ASCII letters, digits and `_` for `_`;
//! Claude Code and `OpenCode` keep `-` too, so that model names, which have no dot, stay as they are there.

use std::collections::{BTreeMap, BTreeSet};

use unicode_security::confusable_detection::skeleton;
use unicode_security::mixed_script::MixedScript as _;

use super::MODEL_NAME_SUITS;
use crate::id::FunctionId;
use crate::listing::json::Json;
use crate::listing::read_canonical;

/// What is odd about the names of functions that models see together, as fragments for people; functions without
/// oddity are absent.
pub fn warned<'a>(functions: impl IntoIterator<Item = &'a FunctionId>) -> BTreeMap<FunctionId, Vec<String>> {
    let functions: BTreeSet<&FunctionId> = functions.into_iter().collect();
    let mut warned: BTreeMap<FunctionId, Vec<String>> = BTreeMap::new();
    let mut warn = |id: &FunctionId, what: String| warned.entry(id.clone()).or_default().push(what);
    for id in &functions {
        let length = id.model_name().chars().count();
        if length > MODEL_NAME_SUITS {
            warn(id, format!("its model name has {length} characters; many models take {MODEL_NAME_SUITS}"));
        }
    }
    for (id, other) in pairs(&functions, |name| name.replace('-', "_")) {
        warn(id, format!("Codex takes it for {other}, since it writes - as _"));
    }
    let plain = |name: &str| -> String {
        name.chars().filter(|c| !matches!(c, '-' | '_' | '.')).map(|c| c.to_ascii_lowercase()).collect()
    };
    for (id, other) in pairs(&functions, plain) {
        warn(id, format!("it differs from {other} only in letter case, -, _ or ."));
    }
    warned
}

/// What is odd about the title in a canonical listing.
pub fn warned_title(canonical: &str) -> Option<String> {
    let listing = read_canonical(canonical)?;
    let title = listing.get("title").and_then(Json::text)?;
    if title.is_ascii() {
        return None;
    }
    let reads: String = skeleton(title).collect();
    let passes_for_ascii = reads.is_ascii() && title.chars().any(|c| !c.is_ascii() && c.is_alphabetic());
    if passes_for_ascii {
        return Some(format!("its title looks like \"{reads}\", with letters of another script"));
    }
    (!title.is_single_script()).then(|| "its title mixes scripts whose letters look alike".to_owned())
}

/// Each function that reads as another does, with the first of those.
fn pairs<'a>(
    functions: &BTreeSet<&'a FunctionId>,
    reads_as: impl Fn(&str) -> String,
) -> Vec<(&'a FunctionId, &'a FunctionId)> {
    let mut alike: BTreeMap<String, Vec<&FunctionId>> = BTreeMap::new();
    for &id in functions {
        alike.entry(reads_as(&id.model_name())).or_default().push(id);
    }
    let first_other = |group: &[&'a FunctionId], id: &FunctionId| {
        group.iter().copied().find(|other| *other != id && other.model_name() != id.model_name())
    };
    let of_group = |group: Vec<&'a FunctionId>| {
        let found: Vec<_> = group.iter().filter_map(|id| Some((*id, first_other(&group, id)?))).collect();
        found
    };
    alike.into_values().filter(|group| group.len() > 1).flat_map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ToolId;

    fn ids(list: &[(&str, &str)]) -> Vec<FunctionId> {
        list.iter().map(|(tool, name)| FunctionId::new(&ToolId::parse(tool).unwrap(), name)).collect()
    }

    fn said(list: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
        warned(&ids(list)).into_iter().map(|(id, what)| (id.to_string(), what)).collect()
    }

    #[test]
    fn ordinary_names_are_not_warned_of() {
        assert_eq!(said(&[("team", "hello"), ("team", "bye"), ("wx", "hello")]), []);
    }

    #[test]
    fn names_over_what_models_take_are_warned_of() {
        let long = "x".repeat(64 - "team__".len());
        assert_eq!(said(&[("team", &long)]), []);
        let longer = format!("{long}x");
        let said = said(&[("team", &longer)]);
        assert_eq!(said[0].1, ["its model name has 65 characters; many models take 64"]);
    }

    #[test]
    fn names_that_a_client_takes_for_one_are_warned_of_on_both() {
        let said = said(&[("team", "get-it"), ("team", "get_it"), ("team", "other")]);
        let first = "Codex takes it for team.get_it, since it writes - as _";
        assert_eq!(said.len(), 2);
        assert_eq!(said[0].1[0], first);
        assert!(said[0].1[1].starts_with("it differs from team.get_it only in"), "{said:?}");
        assert!(said[1].1[0].contains("team.get-it"), "{said:?}");
    }

    #[test]
    fn names_that_differ_in_case_or_dots_only_are_warned_of() {
        for pair in [["read", "Read"], ["read.file", "readfile"], ["read_file", "readFile"]] {
            let said = said(&[("team", pair[0]), ("team", pair[1])]);
            assert_eq!(said.len(), 2, "{pair:?}");
            assert!(said[0].1[0].contains("only in letter case"), "{said:?}");
        }
    }

    #[test]
    fn a_title_of_letters_that_look_like_others_is_warned_of_and_a_foreign_one_is_not() {
        let listing = |title: &str| format!("{{\"title\":\"{title}\"}}");
        let looks = warned_title(&listing("P\u{430}y"));
        assert_eq!(looks.as_deref(), Some("its title looks like \"Pay\", with letters of another script"));
        assert!(warned_title(&listing("P\u{430}y \u{436}")).is_some(), "mixed");
        for fine in ["Pay", "Zahlung über alles", "支払い", "Оплатить", "données"] {
            assert_eq!(warned_title(&listing(fine)), None, "{fine}");
        }
        assert_eq!(warned_title("{}"), None);
    }
}
