//! The mark of the time on the disk: one line of numbers and the line's checksum. One that cannot be read
//! counts for none, so that nothing is leased by it.

use std::path::Path;

use domain::digest::Digest;
use domain::fresh::{Contact, Mark};
use domain::time::Timestamp;

use crate::ledger::{self, write_whole};

/// The form's name; another form gets another.
const FORM: &str = "pintle-clock-v1";

pub(super) fn read(path: &Path) -> Option<Mark> {
    let text = std::fs::read_to_string(path).ok()?;
    let mark = parse(&text);
    if mark.is_none() {
        tracing::warn!(path = %path.display(), "the mark of the time cannot be read; no offline lease is gone by before there is contact");
    }
    mark
}

/// Writes it so that at every moment either the old or the new one is whole. Blocks.
pub(super) fn write(path: &Path, mark: &Mark) -> Result<(), ledger::Error> {
    let Mark { high_water, ahead_of_wall_ms, contact } = mark;
    let (high_water, at) = (high_water.as_millis(), contact.at.as_millis());
    let line = format!("{FORM} {high_water} {ahead_of_wall_ms} {at} {}", contact.fresh_ms);
    let text = format!("{line}\n{}\n", Digest::of(line.as_bytes()));
    write_whole(path, &[text.as_bytes()])
}

fn parse(text: &str) -> Option<Mark> {
    let (line, checksum) = text.split_once('\n')?;
    if checksum.trim_end() != Digest::of(line.as_bytes()).to_string() {
        return None;
    }
    let mut words = line.strip_prefix(FORM)?.split_ascii_whitespace();
    let mut number = || words.next()?.parse::<i64>().ok();
    let (high_water, ahead_of_wall_ms) = (Timestamp::from_millis(number()?), number()?);
    let contact = Contact { at: Timestamp::from_millis(number()?), fresh_ms: u64::try_from(number()?).ok()? };
    Some(Mark { high_water, ahead_of_wall_ms, contact })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Mark {
        let at = Timestamp::from_millis(7);
        Mark { high_water: at, ahead_of_wall_ms: -3, contact: Contact { at, fresh_ms: 9 } }
    }

    #[test]
    fn a_mark_that_was_torn_or_changed_counts_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        assert_eq!(read(&path), None);
        write(&path, &mark()).unwrap();
        assert_eq!(read(&path), Some(mark()));
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() - 1 {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(read(&path), None, "{length}");
        }
        let mut changed = whole;
        changed[FORM.len() + 1] = b'9';
        std::fs::write(&path, changed).unwrap();
        assert_eq!(read(&path), None);
    }
}
