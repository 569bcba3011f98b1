use std::fmt::Write as _;

use serde_json::Value;

use super::*;

mod edits;
mod entries;
mod random;

/// The rows of a file of vectors or cases.
fn rows(file: &str, at: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    file[at].as_array().unwrap().clone()
}

fn entry(raw: &str) -> Entry {
    judge_entry(raw, &[]).unwrap_or_else(|fault| panic!("{fault}: {raw}"))
}

fn refused(raw: &str) -> Unreadable {
    judge_entry(raw, &[]).expect_err(raw)
}

#[test]
fn every_vector_holds() {
    let vectors = rows(include_str!("../../tests/vectors/listing.json"), "vectors");
    assert!(vectors.len() > 45);
    for vector in vectors {
        let entry = entry(vector["raw"].as_str().unwrap());
        assert_eq!(*entry.canonical, *vector["canonical"].as_str().unwrap(), "{}", vector["id"]);
        assert_eq!(entry.hash.to_string(), vector["hash"], "{}", vector["id"]);
    }
}

#[test]
fn pairs_hash_alike_exactly_where_the_cases_say() {
    let files = [
        include_str!("../../tests/cases/C01-key-order-and-numbers.json"),
        include_str!("../../tests/cases/C02-array-order.json"),
        include_str!("../../tests/cases/C07-hints-absent-null-false.json"),
    ];
    for pair in files.iter().flat_map(|file| rows(file, "pairs")) {
        let (a, b) = (entry(pair["a"].as_str().unwrap()), entry(pair["b"].as_str().unwrap()));
        assert_eq!(a.hash == b.hash, pair["same_hash"] == true, "{}", pair["id"]);
    }
}

#[test]
fn what_agents_choke_on_is_hashed_but_not_served() {
    for pair in rows(include_str!("../../tests/cases/C07-hints-absent-null-false.json"), "pairs") {
        let shown: Value =
            serde_json::from_str(&shown_form(&entry(pair["a"].as_str().unwrap()).canonical)).unwrap();
        for (name, expected) in pair["our_listing_has"].as_object().unwrap() {
            assert_eq!(&shown[name], expected, "{}", pair["id"]);
        }
    }
    let rows = [
        (r#"{"description":null,"title":7,"x":null}"#, r#"{"x":null}"#),
        (r#"{"_meta":[],"annotations":null,"execution":"no"}"#, "{}"),
        (r#"{"execution":{"taskSupport":true,"y":1}}"#, r#"{"execution":{"y":1}}"#),
        (r#"{"outputSchema":{"type":"string"}}"#, "{}"),
        (r#"{"icons":[{"src":1}]}"#, "{}"),
        (r#"{"icons":[{"sizes":["1x1"],"src":"a"}]}"#, r#"{"icons":[{"sizes":["1x1"],"src":"a"}]}"#),
        (r#"{"annotations":{"readOnlyHint":0,"title":null,"z":null}}"#, r#"{"annotations":{"z":null}}"#),
    ];
    for (canonical, shown) in rows {
        assert_eq!(shown_form(canonical), shown);
    }
}

#[test]
fn one_odd_entry_costs_no_other_its_place() {
    let file: Value =
        serde_json::from_str(include_str!("../../tests/cases/C11-one-bad-function.json")).unwrap();
    let mut reader = ListReader::new(ListLimits::default());
    assert_eq!(reader.page(&file["result"].to_string(), None), Ok(Next::Done));
    let list = reader.finish();
    let judged: Vec<_> = list.entries.iter().map(|raw| judge_entry(raw, &[])).collect();
    let shown: Vec<&str> =
        judged.iter().flatten().filter(|entry| entry.not_shown.is_none()).map(|entry| &*entry.name).collect();
    // A description of the wrong type is taken away, not the function.
    let good = ["good", "boolean_property", "boolean_output", "type_list", "description_object", "also_good"];
    assert_eq!(shown, good);
    for index in [4, 5, 6, 14] {
        assert!(judged[index].is_err(), "{index}");
    }
    for entry in &judged[7..=12] {
        assert_eq!(entry.as_ref().unwrap().not_shown.as_ref().unwrap().code(), "schema", "{entry:?}");
    }
}

#[test]
fn half_a_pair_in_a_whole_list_costs_nothing() {
    for line in rows(include_str!("../../tests/cases/C15-lone-surrogate.json"), "lines").iter().take(3) {
        let text = line["line"].as_str().unwrap();
        let result = text.split_once("\"result\":").unwrap().1.strip_suffix('}').unwrap();
        let mut reader = ListReader::new(ListLimits::default());
        assert_eq!(reader.page(result, None), Ok(Next::Done), "{text}");
        let list = reader.finish();
        let first = entry(&list.entries[0]);
        if let Some(description) = line["expect"]["description_of_a"].as_str() {
            let canonical: Value = serde_json::from_str(&first.canonical).unwrap();
            assert_eq!(canonical["description"], description);
        }
        assert!(first.hidden);
    }
}

#[test]
fn any_depth_is_judged_without_recursion() {
    for message in rows(include_str!("../../tests/cases/C18-refused-lines.json"), "messages").iter().take(2) {
        let depth = usize::try_from(message["depth"].as_u64().unwrap()).unwrap();
        for depth in [depth, depth * 100] {
            let nest = "[".repeat(depth) + &"]".repeat(depth);
            let text = message["line"].as_str().unwrap().replace("<NEST>", &nest);
            let result = text.split_once("\"result\":").unwrap().1.strip_suffix('}').unwrap();
            let mut reader = ListReader::new(ListLimits::default());
            assert_eq!(reader.page(result, None), Ok(Next::Done));
            let list = reader.finish();
            let deep = judge_entry(&list.entries[0], &[]);
            match depth {
                60 => assert_eq!(&*deep.unwrap().name, "deep"),
                _ => assert_eq!(deep.unwrap_err().fault, UnreadableFault::TooDeep),
            }
            assert_eq!(&*entry(&list.entries[1]).name, "b");
        }
    }
}

// C17
#[test]
fn a_number_that_no_double_holds_costs_its_function_and_neighbours_share_a_hash() {
    let cases = rows(include_str!("../../tests/cases/C17-big-numbers.json"), "in_listings");
    assert!(matches!(refused(cases[0]["entry"].as_str().unwrap()).fault, UnreadableFault::Number(_)));
    let (a, b) = (entry(cases[1]["a"].as_str().unwrap()), entry(cases[1]["b"].as_str().unwrap()));
    assert_eq!(a.hash == b.hash, cases[1]["same_hash_v1"] == true);
    assert!(a.canonical.contains("9007199254740992"), "agents are given what was hashed");
}

// C18
#[test]
fn a_list_that_is_no_json_is_told_with_its_place_and_what_stands_there() {
    let messages = rows(include_str!("../../tests/cases/C18-refused-lines.json"), "messages");
    let nan = messages.iter().find(|message| message["id"] == "nan-in-a-listing").unwrap();
    let result = nan["line"].as_str().unwrap().split_once("\"result\":").unwrap().1;
    let fault = ListReader::new(ListLimits::default()).page(result, None).unwrap_err().to_string();
    let at = result.find("NaN").unwrap();
    assert!(fault.contains(&format!("at byte {at}")) && fault.contains("\"default\":NaN}"), "{fault}");
}

#[test]
fn cursors_are_followed_as_each_server_means_them() {
    for server in rows(include_str!("../../tests/cases/C09-empty-cursor.json"), "servers") {
        let mut reader = ListReader::new(ListLimits::default());
        let mut asked: Option<String> = None;
        let mut requests = 0;
        loop {
            let page = &server["pages"][asked.as_deref().unwrap_or("<none>")];
            requests += 1;
            match reader.page(&page.to_string(), asked.as_deref()).unwrap() {
                Next::Ask { cursor } => asked = Some(cursor),
                Next::Done => break,
            }
        }
        let list = reader.finish();
        assert!(list.complete);
        if let Some(functions) = server["expect"]["functions"].as_array() {
            let names: Vec<String> = list.entries.iter().map(|raw| entry(raw).name.to_string()).collect();
            assert_eq!(&names, functions, "{}", server["id"]);
        }
        let most = server["expect"]["requests_at_most"].as_u64().unwrap_or(2);
        assert!(requests <= most, "{}", server["id"]);
    }
}

#[test]
fn a_cursor_that_was_asked_for_ends_the_list_after_its_page() {
    let mut reader = ListReader::new(ListLimits::default());
    let ask = |cursor: &str| Ok(Next::Ask { cursor: cursor.to_owned() });
    assert_eq!(reader.page(r#"{"tools":[1],"nextCursor":"a"}"#, None), ask("a"));
    assert_eq!(reader.page(r#"{"tools":[2],"nextCursor":"b"}"#, Some("a")), ask("b"));
    assert_eq!(reader.page(r#"{"tools":[3],"nextCursor":"a"}"#, Some("b")), Ok(Next::Done));
    let list = reader.finish();
    assert_eq!(list.entries.iter().map(|entry| &**entry).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(list.complete);
    assert_eq!(list.warnings, [ListWarning::EarlierCursor { cursor: "a".to_owned() }]);
}

#[test]
fn a_list_that_was_not_read_to_its_end_is_incomplete() {
    let limits = ListLimits { entries: 3, pages: 2, bytes: 200 };
    let rows = [
        (vec!["not json"], 0),
        (vec!["[]"], 0),
        (vec!["{}"], 0),
        (vec![r#"{"tools":null}"#], 0),
        (vec![r#"{"tools":[1],"tools":[2]}"#], 0),
        (vec![r#"{"tools":[1],"nextCursor":5}"#], 1),
        (vec![r#"{"tools":[1],"nextCursor":"\ud800"}"#], 1),
        (vec![r#"{"tools":[1,2,3,4]}"#], 3),
        (vec![r#"{"tools":[1],"nextCursor":"a"}"#, r#"{"tools":[2],"nextCursor":"b"}"#], 2),
        (vec![r#"{"tools":[1],"nextCursor":"a"}"#, r#"{"tools":[2]"#], 1),
    ];
    for (pages, kept) in rows {
        let mut reader = ListReader::new(limits);
        let mut asked: Option<String> = None;
        let mut last = None;
        for page in &pages {
            let next = reader.page(page, asked.as_deref());
            if let Ok(Next::Ask { cursor }) = &next {
                asked = Some(cursor.clone());
            }
            last = Some(next);
        }
        assert!(last.unwrap().is_err(), "{pages:?}");
        let list = reader.finish();
        assert!(!list.complete && list.entries.len() == kept, "{pages:?} {list:?}");
    }
    let mut reader = ListReader::new(limits);
    let long = format!(r#"{{"tools":["{}"]}}"#, "x".repeat(300));
    let fault = reader.page(&long, None).unwrap_err().to_string();
    assert!(fault.contains("200 bytes") && fault.contains("tools.list_bytes"), "{fault}");
}

#[test]
fn ten_thousand_functions_on_one_page_are_a_list() {
    let mut page = "{\"tools\":[".to_owned();
    for index in 0..10_000 {
        let comma = if index == 0 { "" } else { "," };
        write!(page, "{comma}{{\"name\":\"f{index:05}\",\"inputSchema\":{{\"type\":\"object\"}}}}").unwrap();
    }
    page.push_str("],\"nextCursor\":null}");
    let mut reader = ListReader::new(ListLimits::default());
    assert_eq!(reader.page(&page, None), Ok(Next::Done));
    assert_eq!(reader.finish().entries.len(), 10_000);
}

#[test]
fn nothing_ever_opens_a_reference_and_people_are_told_of_those_that_lead_outside() {
    let rows = rows(include_str!("../../tests/cases/C13-refs.json"), "functions");
    assert_eq!(rows.len(), 13);
    for row in rows {
        let judged = entry(&row["entry"].to_string());
        let canonical: Value = serde_json::from_str(&judged.canonical).unwrap();
        for member in ["inputSchema", "outputSchema", "icons"] {
            assert_eq!(canonical[member], row["entry"][member], "as it was sent");
        }
        assert!(judged.not_shown.is_none(), "the page leaves none of them out: {row}");
        let is_outside = row["expect"]["left_out"] == "schema";
        let told = warned_reference(&judged.canonical);
        assert_eq!(told.is_some(), is_outside, "{row}: {told:?}");
        assert!(told.is_none_or(|told| told.contains("never opened")));
    }
}
