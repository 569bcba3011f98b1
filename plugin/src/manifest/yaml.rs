//! YAML as a small tree that remembers its lines, so that one reading can name every fault.
//!
//! Only what a manifest needs: text, lists and maps. Anchors, aliases, merge keys and tags are
//! refused, since they let a short file stand for a huge one or hide what a tool starts.

use granit_parser::{Event, Parser, ScalarStyle};

use super::fault::{Faults, shown};

/// Nesting of a manifest: the deepest member of `pintle.yaml` is 6 levels down.
const MOST_DEPTH: usize = 16;

/// Values in one manifest: bounds memory well before a file of the largest size does.
const MOST_NODES: usize = 20_000;

/// A value and the line it starts on.
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// What a manifest can hold. Numbers and booleans are kept as the text they were written as.
pub(super) enum Value {
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// One member of a map, with the line of its key.
pub(super) struct Member {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: Node,
}

impl Value {
    /// What it is, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// A list or map whose end has not come yet.
struct Open {
    node: Node,
    /// The key whose value comes next, in a map.
    key: Option<(usize, String)>,
}

/// Reads one document. What cannot be part of a tree is noted; `None` if there is no tree at all.
pub(super) fn parse(text: &str, faults: &mut Faults) -> Option<Node> {
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    let mut nodes = 0;
    for next in Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(fault) => {
                faults.add(
                    fault.marker().line(),
                    "",
                    format!("this is no YAML: {}", shown(&fault.info())),
                    FIX,
                );
                return None;
            }
        };
        let line = span.start.line();
        if open.len() > MOST_DEPTH || nodes > MOST_NODES {
            let what = format!("more than {MOST_DEPTH} levels or {MOST_NODES} values");
            faults.add(line, "", what, "keep the manifest to what its format describes");
            return None;
        }
        let done = match event {
            Event::Scalar(text, style, anchor, tag) => {
                refuse_extras(anchor, tag.is_some(), line, faults);
                Node { line, value: scalar(&text, style) }
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_extras(anchor, tag.is_some(), line, faults);
                open.push(Open { node: Node { line, value: Value::List(Vec::new()) }, key: None });
                continue;
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_extras(anchor, tag.is_some(), line, faults);
                open.push(Open { node: Node { line, value: Value::Map(Vec::new()) }, key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(closed) => closed.node,
                None => continue,
            },
            Event::Alias(_) => {
                faults.add(line, "", "an alias (`*name`)", "write the value out");
                Node { line, value: Value::Null }
            }
            Event::DocumentStart(..) if root.is_some() => {
                faults.add(line, "", "a second document", "keep one document in the file");
                return root;
            }
            _ => continue,
        };
        nodes += 1;
        place(done, &mut open, &mut root, faults);
    }
    root
}

const FIX: &str = "mend the line, or compare it with a fresh `pintle plugin init`";

fn scalar(text: &str, style: ScalarStyle) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" if style == ScalarStyle::Plain => Value::Null,
        _ => Value::Text(text.to_owned()),
    }
}

fn refuse_extras(anchor: usize, tagged: bool, line: usize, faults: &mut Faults) {
    if anchor > 0 {
        faults.add(line, "", "an anchor (`&name`)", "write the value out where it is used");
    }
    if tagged {
        faults.add(line, "", "a tag (`!name`)", "leave the tag away");
    }
}

/// Puts a finished value where it belongs: into the innermost open list or map, or at the root.
fn place(done: Node, open: &mut [Open], root: &mut Option<Node>, faults: &mut Faults) {
    let Some(parent) = open.last_mut() else {
        *root = Some(done);
        return;
    };
    match &mut parent.node.value {
        Value::List(list) => list.push(done),
        Value::Map(members) => match (parent.key.take(), done.value) {
            (Some((line, key)), value) => {
                if let Some(first) = members.iter().find(|member| member.key == key) {
                    let what = format!("`{}` stands in line {} already", shown(&key), first.line);
                    faults.add(line, &key, what, "keep one of them");
                }
                members.push(Member { line, key, value: Node { line: done.line, value } });
            }
            (None, Value::Text(key)) => {
                if key == "<<" {
                    faults.add(done.line, "", "a merge key (`<<`)", "write the members out");
                }
                parent.key = Some((done.line, key));
            }
            (None, other) => {
                faults.add(done.line, "", format!("{} as a key", other.kind()), "use text as the key");
                parent.key = Some((done.line, String::new()));
            }
        },
        Value::Null | Value::Text(_) => {}
    }
}
