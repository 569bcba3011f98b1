//! Names of things, each checked once at the door and carried as a type from there.
//!
//! What a *function* may be called is decided in `name`, since a server's names are judged one by
//! one and never refused as a whole.

use std::fmt;
use std::sync::Arc;

/// Text that cannot name a thing, with the rule that it broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("take `{got}` as {kind}: {rule}")]
pub struct IdFault {
    /// What was to be named.
    pub kind: &'static str,
    /// The rule, as a sentence without its stop.
    pub rule: &'static str,
    /// What was given, made visible and cut to 100 characters.
    pub got: String,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the rule above.
            ///
            /// # Errors
            /// Names the rule that `text` breaks.
            pub fn parse(text: &str) -> Result<Self, IdFault> {
                let check: fn(&str) -> bool = $check;
                if check(text) {
                    Ok(Self(text.into()))
                } else {
                    let got = text.chars().take(100).flat_map(char::escape_debug).collect();
                    Err(IdFault { kind: $kind, rule: $rule, got })
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type!(
    /// A plugin's name: 1 to 64 of `a-z 0-9 -`, beginning with a letter.
    PluginName,
    "a plugin's name",
    "1 to 64 of a-z, 0-9 and -, beginning with a letter",
    |t| is_label(t, 64)
);

name_type!(
    /// An edge's name: 1 to 64 of `a-z 0-9 -`, beginning with a letter.
    EdgeName,
    "an edge's name",
    "1 to 64 of a-z, 0-9 and -, beginning with a letter",
    |t| is_label(t, 64)
);

name_type!(
    /// A node's name as its people call it: 1 to 64 of `A-Z a-z 0-9 - _ .`, beginning with a letter
    /// or digit. Not unique for ever: a node's identity is its [`NodeId`].
    NodeName,
    "a node's name",
    "1 to 64 of A-Z, a-z, 0-9, -, _ and ., beginning with a letter or digit",
    |t| t.len() <= 64
        && t.starts_with(|c: char| c.is_ascii_alphanumeric())
        && t.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
);

name_type!(
    /// A node's identity, given by the control plane when it joins and never reused.
    NodeId,
    "a node's id",
    "1 to 64 of a-z, 0-9 and -",
    is_opaque
);

name_type!(
    /// One run of a node agent's process; its reports are ordered within it.
    BootId,
    "a boot id",
    "1 to 64 of a-z, 0-9 and -",
    is_opaque
);

name_type!(
    /// A tool ID as it stands in a bundle. A new bundle is held to [`ToolId::is_well_formed`]; an
    /// older one may carry others, which a node judges one by one.
    ToolId,
    "a tool ID",
    "1 to 128 characters without control characters or white space",
    |t| !t.is_empty() && t.len() <= 128 && !t.chars().any(|c| c.is_control() || c.is_whitespace())
);

impl ToolId {
    /// Whether a new bundle may use it: a letter, then up to 47 of `A-Z a-z 0-9 _ -`
    /// (20-listings, 3).
    pub fn is_well_formed(&self) -> bool {
        self.0.len() <= 48
            && self.0.starts_with(|c: char| c.is_ascii_alphabetic())
            && self.0.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    }
}

/// A function as a person writes it: `tool.function`.
///
/// The function's part is whatever a server listed, so both parts are kept apart and nothing is
/// ever found by taking the joined text apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId {
    /// The tool that lists it.
    pub tool: ToolId,
    /// Its name in that tool's listing.
    pub function: Arc<str>,
}

impl FunctionId {
    /// Joins a tool and a function's name.
    pub fn new(tool: &ToolId, function: &str) -> Self {
        Self { tool: tool.clone(), function: function.into() }
    }

    /// The name that models see: the ID with each `.` written `__`.
    pub fn model_name(&self) -> String {
        self.to_string().replace('.', "__")
    }
}

impl fmt::Display for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tool, self.function)
    }
}

impl fmt::Debug for FunctionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A plugin's version: `name@semver`. Immutable once pushed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginVersion {
    /// The plugin.
    pub plugin: PluginName,
    /// The version, compared as `SemVer`.
    pub version: semver::Version,
}

impl PluginVersion {
    /// Reads `name@1.2.3`.
    ///
    /// # Errors
    /// Names the part that is wrong.
    pub fn parse(text: &str) -> Result<Self, IdFault> {
        let fault = || IdFault {
            kind: "a plugin's version",
            rule: "NAME@VERSION with a SemVer version, such as team@1.4.0",
            got: text.chars().take(100).flat_map(char::escape_debug).collect(),
        };
        let (plugin, version) = text.split_once('@').ok_or_else(fault)?;
        let version = semver::Version::parse(version).map_err(|_| fault())?;
        Ok(Self { plugin: PluginName::parse(plugin)?, version })
    }
}

impl fmt::Display for PluginVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.plugin, self.version)
    }
}

impl fmt::Debug for PluginVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn is_label(text: &str, most: usize) -> bool {
    text.len() <= most
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_opaque(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_outside_its_rule_is_refused_with_the_rule() {
        for bad in ["", "1team", "Team", "team_a", "te am", &"a".repeat(65), "te\u{200b}am"] {
            let error = PluginName::parse(bad).unwrap_err().to_string();
            assert!(error.contains("beginning with a letter"), "{error}");
        }
        assert!(PluginName::parse("team-2").is_ok());
    }

    #[test]
    fn a_plugin_version_is_read_back_as_it_was_written() {
        let version = PluginVersion::parse("team@1.4.0-rc.1").unwrap();
        assert_eq!(version.to_string(), "team@1.4.0-rc.1");
        for bad in ["team", "team@", "team@1", "@1.0.0", "Team@1.0.0"] {
            assert!(PluginVersion::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_model_name_writes_each_dot_as_two_underscores() {
        let id = FunctionId::new(&ToolId::parse("a.b").unwrap(), "c.d");
        assert_eq!(id.model_name(), "a__b__c__d");
    }
}
