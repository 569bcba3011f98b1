//! Keeps listings that nodes sent in answer to the control plane's question.

use std::collections::BTreeSet;

use domain::audit::Event;
use domain::digest::ListingHash;
use domain::id::NodeName;
use domain::listing::judge_entry;
use domain::time::Timestamp;

use super::{By, Error};
use crate::store::{Store, listings};

/// Keeps the texts whose hashes were asked for, each under the hash that is computed here. One that
/// was not asked for, or is no canonical listing, is refused and audited with the node's name; the
/// first of a message stands for all, so that no node floods the log. One that is here already is
/// only late: the node was asked twice. Answers which of the wanted hashes are still missing.
///
/// # Errors
/// What the store says.
pub async fn store_texts(
    store: &Store,
    now: Timestamp,
    node: &NodeName,
    wanted: &[ListingHash],
    texts: &[String],
) -> Result<Vec<ListingHash>, Error> {
    let by = By::node(now, node);
    let asked: BTreeSet<ListingHash> = wanted.iter().copied().collect();
    let hashes: BTreeSet<ListingHash> = texts.iter().map(|text| ListingHash::of_canonical(text)).collect();
    let mut tx = store.begin_write().await?;
    let new: BTreeSet<ListingHash> = listings::missing(tx.tx(), &hashes).await?.into_iter().collect();
    let mut is_audited = false;
    for text in texts {
        let hash = ListingHash::of_canonical(text);
        if !new.contains(&hash) {
            continue;
        }
        let fault = match (asked.contains(&hash), canonical_fault(text)) {
            (false, _) => "nobody asked for a listing of this hash".to_owned(),
            (true, Some(fault)) => fault,
            (true, None) => {
                listings::put_text(tx.tx(), text).await?;
                continue;
            }
        };
        if !std::mem::replace(&mut is_audited, true) {
            tx.audit(&by.origin, Event::ListingFalse { node: node.clone(), hash, fault });
        }
    }
    let missing = listings::missing(tx.tx(), &asked).await?;
    tx.commit(now).await?;
    Ok(missing)
}

/// Why a text is no canonical listing: a node could otherwise have people approve text that its own
/// rules would have written out. The name is not part of it, so any will do to read it as an entry.
pub(super) fn canonical_fault(text: &str) -> Option<String> {
    let entry = match text.strip_prefix('{') {
        Some("}") => r#"{"name":"x"}"#.to_owned(),
        Some(rest) => format!(r#"{{"name":"x",{rest}"#),
        None => return Some("it is no object".to_owned()),
    };
    match judge_entry(&entry, &[]) {
        Ok(entry) if *entry.canonical == *text => None,
        Ok(_) => Some("it is not in canonical form".to_owned()),
        Err(fault) => Some(fault.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_canonical_listing_is_one() {
        assert_eq!(canonical_fault("{}"), None);
        assert_eq!(canonical_fault(r#"{"description":"Hi \\u{E0041}"}"#), None);
        for bad in [
            "",
            "[]",
            "{",
            r#"{"name":"y"}"#,
            r#"{ "a":1}"#,
            r#"{"b":1,"a":1}"#,
            "{\"description\":\"Hi \u{E0041}\"}",
            r#"{"_meta":{"dev.pintle/x":1}}"#,
        ] {
            assert!(canonical_fault(bad).is_some(), "{bad}");
        }
    }
}
