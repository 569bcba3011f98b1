//! Runs a test on both engines: `SQLite` in a folder of its own, and `PostgreSQL`, one database for each
//! test, on the cluster that `PINTLE_TEST_POSTGRES` names (an address at which databases can be made).

use std::path::PathBuf;

use sqlx::Connection as _;

use super::Store;

/// A store of one test's own, and the folder for its files.
pub(crate) struct Bench {
    pub(crate) store: Store,
    pub(crate) url: String,
    pub(crate) folder: PathBuf,
}

/// Calls `test` with a fresh store on each engine.
///
/// # Panics
/// If `CI` is set and there is no `PostgreSQL`, since half of the test would be left out.
pub(crate) fn on_both<F: Future<Output = ()>>(test: impl Fn(Bench) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("fleet.db").display());
        let store = Store::open(&url).await.unwrap();
        test(Bench { store, url, folder: folder.path().to_owned() }).await;
        let Ok(cluster) = std::env::var("PINTLE_TEST_POSTGRES") else {
            assert!(
                std::env::var("CI").is_err(),
                "PINTLE_TEST_POSTGRES is not set, and CI must run both engines"
            );
            #[expect(clippy::print_stderr, reason = "whoever runs the tests is told, and has no log")]
            {
                eprintln!("PINTLE_TEST_POSTGRES is not set: the PostgreSQL half of this test was left out");
            }
            return;
        };
        let name = format!("t_{}", uuid::Uuid::new_v4().simple());
        let mut admin = sqlx::PgConnection::connect(&cluster).await.unwrap();
        run(&mut admin, format!("create database {name}")).await;
        let mut url = url::Url::parse(&cluster).unwrap();
        url.set_path(&name);
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(url.as_str()).await.unwrap();
        test(Bench { store: store.clone(), url: url.to_string(), folder: folder.path().to_owned() }).await;
        run(&mut admin, format!("drop database {name} with (force)")).await;
    });
}

async fn run(connection: &mut sqlx::PgConnection, sql: String) {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(connection).await.unwrap();
}
