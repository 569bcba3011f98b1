//! The newest report of each node, tool of a version and connection.

use domain::digest::Digest;
use domain::id::{BootId, EdgeName, NodeId, NodeName, PluginVersion, ToolId};
use domain::time::Timestamp;

use super::plugins::read_version;
use super::sql::{Row, Transaction, args, statements};
use super::{Error, listings};

statements! {
    PLACE = "select boot, sequence, list, complete from sightings \
             where node = $1 and plugin = $2 and version = $3 and tool = $4 and connection = $5";
    PUT = "insert into sightings (node, plugin, version, tool, connection, boot, sequence, complete, incomplete_reason, \
           list, address_class, warnings, seen_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
           on conflict (node, plugin, version, tool, connection) do update set boot = excluded.boot, \
           sequence = excluded.sequence, complete = excluded.complete, incomplete_reason = excluded.incomplete_reason, \
           list = excluded.list, address_class = excluded.address_class, warnings = excluded.warnings, \
           seen_at = excluded.seen_at";
    OF_TOOL = "select nodes.name, nodes.edge, s.plugin, s.version, s.tool, s.connection, s.complete, s.incomplete_reason, \
               s.list, s.address_class, s.warnings, s.seen_at, s.boot from sightings s join nodes on nodes.id = s.node \
               where s.plugin = $1 and s.version = $2 and s.tool = $3 order by s.seen_at, nodes.name";
    OF_PLUGIN = "select nodes.name, nodes.edge, s.plugin, s.version, s.tool, s.connection, s.complete, \
                 s.incomplete_reason, s.list, s.address_class, s.warnings, s.seen_at, s.boot from sightings s \
                 join nodes on nodes.id = s.node where s.plugin = $1 order by s.version, s.tool, nodes.name";
    SHOWN_BY_ANOTHER = "select 1 from sightings where plugin = $1 and version = $2 and tool = $3 and connection = $4 \
                        and list = $5 and complete = $6 and node <> $7 limit 1";
    COUNT_OF_NODE = "select count(*) from sightings where node = $1";
    LISTS_OF_VERSION = "select distinct list from sightings where node = $1 and plugin = $2 and version = $3";
    TOOLS_OF_NODE = "select plugin, version, tool from sightings where node = $1 and plugin = $2 and version = $3";
    OF_NODE = "select distinct plugin, version from sightings where node = $1 order by plugin, version";
    DROP_VERSION = "delete from sightings where node = $1 and plugin = $2 and version = $3";
}

/// What one node showed last of one tool over one connection.
#[derive(Debug, Clone)]
pub(crate) struct Sighting {
    pub(crate) node: NodeName,
    pub(crate) edge: EdgeName,
    pub(crate) version: PluginVersion,
    pub(crate) tool: ToolId,
    pub(crate) connection: String,
    pub(crate) complete: bool,
    pub(crate) incomplete_reason: String,
    pub(crate) list: Digest,
    pub(crate) address_class: String,
    /// JSON array of texts.
    pub(crate) warnings: String,
    pub(crate) seen_at: Timestamp,
    /// The run of the node's agent that reported it.
    pub(crate) boot: BootId,
}

/// What the newest report of a place was.
#[derive(Debug, Clone)]
pub(crate) struct Newest {
    pub(crate) boot: BootId,
    pub(crate) sequence: u64,
    pub(crate) list: Digest,
    pub(crate) complete: bool,
}

/// Where a report stands among those of its node, tool and connection.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) node: &'a NodeId,
    pub(crate) version: &'a PluginVersion,
    pub(crate) tool: &'a ToolId,
    pub(crate) connection: &'a str,
}

/// The newest report, if there is one.
pub(crate) async fn newest(tx: &mut Transaction, place: &Place<'_>) -> Result<Option<Newest>, Error> {
    let args = args![place.node, &place.version.plugin, &place.version.version, place.tool, place.connection];
    let row = tx.row(PLACE, args).await?;
    row.map(|row| {
        Ok(Newest {
            boot: row.parsed(0, BootId::parse)?,
            sequence: row.count(1)?,
            list: row.digest(2)?,
            complete: row.integer(3)? != 0,
        })
    })
    .transpose()
}

/// Whether another node shows this list of the same tool over the same connection.
pub(crate) async fn is_shown_by_another(
    tx: &mut Transaction,
    place: &Place<'_>,
    (list, complete): (&Digest, bool),
) -> Result<bool, Error> {
    let (plugin, version) = (&place.version.plugin, &place.version.version);
    let args = args![plugin, version, place.tool, place.connection, list, complete, place.node];
    Ok(tx.row(SHOWN_BY_ANOTHER, args).await?.is_some())
}

/// Replaces the newest report.
pub(crate) async fn put(
    tx: &mut Transaction,
    node: &NodeId,
    sequence: u64,
    sighting: &Sighting,
) -> Result<(), Error> {
    let args = args![
        node,
        &sighting.version.plugin,
        &sighting.version.version,
        &sighting.tool,
        &sighting.connection,
        &sighting.boot,
        sequence,
        sighting.complete,
        &sighting.incomplete_reason,
        &sighting.list,
        &sighting.address_class,
        &sighting.warnings,
        sighting.seen_at,
    ];
    tx.execute(PUT, args).await.map(|_| ())
}

/// What all nodes showed last of a tool, the earliest first.
pub(crate) async fn of_tool(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<Vec<Sighting>, Error> {
    tx.rows(OF_TOOL, args![&version.plugin, &version.version, tool]).await?.iter().map(read).collect()
}

/// What all nodes showed last of a plugin, by version, tool and node.
pub(crate) async fn of_plugin(tx: &mut Transaction, plugin: &str) -> Result<Vec<Sighting>, Error> {
    tx.rows(OF_PLUGIN, args![plugin]).await?.iter().map(read).collect()
}

/// How many places one node reported of.
pub(crate) async fn count_of_node(tx: &mut Transaction, node: &NodeId) -> Result<u64, Error> {
    tx.row(COUNT_OF_NODE, args![node]).await?.map_or(Ok(0), |row| row.count(0))
}

/// Drops what a node showed of a version that it has no longer, and lists that nobody shows any more;
/// answers the tools.
pub(crate) async fn drop_version(
    tx: &mut Transaction,
    node: &NodeId,
    version: &PluginVersion,
) -> Result<Vec<ToolId>, Error> {
    let args = || args![node, &version.plugin, &version.version];
    let rows = tx.rows(TOOLS_OF_NODE, args()).await?;
    let lists = tx.rows(LISTS_OF_VERSION, args()).await?;
    tx.execute(DROP_VERSION, args()).await?;
    for list in lists {
        listings::prune(tx, &list.digest(0)?).await?;
    }
    rows.iter().map(|row| row.parsed(2, ToolId::parse)).collect()
}

/// The versions of which a node showed something.
pub(crate) async fn versions_of(tx: &mut Transaction, node: &NodeId) -> Result<Vec<PluginVersion>, Error> {
    tx.rows(OF_NODE, args![node]).await?.iter().map(|row| read_version(row, 0)).collect()
}

fn read(row: &Row) -> Result<Sighting, Error> {
    Ok(Sighting {
        node: row.parsed(0, NodeName::parse)?,
        edge: row.parsed(1, EdgeName::parse)?,
        version: read_version(row, 2)?,
        tool: row.parsed(4, ToolId::parse)?,
        connection: row.text(5)?,
        complete: row.integer(6)? != 0,
        incomplete_reason: row.text(7)?,
        list: row.digest(8)?,
        address_class: row.text(9)?,
        warnings: row.text(10)?,
        seen_at: row.time(11)?,
        boot: row.parsed(12, BootId::parse)?,
    })
}
