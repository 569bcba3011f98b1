use proptest::prelude::*;

use super::*;

fn version(text: &str) -> PluginVersion {
    PluginVersion::parse(text).unwrap()
}

fn tool(text: &str) -> ToolId {
    ToolId::parse(text).unwrap()
}

#[test]
fn what_names_nothing_that_can_be_called_is_refused_with_the_rule() {
    for bad in
        ["", "team", "team.", ".hello", "te am.hello", "team.he\nllo", &format!("t.{}", "x".repeat(300))]
    {
        assert!(Target::function(bad).unwrap_err().to_string().contains("TOOL.FUNCTION"), "{bad:?}");
    }
    for bad in ["Team", "team@1", "@1.0.0", ""] {
        assert!(Target::plugin(bad).is_err(), "{bad:?}");
    }
    for bad in ["", "function", "edge eu-1", "tool ", "team.hello"] {
        assert!(Target::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn each_kind_means_what_it_says_and_nothing_beside_it() {
    let (one, two) = (version("team@1.0.0"), version("team@2.0.0"));
    let other = version("desk@1.0.0");
    let rows = [
        ("function team.hello", [true, false, true, false]),
        ("tool team", [true, true, true, false]),
        ("plugin team", [true, true, true, false]),
        ("plugin team@1.0.0", [true, true, false, false]),
        ("function team.hel", [false; 4]),
        ("tool tea", [false; 4]),
    ];
    for (text, expected) in rows {
        let target = Target::parse(text).unwrap();
        let got = [
            target.covers(&one, &tool("team"), "hello"),
            target.covers(&one, &tool("team"), "bye"),
            target.covers(&two, &tool("team"), "hello"),
            target.covers(&other, &tool("desk"), "hello"),
        ];
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn a_function_of_a_tool_with_a_dot_is_never_taken_for_another() {
    let target = Target::function("a.b.c").unwrap();
    let any = version("team@1.0.0");
    assert!(target.covers(&any, &tool("a"), "b.c") && target.covers(&any, &tool("a.b"), "c"));
    assert!(!target.covers(&any, &tool("a"), "b") && !target.covers(&any, &tool("a.b"), "b.c"));
}

proptest! {
    #[test]
    fn a_target_is_read_back_as_it_was_written(
        function in "[a-z]{1,9}\\.[a-zA-Z0-9_.-]{1,20}",
        plugin in "[a-z][a-z0-9-]{0,12}",
        major in 0_u64..9,
    ) {
        let targets = [
            Target::function(&function).unwrap(),
            Target::Tool(tool(&function)),
            Target::plugin(&plugin).unwrap(),
            Target::plugin(&format!("{plugin}@{major}.0.0")).unwrap(),
        ];
        for target in targets {
            prop_assert_eq!(Target::parse(&target.to_string()), Ok(target));
        }
    }

    #[test]
    fn what_covers_a_function_touches_its_tool(
        id in "[a-c.]{1,5}\\.[a-c.]{1,4}",
        tool_id in "[a-c.]{1,4}",
        name in "[a-c.]{1,4}",
    ) {
        let (any, tool) = (version("team@1.0.0"), tool(&tool_id));
        if let Ok(target) = Target::function(&id) {
            prop_assert_eq!(target.covers(&any, &tool, &name), format!("{tool_id}.{name}") == id);
            prop_assert!(!target.covers(&any, &tool, &name) || target.touches(&any, &tool));
        }
    }
}
