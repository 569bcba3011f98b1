//! What is to be said about a plugin beneath its row: what changed and waits, what is left out and why,
//! which endpoints moved. Each with the command that deals with it.

use crate::api::{Changed, LeftOut, Moved, Plugin, Warned};
use crate::output::shown;

/// Nodes that are named before the rest is counted.
const NAMED: usize = 3;

/// Functions whose odd names are told one by one.
const WARNED: usize = 5;

/// Every notice of a plugin, one line each, without indentation.
pub(crate) fn notices(plugin: &Plugin) -> Vec<String> {
    let mut lines: Vec<String> = plugin.changed.iter().map(|changed| change(&plugin.name, changed)).collect();
    lines.extend(plugin.moved.iter().map(moved));
    if !lines.is_empty() {
        let what = match (plugin.changed.is_empty(), plugin.moved.is_empty()) {
            (false, true) => "Nodes do not call these functions until they are approved",
            (true, false) => "Nodes do not call this tool's functions until the move is approved",
            _ => "Nodes do not call these functions, nor the moved tool's, until they are approved",
        };
        lines.push(format!("{what}: pintle plugin approve-tools {}", shown::line(&plugin.name)));
    }
    lines.extend(plugin.left_out.iter().map(|out| left_out("left out", out)));
    lines.extend(plugin.not_shown.iter().map(|out| left_out("not shown to models", out)));
    lines.extend(plugin.warned.iter().take(WARNED).map(odd));
    if let Some(more) = plugin.warned.len().checked_sub(WARNED).filter(|more| *more > 0) {
        let name = shown::line(&plugin.name);
        lines.push(format!("odd names: {more} more functions: pintle plugin show {name} --json"));
    }
    lines
}

fn odd(warned: &Warned) -> String {
    let (function, version) = (shown::line(&warned.function), shown::line(&warned.version));
    format!("odd name: {function} ({version}): {}", shown::line(&warned.warnings.join("; ")))
}

fn change(plugin: &str, changed: &Changed) -> String {
    let what = match changed.state.as_str() {
        "new" | "new_function" => "was not there when the plugin's tools were approved",
        "gone" => "is no longer listed",
        "volatile" => "lists itself differently again and again, so its forms are not kept one by one",
        _ if changed.rejected => "lists itself in a form that was rejected",
        _ => "lists itself differently from when the plugin's tools were approved",
    };
    let own =
        changed.edge.as_ref().map(|edge| format!(", edge {}'s own", shown::line(edge))).unwrap_or_default();
    let differs = match changed.volatile.as_ref().map(|volatile| &volatile.parts[..]) {
        None | Some([]) => String::new(),
        Some(parts) => format!(" (what differs: {})", shown::line(&parts.join(", "))),
    };
    format!(
        "changed: {} ({} {}{own}) {what}{differs}{}",
        shown::line(&changed.function),
        shown::line(plugin),
        shown::line(&changed.version),
        on(&changed.nodes, changed.nodes_total)
    )
}

fn left_out(what: &str, out: &LeftOut) -> String {
    let reason =
        if out.reason.is_empty() { String::new() } else { format!(": {}", shown::line(&out.reason)) };
    format!(
        "{what}: {} ({}){reason}{}",
        shown::line(&out.function),
        shown::line(&out.code),
        on(&out.nodes, out.nodes_total)
    )
}

/// `endpoint moved: TOOL: OLD -> NEW`, or `endpoint new: TOOL: ORIGIN` where nothing was pinned.
pub(crate) fn moved(moved: &Moved) -> String {
    let (tool, to) = (shown::line(&moved.tool), shown::line(&moved.to));
    if moved.from.is_empty() {
        return format!("endpoint new: {tool}: {to}");
    }
    format!("endpoint moved: {tool}: {} -> {to}", shown::line(&moved.from.join(", ")))
}

fn on(nodes: &[String], total: u64) -> String {
    if nodes.is_empty() { String::new() } else { format!(", on {}", named(nodes, total)) }
}

/// Three nodes by name, then how many more. `total` counts where `nodes` is only some of them.
pub(crate) fn named(nodes: &[String], total: u64) -> String {
    let names: Vec<String> = nodes.iter().take(NAMED).map(|name| shown::line(name)).collect();
    let total = usize::try_from(total).unwrap_or(usize::MAX).max(nodes.len());
    match total.saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(json: serde_json::Value) -> Plugin {
        serde_json::from_value(json).expect("a plugin")
    }

    #[test]
    fn a_plugin_without_trouble_has_no_notice() {
        assert_eq!(notices(&plugin(serde_json::json!({"name": "team"}))), Vec::<String>::new());
    }

    // R3.14, R3.66
    #[test]
    fn a_change_names_its_function_three_nodes_and_the_command() {
        let nodes: Vec<String> = (1..=4).map(|n| format!("node-{n}")).collect();
        let lines = notices(&plugin(serde_json::json!({"name": "team", "changed": [
            {"version": "1.4.0", "tool": "team", "function": "team.hello", "state": "drifted",
             "nodes": nodes, "nodes_total": 44}]})));
        assert_eq!(
            lines,
            [
                "changed: team.hello (team 1.4.0) lists itself differently from when the plugin's tools were \
             approved, on node-1, node-2, node-3 and 41 more",
                "Nodes do not call these functions until they are approved: pintle plugin approve-tools team",
            ]
        );
    }

    #[test]
    fn a_volatile_function_says_what_differs_and_an_edges_own_says_whose() {
        let lines = notices(&plugin(serde_json::json!({"name": "team", "changed": [
            {"version": "1.4.0", "tool": "team", "function": "team.hello", "state": "volatile", "edge": "eu-1",
             "volatile": {"since": "2026-01-31T12:00:00.000Z", "parts": ["/description"]}, "nodes": ["a"],
             "nodes_total": 1}]})));
        assert_eq!(
            lines.first().map(String::as_str),
            Some(
                "changed: team.hello (team 1.4.0, edge eu-1's own) lists itself differently again and again, so \
                 its forms are not kept one by one (what differs: /description), on a"
            )
        );
    }

    #[test]
    fn odd_names_are_told_and_counted_where_there_are_many() {
        let odd = |n: usize| {
            serde_json::json!({"version": "1.0.0", "function": format!("team.f-{n}"),
                "warnings": [format!("Codex takes it for team.f_{n}, since it writes - as _")]})
        };
        let lines = notices(&plugin(
            serde_json::json!({"name": "team", "warned": (0..7).map(odd).collect::<Vec<_>>()}),
        ));
        assert_eq!(lines.len(), 6);
        assert_eq!(
            lines[0],
            "odd name: team.f-0 (1.0.0): Codex takes it for team.f_0, since it writes - as _"
        );
        assert_eq!(lines[5], "odd names: 2 more functions: pintle plugin show team --json");
    }

    #[test]
    fn a_move_shows_both_origins() {
        let lines = notices(&plugin(serde_json::json!({"name": "team", "moved": [
            {"version": "1.1.0", "tool": "wx", "from": ["http://127.0.0.1:1"], "to": "http://127.0.0.1:2"}]})));
        assert_eq!(
            lines.first().map(String::as_str),
            Some("endpoint moved: wx: http://127.0.0.1:1 -> http://127.0.0.1:2")
        );
    }

    #[test]
    fn what_is_left_out_says_why() {
        let lines = notices(&plugin(serde_json::json!({"name": "team", "left_out": [
            {"function": "team.hello", "code": "twice", "reason": "the server lists it twice", "nodes": ["a"]}]})));
        assert_eq!(lines, ["left out: team.hello (twice): the server lists it twice, on a"]);
    }
}
