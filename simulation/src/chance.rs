//! Randomness that is the same for a seed on every machine and in every release: splitmix64.

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        // So that neighbouring seeds begin far from each other.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).unwrap_or_default()
    }

    /// From 0 to below `most`; 0 if that is 0.
    pub(crate) const fn below(&mut self, most: u64) -> u64 {
        if most == 0 { 0 } else { self.next() % most }
    }

    /// From `least` to `most`, both included.
    pub(crate) const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Whether something of that many per mille happens.
    pub(crate) const fn happens(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of them.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or_default();
        of.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let mut chance = Chance::new(1);
        assert_eq!(
            [chance.next(), chance.next()],
            [Chance::new(1).next(), {
                chance = Chance::new(1);
                chance.next();
                chance.next()
            }]
        );
        let mut chance = Chance::new(7);
        assert!((0..1_000).all(|_| (3..=5).contains(&chance.between(3, 5))));
    }
}
