//! One exchange as its seed has it: what the agent asks, what the tool says before it answers, what the agent
//! answers to that, and when it gives up.

use crate::random::Random;

use super::Era;
use super::json::Writer;

/// What the agent sends.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// As JSON: any number or string.
    pub(super) id: String,
    /// The function's name as JSON text, spelled in one of many ways.
    pub(super) name: String,
    pub(super) function: &'static str,
    pub(super) arguments: Option<String>,
    /// Of the protocol's own: only the token.
    pub(super) token: Option<String>,
    /// Further members of `_meta`.
    pub(super) meta: Vec<(String, String)>,
    /// Further members of `params`.
    pub(super) others: Vec<(String, String)>,
    /// What stands before the message and beside its members.
    pub(super) bom: bool,
    pub(super) envelope: Vec<(String, String)>,
    /// From which level on the agent wants to be told, by its index in [`LEVELS`].
    pub(super) level: Option<usize>,
}

/// What the tool does in an exchange.
#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    /// `result` or `error`, and its value.
    pub(super) ending: (&'static str, String),
    /// Whether an answer without anything before it comes as JSON, where that can be chosen.
    pub(super) json: bool,
    /// How its events are spelled.
    pub(super) framing: u64,
}

/// Before the answer.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Members of the params, beside the token.
    Progress(Vec<(String, String)>),
    /// The level's index, and the params.
    Log(usize, String),
    /// Asked at once; all are answered before it goes on.
    Ask(Vec<Question>),
    /// A message that concerns nobody.
    Noise(String),
    /// Lets others go first.
    Yield,
    /// Goes on only once the call is cancelled.
    AwaitCancel,
}

/// What a tool asks, and what the agent answers.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) method: &'static str,
    pub(super) params: String,
    /// `result` or `error`, and its value.
    pub(super) answer: (&'static str, String),
}

/// When the agent gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cancel {
    Never,
    /// Once it has heard so many messages and the tool does nothing but wait for that.
    At(usize),
    /// Once it has heard so many messages and the tool was called, whatever that does.
    Whenever(usize),
    /// As soon as it has asked, wherever the call is by then.
    AtOnce,
}

impl Cancel {
    /// Whether both ways come to the same end.
    pub(super) const fn is_at_a_known_moment(self) -> bool {
        matches!(self, Self::Never | Self::At(_))
    }
}

/// Arguments of `marked` that go into headers too, as JSON and as headers.
pub(super) const REGIONS: [(&str, &str); 5] = [
    (r#""eu-1""#, "eu-1"),
    (r#"" padded ""#, "=?base64?IHBhZGRlZCA=?="),
    (r#""日本""#, "=?base64?5pel5pys?="),
    (r#""=?base64?eA==?=""#, "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    (r#""a;b, c""#, "a;b, c"),
];

/// One exchange.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) request: Request,
    pub(super) script: Script,
    pub(super) cancel: Cancel,
    /// The reason that is given, as JSON.
    pub(super) reason: Option<String>,
}

/// Of log messages, from the least on.
pub(super) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What both ends speak, and over what, as far as it decides what can be said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) agent: Era,
    pub(super) tool: Era,
    /// Whether a message of the tool is a line.
    pub(super) stdio: bool,
    /// From which level on the agent's session wants to be told, if it said so.
    pub(super) level: Option<usize>,
}

impl Ends {
    /// Whether nothing shows whose call a tool means: what it says is then anybody's whose calls alone are under
    /// way, which each request of an agent of the newer revision is by itself.
    const fn is_nobodys(self) -> bool {
        self.stdio && matches!(self.agent, Era::Modern)
    }

    const fn is_one_era(self) -> bool {
        matches!((self.agent, self.tool), (Era::Modern, Era::Modern) | (Era::Handshake, Era::Handshake))
    }
}

/// The exchange of a seed.
pub(super) fn exchange(seed: u64, ends: Ends) -> Exchange {
    let mut random = Random::new(seed);
    let mut writer = Writer { random: &mut random, lines: true };
    let request = request(&mut writer, ends);
    writer.lines = !ends.stdio;
    let mut steps = Vec::new();
    let count = [0, 0, 1, 3, 8].get(writer.random.below(5)).copied().unwrap_or_default();
    steps.extend((0..count).filter_map(|_| step(&mut writer, ends, &request)));
    let mut cancel = Cancel::Never;
    let gives_up = writer.chance(6);
    if ends.is_nobodys() && gives_up {
        steps.retain(|step| !matches!(step, Step::Ask(_) | Step::Log(..)));
    }
    if gives_up {
        let spoken = heard_of(&steps, request.level.or(ends.level), ends.agent);
        cancel = match writer.random.below(4) {
            0 => Cancel::Whenever(writer.random.below(spoken + 1)),
            // Where nothing shows whose call a tool means, it would go on in the agent's next one.
            1 if !(ends.stdio && ends.agent == Era::Handshake) => Cancel::AtOnce,
            _ => {
                steps.push(Step::AwaitCancel);
                Cancel::At(spoken)
            }
        };
    }
    let ending = ending(&mut writer, ends);
    let json = writer.chance(2);
    let framing = writer.random.next();
    let reason = (ends.agent == Era::Handshake && writer.chance(2)).then(|| writer.string());
    Exchange { request, script: Script { steps, ending, json, framing }, cancel, reason }
}

/// How many messages the agent hears of these steps.
fn heard_of(steps: &[Step], level: Option<usize>, agent: Era) -> usize {
    let heard = |step: &Step| match step {
        Step::Progress(_) => 1,
        Step::Log(of, _) => usize::from(level.map_or(agent == Era::Handshake, |level| *of >= level)),
        Step::Ask(questions) => questions.len(),
        Step::Noise(_) | Step::Yield | Step::AwaitCancel => 0,
    };
    steps.iter().map(heard).sum()
}

fn request(writer: &mut Writer<'_>, ends: Ends) -> Request {
    let id = match writer.random.below(4) {
        0 => writer.string(),
        1 => writer
            .pick(&["0", "-1", "1.5", "1e3", "9007199254740993", "18446744073709551616"])
            .unwrap_or("0")
            .to_owned(),
        _ => writer.random.below(1 << 40).to_string(),
    };
    let token = writer
        .chance(2)
        .then(|| if writer.chance(2) { writer.string() } else { writer.random.below(1 << 40).to_string() });
    let function = if writer.chance(5) { "marked" } else { "any" };
    let name = if writer.chance(4) {
        function.chars().fold(String::new(), |name, c| format!("{name}\\u{:04x}", u32::from(c)))
    } else {
        function.to_owned()
    };
    let name = format!("\"{name}\"");
    let arguments = arguments(writer, function);
    let meta = if writer.chance(2) { writer.members() } else { Vec::new() };
    let others = if writer.chance(4) { writer.members() } else { Vec::new() };
    let envelope = if writer.chance(6) { writer.members() } else { Vec::new() };
    let level = writer.chance(2).then(|| writer.random.below(LEVELS.len()));
    // Of a session it is said once, by the caller.
    let level = level.filter(|_| ends.agent == Era::Modern);
    Request { id, name, function, arguments, token, meta, others, bom: writer.chance(20), envelope, level }
}

/// Arguments of a function; `marked` has two that go into headers too.
fn arguments(writer: &mut Writer<'_>, function: &str) -> Option<String> {
    if function == "any" {
        return (!writer.chance(10)).then(|| writer.object_with(&[]));
    }
    let mut marked = Vec::new();
    if writer.chance(2) {
        let (text, _) = writer.pick(&REGIONS).unwrap_or_default();
        marked.push(("region", text.to_owned()));
    }
    if writer.chance(2) {
        marked.push(("count", writer.pick(&["0", "-7", "9007199254740991"]).unwrap_or("1").to_owned()));
    }
    Some(writer.object_with(&marked))
}

fn step(writer: &mut Writer<'_>, ends: Ends, request: &Request) -> Option<Step> {
    Some(match writer.random.below(8) {
        0 | 1 if request.token.is_some() => {
            let mut members = if writer.chance(2) { writer.members() } else { Vec::new() };
            members.push((r#""progress""#.to_owned(), writer.number()));
            Step::Progress(members)
        }
        2 | 3 => {
            // A session that names no level leaves it to the tool, which in the other era is told of none.
            if ends.agent == Era::Handshake && ends.tool == Era::Modern {
                return None;
            }
            let level = writer.random.below(LEVELS.len());
            let name = format!("\"{}\"", LEVELS.get(level)?);
            let data = writer.value();
            Step::Log(level, writer.object_with(&[("level", name), ("data", data)]))
        }
        4 | 5 => {
            // Two at once are one round in one era, and in the other as many as were heard of.
            let count = if ends.is_one_era() && writer.chance(4) { 2 } else { 1 };
            Step::Ask((0..count).map(|_| question(writer, ends)).collect())
        }
        6 => {
            let params = writer.object_with(&[]);
            let method =
                writer.pick(&["notifications/x", "notifications/progress", "notifications/cancelled", "x/y"]);
            Step::Noise(format!(r#"{{"jsonrpc":"2.0","method":"{}","params":{params}}}"#, method?))
        }
        _ => Step::Yield,
    })
}

fn question(writer: &mut Writer<'_>, ends: Ends) -> Question {
    // Tools with a handshake are told of no roots.
    let kinds = if ends.tool == Era::Modern { 4 } else { 3 };
    let (method, params) = match writer.random.below(kinds) {
        0 => {
            let schema = writer.object_with(&[("type", r#""object""#.to_owned())]);
            let known =
                [("mode", r#""form""#.to_owned()), ("message", writer.string()), ("requestedSchema", schema)];
            ("elicitation/create", writer.object_with(&known))
        }
        1 => {
            let mut known = vec![
                ("mode", r#""url""#.to_owned()),
                ("message", writer.string()),
                ("url", r#""https://example.com/a?b=c""#.to_owned()),
            ];
            if ends.tool == Era::Handshake {
                known.push(("elicitationId", r#""e-1""#.to_owned()));
            }
            ("elicitation/create", writer.object_with(&known))
        }
        2 => {
            let text = writer.string();
            let content = writer.object_with(&[("type", r#""text""#.to_owned()), ("text", text)]);
            let message = writer.object_with(&[("role", r#""user""#.to_owned()), ("content", content)]);
            let messages = writer.list(&[message]);
            let known = [("messages", messages), ("maxTokens", "100".to_owned())];
            ("sampling/createMessage", writer.object_with(&known))
        }
        _ => ("roots/list", writer.object_with(&[])),
    };
    // In one of the families alone an answer can be an error.
    let answer = if ends.is_one_era() && ends.agent == Era::Handshake && writer.chance(5) {
        ("error", error(writer))
    } else {
        let known = [("action", r#""accept""#.to_owned()), ("content", writer.value())];
        ("result", writer.object_with(&known))
    };
    Question { method, params, answer }
}

fn error(writer: &mut Writer<'_>) -> String {
    let code = writer.pick(&["-32602", "-32603", "-32000", "-32001", "7", "-1"]).unwrap_or("1").to_owned();
    let mut known = vec![("code", code), ("message", writer.string())];
    if writer.chance(2) {
        known.push(("data", writer.value()));
    }
    writer.object_with(&known)
}

fn ending(writer: &mut Writer<'_>, ends: Ends) -> (&'static str, String) {
    if writer.chance(8) {
        return ("error", error(writer));
    }
    let count = writer.random.below(4);
    let blocks: Vec<String> = (0..count).map(|_| block(writer)).collect();
    let mut known = vec![("content", writer.list(&blocks))];
    if writer.chance(3) {
        known.push(("structuredContent", writer.value()));
    }
    if writer.chance(4) {
        known.push(("isError", writer.pick(&["true", "false"]).unwrap_or("true").to_owned()));
    }
    if writer.chance(3) {
        known.push(("_meta", writer.object_with(&[])));
    }
    if ends.tool == Era::Modern && writer.chance(2) {
        known.push(("resultType", r#""complete""#.to_owned()));
    }
    ("result", writer.object_with(&known))
}

/// A content block, of a kind that is known or not.
fn block(writer: &mut Writer<'_>) -> String {
    let kinds = ["text", "image", "audio", "resource", "resource_link", "video/x", "7"];
    let kind = format!("\"{}\"", writer.pick(&kinds).unwrap_or("text"));
    let mut known = vec![("type", kind)];
    for name in ["text", "data", "mimeType", "resource", "uri", "annotations", "_meta"] {
        if writer.chance(3) {
            known.push((name, writer.value()));
        }
    }
    writer.object_with(&known)
}
