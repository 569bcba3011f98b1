use std::collections::BTreeMap;
use std::fs;

use domain::id::{EdgeName, PluginVersion, ToolId};
use domain::plugin_set::{FunctionTrust, Position, Scope, ToolTrust, VersionTrust};
use domain::time::Timestamp;
use prost::Message as _;

use super::*;

/// Reads the statement and asks for no signature.
fn believe(signed: &v1::SignedHead) -> Result<Head, String> {
    let statement = v1::HeadStatement::decode(signed.statement.as_slice()).map_err(|e| e.to_string())?;
    Head::try_from(statement).map_err(|e| e.to_string())
}

fn trust(generation: u64, text: &str) -> HeldPart {
    let hash = ListingHash::of_canonical(text);
    let functions = BTreeMap::from([("hello".into(), FunctionTrust { hash, rank: 1 })]);
    let tool = ToolTrust { snapshot_taken: true, functions, origin: None };
    let version = VersionTrust {
        tools: BTreeMap::from([(ToolId::parse("team").unwrap(), tool)]),
        ..VersionTrust::default()
    };
    let versions = BTreeMap::from([(PluginVersion::parse("team@1.0.0").unwrap(), Arc::new(version))]);
    let content = PartContent::from(&Content::Trust(Trust { versions }));
    let head = Head {
        fleet: "f".into(),
        scope: Scope::Edge(EdgeName::parse("eu-1").unwrap()),
        part: Part::Trust,
        position: Position { epoch: 1, generation },
        digest: content.manifest.digest(),
        issued: Timestamp::default(),
        fresh_until: Timestamp::default(),
    };
    let statement = v1::HeadStatement::from(&head).encode_to_vec();
    let signed = v1::SignedHead { statement, ..v1::SignedHead::default() };
    HeldPart { head, signed, content, texts: BTreeMap::from([(hash, text.into())]) }
}

fn held(found: &Found) -> Option<u64> {
    found.parts.get(&Part::Trust).map(|part| part.head.position.generation)
}

fn ledger(folder: &Path, generations: &[u64]) -> Ledger {
    let (mut ledger, _) = Ledger::open(folder, &believe).unwrap();
    for generation in generations {
        ledger.store(&trust(*generation, &format!("text {generation}"))).unwrap();
    }
    ledger
}

fn slot_of(folder: &Path, generation: u64) -> PathBuf {
    let slots = [0, 1].map(|index| path(folder, Part::Trust, index));
    let is_it = |path: &PathBuf| {
        slot::read(path, Part::Trust, &believe)
            .unwrap()
            .is_some_and(|held| held.head.position.generation == generation)
    };
    slots.into_iter().find(is_it).unwrap()
}

#[test]
fn a_slot_torn_at_any_byte_leaves_the_other() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path(), &[1, 2]);
    let newest = slot_of(folder.path(), 2);
    let whole = fs::read(&newest).unwrap();
    for length in 0..whole.len() {
        fs::write(&newest, &whole[..length]).unwrap();
        let (_, found) = Ledger::open(folder.path(), &believe).unwrap();
        assert_eq!((held(&found), found.faults.len()), (Some(1), 1), "{length} bytes");
    }
}

#[test]
fn a_slot_with_one_bit_turned_leaves_the_other() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path(), &[1, 2]);
    let newest = slot_of(folder.path(), 2);
    let whole = fs::read(&newest).unwrap();
    for at in 0..whole.len() {
        let mut bad = whole.clone();
        bad[at] ^= 1;
        fs::write(&newest, &bad).unwrap();
        let (_, found) = Ledger::open(folder.path(), &believe).unwrap();
        assert_eq!(held(&found), Some(1), "byte {at}");
    }
}

#[test]
fn with_both_slots_unreadable_nothing_is_held_and_both_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path(), &[1, 2]);
    for index in [0, 1] {
        fs::write(path(folder.path(), Part::Trust, index), "rubbish").unwrap();
    }
    let (mut again, found) = Ledger::open(folder.path(), &believe).unwrap();
    assert_eq!((held(&found), found.faults.len()), (None, 2));
    again.store(&trust(3, "text")).unwrap();
    let (_, found) = Ledger::open(folder.path(), &believe).unwrap();
    assert_eq!(held(&found), Some(3));
}

#[test]
fn a_write_that_was_cut_off_before_its_rename_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path(), &[1]);
    fs::write(folder.path().join("trust.new"), "half").unwrap();
    let (_, found) = Ledger::open(folder.path(), &believe).unwrap();
    assert_eq!((held(&found), found.faults.len()), (Some(1), 0));
}

#[test]
fn a_head_that_is_not_believed_is_not_held() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path(), &[1]);
    let (_, found) = Ledger::open(folder.path(), &|_| Err("another fleet's".to_owned())).unwrap();
    assert_eq!((held(&found), found.faults.len()), (None, 1));
}

#[test]
fn the_newest_of_many_writes_is_read_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = ledger(folder.path(), &[1, 2, 3, 4, 5]);
    let (_, found) = Ledger::open(folder.path(), &believe).unwrap();
    let held = &found.parts[&Part::Trust];
    assert_eq!(held.texts.values().map(|text| &**text).collect::<Vec<_>>(), ["text 5"]);
    assert!(missing(Part::Trust, &held.content, &held.texts).is_empty());
    last.store(&trust(6, "text 6")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn a_part_without_the_texts_that_it_names_is_not_whole() {
    let mut part = trust(1, "text");
    part.texts.clear();
    let wanted = missing(Part::Trust, &part.content, &part.texts);
    assert_eq!(wanted, BTreeSet::from([ListingHash::of_canonical("text").digest()]));
}

#[test]
fn a_full_disk_refuses_a_part_names_its_room_and_keeps_the_last() {
    const TEST: &str = "ledger::tests::a_full_disk_refuses_a_part_names_its_room_and_keeps_the_last";
    use crate::disk::testing::{fill, make_read_only, on_small_disk};
    let Some(disk) = on_small_disk(TEST, 1 << 20) else { return };
    let folder = disk.join("ledger");
    let mut ledger = ledger(&folder, &[1, 2]);
    let filler = fill(&disk, 0);
    let part = trust(3, &"text ".repeat(10_000));
    for _ in 0..2 {
        let error = crate::sentence(&ledger.store(&part).unwrap_err());
        assert!(error.contains("0 B of 1.0 MiB are free on its disk"), "{error}");
        assert_eq!(held(&Ledger::open(&folder, &believe).unwrap().1), Some(2));
    }
    assert!(!folder.join("trust.new").exists(), "what was written of it is given back");
    fs::remove_file(filler).unwrap();
    ledger.store(&part).unwrap();
    assert_eq!(held(&Ledger::open(&folder, &believe).unwrap().1), Some(3));

    make_read_only(&disk);
    let error = crate::sentence(&ledger.store(&trust(4, "text")).unwrap_err());
    assert!(error.contains("Read-only file system"), "{error}");
    assert_eq!(held(&Ledger::open(&folder, &believe).unwrap().1), Some(3));
}

/// Ledgers of each released protocol, as their agents wrote them.
#[test]
fn the_ledger_of_a_released_protocol_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/released");
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in Part::ALL {
            let prefix = format!("ledger {part} ");
            let files: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
            assert!(!files.is_empty(), "{part}");
            for file in files {
                let folder = tempfile::tempdir().unwrap();
                fs::write(path(folder.path(), part, 0), hex::decode(file).unwrap()).unwrap();
                let (_, found) = Ledger::open(folder.path(), &believe).unwrap();
                assert!(found.faults.is_empty(), "{:?}", found.faults);
                let held = &found.parts[&part];
                assert!(held.content.read(part).1.is_empty(), "every resource of it is read");
            }
        }
    }
}
