//! Pushed versions and the control plane's reading of their tools.

use domain::digest::Digest;
use domain::id::{PluginName, PluginVersion, ToolId};
use domain::plugin_set::Kind;
use domain::time::Timestamp;

use super::Error;
use super::sql::{Row, Transaction, args, statements};

statements! {
    INSERT = "insert into plugin_versions (plugin, version, content_digest, archive_sha256, archive_length, \
              description, manifest, pushed_at, pushed_by) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    GET = "select plugin, version, content_digest, archive_sha256, archive_length, description, manifest, pushed_at, \
           pushed_by from plugin_versions where plugin = $1 and version = $2";
    OF_PLUGIN = "select plugin, version, content_digest, archive_sha256, archive_length, description, manifest, \
                 pushed_at, pushed_by from plugin_versions where plugin = $1";
    NAMES = "select distinct plugin from plugin_versions where plugin > $1 order by plugin limit $2";
    INSERT_TOOL = "insert into version_tools (plugin, version, tool, kind, url, connection) values ($1, $2, $3, $4, $5, $6)";
    TOOLS = "select tool, kind, url, connection from version_tools where plugin = $1 and version = $2 order by tool";
    HELD_BY_EDGE = "select count(*) from plugin_versions v where v.archive_sha256 = $2 and exists \
                    (select 1 from assignments a where a.edge = $1 and a.plugin = v.plugin and a.version = v.version \
                    union all select 1 from candidates c where c.edge = $1 and c.plugin = v.plugin \
                    and c.version = v.version and c.ended_at is null)";
}

/// One pushed version.
#[derive(Debug, Clone)]
pub(crate) struct StoredVersion {
    pub(crate) version: PluginVersion,
    pub(crate) content_digest: Digest,
    pub(crate) archive_sha256: Digest,
    pub(crate) archive_length: u64,
    pub(crate) description: String,
    pub(crate) manifest: String,
    pub(crate) pushed_at: Timestamp,
    pub(crate) pushed_by: String,
}

/// One tool of a version.
#[derive(Debug, Clone)]
pub(crate) struct StoredTool {
    pub(crate) tool: ToolId,
    pub(crate) kind: Kind,
    pub(crate) url: Option<String>,
    pub(crate) connection: Option<String>,
}

/// Adds a version with its tools.
pub(crate) async fn insert(
    tx: &mut Transaction,
    stored: &StoredVersion,
    tools: &[StoredTool],
) -> Result<(), Error> {
    let (plugin, version) = (&stored.version.plugin, &stored.version.version);
    let args = args![
        plugin,
        version,
        &stored.content_digest,
        &stored.archive_sha256,
        stored.archive_length,
        &stored.description,
        &stored.manifest,
        stored.pushed_at,
        &stored.pushed_by,
    ];
    tx.execute(INSERT, args).await?;
    for tool in tools {
        let kind = tool.kind.as_str();
        let args = args![plugin, version, &tool.tool, kind, tool.url.clone(), tool.connection.clone()];
        tx.execute(INSERT_TOOL, args).await?;
    }
    Ok(())
}

/// One version, if it was pushed.
pub(crate) async fn get(
    tx: &mut Transaction,
    version: &PluginVersion,
) -> Result<Option<StoredVersion>, Error> {
    tx.row(GET, args![&version.plugin, &version.version]).await?.as_ref().map(read).transpose()
}

/// All versions of a plugin, the newest first.
pub(crate) async fn versions(tx: &mut Transaction, plugin: &PluginName) -> Result<Vec<StoredVersion>, Error> {
    let rows = tx.rows(OF_PLUGIN, args![plugin]).await?;
    let mut versions: Vec<StoredVersion> = rows.iter().map(read).collect::<Result<_, _>>()?;
    versions.sort_by(|a, b| b.version.cmp(&a.version));
    Ok(versions)
}

/// Plugins after a name, by name.
pub(crate) async fn names(tx: &mut Transaction, after: &str, limit: u64) -> Result<Vec<PluginName>, Error> {
    tx.rows(NAMES, args![after, limit]).await?.iter().map(|row| row.parsed(0, PluginName::parse)).collect()
}

/// The tools of a version, by ID.
pub(crate) async fn tools(tx: &mut Transaction, version: &PluginVersion) -> Result<Vec<StoredTool>, Error> {
    let rows = tx.rows(TOOLS, args![&version.plugin, &version.version]).await?;
    rows.iter()
        .map(|row| {
            Ok(StoredTool {
                tool: row.parsed(0, ToolId::parse)?,
                kind: row.parsed(1, |text| Kind::parse(text).ok_or("no kind"))?,
                url: row.text_or_null(2)?,
                connection: row.text_or_null(3)?,
            })
        })
        .collect()
}

/// Whether the plan of an edge names a version with this archive.
pub(crate) async fn is_archive_planned(
    tx: &mut Transaction,
    edge: &domain::id::EdgeName,
    archive: &Digest,
) -> Result<bool, Error> {
    tx.row(HELD_BY_EDGE, args![edge, archive]).await?.map_or(Ok(false), |row| Ok(row.count(0)? > 0))
}

/// A version from two columns that follow each other.
pub(crate) fn read_version(row: &Row, index: usize) -> Result<PluginVersion, Error> {
    Ok(PluginVersion {
        plugin: row.parsed(index, PluginName::parse)?,
        version: row.parsed(index + 1, semver::Version::parse)?,
    })
}

fn read(row: &Row) -> Result<StoredVersion, Error> {
    Ok(StoredVersion {
        version: read_version(row, 0)?,
        content_digest: row.digest(2)?,
        archive_sha256: row.digest(3)?,
        archive_length: row.count(4)?,
        description: row.text(5)?,
        manifest: row.text(6)?,
        pushed_at: row.time(7)?,
        pushed_by: row.text(8)?,
    })
}
