//! Shows what waits: few changes one by one, many grouped by what changed alike.

use super::Item;
use crate::output::{Output, bold, dim, shown, waits};

/// Up to so many, each is shown whole.
const ONE_BY_ONE: usize = 20;

/// Function IDs that are named of a group before the rest is counted.
const NAMED: usize = 6;

/// Lines of what differs that are shown of one change among many.
const LINES: usize = 8;

/// Prints the items with what differs. More than twenty are put together where the same words came and went,
/// unless `full`.
///
/// # Errors
/// As writing to stdout does.
pub(crate) fn show(out: &Output, items: &[Item], full: bool) -> std::io::Result<()> {
    let lines = if full || items.len() <= ONE_BY_ONE { whole(items) } else { grouped(items) };
    for line in lines {
        out.line(line)?;
    }
    Ok(())
}

fn whole(items: &[Item]) -> Vec<String> {
    items.iter().flat_map(|item| item.lines().into_iter().chain([String::new()])).collect()
}

fn grouped(items: &[Item]) -> Vec<String> {
    let mut groups: Vec<Vec<&Item>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| first.alike == item.alike)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    let count = if groups.len() == 1 { "one group".to_owned() } else { format!("{} groups", groups.len()) };
    let mut lines = vec![format!("{} changes in {count}:", items.len()), String::new()];
    for group in &groups {
        let [first, others @ ..] = group.as_slice() else { continue };
        if others.is_empty() {
            lines.extend(cut(first.lines()));
        } else {
            let grades = first.grades.iter().map(|grade| shown::line(grade)).collect::<Vec<_>>().join(", ");
            let head = format!("{} functions changed alike{}", group.len(), first.on);
            lines.push(format!("{}  {}", bold(head), waits(format!("[{grades}]"))));
            lines.extend(cut(first.body.clone()));
            lines.push(format!("  {}", dim(ids(group))));
        }
        lines.push(String::new());
    }
    lines
}

fn cut(lines: Vec<String>) -> Vec<String> {
    let rest = lines.len().saturating_sub(LINES);
    let mut cut: Vec<String> = lines.into_iter().take(LINES).collect();
    if rest > 0 {
        cut.push(format!("  … {rest} more lines: --full"));
    }
    cut
}

fn ids(group: &[&Item]) -> String {
    let named: Vec<String> = group.iter().take(NAMED).map(|item| shown::line(&item.id)).collect();
    match group.len().saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Filter, items};
    use super::*;

    fn many(count: usize, new: impl Fn(usize) -> String) -> Vec<Item> {
        let listing = |text: String| serde_json::json!({ "description": text }).to_string();
        let changes: Vec<serde_json::Value> = (0..count)
            .map(|n| {
                serde_json::json!({"version": "1.0.0", "tool": "team", "function": format!("f{n:03}"),
                    "approved": {"hash": format!("v1:sha256:a{n:03}"), "listing": listing(format!("Does {n}."))},
                    "variants": [{"hash": format!("v1:sha256:b{n:03}"), "listing": listing(new(n)),
                                  "nodes": ["node-1"], "nodes_total": 1}],
                    "grades": ["text"]})
            })
            .collect();
        let changes = serde_json::from_value(serde_json::json!({ "changes": changes })).expect("changes");
        items(&changes, &Filter::default(), false)
    }

    fn plain(lines: &[String]) -> String {
        anstream::adapter::strip_str(&lines.join("\n")).to_string()
    }

    #[test]
    fn five_hundred_functions_that_changed_alike_are_one_screen() {
        let items = many(500, |n| format!("Does {n}. Beta."));
        let lines = grouped(&items);
        assert!(lines.len() < 12, "{lines:#?}");
        let text = plain(&lines);
        assert!(text.starts_with("500 changes in one group:"), "{text}");
        assert!(text.contains("500 functions changed alike, on node-1  [text]"), "{text}");
        assert!(
            text.contains("team.f000, team.f001, team.f002, team.f003, team.f004, team.f005 and 494 more")
        );
    }

    #[test]
    fn one_that_changed_otherwise_stands_alone_among_many() {
        let items =
            many(100, |n| if n == 57 { "Sends mail.".to_owned() } else { format!("Does {n}. Beta.") });
        let text = plain(&grouped(&items));
        assert!(text.starts_with("100 changes in 2 groups:"), "{text}");
        assert!(text.contains("99 functions changed alike"), "{text}");
        assert!(text.contains("team.f057 (1.0.0) changed") && text.contains("{+mail.+}"), "{text}");
    }
}
