//! Eight bytes of a JSON string at once, the first in the lowest place.
//!
//! Marks are the highest bit of a byte. What is marked above the lowest mark may be marked in error (a borrow ran
//! through), so callers go by the lowest, or ask only whether there is any below it.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks bytes below `limit`, at most 0x80.
const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(LOW * limit as u64) & !word & HIGH
}

/// Marks bytes that are this one.
const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (LOW * byte as u64), 1)
}

/// Marks quotes, backslashes and controls: what ends a stretch of a string, or must not stand in it.
pub(super) const fn stops(word: u64) -> u64 {
    below(word, 0x20) | equal(word, b'"') | equal(word, b'\\')
}

/// The same of one byte.
pub(super) const fn is_stop(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Marks what is not ASCII, and DEL.
pub(super) const fn odd(word: u64) -> u64 {
    (word & HIGH) | equal(word, 0x7F)
}

/// All bits below the lowest mark; every bit if there is none.
pub(super) const fn before(marks: u64) -> u64 {
    (marks & marks.wrapping_neg()).wrapping_sub(1)
}

/// How many bytes lie below the lowest mark; 8 if there is none.
pub(super) const fn bytes_before(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_marked_as_it_is_alone() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                for other in [b' ', b'a', 0x7E, 0xC3, 0xFF] {
                    let mut bytes = [other; 8];
                    bytes[place] = byte;
                    let word = u64::from_le_bytes(bytes);
                    let first = bytes.iter().position(|byte| is_stop(*byte)).unwrap_or(8);
                    let marks = stops(word);
                    assert_eq!(bytes_before(marks), first, "{bytes:?}");
                    let is_odd = bytes[..first].iter().any(|byte| *byte >= 0x7F);
                    assert_eq!(odd(word) & before(marks) != 0, is_odd, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn of_two_marks_the_lower_counts() {
        for (first, second) in [(0, 1), (2, 7), (6, 7), (0, 7)] {
            for (one, other) in [(b'"', b'\\'), (b'\\', b'"'), (0x1F, b'"'), (b'"', 0), (0x1F, 0x20), (0, 1)]
            {
                let mut bytes = *b"aaaaaaaa";
                (bytes[first], bytes[second]) = (one, other);
                assert_eq!(bytes_before(stops(u64::from_le_bytes(bytes))), first, "{bytes:?}");
            }
        }
    }
}
