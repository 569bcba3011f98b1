//! What can go wrong with a database, sorted by what a person can do about it.

/// Why the store could not answer. Nothing of the transaction was kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address of the database is none of the two forms.
    #[error("open `{url}` as a database: expected sqlite:PATH or postgres://USER@HOST/NAME")]
    Address {
        /// What was given, without its password.
        url: String,
    },
    /// It cannot be opened or connected to.
    #[error("open the database {place}")]
    Open {
        /// Path or address, without its password.
        place: String,
        /// What the engine said.
        #[source]
        source: sqlx::Error,
    },
    /// Its tables could not be brought to this version's form.
    #[error("migrate the database; nothing was changed by the step that failed")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// Another process holds it.
    #[error("write to the database within 10 s: another process holds its lock ({statement})")]
    Locked {
        /// What was to be done.
        statement: &'static str,
        /// What the engine said.
        #[source]
        source: sqlx::Error,
    },
    /// Its disk is full. Nothing of what was to be written is kept.
    #[error("write to the database, whose disk is full ({statement})")]
    Full {
        /// What was to be done.
        statement: &'static str,
        /// What the engine said.
        #[source]
        source: sqlx::Error,
    },
    /// It is gone: the file or the server is away.
    #[error("reach the database ({statement})")]
    Unavailable {
        /// What was to be done.
        statement: &'static str,
        /// What the engine said.
        #[source]
        source: sqlx::Error,
    },
    /// A statement that the engine refused: a defect of the product.
    #[error("run the statement {statement}")]
    Statement {
        /// Which.
        statement: &'static str,
        /// What the engine said.
        #[source]
        source: sqlx::Error,
    },
    /// A row that cannot be.
    #[error("read {what} `{got}` from the database: {fault}")]
    Inconsistent {
        /// What was read.
        what: &'static str,
        /// Its value.
        got: String,
        /// The rule that it breaks.
        fault: String,
    },
    /// A head was to be raised without an event that says why.
    #[error("raise a head of {scope} without an audit event")]
    Unaudited {
        /// Whose.
        scope: String,
    },
}

impl Error {
    /// Whether the same may work later without anyone changing anything here.
    pub const fn is_passing(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Unavailable { .. })
    }

    /// Whether it may have been done all the same: the database was asked to make it durable, and its
    /// answer did not arrive.
    pub const fn is_unsure(&self) -> bool {
        matches!(self, Self::Unavailable { statement, .. } if matches!(statement.as_bytes(), b"commit"))
    }

    /// A row that cannot be.
    pub(crate) fn inconsistent(
        what: &'static str,
        got: impl std::fmt::Display,
        fault: impl std::fmt::Display,
    ) -> Self {
        Self::Inconsistent { what, got: got.to_string(), fault: fault.to_string() }
    }

    /// Sorts what an engine said.
    pub(crate) fn of(statement: &'static str, source: sqlx::Error) -> Self {
        let code = match &source {
            sqlx::Error::Database(error) => error.code().map(std::borrow::Cow::into_owned),
            sqlx::Error::PoolTimedOut => return Self::Locked { statement, source },
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => {
                return Self::Unavailable { statement, source };
            }
            _ => None,
        };
        match code.as_deref() {
            Some("13" | "53100") => Self::Full { statement, source },
            Some(code) if is_locked(code) => Self::Locked { statement, source },
            Some(code) if is_unavailable(code) => Self::Unavailable { statement, source },
            _ => Self::Statement { statement, source },
        }
    }
}

/// `SQLite`: busy and locked with their extended codes, whose low byte is 5 or 6. `PostgreSQL`: lock not
/// available, deadlock, serialisation failure.
fn is_locked(code: &str) -> bool {
    matches!(code, "55P03" | "40P01" | "40001")
        || (code.len() < 5 && code.parse::<u32>().is_ok_and(|code| matches!(code & 0xFF, 5 | 6)))
}

/// `SQLite`: read-only, I/O, corrupt, cannot open, not a database. `PostgreSQL`: connection,
/// resources, operator intervention, system, read-only.
fn is_unavailable(code: &str) -> bool {
    let sqlite =
        code.len() < 5 && code.parse::<u32>().is_ok_and(|code| matches!(code & 0xFF, 8 | 10 | 11 | 14 | 26));
    sqlite
        || ["08", "53", "57", "58"].iter().any(|class| code.len() == 5 && code.starts_with(class))
        || code == "25006"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_both_engines_are_sorted_by_what_a_person_can_do() {
        for code in ["5", "6", "261", "517", "55P03", "40001"] {
            assert!(is_locked(code) && !is_unavailable(code), "{code}");
        }
        for code in ["14", "26", "778", "08006", "57P01", "53300", "25006"] {
            assert!(is_unavailable(code) && !is_locked(code), "{code}");
        }
        for code in ["1", "19", "787", "2067", "23505", "42601"] {
            assert!(!is_unavailable(code) && !is_locked(code), "{code}");
        }
    }
}
