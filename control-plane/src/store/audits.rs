//! The audit log as rows: appended at commit, read in order, never changed.

use domain::audit::{Event, Origin, Record, Tail};
use domain::time::Timestamp;

use super::Error;
use super::sql::{Row, Transaction, args, statements};

statements! {
    LAST = "select seq, hash from audit order by seq desc limit 1";
    INSERT = "insert into audit (seq, at, actor, source, name, subject, fields, prev, hash) \
              values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    // `after` counts upwards; '' matches every name and subject.
    LIST = "select seq, at, actor, source, name, subject, fields, prev, hash from audit \
            where seq > $1 and ($2 = '' or name = $2) and ($3 = '' or subject = $3) order by seq limit $4";
    LIST_DESCENDING = "select seq, at, actor, source, name, subject, fields, prev, hash from audit \
            where seq < $1 and ($2 = '' or name = $2) and ($3 = '' or subject = $3) order by seq desc limit $4";
}

/// What to look for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Exactly this name; empty: any.
    pub(crate) name: String,
    /// Exactly this subject; empty: any.
    pub(crate) subject: String,
}

/// Appends the events in their order. The writers' lock keeps all others out, so the tail that is
/// read is the tail that is followed.
pub(crate) async fn append(
    tx: &mut Transaction,
    now: Timestamp,
    events: &[(Origin, Event)],
) -> Result<(), Error> {
    if events.is_empty() {
        return Ok(());
    }
    let mut tail = tail(tx).await?;
    for (origin, event) in events {
        let record = tail.append(now, origin, event);
        let args = args![
            record.seq,
            record.at,
            record.actor,
            record.source,
            record.name,
            record.subject,
            record.fields,
            &record.prev,
            &record.hash,
        ];
        tx.execute(INSERT, args).await?;
    }
    Ok(())
}

/// Where the log ends.
pub(crate) async fn tail(tx: &mut Transaction) -> Result<Tail, Error> {
    match tx.row(LAST, args![]).await? {
        None => Ok(Tail::START),
        Some(row) => Ok(Tail { seq: row.count(0)?, hash: row.digest(1)? }),
    }
}

/// Events after a number, oldest first.
pub(crate) async fn after(
    tx: &mut Transaction,
    seq: u64,
    filter: &Filter,
    limit: u64,
) -> Result<Vec<Record>, Error> {
    let args = args![seq, &filter.name, &filter.subject, limit];
    tx.rows(LIST, args).await?.iter().map(read).collect()
}

/// Events before a number, newest first.
pub(crate) async fn before(
    tx: &mut Transaction,
    seq: u64,
    filter: &Filter,
    limit: u64,
) -> Result<Vec<Record>, Error> {
    let args = args![seq, &filter.name, &filter.subject, limit];
    tx.rows(LIST_DESCENDING, args).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Record, Error> {
    Ok(Record {
        seq: row.count(0)?,
        at: row.time(1)?,
        actor: row.text(2)?,
        source: row.text(3)?,
        name: row.text(4)?,
        subject: row.text(5)?,
        fields: row.text(6)?,
        prev: row.digest(7)?,
        hash: row.digest(8)?,
    })
}
