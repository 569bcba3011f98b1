//! Tells a node from a copy of it: a machine that was cloned, or set back to an older state of its disk.
//!
//! With each Welcome the server gives the node a counter (sealed, so that nobody makes one up); the node puts
//! it on its disk and then says so, and shows it in its next Hello. What was acknowledged is on that disk for
//! good, so a node never shows less than it acknowledged: whoever does is a copy. What the server knows to be
//! acknowledged may be *less* than the truth (it is written behind, in batches, and each server remembers
//! alone), which lets a copy pass for a while and never accuses the node itself.
//!
//! A Hello may also be read late: it waited in the buffers of a server that stood still, long after its sender
//! gave up and went on elsewhere. So the first that shows too little is only asked to say it again with a
//! challenge that it cannot have heard before; whoever repeats that lives, and is a copy.

#[cfg(test)]
mod tests;

/// A counter is at least so much larger than the one that its Hello showed: room for the session itself to stand
/// between them before the node has the counter on its disk.
const STEP: u64 = 2;

/// Counters are spread by up to so much, so that two servers that do not know of each other hardly ever give
/// the same one to two copies.
const SPREAD: u64 = 1 << 16;

/// What a server knows of a node's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The newest that the node is known to have on its disk; 0 for none.
    pub acknowledged: u64,
    /// What a person picked when copies were found last.
    pub pick: Option<Pick>,
}

/// One of several copies, picked by a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The counter of the copy that goes on.
    pub kept: u64,
    /// The largest counter of any copy when it was picked: one up to here that is not `kept` is of another.
    pub up_to: u64,
}

/// Who shows a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The node, as far as can be known.
    Right,
    /// Perhaps a copy, perhaps a late message: it is to say it again, with a challenge.
    Ask,
    /// A copy, alive.
    Copy,
    /// A copy that a person did not pick.
    NotKept,
}

/// Judges a Hello that shows `presented` (0 for none); `repeats` if it repeats a challenge.
pub const fn judge(known: &Known, presented: u64, repeats: bool) -> Verdict {
    if let Some(pick) = &known.pick
        && presented <= pick.up_to
        && presented != pick.kept
    {
        return if repeats { Verdict::NotKept } else { Verdict::Ask };
    }
    if presented >= known.acknowledged {
        return Verdict::Right;
    }
    if repeats { Verdict::Copy } else { Verdict::Ask }
}

/// The counter for the answer to a Hello that shows `presented`: above all that are known, `issued` being the
/// newest that this server gave to the node.
pub fn next(known: &Known, presented: u64, issued: u64, random: u64) -> u64 {
    let up_to = known.pick.map_or(0, |pick| pick.up_to);
    let newest = presented.max(known.acknowledged).max(issued).max(up_to);
    newest.saturating_add(STEP).saturating_add(random % SPREAD)
}

/// Where a session stands among those of its node, so that what an earlier one says is not taken for newer,
/// however late it is worked off and on whichever server.
///
/// A counter that the node has on its disk is larger than those of all sessions before, and smaller than those of
/// all that come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Succession {
    presented: u64,
    given: u64,
    is_kept: bool,
}

impl Succession {
    /// A session whose Hello showed one counter (0 for none), and whose Welcome gave another.
    pub const fn opened(presented: u64, given: u64) -> Self {
        Self { presented, given, is_kept: false }
    }

    /// The node has the session's own counter on its disk.
    pub const fn keep(&mut self) {
        self.is_kept = true;
    }

    /// The session's own counter, if the node has it on its disk.
    pub const fn kept(&self) -> Option<u64> {
        if self.is_kept { Some(self.given) } else { None }
    }

    /// Whether what the session says still counts, the node being known to have `acknowledged` on its disk: not
    /// once a later session's counter is.
    pub const fn counts(&self, acknowledged: u64) -> bool {
        let own = if self.is_kept { self.given } else { self.presented.saturating_add(1) };
        // What was said before the node had the counter may be worked off after it is known to have it.
        own >= acknowledged || self.given == acknowledged
    }
}
