//! Takes a connection off the record.

use domain::audit::Event;

use super::set_connection::raise_plans;
use super::{By, Code, Error};
use crate::store::Store;
use crate::store::connections::{self, ConnectionKey};

/// Takes it off, with its secrets and tokens. Tools that are reached with it are not called from then on, unless
/// the edge has the fleet's.
///
/// # Errors
/// There is none.
pub async fn remove_connection(store: &Store, by: &By, key: &ConnectionKey) -> Result<(), Error> {
    let mut tx = store.begin_write().await?;
    if !connections::delete(tx.tx(), key).await? {
        return Err(no_connection(key));
    }
    let connection = key.shown();
    tx.audit(&by.origin, Event::ConnectionRemove { connection, edge: key.edge.clone() });
    raise_plans(&mut tx, key).await?;
    tx.commit(by.now).await?;
    Ok(())
}

/// There is none.
pub(crate) fn no_connection(key: &ConnectionKey) -> Error {
    let where_ = key.edge.as_ref().map_or_else(|| "the fleet".to_owned(), |edge| format!("edge {edge}"));
    let detail = format!("no connection {} is set for {where_}", key.shown());
    Error::with_remedy(Code::NotFound, detail, "pintle connection list")
}
