//! Targets for a fuzzer: any bytes as a message, any object edited. `scripts/fuzz` drives them for as long as one likes;
//! as tests they take what is kept of earlier runs and a thousand inputs more.

use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

#[test]
fn any_bytes_are_a_message_or_an_error() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut whole = IdScan::default();
        whole.feed(bytes);
        let mut pieces = IdScan::default();
        bytes.chunks(3).for_each(|piece| pieces.feed(piece));
        assert_eq!(whole.finish(), pieces.finish(), "however it comes");

        let Ok(message) = parse(bytes) else { return };
        // What is passed on is the same message again, but for the spelling of its method.
        let again = match &message {
            Message::Request { id, method, params } => request(id, method, params.map(RawValue::get)),
            Message::Notification { method, params } => notification(method, params.map(RawValue::get)),
            Message::Response { id: Some(id), outcome: Ok(result) } => answer(id, result.get()),
            Message::Response { id, outcome: Err(error) } => failure(id.as_ref(), error.get()),
            Message::Response { id: None, outcome: Ok(_) } => return,
        };
        let read = parse_str(&again).expect("what was built is a message");
        match (message, read) {
            (Message::Request { id, method, params }, Message::Request { id: i, method: m, params: p }) => {
                assert_eq!((id, method, params.map(RawValue::get)), (i, m, p.map(RawValue::get)));
            }
            (Message::Notification { method, params }, Message::Notification { method: m, params: p }) => {
                assert_eq!((method, params.map(RawValue::get)), (m, p.map(RawValue::get)));
            }
            (Message::Response { outcome: Ok(one), .. }, Message::Response { outcome: Ok(other), .. })
            | (Message::Response { outcome: Err(one), .. }, Message::Response { outcome: Err(other), .. }) => {
                assert_eq!(one.get(), other.get());
            }
            (message, read) => panic!("{message:?} became {read:?}"),
        }
    });
}

#[test]
fn an_object_that_is_edited_keeps_all_else_as_it_was() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let repaired = repair_surrogates(text);
        let Ok(raw) = serde_json::from_str::<&RawValue>(&repaired) else { return };
        let Some(object) = members(raw) else { return };
        let kept: Vec<(&str, &str)> = object
            .iter()
            .filter(|(key, _)| crate::envelope::text(key).is_none_or(|key| key != "a"))
            .map(|(key, value)| (key.get(), value.get()))
            .collect();
        for edited in [with_member(raw.get(), "a", "1"), without_member(raw.get(), "a")] {
            let edited: &RawValue = serde_json::from_str(&edited).expect("JSON stays JSON");
            let edited = members(edited).expect("an object stays one");
            let rest: Vec<(&str, &str)> = edited
                .iter()
                .filter(|(key, _)| crate::envelope::text(key).is_none_or(|key| key != "a"))
                .map(|(key, value)| (key.get(), value.get()))
                .collect();
            assert_eq!(rest, kept);
        }
        let meta = with_meta(raw.get(), &[("dev.pintle/x", Some("{}"))]);
        serde_json::from_str::<&RawValue>(&meta).expect("JSON stays JSON");
        if let Ok(value) = serde_json::from_str::<Value>(raw.get()) {
            assert!(depth(raw.get()) <= 128, "deeper than a reader with a limit takes");
            drop(value);
        }
    });
}
