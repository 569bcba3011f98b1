//! Variables in a manifest's text: which may stand where, and putting values in their place.
//!
//! One pass, no shell: what is put in is never looked at again.

/// Where a text with `${plugin}` and `${work}` is to be used.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The folder that the bundle was unpacked into.
    pub plugin: &'a str,
    /// The tool's own working folder.
    pub work: &'a str,
}

/// Puts the two folders in the place of `${plugin}` and `${work}`; everything else stays.
pub fn expand(text: &str, place: Place<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) | Piece::Unclosed(text) => out.push_str(text),
            Piece::Variable("plugin") => out.push_str(place.plugin),
            Piece::Variable("work") => out.push_str(place.work),
            Piece::Variable(name) => out.extend(["${", name, "}"]),
        }
    }
    out
}

/// A part of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// As it stands.
    Text(&'a str),
    /// The name between `${` and `}`.
    Variable(&'a str),
    /// From a `${` without its `}` to the end.
    Unclosed(&'a str),
}

/// Takes a text apart at its variables.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut rest = text;
    let mut found = Vec::new();
    while let Some((before, after)) = rest.split_once("${") {
        if !before.is_empty() {
            found.push(Piece::Text(before));
        }
        if let Some((name, next)) = after.split_once('}') {
            found.push(Piece::Variable(name));
            rest = next;
        } else {
            found.push(Piece::Unclosed(rest.get(before.len()..).unwrap_or_default()));
            return found;
        }
    }
    if !rest.is_empty() {
        found.push(Piece::Text(rest));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_never_looked_at_again() {
        let place = Place { plugin: "/p/${work}", work: "/w" };
        assert_eq!(expand("${plugin}/x:${work}", place), "/p/${work}/x:/w");
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let place = Place { plugin: "/p", work: "/w" };
        for text in ["", "$plugin", "${", "${plugin", "a${HOME}b", "$${x}", "}{"] {
            assert_eq!(expand(text, place), text);
        }
    }
}
