use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn tool(id: &str) -> ToolId {
    ToolId::parse(id).unwrap()
}

fn names<'a>(tools: &'a [(ToolId, Vec<String>)]) -> Vec<ToolNames<'a>> {
    let listed = |name: &'a String| ListedName { name, readable: true };
    tools
        .iter()
        .map(|(tool, functions)| ToolNames { tool, functions: functions.iter().map(listed).collect() })
        .collect()
}

fn sets() -> Vec<Value> {
    [
        include_str!("../../tests/vectors/names.json"),
        include_str!("../../tests/cases/C27-ambiguous-names.json"),
        include_str!("../../tests/cases/C29-names-models-refuse.json"),
    ]
    .iter()
    .flat_map(|file| serde_json::from_str::<Value>(file).unwrap()["sets"].as_array().unwrap().clone())
    .collect()
}

// R3.52 to R3.55, R3.57, R3.58
#[test]
fn every_set_of_names_is_judged_as_published() {
    for set in sets() {
        let tools: Vec<(ToolId, Vec<String>)> = set["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| {
                let functions = t["functions"].as_array().unwrap();
                let functions = functions.iter().map(|f| f.as_str().unwrap().to_owned()).collect();
                (tool(t["tool"].as_str().unwrap()), functions)
            })
            .collect();
        let left_out = judge_names(&names(&tools), &|_| false);
        let mut got: Vec<(String, &str)> =
            left_out.iter().map(|(id, reason)| (id.function.to_string(), reason.code())).collect();
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        let expected = set["left_out"].as_array().unwrap();
        let mut expected: Vec<(String, &str)> =
            expected.iter().map(|row| (text(&row[0]), row[1].as_str().unwrap())).collect();
        got.sort();
        expected.sort();
        assert_eq!(got, expected, "{}", set["why"]);
        let callable: BTreeSet<String> = tools
            .iter()
            .flat_map(|(tool, functions)| functions.iter().map(|f| FunctionId::new(tool, f)))
            .filter(|id| !left_out.contains_key(id))
            .map(|id| id.to_string())
            .collect();
        let expected: BTreeSet<String> = set["callable"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(callable, expected, "{}", set["why"]);
    }
}

#[test]
fn an_unreadable_entry_counts_as_having_used_its_name() {
    let id = tool("team");
    let listed = |name, readable| ListedName { name, readable };
    let functions = vec![listed("x", true), listed("x", false), listed("y", false), listed("z", true)];
    let left_out = judge_names(&[ToolNames { tool: &id, functions }], &|_| false);
    assert_eq!(left_out, BTreeMap::from([(FunctionId::new(&id, "x"), LeftOut::Twice { times: 2 })]));
}

#[test]
fn an_approved_function_stays_where_a_newcomer_passes_for_it() {
    let tools = [(tool("a"), vec!["b__c".to_owned()]), (tool("a__b"), vec!["c".to_owned()])];
    let (old, new) = (FunctionId::new(&tools[0].0, "b__c"), FunctionId::new(&tools[1].0, "c"));
    let left_out = judge_names(&names(&tools), &|id| *id == old);
    assert_eq!(left_out.keys().collect::<Vec<_>>(), [&new]);
    let sentence = left_out[&new].to_string();
    assert_eq!(sentence, "models would see it as a__b__c, so it could pass for a.b__c");
    // Of two that nothing orders, neither is listed.
    assert_eq!(judge_names(&names(&tools), &|_| true).len(), 2);
    assert_eq!(judge_names(&names(&tools), &|_| false).len(), 2);
}

#[test]
fn a_function_left_out_for_another_reason_knocks_nobody_out() {
    let tools =
        [(tool("a"), vec!["b__c".to_owned(), "b__c".to_owned()]), (tool("a__b"), vec!["c".to_owned()])];
    let left_out = judge_names(&names(&tools), &|_| false);
    assert_eq!(left_out.values().map(LeftOut::code).collect::<Vec<_>>(), ["twice"]);
}

#[test]
fn the_first_reason_counts() {
    let tools = [(tool("pintle"), vec!["a b".to_owned(), "a b".to_owned(), "c".to_owned(), "c".to_owned()])];
    let left_out = judge_names(&names(&tools), &|_| true);
    assert_eq!(left_out.values().map(LeftOut::code).collect::<Vec<_>>(), ["name", "reserved"]);
}

#[test]
fn what_is_wrong_with_a_name_is_said() {
    let rows = [
        ("", "it is empty"),
        ("\u{FEFF}hello", "it has `\\u{FEFF}`, only A-Z, a-z, 0-9, _, - and . are allowed"),
        (&"a".repeat(129), "it has 129 characters, at most 128 are allowed"),
    ];
    for (name, sentence) in rows {
        assert_eq!(check_function_name(name).unwrap_err().to_string(), sentence);
    }
}

// R3.57, R3.58
#[test]
fn what_would_read_as_ours_is_reserved() {
    for id in ["pintle", "PINTLE", "pintle_", "pintle__x", "Pintle.x", "pintle."] {
        assert!(is_reserved_tool(id), "{id}");
    }
    for id in ["pintles", "pintle-x", "pintle_x", "a.pintle", "p", ""] {
        assert!(!is_reserved_tool(id), "{id}");
    }
}

/// Names that collide often.
fn tools() -> impl Strategy<Value = Vec<(ToolId, Vec<String>)>> {
    let id = prop::sample::select(vec!["a", "a_", "a__b", "a.b", "a.b_", "pintle"]).prop_map(tool);
    let name = prop::sample::select(vec!["b", "_b", "b.c", "b__c", "c", "_c", "__c", "a b", ""]);
    let functions = prop::collection::vec(name.prop_map(str::to_owned), 0..5);
    prop::collection::btree_map(id, functions, 0..5).prop_map(|tools| tools.into_iter().collect())
}

proptest! {
    #[test]
    fn verdicts_do_not_depend_on_order(tools in tools(), turn in 0_usize..7) {
        let approved = |id: &FunctionId| id.to_string().len().is_multiple_of(3);
        let expected = judge_names(&names(&tools), &approved);
        let mut turned = tools.clone();
        for (_, functions) in &mut turned {
            let by = turn % functions.len().max(1);
            functions.rotate_left(by);
        }
        let by = turn % turned.len().max(1);
        turned.rotate_left(by);
        turned.reverse();
        prop_assert_eq!(judge_names(&names(&turned), &approved), expected);
    }

    #[test]
    fn no_two_listed_functions_have_one_model_name(tools in tools()) {
        let left_out = judge_names(&names(&tools), &|id| id.function.len() == 1);
        let mut seen = BTreeMap::new();
        for (tool, functions) in &tools {
            for id in functions.iter().map(|f| FunctionId::new(tool, f)) {
                if !left_out.contains_key(&id) {
                    prop_assert_eq!(seen.insert(id.model_name(), id), None);
                }
            }
        }
    }

    #[test]
    fn functions_collide_only_across_tools_that_may(tools in tools()) {
        for (id, reason) in judge_names(&names(&tools), &|_| false) {
            if let LeftOut::Collides { with, .. } = reason {
                prop_assert!(with.iter().all(|other| tools_may_collide(&id.tool, &other.tool)));
            }
        }
    }
}
