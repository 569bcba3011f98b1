//! What an agent says that it can be asked, and whether a tool's question is such.

use std::sync::Arc;

use serde_json::value::RawValue;
use tools::envelope::{self, Object};
use tools::{ELICITATION, ROOTS, SAMPLING};

/// The capabilities that tools are told of; extensions are none, because they are not carried.
const CARRIED: [&str; 3] = ["elicitation", "sampling", "roots"];

/// An agent's capabilities: as sent, less what is not carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Capabilities(Option<Arc<str>>);

/// Why an agent is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unable {
    /// For the tool, and for whoever reads why a call failed.
    pub(super) sentence: &'static str,
    /// The capability that the agent would need, as the protocol's `requiredCapabilities`; none for
    /// what nobody can be asked.
    pub(super) required: Option<&'static str>,
}

impl Capabilities {
    /// Reads `capabilities` of `initialize`, or `clientCapabilities` of a request.
    pub(super) fn read(raw: Option<&RawValue>) -> Self {
        let Some(all) = raw.filter(|raw| raw.get().len() > 2).and_then(envelope::members) else {
            return Self(None);
        };
        let carried: Vec<String> = CARRIED
            .into_iter()
            .filter_map(|name| all.get(name).map(|value| format!(r#""{name}":{}"#, value.get())))
            .collect();
        Self((!carried.is_empty()).then(|| format!("{{{}}}", carried.join(",")).into()))
    }

    /// The raw object, to be told to a tool; `None` for an agent that can be asked nothing.
    pub(super) fn raw(&self) -> Option<Arc<str>> {
        self.0.clone()
    }

    /// Whether a question can be put to the agent.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn judge(&self, method: &str, params: Option<&RawValue>) -> Result<(), Unable> {
        let all: Object<'_> =
            self.0.as_deref().and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or_default();
        let params = params.and_then(envelope::members).unwrap_or_default();
        let inside = |name: &str| all.get(name).and_then(envelope::members);
        match method {
            ELICITATION => elicitation(inside("elicitation").as_ref(), params.get("mode")),
            SAMPLING => sampling(inside("sampling").as_ref(), &params),
            ROOTS if all.get("roots").is_some() => Ok(()),
            ROOTS => unable("the agent did not say that it has roots", r#"{"roots":{}}"#),
            _ => Err(Unable { sentence: "agents are not asked by this method", required: None }),
        }
    }
}

/// An empty object means forms (MCP 2025-11-25, elicitation, "Capabilities").
fn elicitation(able: Option<&Object<'_>>, mode: Option<&RawValue>) -> Result<(), Unable> {
    const FORM: &str = r#"{"elicitation":{"form":{}}}"#;
    const URL: &str = r#"{"elicitation":{"url":{}}}"#;
    let can = |name: &str| able.is_some_and(|able| able.get(name).is_some());
    let mode = mode.map(|mode| envelope::text(mode).unwrap_or_default());
    match mode.as_deref() {
        None | Some("form") if able.is_some() && (can("form") || !can("url")) => Ok(()),
        None | Some("form") => unable("the agent did not say that it can show a form", FORM),
        Some("url") if can("url") => Ok(()),
        Some("url") => unable("the agent did not say that it can show a URL", URL),
        Some(_) => Err(Unable { sentence: "an elicitation's mode is `form` or `url`", required: None }),
    }
}

fn sampling(able: Option<&Object<'_>>, params: &Object<'_>) -> Result<(), Unable> {
    let Some(able) = able else {
        return unable("the agent did not say that it can sample its model", r#"{"sampling":{}}"#);
    };
    let wants_tools = params.get("tools").is_some() || params.get("toolChoice").is_some();
    if wants_tools && able.get("tools").is_none() {
        return unable(
            "the agent did not say that it can sample its model with tools",
            r#"{"sampling":{"tools":{}}}"#,
        );
    }
    Ok(())
}

const fn unable(sentence: &'static str, required: &'static str) -> Result<(), Unable> {
    Err(Unable { sentence, required: Some(required) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn judge(able: &str, method: &str, params: &str) -> Result<(), Option<&'static str>> {
        let able = Capabilities::read(Some(&raw(able)));
        able.judge(method, Some(&raw(params))).map_err(|unable| unable.required)
    }

    #[test]
    fn what_an_agent_did_not_declare_it_is_not_asked() {
        let rows = [
            ("{}", ELICITATION, "{}", Err(Some(r#"{"elicitation":{"form":{}}}"#))),
            (r#"{"elicitation":null}"#, ELICITATION, "{}", Err(Some(r#"{"elicitation":{"form":{}}}"#))),
            (r#"{"elicitation":{}}"#, ELICITATION, "{}", Ok(())),
            (r#"{"elicitation":{}}"#, ELICITATION, r#"{"mode":"form"}"#, Ok(())),
            (
                r#"{"elicitation":{}}"#,
                ELICITATION,
                r#"{"mode":"url"}"#,
                Err(Some(r#"{"elicitation":{"url":{}}}"#)),
            ),
            (r#"{"elicitation":{"url":{}}}"#, ELICITATION, "{}", Err(Some(r#"{"elicitation":{"form":{}}}"#))),
            (r#"{"elicitation":{"url":{}}}"#, ELICITATION, r#"{"mode":"url"}"#, Ok(())),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, ELICITATION, r#"{"mode":"voice"}"#, Err(None)),
            (r#"{"elicitation":{}}"#, ELICITATION, r#"{"mode":1}"#, Err(None)),
            (r#"{"elicitation":{}}"#, SAMPLING, "{}", Err(Some(r#"{"sampling":{}}"#))),
            (r#"{"sampling":{}}"#, SAMPLING, "{}", Ok(())),
            (r#"{"sampling":{}}"#, SAMPLING, r#"{"tools":[]}"#, Err(Some(r#"{"sampling":{"tools":{}}}"#))),
            (r#"{"sampling":{"tools":{}}}"#, SAMPLING, r#"{"tools":[],"toolChoice":{}}"#, Ok(())),
            (r#"{"sampling":{}}"#, ROOTS, "{}", Err(Some(r#"{"roots":{}}"#))),
            (r#"{"roots":{"listChanged":true}}"#, ROOTS, "{}", Ok(())),
            (r#"{"elicitation":{},"sampling":{},"roots":{}}"#, "tasks/get", "{}", Err(None)),
        ];
        for (able, method, params, expected) in rows {
            assert_eq!(judge(able, method, params), expected, "{able} {method} {params}");
        }
    }

    #[test]
    fn tools_are_told_what_was_declared_byte_for_byte_and_no_extension() {
        let read = |json: &str| Capabilities::read(Some(&raw(json))).raw();
        let sent = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{ "x" : 1e400 },"experimental":{},"roots":{}}"#;
        assert_eq!(read(sent).as_deref(), Some(r#"{"elicitation":{ "x" : 1e400 },"roots":{}}"#));
        for nothing in ["{}", "[]", "null", "7", r#"{"tasks":{}}"#] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }
}
