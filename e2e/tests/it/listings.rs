//! The page about listings: each rule names the tests that prove it, and those tests exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    e2e::process::here().join("..")
}

/// The tests in a folder of sources, each as `MODULE::NAME` below `module`.
fn tests_below(folder: &Path, module: &str, found: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let inner =
            if matches!(&*stem, "lib" | "main") { module.to_owned() } else { format!("{module}::{stem}") };
        if path.is_dir() {
            tests_below(&path, &inner, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            tests_of(&std::fs::read_to_string(&path).unwrap(), &inner, found);
        }
    }
}

fn tests_of(source: &str, module: &str, found: &mut BTreeSet<String>) {
    let mut module = module.to_owned();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line == "mod tests {" {
            module.push_str("::tests");
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            found.insert(format!("{module}::{}", rest.split('(').next().unwrap()));
            is_test = false;
        }
    }
}

fn all_tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root()).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("Cargo.toml").is_file() {
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            tests_below(&folder.join("src"), &name, &mut found);
            tests_below(&folder.join("tests"), &name, &mut found);
        }
    }
    found
}

/// The rows of a page's table, each cut into its cells; the first is empty.
fn rows<'p>(page: &'p str, id: &str) -> Vec<Vec<&'p str>> {
    let begin = format!("| {id}");
    let is_row = |line: &&str| {
        line.strip_prefix(&begin).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    page.lines().filter(is_row).map(|line| line.split('|').map(str::trim).collect()).collect()
}

/// Whether the tests that the rows name in their last cell exist; a row without one says so in one of its cells.
fn check_tests(rows: &[Vec<&str>]) {
    let tests = all_tests();
    for row in rows {
        let last = row[row.len() - 2];
        let named: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        for name in &named {
            assert!(tests.contains(*name), "{}: there is no test {name}", row[1]);
        }
        let says_none =
            |cell: &&str| ["later", "not built", "no test yet"].iter().any(|word| cell.contains(word));
        assert!(
            !named.is_empty() || row.iter().any(says_none),
            "{} names no test and does not say so",
            row[1]
        );
    }
}

#[test]
fn each_rule_names_tests_that_exist_or_says_that_there_is_none() {
    let page = std::fs::read_to_string(root().join("docs/listings.md")).unwrap();
    let rows = rows(&page, "R3.");
    let ids: Vec<String> = rows.iter().map(|row| row[1].to_owned()).collect();
    assert_eq!(ids, (1..=75).map(|number| format!("R3.{number}")).collect::<Vec<_>>());
    check_tests(&rows);
}

/// Cases that the sources below a folder name: `C` and two digits, as a word.
fn cases_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            cases_below(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let is_case = |word: &&str| {
                word.len() == 3 && word.starts_with('C') && word[1..].chars().all(|c| c.is_ascii_digit())
            };
            found.extend(words.filter(is_case).map(str::to_owned));
        }
    }
}

#[test]
fn each_public_case_names_tests_that_exist_and_has_its_row() {
    let page = std::fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let rows = rows(&page, "C");
    check_tests(&rows);
    let ids: BTreeSet<String> = rows.iter().map(|row| row[1].to_owned()).collect();
    assert_eq!(ids.len(), rows.len(), "each once");
    let mut named = BTreeSet::new();
    for entry in std::fs::read_dir(root()).unwrap() {
        let folder = entry.unwrap().path();
        if folder.join("Cargo.toml").is_file() {
            cases_below(&folder.join("src"), &mut named);
            cases_below(&folder.join("tests"), &mut named);
        }
    }
    assert!(named.len() > 20, "{named:?}");
    let missing: Vec<&String> = named.difference(&ids).collect();
    assert!(missing.is_empty(), "{missing:?} have no row");
}

#[test]
fn what_a_snapshot_cannot_catch_is_said_where_people_begin() {
    for page in ["README.md", "docs/listings.md", "ARCHITECTURE.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        assert!(
            words.contains("a snapshot catches change, not a tool that misdescribes itself from the start"),
            "{page}"
        );
        assert!(words.contains("before you assign its version"), "{page}");
    }
}
