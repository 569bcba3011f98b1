//! Each refusal has its page, and the list of pages is in the order in which the guard asks.

use domain::refusal::Code;

#[test]
fn every_refusal_has_a_page_that_is_listed_in_order() {
    let folder = e2e::process::here().join("../docs/refusals");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let listed: Vec<&str> =
        index.lines().filter_map(|line| line.strip_prefix("- [`")?.split('`').next()).collect();
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, codes);
    for code in codes {
        let page = std::fs::read_to_string(folder.join(format!("{code}.md"))).unwrap();
        assert!(page.starts_with(&format!("# `{code}`: ")) && page.contains("## What to do"), "{code}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), listed.len() + 1, "a page of no code");
}
