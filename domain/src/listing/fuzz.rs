//! Targets for a fuzzer: any text as an entry, any text as a page of a list. `scripts/fuzz` drives them for as long
//! as one likes; as tests they take what is kept in `__fuzz__` and a thousand inputs more.

use serde_json::Value;

use super::*;
use crate::visible::is_visible;

/// An entry under a name of ours, so that its canonical form can be read again.
fn named(canonical: &str) -> String {
    let rest = canonical.strip_prefix('{').expect("an object");
    let comma = if rest == "}" { "" } else { "," };
    format!("{{\"name\":\"f\"{comma}{rest}")
}

#[test]
fn an_entry_is_refused_or_reads_as_it_is_hashed() {
    let ignore = [MetaPointer::parse("/_meta/a").unwrap(), MetaPointer::parse("/_meta/b/0").unwrap()];
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let entry = match judge_entry(text, &ignore) {
            Ok(entry) => entry,
            Err(unreadable) => {
                assert!(unreadable.pointer.chars().count() <= 200, "its place is bounded");
                assert!(is_visible(&unreadable.to_string()), "its sentence is for people");
                if matches!(unreadable.fault, UnreadableFault::NotJson { .. }) {
                    assert!(serde_json::from_str::<Value>(text).is_err(), "others read it");
                }
                return;
            }
        };
        assert!(entry.canonical.len() <= ENTRY_BYTES);
        assert!(is_visible(&entry.canonical) && is_visible(&entry.name));
        // What is served is JSON to everybody, in the form of RFC 8785, and hashes to the same.
        let value: Value = serde_json::from_str(&entry.canonical).expect("it is JSON");
        assert_eq!(serde_json_canonicalizer::to_string(&value).unwrap(), *entry.canonical);
        let again = judge_entry(&named(&entry.canonical), &ignore).expect("it reads again");
        assert_eq!((again.hash, again.hidden), (entry.hash, false));
        assert_eq!(again.not_shown, entry.not_shown);
        let shown = shown_form(&entry.canonical);
        assert!(shown.len() <= entry.canonical.len(), "nothing is added");
        assert_eq!(shown_form(&shown), shown, "nothing is left to take away");
        header_fault(&entry.canonical);
        // Nobody sends back a text that the model was not shown.
        for real in &entry.real_texts {
            assert!(is_visible(&real.written));
            assert!(text.contains(&*real.real), "it is the server's own spelling");
        }
    });
}

#[test]
fn a_page_is_refused_or_taken_entry_by_entry() {
    let limits = ListLimits { entries: 8, pages: 3, bytes: 4096 };
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let mut reader = ListReader::new(limits);
        let mut asked: Option<String> = None;
        // The server answers each cursor in the same way.
        let next = loop {
            match reader.page(text, asked.as_deref()) {
                Ok(Next::Ask { cursor }) => asked = Some(cursor),
                Ok(Next::Done) => break Ok(()),
                Err(fault) => break Err(fault),
            }
        };
        let list = reader.finish();
        assert_eq!(list.complete, next.is_ok());
        assert!(list.entries.len() <= limits.entries);
        for raw in &list.entries {
            assert!(text.contains(&**raw), "an entry is the server's own text");
            // Half a surrogate pair and a number over any double are JSON here, and not to all others.
            let read = judge_entry(raw, &[]);
            if serde_json::from_str::<Value>(raw).is_ok() {
                let fault = read.as_ref().err().map(|unreadable| &unreadable.fault);
                assert!(!matches!(fault, Some(UnreadableFault::NotJson { .. })), "{raw}");
            }
        }
        if let Err(fault) = next {
            assert!(is_visible(&fault.to_string()));
        }
    });
}
