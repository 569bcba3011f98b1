//! The migrations, embedded in the binary and applied when a store is opened.
//!
//! One file for each engine and step; a step that landed is never edited, which its checksum in the
//! database makes sure of. Two servers that start at once are kept apart: on `PostgreSQL` by a lock in
//! the database, on `SQLite` by one on a file beside it.

use std::borrow::Cow;
use std::fs::File;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use super::error::Error;
use super::sql::Pool;

/// Number, name, and the step for `SQLite` and for `PostgreSQL`.
const STEPS: &[(i64, &str, &str, &str)] = &[
    (
        1,
        "fleet",
        include_str!("../../../migrations/sqlite/0001_fleet.sql"),
        include_str!("../../../migrations/postgres/0001_fleet.sql"),
    ),
    (
        3,
        "candidates",
        include_str!("../../../migrations/sqlite/0003_candidates.sql"),
        include_str!("../../../migrations/postgres/0003_candidates.sql"),
    ),
    (
        4,
        "edge policies",
        include_str!("../../../migrations/sqlite/0004_edge_policies.sql"),
        include_str!("../../../migrations/postgres/0004_edge_policies.sql"),
    ),
    (
        5,
        "identity",
        include_str!("../../../migrations/sqlite/0005_identity.sql"),
        include_str!("../../../migrations/postgres/0005_identity.sql"),
    ),
    (
        6,
        "streams",
        include_str!("../../../migrations/sqlite/0006_streams.sql"),
        include_str!("../../../migrations/postgres/0006_streams.sql"),
    ),
    (
        7,
        "blocks",
        include_str!("../../../migrations/sqlite/0007_blocks.sql"),
        include_str!("../../../migrations/postgres/0007_blocks.sql"),
    ),
    (
        9,
        "scopes",
        include_str!("../../../migrations/sqlite/0009_scopes.sql"),
        include_str!("../../../migrations/postgres/0009_scopes.sql"),
    ),
    (
        10,
        "connections",
        include_str!("../../../migrations/sqlite/0010_connections.sql"),
        include_str!("../../../migrations/postgres/0010_connections.sql"),
    ),
    (
        11,
        "rollouts",
        include_str!("../../../migrations/sqlite/0011_rollouts.sql"),
        include_str!("../../../migrations/postgres/0011_rollouts.sql"),
    ),
];

/// Brings the tables to this version's form. Of `SQLite`, the caller holds the [`lock`].
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

/// Waits for the lock, which ends when the file is closed.
pub(super) async fn lock(path: String) -> Result<File, Error> {
    let locked = tokio::task::spawn_blocking({
        let path = path.clone();
        move || {
            let file = File::options().create(true).append(true).open(path)?;
            file.lock()?;
            Ok(file)
        }
    });
    let locked = locked.await.unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)));
    locked.map_err(|source| Error::Open { place: path, source: sqlx::Error::Io(source) })
}
