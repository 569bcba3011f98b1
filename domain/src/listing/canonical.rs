//! The canonical form of a document: RFC 8785, by the library.

use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::json::Json;

/// Writes the canonical form.
#[expect(clippy::expect_used, reason = "numbers are finite and no member is twice by construction")]
pub(crate) fn canonical(json: &Json<'_>) -> String {
    serde_json_canonicalizer::to_string(json).expect("a finite tree without members named twice")
}

/// Only for the canonicaliser, which asks for it: no format of ours.
impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value),
            Self::Number(value) => to.serialize_f64(*value),
            Self::Text(text) => to.serialize_str(text),
            Self::Array(items) => to.collect_seq(items),
            Self::Object(members) => {
                let mut map = to.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}
