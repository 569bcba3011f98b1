//! What arrived directly against what arrived through the node: equal, but for what `docs/gateway.md` says is
//! different.

use domain::visible::make_visible;

use super::agent::{Agent, Heard, Transcript};
use super::json::members;
use super::script::Ends;
use super::stage::{Play, Seen};
use super::{CAPABILITIES, Era, PROTOCOL, Way};

/// Ours, in what goes to an agent.
const OURS: &str = "dev.pintle/";

/// Characters of a difference that are shown, and how many before it.
const SHOWN: usize = 240;
const BEFORE: usize = 80;

/// The first difference of an exchange, if there is one.
pub(super) fn difference(play: &Play, direct: &Transcript, node: &Transcript) -> Option<String> {
    let is_whole = play.exchange.cancel.is_at_a_known_moment();
    let ends = play.ends;
    let [heard, through] =
        [direct, node].map(|it| it.heard.iter().map(|it| shown(it, ends)).collect::<Vec<_>>());
    agent_heard(&heard, &through, is_whole)
        .or_else(|| answered(direct, node, ends, is_whole))
        .or_else(|| tool_saw(play, is_whole))
        .or_else(|| tool_was_told(play))
}

/// Both alike, or as far as both went where it was cancelled at some moment.
fn alike<T: PartialEq>(one: &[T], other: &[T], is_whole: bool) -> bool {
    (!is_whole || one.len() == other.len()) && one.iter().zip(other).all(|(one, other)| one == other)
}

/// Both from a little before they part.
fn parted<T: std::fmt::Debug>(what: &str, direct: &T, node: &T) -> String {
    let (direct, node) = (format!("{direct:?}"), format!("{node:?}"));
    let same = direct.chars().zip(node.chars()).take_while(|(one, other)| one == other).count();
    let from = |text: &str| {
        let text = text.chars().skip(same.saturating_sub(BEFORE));
        text.take(SHOWN).collect::<String>()
    };
    format!(
        "{what}, from character {same} on\n  directly         …{}\n  through the node …{}",
        from(&direct),
        from(&node)
    )
}

fn agent_heard(direct: &[String], node: &[String], is_whole: bool) -> Option<String> {
    (!alike(direct, node, is_whole)).then(|| parted("the agent heard", &direct, &node))
}

fn answered(direct: &Transcript, node: &Transcript, ends: Ends, is_whole: bool) -> Option<String> {
    let [direct, node] =
        [direct, node].map(|it| it.answer.as_ref().map(|(kind, value)| result(kind, value, ends)));
    let alike = if is_whole { direct == node } else { direct.is_none() || node.is_none() || direct == node };
    (!alike).then(|| parted("the agent was answered", &direct, &node))
}

/// A message that its agent heard, less what is different by design: hidden text is written out, a URL's id
/// is of one family of revisions.
fn shown(heard: &Heard, ends: Ends) -> String {
    match heard {
        Heard::Progress(params) => format!("progress {:?}", members(&one_line(params))),
        Heard::Log(params) => format!("log {}", visible(&one_line(params))),
        Heard::Asked { method, params } => {
            let params = params.as_deref().map(|params| visible(&one_line(params)));
            let is_converted = ends.agent != ends.tool;
            match params.as_deref().and_then(members).filter(|_| is_converted) {
                Some(mut members) => {
                    members.retain(|(name, _)| name != "elicitationId");
                    format!("asked {method} {members:?}")
                }
                None => format!("asked {method} {params:?}"),
            }
        }
    }
}

/// A result or an error, less our marks, and what the newer revision has in each result.
fn result(kind: &str, value: &str, ends: Ends) -> String {
    let value = one_line(value);
    let Some(all) = members(&value).filter(|_| kind == "result") else { return format!("{kind} {value}") };
    let mut out = Vec::new();
    for (name, value) in all {
        match (&*name, members(&value)) {
            ("resultType", _) if value == r#""complete""# => {}
            ("_meta", Some(mut meta)) => {
                let is_own = |name: &str| {
                    name.starts_with(OURS)
                        || (ends.agent == Era::Modern && name == format!("{PROTOCOL}serverInfo"))
                };
                let was_empty = meta.is_empty();
                meta.retain(|(name, _)| !is_own(name));
                if was_empty || !meta.is_empty() {
                    out.push(format!("_meta {meta:?}"));
                }
            }
            _ => out.push(format!("{name} {value}")),
        }
    }
    // An empty `_meta` of the tool and none are one here: ours was in it.
    out.retain(|member| member != "_meta []");
    format!("{kind} {out:?}")
}

fn tool_saw(play: &Play, is_whole: bool) -> Option<String> {
    let [direct, node] = [Way::Direct, Way::Node].map(|way| {
        let seen = play.seen(way).into_iter();
        seen.filter(|it| !matches!(it, Seen::Able(_) | Seen::Headers(_) | Seen::Waits | Seen::Paused))
            // A tool that asks something of a call that is over by then is told so, where it is not cut off.
            .filter(|it| is_whole || !matches!(it, Seen::Answered(all) if all.iter().any(is_nobodys)))
            .map(|it| plain(it, play.ends))
            .collect::<Vec<_>>()
    });
    // How one that was cancelled at some moment ends is open.
    let of = |seen: &[Seen]| seen.iter().filter(|it| is_whole || !it.is_end()).cloned().collect::<Vec<_>>();
    let odd = |seen: &[Seen]| seen.iter().any(|it| matches!(it, Seen::Odd(_)));
    let alike = alike(&of(&direct), &of(&node), is_whole) && !odd(&direct) && !odd(&node);
    (!alike).then(|| parted("the tool saw", &direct, &node))
}

/// Whether it is the node's own word that nobody can be asked.
fn is_nobodys((kind, value): &(String, String)) -> bool {
    kind == "error" && value.contains("the agent cannot be asked any more")
}

/// Line feeds can only stand between tokens; what was written as a line or an event has blanks there.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

/// As a line, and without what cannot be said.
fn plain(seen: Seen, ends: Ends) -> Seen {
    match seen {
        Seen::Called(params) => Seen::Called(params.iter().map(|it| one_line(it)).collect()),
        Seen::Answered(answers) => {
            Seen::Answered(answers.into_iter().map(|(kind, value)| (kind, compact(&value))).collect())
        }
        // Closing the connection has no words.
        Seen::Cancelled(_) if ends.tool == Era::Modern && !ends.stdio => Seen::Cancelled(None),
        seen => seen,
    }
}

/// What a tool of the newer revision is told with each call, which the other era has nowhere.
fn tool_was_told(play: &Play) -> Option<String> {
    if play.ends.tool != Era::Modern {
        return None;
    }
    let seen = play.seen(Way::Node);
    for seen in &seen {
        match seen {
            Seen::Able(able) if able.as_deref() != Some(CAPABILITIES) => {
                return Some(format!("the tool was told that the agent can {able:?}, not {CAPABILITIES}"));
            }
            Seen::Headers(headers) => {
                let expected = Agent::mirrored(&play.exchange.request);
                if *headers != expected {
                    return Some(format!("the tool was sent the headers {headers:?}, not {expected:?}"));
                }
            }
            _ => {}
        }
    }
    None
}

/// JSON with the hidden text in its strings written out.
fn visible(json: &str) -> String {
    let string = |token: &str| {
        let text: String = serde_json::from_str(token).unwrap_or_default();
        let visible = make_visible(&text);
        if visible == text { token.to_owned() } else { serde_json::Value::from(&*visible).to_string() }
    };
    with_strings(json, str::to_owned, string)
}

/// JSON without white space between its tokens, as an answer in which text was put back has none.
fn compact(json: &str) -> String {
    with_strings(json, |between| between.split_whitespace().collect(), str::to_owned)
}

/// JSON with what is between its strings, and its strings, made into something else.
fn with_strings(json: &str, between: impl Fn(&str) -> String, string: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = json;
    while let Some(start) = rest.find('"') {
        let (before, from) = rest.split_at(start);
        let (token, behind) = from.split_at(end_of_string(from));
        out.push_str(&between(before));
        out.push_str(&string(token));
        rest = behind;
    }
    out.push_str(&between(rest));
    out
}

/// Where a string that begins here ends, its quotes counted.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
