//! The invisible set of profile v1. Frozen: a change here would change every hash of the fleet.
//!
//! Controls, format and bidi characters, zero-width ones, joiners, variation selectors, TAG
//! characters, private use, noncharacters, letters that look like nothing, and half surrogate
//! pairs. A newer Unicode version needs a new profile beside this one, never an edit.

/// First and last code point of each range, ascending. CR is no member: it depends on what follows.
pub const RANGES: [(u32, u32); 51] = [
    (0x0, 0x8),
    (0xB, 0xC),
    (0xE, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x600, 0x605),
    (0x61C, 0x61C),
    (0x6DD, 0x6DD),
    (0x70F, 0x70F),
    (0x890, 0x891),
    (0x8E2, 0x8E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),
    (0xE000, 0xF8FF),
    (0xFDD0, 0xFDEF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0xFFFE, 0xFFFF),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D159, 0x1D159),
    (0x1D173, 0x1D17A),
    (0x1FFFE, 0x1FFFF),
    (0x2FFFE, 0x2FFFF),
    (0x3FFFE, 0x3FFFF),
    (0x4FFFE, 0x4FFFF),
    (0x5FFFE, 0x5FFFF),
    (0x6FFFE, 0x6FFFF),
    (0x7FFFE, 0x7FFFF),
    (0x8FFFE, 0x8FFFF),
    (0x9FFFE, 0x9FFFF),
    (0xAFFFE, 0xAFFFF),
    (0xBFFFE, 0xBFFFF),
    (0xCFFFE, 0xCFFFF),
    (0xDFFFE, 0xDFFFF),
    (0xE0000, 0xE0FFF),
    (0xEFFFE, 0xEFFFF),
    (0xF0000, 0xFFFFF),
    (0x10_0000, 0x10_FFFF),
];

/// Whether a code point belongs to the set (CR, U+000D, does not).
pub const fn contains(code_point: u32) -> bool {
    // Most text is below the first range outside Latin-1 (U+034F).
    if code_point < 0x34F {
        return match code_point {
            0x09 | 0x0A | 0x0D => false,
            _ => code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F) || code_point == 0xAD,
        };
    }
    // Nor does the search have to be made for CJK ideographs and Hangul syllables.
    if matches!(code_point, 0x3165..=0xD7FF) {
        return false;
    }
    let (mut low, mut high) = (0, RANGES.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let (first, last) = at(middle);
        if code_point < first {
            high = middle;
        } else if code_point > last {
            low = middle + 1;
        } else {
            return true;
        }
    }
    false
}

#[expect(clippy::indexing_slicing, reason = "the search stays below the table's length")]
const fn at(index: usize) -> (u32, u32) {
    RANGES[index]
}
