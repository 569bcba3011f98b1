//! The database: the only SQL of the product, on `SQLite` or `PostgreSQL`.
//!
//! [`Store::open`] migrates and opens; operations `read` or `begin_write`, ask the modules here for
//! rows, decide in `domain`, record, and commit with the audit events that say why. All writes of a
//! fleet are one after the other (`SQLite`'s write lock, one advisory lock on `PostgreSQL`), so a head's
//! generation is raised in commit order and what an operation read is still true when it commits.

pub(crate) mod approvals;
mod archives;
pub(crate) mod assignments;
pub(crate) mod audits;
mod blobs;
pub(crate) mod blocks;
pub(crate) mod candidates;
pub(crate) mod changes;
pub(crate) mod connections;
pub(crate) mod edges;
mod error;
pub(crate) mod heads;
pub(crate) mod listings;
pub(crate) mod meta;
mod migrate;
pub(crate) mod nodes;
pub(crate) mod orphans;
pub(crate) mod pins;
pub(crate) mod plugins;
pub(crate) mod policies;
pub(crate) mod reviews;
pub(crate) mod rollouts;
pub(crate) mod sightings;
pub(crate) mod snapshots;
pub(crate) mod sql;
pub(crate) mod tokens;
pub(crate) mod volatile;
mod write;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPool, PgPoolOptions};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use archives::Fault as ArchiveFault;
pub use blobs::Blobs;
pub(crate) use blobs::{StageFault, Staged};
pub use blocks::StoredBlock;
pub use connections::{Connection, ConnectionKey, Grant, OAuth, Source};
pub use error::Error;
pub use nodes::{Certified, NodeRecord, Stands};
pub use orphans::Orphan;
pub use rollouts::Rollout;
pub(crate) use snapshots::By;
use sql::Pool;
pub(crate) use sql::Transaction;
pub use write::WriteTx;

/// How long a writer waits for another process's lock, and a caller for a free connection: longer
/// than any transaction of the product, shorter than what a person takes for a hang.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Connections that read. `SQLite` reads in threads of its own, and more than a few only queue there.
const READERS: u32 = 4;

/// Connections of one server to `PostgreSQL`, whose default is 100 for all.
const CONNECTIONS: u32 = 16;

/// How long a connection that is idle may take to answer: some of them may have to be tried within
/// [`WAIT_MAX`].
const LIVES_WITHIN: Duration = Duration::from_secs(2);

/// How long nothing may be heard from other servers before it is asked whether the link lives.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What `PostgreSQL` servers tell each other: look at the heads. It carries no data.
const CHANNEL: &str = "pintle_heads";

/// The fleet's database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pool: Pool,
    wake: Arc<watch::Sender<u64>>,
    written: Arc<AtomicU64>,
    is_shared: bool,
    /// Ends the listening once the last clone is dropped.
    _end: Arc<DropGuard>,
}

impl Store {
    /// Opens `sqlite:PATH` (made if it is not there) or `postgres://…` and migrates it.
    ///
    /// # Errors
    /// [`Error`] says whether the address, the database or its tables are at fault.
    pub async fn open(url: &str) -> Result<Self, Error> {
        let (pool, _locked) = match url.split_once(':') {
            Some(("sqlite", path)) => {
                let path = path.strip_prefix("//").unwrap_or(path);
                create_file(path).await?;
                // From before the first connection: making a new database keep a log waits for nobody.
                let locked = migrate::lock(format!("{path}-migrate")).await?;
                (open_sqlite(path).await?, Some(locked))
            }
            Some(("postgres" | "postgresql", _)) => (open_postgres(url).await?, None),
            _ => return Err(Error::Address { url: without_password(url) }),
        };
        migrate::migrate(&pool).await?;
        let (wake, end) = (Arc::new(watch::Sender::new(0)), CancellationToken::new());
        if let Pool::Postgres(pool) = &pool {
            let listening = listen(pool.clone(), Arc::clone(&wake));
            tokio::spawn(end.clone().run_until_cancelled_owned(listening));
        }
        let is_shared = matches!(pool, Pool::Postgres(_));
        Ok(Self { pool, wake, written: Arc::default(), is_shared, _end: Arc::new(end.drop_guard()) })
    }

    /// Begins a transaction that sees one state of everything.
    pub(crate) async fn read(&self) -> Result<Transaction, Error> {
        self.pool.begin_read().await
    }

    /// Begins a transaction that may write; it waits for the one before it.
    pub async fn begin_write(&self) -> Result<WriteTx, Error> {
        WriteTx::begin(self).await
    }

    /// Changes whenever a head may have been raised, by this server or another. It means "look",
    /// carries no data and may be missed, so callers look from time to time as well.
    pub fn wakes(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    /// Whether the database answers now.
    ///
    /// # Errors
    /// [`Error::Locked`] or [`Error::Unavailable`].
    pub async fn check(&self) -> Result<(), Error> {
        let mut tx = self.read().await?;
        meta::get(&mut tx, meta::FLEET_ID).await.map(|_| ())
    }

    /// Closes all connections and, on `SQLite`, folds the write-ahead log into the file.
    pub async fn close(&self) {
        match &self.pool {
            Pool::Sqlite { writer, readers } => {
                readers.close().await;
                writer.close().await;
            }
            Pool::Postgres(pool) => pool.close().await,
        }
    }

    /// Writes a copy of how it is now into a new file. `SQLite` only.
    pub(crate) async fn copy_into(&self, file: &std::path::Path) -> Result<(), Error> {
        let Pool::Sqlite { writer, .. } = &self.pool else { return Ok(()) };
        let copied = sqlx::query("vacuum into $1").bind(file.display().to_string()).execute(writer).await;
        copied.map(drop).map_err(|source| Error::of("copy", source))
    }

    /// Whether other servers may write to it as well.
    pub(crate) const fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The same, for one that simulated servers share.
    pub(crate) fn shared(self) -> Self {
        Self { is_shared: true, ..self }
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Transactions that this server wrote since it started.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(crate) fn count_write(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Wakes whoever waits in this process.
    pub(crate) fn wake(&self) {
        self.wake.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Passes on what other servers on the same `PostgreSQL` say, as long as the pool is open.
async fn listen(pool: PgPool, wake: Arc<watch::Sender<u64>>) {
    while !pool.is_closed() {
        let ended = hear(&pool, &wake).await;
        tracing::debug!(error = ?ended.err(), "listening to the database ended");
        // Fan-out looks each second anyway; this only waits for the database to be back.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn hear(pool: &PgPool, wake: &watch::Sender<u64>) -> Result<std::convert::Infallible, sqlx::Error> {
    // A connection of its own, outside the pool: one that is lost would keep a place there.
    let own = PgPoolOptions::new().max_connections(1).acquire_timeout(WAIT_MAX).idle_timeout(None);
    let own = own.max_lifetime(None).connect_lazy_with((*pool.connect_options()).clone());
    let mut listener = sql::answered(PgListener::connect_with(&own)).await?;
    sql::answered(listener.listen(CHANNEL)).await?;
    while !pool.is_closed() {
        match tokio::time::timeout(SILENCE_MAX, listener.try_recv()).await {
            // `None` says that something may have been missed: look as well.
            Ok(heard) => {
                heard?;
                wake.send_modify(|count| *count = count.wrapping_add(1));
            }
            // Nothing to say, or a link that was lost without a word.
            Err(_) => {
                sql::answered(sqlx::Executor::execute(&mut listener, "select 1")).await?;
            }
        }
    }
    Err(sqlx::Error::PoolClosed)
}

async fn open_sqlite(path: &str) -> Result<Pool, Error> {
    let open = |source| Error::Open { place: path.to_owned(), source };
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(WAIT_MAX)
        .foreign_keys(true);
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(WAIT_MAX)
        .after_release(|connection, _| Box::pin(is_idle(connection)))
        .connect_with(options.clone())
        .await
        .map_err(open)?;
    let readers = SqlitePoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(WAIT_MAX)
        .after_release(|connection, _| Box::pin(is_idle(connection)))
        // Not opened read-only: a reader may be the first to recover the log after a crash.
        .connect_with(options.pragma("query_only", "on"))
        .await
        .map_err(open)?;
    Ok(Pool::Sqlite { writer, readers })
}

async fn open_postgres(url: &str) -> Result<Pool, Error> {
    let place = without_password(url);
    let options = PgConnectOptions::from_str(url)
        .map_err(|source| Error::Open { place: place.clone(), source })?
        .application_name("pintle-server")
        .options([("lock_timeout", "10s"), ("idle_in_transaction_session_timeout", "60s")]);
    let pool = PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(WAIT_MAX)
        // Both ask whether the connection lives, as the pool does by itself, which however waits for ever
        // on a link that was lost without a word: and with it a place in the pool.
        .test_before_acquire(false)
        .before_acquire(|connection, _| Box::pin(lives(connection)))
        .after_release(|connection, _| Box::pin(lives(connection)))
        .connect_with(options)
        .await
        .map_err(|source| Error::Open { place, source })?;
    Ok(Pool::Postgres(pool))
}

/// Whether a connection is in no transaction any more. `SQLite` ends one by itself when the disk is full
/// or fails; the pool's count of open ones then stays, and nothing could be begun on this connection.
async fn is_idle(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    // After the rollback that dropping the transaction asked for.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// Whether a connection answers.
async fn lives(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let ping = tokio::time::timeout(LIVES_WITHIN, connection.ping());
    ping.await.unwrap_or_else(|_| Err(sql::unanswered(LIVES_WITHIN))).map(|()| true)
}

/// The address as it may be shown: a password may also stand among its parameters, and what cannot
/// be taken apart may hold one anywhere.
fn without_password(url: &str) -> String {
    let hidden = || "an address that may hold a password".to_owned();
    let Ok(mut shown) = url::Url::parse(url) else {
        return if url.contains(['@', '?']) { hidden() } else { url.to_owned() };
    };
    shown.set_query(None);
    if shown.password().is_some() && shown.set_password(Some("***")).is_err() {
        return hidden();
    }
    shown.to_string()
}

/// Makes the database's file if it is not there, for its owner alone: the folder may be anyone's.
/// The engine gives its other files the same mode.
async fn create_file(path: &str) -> Result<(), Error> {
    let made = tokio::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).await;
    made.map(drop).map_err(|source| Error::Open { place: path.to_owned(), source: sqlx::Error::Io(source) })
}
