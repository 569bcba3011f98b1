use std::time::Duration;

use domain::audit::{Event, Origin, Tail};
use domain::id::EdgeName;
use domain::plugin_set::{Part, Scope};
use domain::time::Timestamp;
use sqlx::{Executor as _, SqlSafeStr as _};

use super::sql::{FromJson, Pool, Statement, args};
use super::testing::on_both;
use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_796_000_000_000);

fn statements() -> Vec<Statement> {
    let modules = [
        approvals::STATEMENTS,
        archives::STATEMENTS,
        assignments::STATEMENTS,
        audits::STATEMENTS,
        blocks::STATEMENTS,
        candidates::STATEMENTS,
        changes::STATEMENTS,
        connections::STATEMENTS,
        edges::STATEMENTS,
        heads::STATEMENTS,
        listings::STATEMENTS,
        meta::STATEMENTS,
        nodes::STATEMENTS,
        nodes::versions::STATEMENTS,
        orphans::STATEMENTS,
        pins::STATEMENTS,
        plugins::STATEMENTS,
        policies::STATEMENTS,
        reviews::STATEMENTS,
        rollouts::STATEMENTS,
        sightings::STATEMENTS,
        snapshots::STATEMENTS,
        tokens::STATEMENTS,
        volatile::STATEMENTS,
    ];
    modules.concat()
}

fn from_json() -> Vec<FromJson> {
    let modules = [
        approvals::FROM_JSON,
        changes::FROM_JSON,
        heads::FROM_JSON,
        listings::FROM_JSON,
        nodes::FROM_JSON,
        nodes::versions::FROM_JSON,
        snapshots::FROM_JSON,
    ];
    modules.concat()
}

fn edge() -> EdgeName {
    EdgeName::parse("eu-1").unwrap()
}

fn event() -> Event {
    Event::EdgeCreate { edge: edge() }
}

fn by() -> Origin {
    Origin::system("test")
}

#[test]
fn every_statement_can_be_prepared_on_both_engines() {
    on_both(|bench| async move {
        let is_postgres = matches!(bench.store.pool(), Pool::Postgres(_));
        let from_json = from_json().into_iter().map(|one| one.on(is_postgres));
        for statement in statements().into_iter().chain(from_json) {
            let prepared = match bench.store.pool() {
                Pool::Sqlite { writer, .. } => writer.prepare(statement.sql.into_sql_str()).await.map(|_| ()),
                Pool::Postgres(pool) => pool.prepare(statement.sql.into_sql_str()).await.map(|_| ()),
            };
            prepared.unwrap_or_else(|error| panic!("{}: {error}", statement.name));
        }
    });
}

#[test]
fn an_address_of_no_known_form_is_refused_and_a_password_is_not_repeated() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let open = |url: &'static str| runtime.block_on(Store::open(url)).unwrap_err();
    assert!(open("mysql://root:secret@h/d").to_string().contains("expected sqlite:PATH or postgres://"));
    assert!(!open("mysql://root:secret@h/d").to_string().contains("secret"));
    let error = open("postgres://root:secret@127.0.0.1:1/d");
    assert!(matches!(error, Error::Open { .. }) && !error.to_string().contains("secret"), "{error}");
    assert!(matches!(open("sqlite:/nowhere/at/all/fleet.db"), Error::Open { .. }));
}

#[test]
fn a_store_that_is_opened_again_keeps_what_it_had() {
    on_both(|bench| async move {
        let mut tx = bench.store.begin_write().await.unwrap();
        assert!(meta::set_once(tx.tx(), meta::FLEET_ID, "f-1").await.unwrap());
        tx.commit(NOW).await.unwrap();
        bench.store.close().await;
        let again = Store::open(&bench.url).await.unwrap();
        let mut tx = again.begin_write().await.unwrap();
        assert!(!meta::set_once(tx.tx(), meta::FLEET_ID, "f-2").await.unwrap());
        assert_eq!(meta::get(tx.tx(), meta::FLEET_ID).await.unwrap().as_deref(), Some("f-1"));
    });
}

#[test]
fn a_head_that_no_event_explains_is_not_raised() {
    on_both(|bench| async move {
        let scope = Scope::Edge(edge());
        let mut tx = bench.store.begin_write().await.unwrap();
        tx.raise(scope.clone(), Part::Trust);
        assert!(matches!(tx.commit(NOW).await, Err(Error::Unaudited { .. })));
        let mut tx = bench.store.read().await.unwrap();
        assert_eq!(heads::get(&mut tx, &scope, Part::Trust).await.unwrap(), None);
    });
}

#[test]
fn each_raise_counts_one_up_wakes_and_is_in_the_log() {
    on_both(|bench| async move {
        let scope = Scope::Edge(edge());
        let mut wakes = bench.store.wakes();
        for expected in 1..=3 {
            wakes.mark_unchanged();
            let mut tx = bench.store.begin_write().await.unwrap();
            tx.raise(scope.clone(), Part::Plan);
            tx.raise(scope.clone(), Part::Plan);
            tx.audit(&by(), event());
            tx.commit(NOW).await.unwrap();
            tokio::time::timeout(Duration::from_secs(5), wakes.changed()).await.unwrap().unwrap();
            let mut tx = bench.store.read().await.unwrap();
            let position = heads::get(&mut tx, &scope, Part::Plan).await.unwrap().unwrap();
            assert_eq!((position.epoch, position.generation), (1, expected));
            assert_eq!(audits::tail(&mut tx).await.unwrap().seq, expected);
        }
    });
}

#[test]
fn writers_at_once_leave_one_chain_without_gaps() {
    on_both(|bench| async move {
        let write = |store: Store| async move {
            for _ in 0..5 {
                let mut tx = store.begin_write().await.unwrap();
                tx.raise(Scope::Edge(edge()), Part::Plan);
                tx.audit(&by(), event());
                tx.commit(NOW).await.unwrap();
            }
        };
        let tasks: Vec<_> = (0..6).map(|_| tokio::spawn(write(bench.store.clone()))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        let mut tx = bench.store.read().await.unwrap();
        let mut tail = Tail::START;
        for record in audits::after(&mut tx, 0, &audits::Filter::default(), 100).await.unwrap() {
            tail.verify(&record).unwrap();
        }
        assert_eq!(tail.seq, 30);
        let position = heads::get(&mut tx, &Scope::Edge(edge()), Part::Plan).await.unwrap().unwrap();
        assert_eq!(position.generation, 30);
    });
}

#[test]
fn a_transaction_that_is_dropped_leaves_nothing() {
    on_both(|bench| async move {
        let mut tx = bench.store.begin_write().await.unwrap();
        edges::insert(tx.tx(), &edge(), NOW, "a").await.unwrap();
        tx.audit(&by(), event());
        drop(tx);
        let mut tx = bench.store.begin_write().await.unwrap();
        assert!(edges::get(tx.tx(), &edge()).await.unwrap().is_none());
    });
}

#[test]
fn a_stored_event_can_be_neither_edited_nor_deleted() {
    on_both(|bench| async move {
        let mut tx = bench.store.begin_write().await.unwrap();
        tx.audit(&by(), event());
        tx.commit(NOW).await.unwrap();
        for sql in ["update audit set actor = 'x'", "delete from audit"] {
            let mut tx = bench.store.begin_write().await.unwrap();
            let error = tx.tx().execute(Statement { name: "edit", sql }, args![]).await.unwrap_err();
            assert!(matches!(error, Error::Statement { .. }), "{error:?}");
        }
    });
}

#[test]
fn a_locked_database_is_said_to_be_locked_and_works_again_once_it_is_free() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("fleet.db").display());
        let (store, other) = (Store::open(&url).await.unwrap(), Store::open(&url).await.unwrap());
        if let Pool::Sqlite { writer, .. } = other.pool() {
            // Not to wait for the whole of the product's ten seconds.
            writer.execute("pragma busy_timeout = 50".into_sql_str()).await.unwrap();
        }
        let held = store.begin_write().await.unwrap();
        let error = other.begin_write().await.unwrap_err();
        assert!(matches!(error, Error::Locked { .. }) && error.is_passing(), "{error:?}");
        drop(held);
        let mut tx = other.begin_write().await.unwrap();
        tx.audit(&by(), event());
        tx.commit(NOW).await.unwrap();
    });
}

#[test]
fn servers_that_start_at_once_on_a_new_database_all_start() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("fleet.db").display());
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let url = url.clone();
                tokio::spawn(async move { Store::open(&url).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
}

#[test]
fn a_password_in_an_address_is_shown_to_nobody() {
    for url in [
        "postgres://pintle:s3cret@db/pintle",
        "postgres://db/pintle?user=pintle&password=s3cret",
        "postgres://pintle:s3cret@db:port/pintle",
        "mysql://pintle:s3cret@db/pintle",
    ] {
        assert!(!without_password(url).contains("s3cret"), "{url}");
    }
    assert_eq!(without_password("postgres://pintle@db/pintle"), "postgres://pintle@db/pintle");
}

#[tokio::test]
async fn a_database_file_is_its_owners_alone_whoever_owns_the_folder() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fleet.db");
    let store = Store::open(&format!("sqlite:{}", path.display())).await.unwrap();
    for name in ["fleet.db", "fleet.db-wal", "fleet.db-shm"] {
        let mode = std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    store.close().await;
}
