//! Which tools of a version were compared with what an edge had before; once each.

use domain::id::{EdgeName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::Error;
use super::sql::{Transaction, args, statements};

statements! {
    PUT = "insert into reviews (edge, plugin, version, tool, reviewed_at) values ($1, $2, $3, $4, $5) \
           on conflict (edge, plugin, version, tool) do nothing";
}

/// Notes that it was; answers whether it was not before.
pub(crate) async fn put(
    tx: &mut Transaction,
    edge: &EdgeName,
    (version, tool): (&PluginVersion, &ToolId),
    now: Timestamp,
) -> Result<bool, Error> {
    let args = args![edge, &version.plugin, &version.version, tool, now];
    Ok(tx.execute(PUT, args).await? == 1)
}
