//! Archives in the database, in pieces: where several servers share it and each has a folder of its own,
//! what was pushed to one must be served by all.

use std::path::{Path, PathBuf};

use domain::digest::Digest;
use futures::Stream;
use tokio::io::AsyncReadExt as _;

use super::sql::{args, statements};
use super::{Error, Store};

/// Bytes of a piece: few enough that no statement holds much, many enough that few are needed.
const PIECE: usize = 1024 * 1024;

statements! {
    PUT = "insert into archive_pieces (archive, ordinal, bytes) values ($1, $2, $3) \
           on conflict (archive, ordinal) do nothing";
    GET = "select bytes from archive_pieces where archive = $1 and ordinal = $2";
}

/// Why an archive was not put into the database.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The database.
    Store(Error),
    /// The file.
    Disk(PathBuf, std::io::Error),
}

impl Store {
    /// Puts a file, named by its SHA-256, into the database, piece by piece. Not in the transaction of
    /// whoever names it, which keeps all other writers waiting: pieces that nobody names do no harm, and
    /// what was put in before a break stays and is not put in again.
    pub(crate) async fn put_archive(&self, archive: &Digest, file: &Path) -> Result<(), Fault> {
        let disk = |error| Fault::Disk(file.to_owned(), error);
        let mut reader = tokio::fs::File::open(file).await.map_err(disk)?;
        for ordinal in 0_u64.. {
            let mut piece = Vec::with_capacity(PIECE);
            (&mut reader).take(PIECE as u64).read_to_end(&mut piece).await.map_err(disk)?;
            if piece.is_empty() {
                break;
            }
            let mut tx = self.pool().begin_write().await.map_err(Fault::Store)?;
            tx.execute(PUT, args![archive, ordinal, piece]).await.map_err(Fault::Store)?;
            tx.commit().await.map_err(Fault::Store)?;
            self.count_write();
        }
        Ok(())
    }

    /// The pieces of an archive, in order, each read when it is asked for. What they are together is for
    /// the reader to check.
    pub(crate) fn archive(&self, archive: Digest) -> impl Stream<Item = Result<Vec<u8>, Error>> + Unpin {
        let store = self.clone();
        Box::pin(futures::stream::try_unfold((store, 0_u64), move |(store, ordinal)| async move {
            let mut tx = store.read().await?;
            let row = tx.row(GET, args![&archive, ordinal]).await?;
            drop(tx);
            let piece = row.map(|row| row.bytes(0)).transpose()?;
            Ok(piece.map(|piece| (piece, (store, ordinal + 1))))
        }))
    }
}
