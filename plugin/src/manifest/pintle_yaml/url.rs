//! Reads the URL of a remote tool, and the parameters of its connection in it.
//!
//! Whether a URL may be called at all is decided in `domain::origin`. Here a parameter is put in
//! its place first: its value comes later, from a person, and is judged then.

use std::collections::BTreeMap;

use domain::origin::parse_tool_url;

use super::super::fault::{Faults, did_you_mean, shown};
use super::super::reader::{At, Fields};
use super::super::variable::{Piece, pieces};
use super::super::{Connection, ToolSpec, Transport};

/// Bytes of a URL: servers and proxies commonly refuse longer ones.
const MOST_BYTES: usize = 2_048;

/// The part of a URL that a parameter stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Scheme,
    User,
    Host,
    Port,
    Path,
}

/// Reads `url`, `connection`, `allow_http` and `transport`.
pub(super) fn read(
    fields: &Fields<'_>,
    connections: &BTreeMap<String, Connection>,
    faults: &mut Faults,
) -> Option<ToolSpec> {
    let allow_http = fields.get("allow_http").is_some_and(|at| at.flag(faults));
    let transport = fields.get("transport").and_then(|at| at.word(&Transport::WORDS, faults));
    let connection = fields.get("connection").and_then(|at| connection(at, connections, faults));
    let at = fields.get("url")?;
    let text = at.text(faults)?;
    if text.len() > MOST_BYTES {
        faults.add(at.line(), &at.path, format!("a URL of more than {MOST_BYTES} bytes"), "shorten it");
        return None;
    }
    if text.chars().any(char::is_control) && text.contains("${") {
        faults.add(at.line(), &at.path, "a control character in a URL with parameters", "leave it away");
        return None;
    }
    let used = params(text);
    for (name, part) in &used {
        param(at, name, *part, connection, faults);
    }
    let stands_in = |wanted: Part| used.iter().any(|(_, part)| *part == wanted);
    if (stands_in(Part::Scheme) || stands_in(Part::Port)) && !stands_in(Part::Host) {
        let what = "a parameter only in the scheme or the port";
        faults.add(
            at.line(),
            &at.path,
            what,
            "write both out, or let the host come from a parameter as well",
        );
    } else if !ends_at_labels(text, &used) {
        let what =
            "a parameter in the host with text right after it, so that its value could choose another name";
        faults.add(
            at.line(),
            &at.path,
            what,
            "let a `.` follow, as in `https://${params.host}.example.com/mcp`",
        );
    } else if let Err(fault) = parse_tool_url(&filled(text, &used), allow_http) {
        let what = format!("`{}` cannot be called: {}", shown(text), fault.rule);
        faults.add(at.line(), &at.path, what, "write a URL such as https://mcp.example.com/mcp");
    }
    Some(ToolSpec::Url {
        url: text.to_owned(),
        connection: fields.get("connection").and_then(|at| at.text(&mut Faults::new(""))).map(str::to_owned),
        allow_http,
        transport: transport.unwrap_or_default(),
    })
}

fn connection<'a>(
    at: &At<'_>,
    connections: &'a BTreeMap<String, Connection>,
    faults: &mut Faults,
) -> Option<&'a Connection> {
    let text = at.text(faults)?;
    let found = connections.get(text);
    if found.is_none() {
        let what = format!("the plugin has no connection `{}`", shown(text));
        faults.add(at.line(), &at.path, what, did_you_mean(text, connections.keys().map(String::as_str)));
    }
    found
}

/// Every parameter with the part it stands in.
fn params(text: &str) -> Vec<(&str, Part)> {
    let mut part = Part::Scheme;
    let has_user = authority(text).is_some_and(|authority| authority.contains('@'));
    let mut found = Vec::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => part = after(text, part, has_user),
            Piece::Variable(name) => found.push((name, part)),
            Piece::Unclosed(rest) => found.push((rest, part)),
        }
    }
    found
}

/// What stands between `//` and the path, as the URL parser would see it.
fn authority(text: &str) -> Option<&str> {
    text.split_once("://")
        .and_then(|(_, rest)| rest.trim_start_matches(['/', '\\']).split(['/', '\\', '?', '#']).next())
}

/// The part that comes after `text`, which begins in `part`.
fn after(text: &str, mut part: Part, has_user: bool) -> Part {
    let mut rest = text;
    if part == Part::Scheme {
        let Some((_, after)) = rest.split_once("://") else { return Part::Scheme };
        // The URL parser passes over further slashes, so what follows them is still the host.
        rest = after.trim_start_matches(['/', '\\']);
        part = if has_user { Part::User } else { Part::Host };
    }
    if rest.contains(['/', '\\', '?', '#']) {
        return Part::Path;
    }
    if part == Part::User {
        let Some((_, after)) = rest.rsplit_once('@') else { return Part::User };
        rest = after;
        part = Part::Host;
    }
    // An IPv6 address has colons of its own, within brackets.
    let port = rest.rsplit_once(']').map_or(rest, |(_, after)| after);
    if part == Part::Host && port.contains(':') && !rest.ends_with('[') {
        return Part::Port;
    }
    part
}

/// Whether a parameter may stand where it does.
fn param(at: &At<'_>, name: &str, part: Part, connection: Option<&Connection>, faults: &mut Faults) {
    let Some(name) = name.strip_prefix("params.") else {
        let what = format!("`${{{}}}` is no variable here", shown(name));
        faults.add(at.line(), &at.path, what, "use `${params.NAME}` with a parameter of the connection");
        return;
    };
    if part == Part::User {
        let what = format!("the parameter `{}` as a user name", shown(name));
        faults.add(at.line(), &at.path, what, "credentials are never part of a URL");
    }
    let Some(connection) = connection else {
        let what = format!("the parameter `{}`, but no connection that has it", shown(name));
        faults.add(at.line(), &at.path, what, "add `connection: NAME` and describe it under `connections`");
        return;
    };
    match connection.params.get(name) {
        None => {
            let what = format!("the connection has no parameter `{}`", shown(name));
            faults.add(
                at.line(),
                &at.path,
                what,
                did_you_mean(name, connection.params.keys().map(String::as_str)),
            );
        }
        Some(param) if param.secret => {
            let what = format!("the secret `{}` in a URL, which people and logs see", shown(name));
            faults.add(at.line(), &at.path, what, "secrets go into headers, not into URLs");
        }
        Some(_) => {}
    }
}

/// Whether each parameter of the host is followed by the end of a label. `${params.x}ample.com`
/// would let a value choose another registered name, and no fixed suffix could be pinned.
fn ends_at_labels(text: &str, used: &[(&str, Part)]) -> bool {
    let all = pieces(text);
    let variables = all.iter().enumerate().filter(|(_, piece)| !matches!(piece, Piece::Text(_)));
    variables.zip(used).filter(|(_, (_, part))| *part == Part::Host).all(|((index, _), _)| {
        match all.get(index + 1) {
            None => true,
            Some(Piece::Text(next)) => next.starts_with(['.', ':', '/', '\\', '?', '#', ']']),
            Some(_) => false,
        }
    })
}

/// The URL with a plain value in the place of each parameter, so that the rest can be judged.
fn filled(text: &str, used: &[(&str, Part)]) -> String {
    let mut parts = used.iter().map(|(_, part)| *part);
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Variable(_) | Piece::Unclosed(_) => out.push_str(match parts.next() {
                Some(Part::Scheme) => "https",
                Some(Part::Port) => "443",
                _ => "value",
            }),
        }
    }
    out
}
