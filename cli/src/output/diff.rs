//! Two listings side by side, member by member, with the words that differ marked.
//!
//! Only what differs is shown: a member is named by its path (`inputSchema/properties/name/type`), then
//! the lines that went and came. Which members differ is `domain::change`'s to say. Texts are made visible here again, whoever made them visible before.

use domain::change::differences;
use owo_colors::{OwoColorize, Style};
use similar::{ChangeTag, TextDiff};

use super::shown;

/// Lines around a difference within a long text: enough to see where it is.
const CONTEXT: usize = 2;

/// Lines that show what differs between two canonical listings; `None` is no listing at all. Empty if
/// they are the same. Without colour, words that went stand in `[-…-]`, those that came in `{+…+}`.
pub(crate) fn listings(old: Option<&str>, new: Option<&str>, colour: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for difference in differences(old.unwrap_or("{}"), new.unwrap_or("{}")) {
        let (was, is) =
            (difference.before.as_deref().map(shown::block), difference.after.as_deref().map(shown::block));
        let member = difference.pointer.trim_start_matches('/');
        lines.push(format!(
            "  {}",
            shown::line(if member.is_empty() { "(the whole listing)" } else { member })
        ));
        lines.extend(
            texts(was.as_deref(), is.as_deref(), colour).into_iter().map(|line| format!("    {line}")),
        );
        let (was, is) = (was.as_deref().and_then(shown::spelled), is.as_deref().and_then(shown::spelled));
        if let Some(hidden) = is.filter(|is| Some(is) != was.as_ref()) {
            lines.push(format!("    ! hidden text that models read: \"{}\"", shown::line(&hidden)));
        }
    }
    lines
}

/// Where two listings differ, with the words that went and came there: the same for listings that changed
/// alike, whatever else they say.
pub(crate) fn edits(old: Option<&str>, new: Option<&str>) -> Vec<(String, String, String)> {
    let edit = |difference: domain::change::Difference| {
        let (mut went, mut came) = (String::new(), String::new());
        match (&difference.before, &difference.after) {
            (Some(was), Some(is)) => {
                for change in TextDiff::from_words(was, is).iter_all_changes() {
                    match change.tag() {
                        ChangeTag::Delete => went.push_str(change.value()),
                        ChangeTag::Insert => came.push_str(change.value()),
                        ChangeTag::Equal => {}
                    }
                }
            }
            (was, is) => {
                went.push_str(was.as_deref().unwrap_or_default());
                came.push_str(is.as_deref().unwrap_or_default());
            }
        }
        (difference.pointer, went, came)
    };
    differences(old.unwrap_or("{}"), new.unwrap_or("{}")).into_iter().map(edit).collect()
}

fn texts(was: Option<&str>, is: Option<&str>, colour: bool) -> Vec<String> {
    let (Some(was), Some(is)) = (was, is) else {
        let whole = |text: Option<&str>, tag| {
            text.into_iter().flat_map(str::lines).map(move |line| paint(tag, line, colour)).collect()
        };
        let mut lines: Vec<String> = whole(was, ChangeTag::Delete);
        lines.extend::<Vec<String>>(whole(is, ChangeTag::Insert));
        return lines;
    };
    let (was, is) = (format!("{was}\n"), format!("{is}\n"));
    let diff = TextDiff::from_lines(&was, &is);
    let mut lines = Vec::new();
    for (at, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if at > 0 {
            lines.push("…".to_owned());
        }
        for change in group.iter().flat_map(|op| diff.iter_inline_changes(op)) {
            let tag = change.tag();
            let text: String = change
                .iter_strings_lossy()
                .map(|(differs, text)| mark(tag, differs, &text, colour))
                .collect();
            let text = text.trim_end_matches('\n');
            let whole = text.trim_end_matches('\r');
            // Of a line that changed it may be all that did.
            let end = if tag == ChangeTag::Equal || whole == text { "" } else { "\\u{D}" };
            lines.push(paint(tag, &format!("{whole}{end}"), colour));
        }
    }
    lines
}

/// One stretch of a line; `differs` where it is what changed.
fn mark(tag: ChangeTag, differs: bool, text: &str, colour: bool) -> String {
    let body = text.trim_end_matches('\n');
    if !differs || body.is_empty() {
        return body.to_owned();
    }
    let body = &blanks_written_out(body);
    match (tag, colour) {
        (ChangeTag::Equal, _) => body.to_owned(),
        (ChangeTag::Delete, true) => body.style(Style::new().red().bold().underline()).to_string(),
        (ChangeTag::Insert, true) => body.style(Style::new().green().bold().underline()).to_string(),
        (ChangeTag::Delete, false) => format!("[-{body}-]"),
        (ChangeTag::Insert, false) => format!("{{+{body}+}}"),
    }
}

/// What differs, with each blank but a space written out: a no-break space for a space, or a line end for another,
/// would look like no change.
fn blanks_written_out(text: &str) -> String {
    let written = |c: char| match c {
        '\n' | ' ' => c.to_string(),
        c if c.is_whitespace() => format!("\\u{{{:X}}}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(written).collect()
}

fn paint(tag: ChangeTag, text: &str, colour: bool) -> String {
    let (sign, style) = match tag {
        ChangeTag::Equal => ("  ", Style::new().dimmed()),
        ChangeTag::Delete => ("- ", Style::new().red()),
        ChangeTag::Insert => ("+ ", Style::new().green()),
    };
    if colour { format!("{}{text}", sign.style(style)) } else { format!("{sign}{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"description":"Says hello to a person.","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}},"name":"hello"}"#;

    #[test]
    fn equal_listings_show_nothing() {
        assert_eq!(listings(Some(OLD), Some(OLD), false), Vec::<String>::new());
    }

    #[test]
    fn the_words_that_differ_are_marked_and_nothing_else_is_shown() {
        let new = OLD.replace("to a person", "to every person");
        assert_eq!(
            listings(Some(OLD), Some(&new), false),
            ["  description", "    - Says hello to [-a-] person.", "    + Says hello to {+every+} person."]
        );
    }

    #[test]
    fn members_deep_in_a_schema_are_named_by_their_path() {
        let new = OLD.replace(r#"{"type":"string"}"#, r#"{"type":"number"}"#);
        let lines = listings(Some(OLD), Some(&new), false);
        assert_eq!(lines.first().map(String::as_str), Some("  inputSchema/properties/name/type"));
    }

    #[test]
    fn hidden_text_is_written_out_and_spelled() {
        let new = OLD.replace("a person.", "a person.\u{E0068}\u{E0069}");
        let lines = listings(Some(OLD), Some(&new), false).join("\n");
        assert!(lines.contains("\\u{E0068}\\u{E0069}"), "{lines}");
        assert!(lines.contains("! hidden text that models read: \"hi\""), "{lines}");
    }

    // C39
    #[test]
    fn what_people_would_not_see_of_a_change_is_shown() {
        let file: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/cases/C39-approval-display.json")).unwrap();
        let lines = |id: &str| {
            let row = file["rows"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap();
            let listing = |text: &str| serde_json::json!({ "description": row[text] }).to_string();
            listings(Some(&listing("old")), Some(&listing("new")), false).join("\n")
        };
        let hidden = lines("only-the-hidden-part-changed");
        assert!(hidden.contains("\\u{E0020}\\u{E0053}"), "{hidden}");
        assert!(hidden.contains("! hidden text that models read: \" Send\""), "{hidden}");
        let blank = lines("only-white-space-changed");
        assert!(blank.contains("- a[- -]b") && blank.contains("+ a{+\\u{A0}+}b"), "{blank}");
        let listing = |text: &str| serde_json::json!({ "description": text }).to_string();
        let ends = listings(Some(&listing("a\nb")), Some(&listing("a\r\nb")), false).join("\n");
        assert!(ends.contains("- a\n") && ends.contains("+ a\\u{D}\n"), "{ends}");
    }

    #[test]
    fn a_new_and_a_gone_function_are_shown_whole() {
        assert!(listings(None, Some(OLD), false).contains(&"    + Says hello to a person.".to_owned()));
        assert!(listings(Some(OLD), None, false).contains(&"    - Says hello to a person.".to_owned()));
    }

    #[test]
    fn a_changed_line_in_a_long_text_comes_with_two_lines_around_it() {
        let text: Vec<String> = (1..=20).map(|n| format!("line {n}")).collect();
        let old = serde_json::json!({"description": text.join("\n")}).to_string();
        let new = old.replace("line 10", "line ten");
        let lines = listings(Some(&old), Some(&new), false);
        assert_eq!(lines.len(), 7, "{lines:#?}");
    }
}
