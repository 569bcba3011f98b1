//! `$ref`s: only those within the document are followed, and never in a circle.
//!
//! Validators follow a reference that leads back to itself until the stack of the process is full,
//! and a schema comes from a tool's server. So what could do that is found before it is compiled.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Schemas that may be applied to one and the same value, one within the other. Sensible ones stay
/// under ten; times the depth of arguments it bounds the stack that judging takes.
const CHAIN: usize = 24;

/// The schema with references out of the document taken away, so that they accept everything; or
/// `None` if it cannot be judged safely.
pub(super) fn localised(mut schema: Value) -> Option<Value> {
    if has_inner_base(&schema) {
        return None;
    }
    if let Value::Object(members) = &mut schema {
        members.remove("$id");
        members.remove("id");
    }
    forget_outer_refs(&mut schema);
    let bounded = !never_ends(&schema);
    bounded.then_some(schema)
}

/// Whether a schema inside has an identity of its own, to which the references in it would relate.
fn has_inner_base(schema: &Value) -> bool {
    let is_draft_4 =
        schema.get("$schema").and_then(Value::as_str).is_some_and(|uri| uri.contains("draft-04"));
    let is_base =
        |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|id| !id.starts_with('#'));
    objects(schema)
        .into_iter()
        .filter(|object| !std::ptr::eq(*object, schema))
        .any(|object| is_base(object.get("$id")) || (is_draft_4 && is_base(object.get("id"))))
}

fn forget_outer_refs(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for keyword in REFERENCES {
                let leads_out = |value: &Value| value.as_str().is_some_and(|to| !to.starts_with('#'));
                if members.get(keyword).is_some_and(leads_out) {
                    members.remove(keyword);
                }
            }
            for (name, value) in members {
                // Data, in which a member of that name means nothing.
                if !matches!(&**name, "const" | "enum" | "default" | "examples") {
                    forget_outer_refs(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget_outer_refs),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Whether a reference leads back to itself without going into the arguments, or nearly so.
fn never_ends(schema: &Value) -> bool {
    let mut known = BTreeMap::new();
    let refs = |object: &&Value| REFERENCES.iter().any(|keyword| object.get(keyword).is_some());
    let mut starts = objects(schema);
    starts.retain(refs);
    starts.push(schema);
    starts.into_iter().any(|start| chain(schema, start, &mut BTreeSet::new(), &mut known).is_none())
}

/// How many schemas are applied one within the other to the value that this one is applied to;
/// `None` if there is no end to it. `path` are the schemas on the way, by address.
fn chain<'s>(
    root: &'s Value,
    schema: &'s Value,
    path: &mut BTreeSet<*const Value>,
    known: &mut BTreeMap<*const Value, usize>,
) -> Option<usize> {
    let here = std::ptr::from_ref(schema);
    if let Some(length) = known.get(&here) {
        return (path.len() + length <= CHAIN).then_some(*length);
    }
    if path.len() >= CHAIN || !path.insert(here) {
        return None;
    }
    let mut longest = 0;
    for next in applied(root, schema) {
        longest = longest.max(chain(root, next, path, known)?);
    }
    path.remove(&here);
    known.insert(here, longest + 1);
    Some(longest + 1)
}

/// Subschemas that judge the same value as this one.
fn applied<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    let Value::Object(members) = schema else { return Vec::new() };
    let mut next = Vec::new();
    for (name, value) in members {
        match (&**name, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => next.extend(targets(root, to)),
            ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => next.extend(items),
            ("not" | "if" | "then" | "else", _) => next.push(value),
            ("dependentSchemas" | "dependencies", Value::Object(members)) => next.extend(members.values()),
            _ => {}
        }
    }
    next
}

/// Where a reference may lead in this document.
fn targets<'s>(root: &'s Value, to: &str) -> Vec<&'s Value> {
    let Some(fragment) = to.strip_prefix('#') else { return Vec::new() };
    if fragment.is_empty() {
        return vec![root];
    }
    if fragment.starts_with('/') {
        let decoded = percent_decoded(fragment);
        return root.pointer(&decoded).into_iter().collect();
    }
    let named = |object: &&Value| {
        let is = |keyword: &str, text: &str| object.get(keyword).and_then(Value::as_str) == Some(text);
        is("$anchor", fragment) || is("$dynamicAnchor", fragment) || is("$id", to) || is("id", to)
    };
    objects(root).into_iter().filter(named).collect()
}

/// A URI fragment as text; what is no escape stays.
fn percent_decoded(fragment: &str) -> String {
    let mut out = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [byte, tail @ ..] = rest {
        let escape = tail.get(..2).filter(|_| *byte == b'%');
        let decoded = escape.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(decoded) = decoded.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out.push(decoded);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            out.push(*byte);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Every object in a value, itself included. Without recursion.
fn objects(value: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(members) => {
                found.push(value);
                pending.extend(members.values());
            }
            Value::Array(items) => pending.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    found
}
