use super::*;

fn function() -> FunctionId {
    FunctionId::new(&ToolId::parse("team").unwrap(), "hello")
}

fn version(text: &str) -> PluginVersion {
    PluginVersion::parse(text).unwrap()
}

// R3.12
#[test]
fn a_drifted_function_is_named_with_the_reason_and_the_command() {
    let refusal = Refusal::drifted(&function(), &PluginName::parse("greeter").unwrap());
    assert_eq!(refusal.code.as_str(), "drifted");
    assert_eq!(
        &*refusal.sentence,
        "`team.hello` lists itself differently from when greeter's tools were approved, so it is not called. Ask an \
         approver to look at the change and approve it with: pintle plugin approve-tools greeter"
    );
}

// R3.30
#[test]
fn an_installing_version_names_what_is_not_called_meanwhile_and_how_to_go_back() {
    let edge = EdgeName::parse("eu-1").unwrap();
    let refusal = Refusal::installing(
        &version("team@1.1.0"),
        Some("no space left"),
        Some(&version("team@1.0.0")),
        &edge,
    );
    assert_eq!(
        &*refusal.sentence,
        "team@1.1.0 could not be installed on this node yet: no space left. It is tried again by itself. team@1.0.0 is \
         not called since the node started again; to go back to it, ask an operator to assign it again with: pintle \
         assign team@1.0.0 --edge eu-1"
    );
}

// R3.66
#[test]
fn a_moved_tool_names_both_origins_and_a_new_one_its_only() {
    let tool = ToolId::parse("wx").unwrap();
    let moved = Refusal::origin_moved(
        &tool,
        &version("team@1.1.0"),
        &["https://a.example".into()],
        "https://b.example",
    );
    assert!(
        moved.sentence.starts_with("wx of team@1.1.0 moved from https://a.example to https://b.example,")
    );
    let new = Refusal::origin_moved(&tool, &version("team@1.1.0"), &[], "https://b.example");
    assert!(new.sentence.starts_with("wx of team@1.1.0 is new at https://b.example,"));
}

#[test]
fn calls_that_are_held_back_name_the_reason_the_time_and_both_settings() {
    let since = Timestamp::from_millis(1_796_056_331_042);
    let open =
        Open { since, reason: "reach https://a.example: refused".into(), next_ms: 3_001, is_probed: false };
    let tool = ToolId::parse("team").unwrap();
    let told = |open: &Open| Refusal::held_back(&tool, open, 5, ["a.failures", "a.wait"]);
    assert_eq!(told(&open).code.as_str(), "busy");
    assert_eq!(
        &*told(&open).sentence,
        "`team` is not called since 2026-11-30T16:32:11.042Z: 5 calls in a row got no answer (setting `a.failures`), the \
         last failed to reach https://a.example: refused. The next call is let through in 4 s (setting `a.wait`)."
    );
    let probed = told(&Open { is_probed: true, ..open });
    assert!(
        probed.sentence.ends_with(
            "One call is under way to see whether it answers, the next is let through within 4 s (setting `a.wait`)."
        ),
        "{probed}"
    );
}

#[test]
fn hidden_text_of_a_server_is_visible_in_a_sentence() {
    let refusal =
        Refusal::not_running(&ToolId::parse("team").unwrap(), Timestamp::default(), "bad\u{202e}end");
    assert!(refusal.sentence.contains("bad\\u{202E}end"), "{refusal}");
}

#[test]
fn every_code_has_its_own_text() {
    let texts: std::collections::BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(texts.len(), Code::ALL.len());
}
