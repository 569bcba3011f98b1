//! A light scan that finds whose answer an unreadable or oversized message was.
//!
//! Fed in pieces, with a few bytes of state: the rest of a line over the limit is thrown away and still
//! its id is found, also where it comes last. Numbers and words are not judged, so `NaN` is no obstacle.

/// Ids of one unreadable line; more than this many messages run together are not told apart.
const MOST: usize = 16;
/// Our own ids have at most 20 digits.
const LONGEST: usize = 24;

/// What a scan found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Whole-number ids of what looks like answers, in their order.
    pub answers: Vec<u64>,
    /// Whether the text had a top-level member `jsonrpc`: a spoilt message, not noise.
    pub is_message: bool,
}

/// Where in a string the scan is.
#[derive(Debug, Default, PartialEq, Eq)]
enum InString {
    #[default]
    No,
    Yes,
    AfterBackslash,
}

/// The scan's state between pieces.
#[derive(Debug, Default)]
pub struct IdScan {
    depth: usize,
    string: InString,
    /// The string, or bare word, being read at depth 1.
    word: Vec<u8>,
    /// The member whose value is being read at depth 1.
    member: Vec<u8>,
    in_value: bool,
    id: Option<u64>,
    has_method: bool,
    found: Scanned,
}

impl IdScan {
    /// Reads on.
    pub fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.step(*byte);
        }
    }

    /// Ends the text, also in the middle of a message.
    pub fn finish(mut self) -> Scanned {
        self.end_message();
        self.found
    }

    fn step(&mut self, byte: u8) {
        match (&self.string, byte) {
            (InString::No, _) => self.step_outside(byte),
            (InString::AfterBackslash, _) => self.string = InString::Yes,
            (InString::Yes, b'\\') => self.string = InString::AfterBackslash,
            (InString::Yes, b'"') => self.string = InString::No,
            (InString::Yes, _) if self.depth == 1 => self.push(byte),
            (InString::Yes, _) => {}
        }
    }

    fn step_outside(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.string = InString::Yes;
                if self.depth == 1 {
                    self.word.clear();
                    // A string is no number: `"1"` is another id than `1`.
                    if self.in_value {
                        self.word.push(b'"');
                    }
                }
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_message();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.member = std::mem::take(&mut self.word);
                self.in_value = true;
                match self.member.as_slice() {
                    b"jsonrpc" => self.found.is_message = true,
                    b"method" => self.has_method = true,
                    _ => {}
                }
            }
            b',' if self.depth == 1 => self.end_member(),
            byte if self.depth == 1 && !byte.is_ascii_whitespace() => self.push(byte),
            _ => {}
        }
    }

    fn push(&mut self, byte: u8) {
        if self.word.len() < LONGEST {
            self.word.push(byte);
        }
    }

    fn end_member(&mut self) {
        if self.in_value && self.member == b"id" {
            self.id = std::str::from_utf8(&self.word).ok().and_then(|word| word.parse().ok());
        }
        self.word.clear();
        self.in_value = false;
    }

    fn end_message(&mut self) {
        self.end_member();
        if let (Some(id), false) = (self.id, self.has_method)
            && self.found.answers.len() < MOST
        {
            self.found.answers.push(id);
        }
        self.id = None;
        self.has_method = false;
    }
}
