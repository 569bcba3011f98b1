use super::*;

fn changes() -> Changes {
    let listing = |text: &str| json!({"name": "hello", "description": text}).to_string();
    serde_json::from_value(json!({
        "changes": [
            {"version": "1.0.0", "tool": "team", "function": "hello",
             "approved": {"hash": "v1:sha256:aa", "listing": listing("Says hello.")},
             "variants": [
                {"hash": "v1:sha256:bb", "listing": listing("Says hello!"), "nodes": ["node-1"], "nodes_total": 1},
                {"hash": "v1:sha256:cc", "listing": listing("Sends mail."), "nodes": ["node-2"], "nodes_total": 1}],
             "grades": ["text"]},
            {"version": "1.0.0", "tool": "team", "function": "bye",
             "approved": {"hash": "v1:sha256:dd", "listing": listing("Bye.")},
             "variants": [{"hash": null, "listing": null, "nodes": ["node-1"]}], "grades": ["gone"]}],
        "moved": [
            {"version": "1.1.0", "tool": "wx", "edge": "a", "from": ["http://127.0.0.1:1"], "to": "http://127.0.0.1:2",
             "functions": [{"function": "today", "hash": "v1:sha256:ee"}]},
            {"version": "1.1.0", "tool": "wx", "edge": "b", "from": ["http://127.0.0.1:1"], "to": "http://127.0.0.1:2",
             "functions": [{"function": "today", "hash": "v1:sha256:ee"}]}],
    }))
    .expect("changes")
}

fn words(items: &[Item]) -> Vec<&str> {
    items.iter().map(|item| item.word.as_str()).collect()
}

#[test]
fn a_hash_that_is_not_open_picks_nothing() {
    let items = items(&changes(), &Filter::default(), false);
    let failure = pick(&items, &["v1:sha256:ff".to_owned()]).expect_err("not open");
    assert_eq!(failure.exit, Exit::Open);
}

#[test]
fn two_variants_of_one_function_are_not_approved_together() {
    let items = items(&changes(), &Filter::default(), false);
    let both = ["v1:sha256:bb".to_owned(), "v1:sha256:cc".to_owned()];
    assert_eq!(pick(&items, &both).expect_err("ambiguous").exit, Exit::Usage);
    assert_eq!(ambiguous(&items).as_deref(), Some("1.0.0 team.hello"));
}

#[test]
fn a_move_seen_on_two_edges_is_one_item() {
    let filter = Filter { version: Some("1.1.0".into()), ..Filter::default() };
    assert_eq!(words(&items(&changes(), &filter, false)), ["wx=http://127.0.0.1:2"]);
}

#[test]
fn a_function_narrows_and_leaves_moves_out() {
    for name in ["bye", "team.bye"] {
        let filter = Filter { function: vec![name.into()], ..Filter::default() };
        assert_eq!(words(&items(&changes(), &filter, false)), ["gone:team.bye"]);
    }
}

// R3.19
#[test]
fn a_decision_names_the_hashes_and_origins_that_were_shown() {
    let items = items(&changes(), &Filter::default(), false);
    let picked =
        pick(&items, &["v1:sha256:bb".to_owned(), "wx=http://127.0.0.1:2".to_owned()]).expect("picked");
    assert_eq!(
        decision(&picked),
        json!({
            "functions": [
                {"version": "1.1.0", "tool": "wx", "function": "today", "edge": null, "approved": null, "seen": "v1:sha256:ee"},
                {"version": "1.0.0", "tool": "team", "function": "hello", "edge": null, "approved": "v1:sha256:aa", "seen": "v1:sha256:bb"}],
            "origins": [
                {"version": "1.1.0", "tool": "wx", "edge": null, "from": ["http://127.0.0.1:1"], "to": "http://127.0.0.1:2"}],
        })
    );
}

#[test]
fn a_gone_function_is_decided_on_as_none() {
    let items = items(&changes(), &Filter::default(), false);
    let picked = pick(&items, &["gone:team.bye".to_owned()]).expect("picked");
    assert_eq!(decision(&picked)["functions"][0]["seen"], Value::Null);
}
