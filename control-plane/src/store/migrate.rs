//! The migrations, embedded in the binary and applied when a store is opened.
//!
//! One file for each engine and step; a step that landed is never edited, which its checksum in the
//! database makes sure of. The engine's own lock keeps two servers that start at once apart.

use std::borrow::Cow;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::error::Error;
use super::sql::Pool;

/// Number, name, and the step for SQLite and for PostgreSQL.
const STEPS: [(i64, &str, &str, &str); 1] = [(
    1,
    "fleet",
    include_str!("../../../migrations/sqlite/0001_fleet.sql"),
    include_str!("../../../migrations/postgres/0001_fleet.sql"),
)];

/// Brings the tables to this version's form.
pub(crate) async fn migrate(pool: &Pool) -> Result<(), Error> {
    let steps = STEPS.iter().map(|(number, name, sqlite, postgres)| {
        let sql = if matches!(pool, Pool::Sqlite { .. }) { *sqlite } else { *postgres };
        Migration::new(*number, Cow::Borrowed(*name), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let migrator = Migrator::with_migrations(steps.collect());
    match pool {
        Pool::Sqlite { writer, .. } => migrator.run(writer).await,
        Pool::Postgres(pool) => migrator.run(pool).await,
    }
    .map_err(Error::Migrate)
}
