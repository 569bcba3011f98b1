//! The one thin layer over the two engines: a statement, its arguments, a transaction, a row.
//!
//! Modules beside this one hold the statements and say what a row means; nothing outside the store
//! sees SQL. Statements are constants that both engines take, collected by [`statements!`] so that a
//! test can prepare each of them on both.

use domain::digest::{Digest, ListingHash};
use domain::id::{BootId, EdgeName, NodeId, NodeName, PluginName, ToolId};
use domain::plugin_set::{Part, Scope};
use domain::time::Timestamp;
use std::future::Future;
use std::time::Duration;

use sqlx::postgres::{PgPool, PgRow};
use sqlx::sqlite::{SqlitePool, SqliteRow};
use sqlx::{Postgres, Row as _, Sqlite};

use super::error::Error;

/// How long `PostgreSQL` may take to answer a statement: longer than it waits for a lock, which is 10 s,
/// and than any statement of the product works.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// A statement that both engines take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Statement {
    /// The constant's name, for errors.
    pub(crate) name: &'static str,
    /// With `$1` for arguments.
    pub(crate) sql: &'static str,
}

/// Declares statements, and the list of them that the preparing test goes by.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sql:expr;)*) => {
        $(
            $(#[$doc])*
            const $name: $crate::store::sql::Statement =
                $crate::store::sql::Statement { name: stringify!($name), sql: $sql };
        )*
        /// Every statement of this module.
        #[cfg(test)]
        pub(crate) const STATEMENTS: &[$crate::store::sql::Statement] = &[$($name),*];
    };
}
pub(crate) use statements;

/// A statement that takes rows from one argument, a JSON array of arrays, which each engine reads in its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromJson {
    pub(crate) sqlite: Statement,
    pub(crate) postgres: Statement,
}

impl FromJson {
    /// The transaction's engine's.
    pub(crate) const fn of(self, tx: &Transaction) -> Statement {
        self.on(tx.is_postgres())
    }

    pub(crate) const fn on(self, is_postgres: bool) -> Statement {
        if is_postgres { self.postgres } else { self.sqlite }
    }
}

/// Declares such statements, and the list of them: what comes before the rows, which argument they are, and what
/// comes after. A row is the `value`, its members `value ->> 0` and so on.
macro_rules! json_statements {
    ($($(#[$doc:meta])* $name:ident = $before:literal rows($argument:literal) $after:literal;)*) => {
        $(
            $(#[$doc])*
            const $name: $crate::store::sql::FromJson = $crate::store::sql::FromJson {
                sqlite: $crate::store::sql::Statement {
                    name: stringify!($name),
                    sql: concat!($before, "json_each(", $argument, ")", $after),
                },
                postgres: $crate::store::sql::Statement {
                    name: stringify!($name),
                    sql: concat!(
                        $before, "json_array_elements(cast(", $argument, " as json)) as rows (value)", $after
                    ),
                },
            };
        )*
        /// Every such statement of this module.
        #[cfg(test)]
        pub(crate) const FROM_JSON: &[$crate::store::sql::FromJson] = &[$($name),*];
    };
}
pub(crate) use json_statements;

/// One argument, typed, since `PostgreSQL` wants to know the type of a null as well.
#[derive(Debug, Clone)]
pub(crate) enum Arg {
    /// A 64-bit integer.
    Integer(Option<i64>),
    /// Text.
    Text(Option<String>),
    /// Bytes.
    Bytes(Option<Vec<u8>>),
}

/// A list of arguments from anything that an [`Arg`] is made of.
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::store::sql::Arg::from($value)),*] };
}
pub(crate) use args;

/// A pool for one engine.
#[derive(Debug, Clone)]
pub(crate) enum Pool {
    /// One writer and some readers.
    Sqlite { writer: SqlitePool, readers: SqlitePool },
    /// All alike.
    Postgres(PgPool),
}

/// An open transaction. Dropped, it is rolled back.
#[derive(Debug)]
pub(crate) enum Transaction {
    /// On the writer's or a reader's connection.
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    /// On any connection.
    Postgres(sqlx::Transaction<'static, Postgres>),
}

/// One row of a result.
#[derive(Debug)]
pub(crate) enum Row {
    /// From `SQLite`.
    Sqlite(SqliteRow),
    /// From `PostgreSQL`.
    Postgres(PgRow),
}

macro_rules! bound {
    ($statement:expr, $args:expr) => {{
        let mut query = sqlx::query($statement.sql);
        for arg in $args {
            query = match arg {
                Arg::Integer(value) => query.bind(value),
                Arg::Text(value) => query.bind(value),
                Arg::Bytes(value) => query.bind(value),
            };
        }
        query
    }};
}

impl Pool {
    /// Begins a transaction that may write. `SQLite` takes its write lock at once, so that what is
    /// read is still true when it is written.
    pub(crate) async fn begin_write(&self) -> Result<Transaction, Error> {
        match self {
            Self::Sqlite { writer, .. } => writer
                .begin_with("begin immediate")
                .await
                .map(Transaction::Sqlite)
                .map_err(|source| Error::of("begin", source)),
            Self::Postgres(pool) => answered(pool.begin())
                .await
                .map(Transaction::Postgres)
                .map_err(|source| Error::of("begin", source)),
        }
    }

    /// Begins a transaction that sees one state of everything it reads.
    pub(crate) async fn begin_read(&self) -> Result<Transaction, Error> {
        match self {
            Self::Sqlite { readers, .. } => {
                readers.begin().await.map(Transaction::Sqlite).map_err(|source| Error::of("begin", source))
            }
            Self::Postgres(pool) => {
                answered(pool.begin_with("begin isolation level repeatable read read only"))
                    .await
                    .map(Transaction::Postgres)
                    .map_err(|source| Error::of("begin", source))
            }
        }
    }
}

impl Transaction {
    /// Runs a statement; answers how many rows it touched.
    pub(crate) async fn execute(&mut self, statement: Statement, args: Vec<Arg>) -> Result<u64, Error> {
        let done = match self {
            Self::Sqlite(tx) => {
                bound!(statement, args).execute(&mut **tx).await.map(|done| done.rows_affected())
            }
            Self::Postgres(tx) => {
                let done = answered(bound!(statement, args).execute(&mut **tx)).await;
                done.map(|done| done.rows_affected())
            }
        };
        done.map_err(|source| Error::of(statement.name, source))
    }

    /// All rows of a query.
    pub(crate) async fn rows(&mut self, statement: Statement, args: Vec<Arg>) -> Result<Vec<Row>, Error> {
        let rows = match self {
            Self::Sqlite(tx) => bound!(statement, args)
                .fetch_all(&mut **tx)
                .await
                .map(|rows| rows.into_iter().map(Row::Sqlite).collect()),
            Self::Postgres(tx) => answered(bound!(statement, args).fetch_all(&mut **tx))
                .await
                .map(|rows| rows.into_iter().map(Row::Postgres).collect()),
        };
        rows.map_err(|source| Error::of(statement.name, source))
    }

    /// The first row of a query, if it has one.
    pub(crate) async fn row(&mut self, statement: Statement, args: Vec<Arg>) -> Result<Option<Row>, Error> {
        Ok(self.rows(statement, args).await?.into_iter().next())
    }

    /// Makes it durable.
    pub(crate) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(tx) => tx.commit().await,
            Self::Postgres(tx) => answered(tx.commit()).await,
        }
        .map_err(|source| Error::of("commit", source))
    }

    /// Whether this is `PostgreSQL`, for the two statements that only it has.
    pub(crate) const fn is_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

/// Waits for `PostgreSQL`'s answer, which comes over a link that may be lost without a word.
pub(super) async fn answered<T>(
    work: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    tokio::time::timeout(ANSWER_WITHIN, work).await.unwrap_or_else(|_| Err(unanswered(ANSWER_WITHIN)))
}

/// What a link is taken for on which no answer came.
pub(super) fn unanswered(within: Duration) -> sqlx::Error {
    let text = format!("no answer within {} s", within.as_secs());
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, text))
}

macro_rules! getter {
    ($(#[$doc:meta])* $name:ident, $type:ty) => {
        $(#[$doc])*
        pub(crate) fn $name(&self, index: usize) -> Result<$type, Error> {
            match self {
                Self::Sqlite(row) => row.try_get(index),
                Self::Postgres(row) => row.try_get(index),
            }
            .map_err(|source| Error::of("read a column", source))
        }
    };
}

impl Row {
    getter!(
        /// An integer.
        integer,
        i64
    );
    getter!(
        /// An integer that may be null.
        integer_or_null,
        Option<i64>
    );
    getter!(
        /// Text.
        text,
        String
    );
    getter!(
        /// Text that may be null.
        text_or_null,
        Option<String>
    );
    getter!(
        /// Bytes.
        bytes,
        Vec<u8>
    );
    getter!(
        /// Bytes that may be null.
        bytes_or_null,
        Option<Vec<u8>>
    );

    /// A count, length, generation or sequence.
    pub(crate) fn count(&self, index: usize) -> Result<u64, Error> {
        let value = self.integer(index)?;
        u64::try_from(value).map_err(|_| Error::inconsistent("a count", value, "it is negative"))
    }

    /// A point in time.
    pub(crate) fn time(&self, index: usize) -> Result<Timestamp, Error> {
        self.integer(index).map(Timestamp::from_millis)
    }

    /// A SHA-256 digest kept as bytes.
    pub(crate) fn digest(&self, index: usize) -> Result<Digest, Error> {
        Digest::from_slice(&self.bytes(index)?).map_err(|fault| Error::inconsistent("a digest", "", fault))
    }

    /// A listing hash.
    pub(crate) fn hash(&self, index: usize) -> Result<ListingHash, Error> {
        let text = self.text(index)?;
        ListingHash::parse(&text).map_err(|fault| Error::inconsistent("a listing hash", &text, fault))
    }

    /// Text read by `parse`, which was checked when it was written.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &self,
        index: usize,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Error> {
        let text = self.text(index)?;
        parse(&text).map_err(|fault| Error::inconsistent("a name", &text, fault))
    }
}

macro_rules! text_args {
    ($($type:ty),*) => { $(
        impl From<&$type> for Arg {
            fn from(value: &$type) -> Self {
                Self::Text(Some(value.to_string()))
            }
        }
    )* };
}
text_args!(
    str,
    String,
    PluginName,
    EdgeName,
    NodeName,
    NodeId,
    BootId,
    ToolId,
    ListingHash,
    Scope,
    Part,
    semver::Version
);

impl From<String> for Arg {
    fn from(value: String) -> Self {
        Self::Text(Some(value))
    }
}

impl From<Option<String>> for Arg {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Self::Integer(Some(value))
    }
}

impl From<Option<i64>> for Arg {
    fn from(value: Option<i64>) -> Self {
        Self::Integer(value)
    }
}

/// Saturating: nothing that the store counts comes near 2^63.
impl From<u64> for Arg {
    fn from(value: u64) -> Self {
        Self::Integer(Some(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<bool> for Arg {
    fn from(value: bool) -> Self {
        Self::Integer(Some(value.into()))
    }
}

impl From<Timestamp> for Arg {
    fn from(value: Timestamp) -> Self {
        Self::Integer(Some(value.as_millis()))
    }
}

impl From<Vec<u8>> for Arg {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(Some(value))
    }
}

impl From<Option<Vec<u8>>> for Arg {
    fn from(value: Option<Vec<u8>>) -> Self {
        Self::Bytes(value)
    }
}

impl From<&Digest> for Arg {
    fn from(value: &Digest) -> Self {
        Self::Bytes(Some(value.as_bytes().to_vec()))
    }
}
