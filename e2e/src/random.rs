//! Random numbers that a seed repeats: `SplitMix64`.

use std::time::Duration;

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// A time up to `most`.
    pub fn up_to(&mut self, most: Duration) -> Duration {
        let share = u32::try_from(self.below(1_000)).unwrap_or_default();
        most * share / 1_000
    }

    /// The elements in another order.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for index in (1..elements.len()).rev() {
            elements.swap(index, self.below(index + 1));
        }
    }
}
