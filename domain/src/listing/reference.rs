//! References of schemas to something outside of their document. They are never fetched and never resolved; people are
//! told, since what a reader makes of them is not in the listing that was approved.

use super::json::Json;
use super::read_canonical;

/// Members of a schema whose values are data.
const DATA: [&str; 4] = ["default", "const", "enum", "examples"];

/// Members of a schema whose members are schemas, under names that anybody chose.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// The first reference of a canonical listing's schemas that leads out of its document, as a fragment for people.
pub fn warned_reference(canonical: &str) -> Option<String> {
    if !canonical.contains("Ref\":\"") && !canonical.contains("$ref\":\"") {
        return None;
    }
    let listing = read_canonical(canonical)?;
    let mut schemas = ["inputSchema", "outputSchema"].into_iter().filter_map(|member| listing.get(member));
    let to = schemas.find_map(outside)?;
    let to: String = to.chars().take(100).collect();
    Some(format!(
        "its schema refers to \"{to}\", which is never opened: what is meant there is not part of the listing"
    ))
}

/// Depth is bounded by that of listings.
fn outside<'j>(schema: &'j Json<'_>) -> Option<&'j str> {
    if let Some(items) = schema.items() {
        return items.iter().find_map(outside);
    }
    for (name, value) in schema.members()? {
        let name: &str = name;
        let found = match name {
            "$ref" | "$dynamicRef" | "$recursiveRef" => value.text().filter(|to| !to.starts_with('#')),
            _ if DATA.contains(&name) => None,
            _ if NAMED.contains(&name) => {
                value.members().into_iter().flatten().find_map(|(_, schema)| outside(schema))
            }
            _ => outside(value),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}
