//! The one string that a joining node needs: where to, with which token, and how to know the fleet.
//!
//! `pintle1.` and base64url (no padding) of a JSON object. The control plane writes it when a join
//! token is made, `pintle node join` reads it. It holds a secret: it is never logged, and its
//! `Debug` hides it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::digest::Digest;
use serde::{Deserialize, Serialize};

/// What every join string begins with; the digit is the form's version.
const PREFIX: &str = "pintle1.";

/// Longest join string: names of 253 bytes and ids of 64 fit four times over.
const LENGTH_MAX: usize = 4_096;

/// What a join string says.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinString {
    /// `host:port` of the node port.
    pub address: String,
    /// The token's id.
    pub token: String,
    /// The token's secret.
    pub secret: String,
    /// SHA-256 of the authority's `SubjectPublicKeyInfo` (DER): the only one that the first contact
    /// accepts.
    pub authority: Digest,
    /// The fleet's id.
    pub fleet: String,
}

/// A text that is no join string.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It begins with something else.
    #[error(
        "read the join string: it does not begin with `pintle1.`, so part of it is missing or it is of another version"
    )]
    Prefix,
    /// It is longer than any join string.
    #[error("read the join string: it has {got} of at most {LENGTH_MAX} bytes")]
    Long {
        /// Its length.
        got: usize,
    },
    /// What follows the prefix is no base64url or no such object: cut off or changed in copying.
    #[error("read the join string: it was cut off or changed in copying ({reason})")]
    Damaged {
        /// Where reading stopped; never holds a value of the string.
        reason: String,
    },
    /// A member has a value that it cannot have.
    #[error("read the join string: its `{member}` is not {expected}")]
    Member {
        /// Which member.
        member: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

#[derive(Serialize, Deserialize)]
struct Wire {
    v: u32,
    address: String,
    token: String,
    secret: String,
    ca: String,
    fleet: String,
}

impl fmt::Debug for JoinString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinString")
            .field("address", &self.address)
            .field("token", &self.token)
            .field("fleet", &self.fleet)
            .finish_non_exhaustive()
    }
}

impl JoinString {
    /// Writes the string.
    pub fn encode(&self) -> String {
        let wire = Wire {
            v: 1,
            address: self.address.clone(),
            token: self.token.clone(),
            secret: self.secret.clone(),
            ca: self.authority.to_string(),
            fleet: self.fleet.clone(),
        };
        let json = serde_json::to_vec(&wire).unwrap_or_default();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(json))
    }

    /// Reads the string; white space round it (from copying) is passed over.
    ///
    /// # Errors
    /// Says what is wrong without repeating any of it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.len() > LENGTH_MAX {
            return Err(Error::Long { got: text.len() });
        }
        let body = text.strip_prefix(PREFIX).ok_or(Error::Prefix)?;
        let damaged = |reason: &str| Error::Damaged { reason: reason.to_owned() };
        let json = URL_SAFE_NO_PAD.decode(body).map_err(|_| damaged("no base64url"))?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|e| {
            damaged(match e.classify() {
                serde_json::error::Category::Data => "a member is missing or of another type",
                _ => "no JSON object",
            })
        })?;
        if wire.v != 1 {
            return Err(Error::Member { member: "v", expected: "1" });
        }
        let member = |member, expected| Error::Member { member, expected };
        let port = wire.address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            return Err(member("address", "HOST:PORT"));
        }
        let authority = Digest::parse(&wire.ca).map_err(|_| member("ca", "64 hexadecimal digits"))?;
        for (name, text) in [("token", &wire.token), ("secret", &wire.secret), ("fleet", &wire.fleet)] {
            if text.is_empty() {
                return Err(member(name, "there"));
            }
        }
        Ok(Self {
            address: wire.address,
            token: wire.token,
            secret: wire.secret,
            authority,
            fleet: wire.fleet,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> JoinString {
        JoinString {
            address: "fleet.example:7401".to_owned(),
            token: "t1".to_owned(),
            secret: "s3cret".to_owned(),
            authority: Digest::of(b"key"),
            fleet: "f1".to_owned(),
        }
    }

    fn of(json: &str) -> String {
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(json))
    }

    #[test]
    fn a_damaged_join_string_says_what_is_wrong_and_shows_no_secret() {
        let whole = sample().encode();
        let rows = [
            (String::new(), "does not begin with"),
            (whole.replace("pintle1", "pintle2"), "another version"),
            (whole[..whole.len() - 9].to_owned(), "cut off"),
            (format!("{whole}!"), "cut off"),
            (format!("pintle1.{}", "A".repeat(5_000)), "at most 4096"),
            (of("{}"), "a member is missing"),
            (of(r#"{"v":2,"address":"a:1","token":"t","secret":"q9","ca":"","fleet":"f"}"#), "`v` is not 1"),
            (of(r#"{"v":1,"address":"a","token":"t","secret":"q9","ca":"","fleet":"f"}"#), "HOST:PORT"),
            (of(r#"{"v":1,"address":":7","token":"t","secret":"q9","ca":"","fleet":"f"}"#), "HOST:PORT"),
            (of(r#"{"v":1,"address":"a:99999","token":"t","secret":"q9","ca":"","fleet":"f"}"#), "HOST:PORT"),
            (of(r#"{"v":1,"address":"a:1","token":"t","secret":"q9","ca":"00","fleet":"f"}"#), "`ca`"),
        ];
        for (text, expected) in rows {
            let error = JoinString::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error} has no `{expected}`");
            assert!(!error.contains("s3cret") && !error.contains("q9"), "{error}");
        }
    }

    #[test]
    fn a_join_string_is_read_back_as_it_was_written_even_with_white_space_round_it() {
        let text = format!("  {}\n", sample().encode());
        assert_eq!(JoinString::parse(&text), Ok(sample()));
        assert!(!format!("{:?}", sample()).contains("s3cret"));
    }

    #[test]
    fn an_address_in_brackets_is_taken() {
        let six = JoinString { address: "[::1]:7401".to_owned(), ..sample() };
        assert_eq!(JoinString::parse(&six.encode()), Ok(six));
    }
}
