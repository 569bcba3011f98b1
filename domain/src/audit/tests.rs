use proptest::prelude::*;

use super::*;
use crate::id::{EdgeName, NodeName, PluginVersion, ToolId};

fn event(text: &str) -> Event {
    Event::EndpointMoved {
        edge: EdgeName::parse("eu-1").unwrap(),
        version: PluginVersion::parse("team@1.0.0").unwrap(),
        tool: ToolId::parse("team").unwrap(),
        earlier: vec!["https://a.example".to_owned()],
        origin: text.to_owned(),
    }
}

fn chain(texts: &[String]) -> Vec<Record> {
    let mut tail = Tail::START;
    let origin = Origin { actor: "token/admin".to_owned(), source: "api".to_owned() };
    let at = |index: usize| Timestamp::from_millis(1_796_000_000_000 + i64::try_from(index).unwrap());
    texts.iter().enumerate().map(|(index, text)| tail.append(at(index), &origin, &event(text))).collect()
}

fn first_fault(records: &[Record]) -> Option<ChainFault> {
    let mut tail = Tail::START;
    records.iter().find_map(|record| tail.verify(record).err())
}

#[test]
fn an_event_that_is_missing_or_moved_is_named() {
    let records = chain(&["a".to_owned(), "b".to_owned(), "c".to_owned()]);
    assert_eq!(first_fault(&records), None);
    let without_second = [records[0].clone(), records[2].clone()];
    assert_eq!(first_fault(&without_second).unwrap().seq, 2);
    let swapped = [records[1].clone(), records[0].clone(), records[2].clone()];
    assert_eq!(first_fault(&swapped).unwrap().seq, 1);
}

#[test]
fn an_event_that_was_written_anew_is_noticed_at_the_next_one() {
    let mut records = chain(&["a".to_owned(), "b".to_owned()]);
    records[0] = chain(&["other".to_owned()]).remove(0);
    let fault = first_fault(&records).unwrap();
    assert_eq!(fault.seq, 2);
    assert!(fault.to_string().starts_with("verify event 2 of the audit log: it follows"), "{fault}");
}

#[test]
fn the_leaf_is_canonical_json_and_its_hash_that_of_rfc_6962() {
    let record = chain(&["https://b.example".to_owned()]).remove(0);
    let leaf = record.leaf().unwrap();
    assert_eq!(
        leaf,
        format!(
            r#"{{"actor":"token/admin","at":"2026-11-30T00:53:20.000Z","fields":{{"earlier":["https://a.example"],"edge":"eu-1","origin":"https://b.example","plugin":"team","tool":"team","version":"1.0.0"}},"name":"plugin.endpoint.moved","prev":"{}","seq":1,"source":"api","subject":"plugin/team"}}"#,
            "0".repeat(64)
        )
    );
    let mut bytes = vec![0];
    bytes.extend_from_slice(leaf.as_bytes());
    assert_eq!(record.hash, Digest::of(&bytes));
}

#[test]
fn text_of_a_node_is_made_visible_in_an_event() {
    let event = Event::ToolsChanged {
        node: NodeName::parse("node-3").unwrap(),
        difference: FunctionDifference {
            version: PluginVersion::parse("team@1.0.0").unwrap(),
            tool: ToolId::parse("team").unwrap(),
            function: "he\u{200b}llo".into(),
            edge: None,
            approved: None,
            seen: None,
        },
    };
    assert_eq!(event.fields()["function"], "he\\u{200B}llo");
}

proptest! {
    #[test]
    fn any_edit_of_any_stored_event_is_noticed(
        texts in prop::collection::vec(".{0,12}", 1..6),
        at in any::<prop::sample::Index>(),
        field in 0_usize..8,
        bit in 0_usize..256,
    ) {
        let mut records = chain(&texts);
        prop_assert_eq!(first_fault(&records), None);
        let index = at.index(records.len());
        let seq = records[index].seq;
        let record = &mut records[index];
        let flip = |digest: Digest| {
            let mut bytes = *digest.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Digest::from_bytes(bytes)
        };
        match field {
            0 => record.seq += 1,
            1 => record.at = record.at.plus_millis(1),
            2 => record.actor.push('x'),
            3 => record.source.push('x'),
            4 => record.name.push('x'),
            5 => record.subject.push('x'),
            6 => record.fields = record.fields.replacen("team", "meat", 1),
            _ => { record.prev = flip(record.prev); }
        }
        prop_assert_eq!(first_fault(&records).unwrap().seq, seq);
        let mut records = chain(&texts);
        records[index].hash = flip(records[index].hash);
        prop_assert_eq!(first_fault(&records).unwrap().seq, seq);
    }
}
