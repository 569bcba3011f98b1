//! Where remote tools may be called, decided once for each edge and version.

use domain::id::{EdgeName, PluginName, PluginVersion, ToolId};
use domain::origin::{AddressClass, Endpoint, Origin, Pin, PinState};

use super::Error;
use super::plugins::read_version;
use super::snapshots::By;
use super::sql::{Row, Transaction, args, statements};

statements! {
    PUT = "insert into pins (edge, plugin, version, tool, state, endpoint, earlier, address_class, decided_at, decided_by) \
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (edge, plugin, version, tool) do update \
           set state = excluded.state, earlier = excluded.earlier, address_class = excluded.address_class, \
           decided_at = excluded.decided_at, decided_by = excluded.decided_by";
    OF_EDGE = "select edge, plugin, version, tool, state, endpoint, earlier, address_class from pins \
               where edge = $1 and plugin = $2 order by version, tool";
    OF_PLUGIN = "select edge, plugin, version, tool, state, endpoint, earlier, address_class from pins \
                 where plugin = $1 order by version, tool, edge";
    APPROVE = "insert into origin_approvals (plugin, version, tool, endpoint, approved_at, approved_by) \
               values ($1, $2, $3, $4, $5, $6) on conflict (plugin, version, tool, endpoint) do nothing";
    APPROVED = "select endpoint from origin_approvals where plugin = $1 and version = $2 and tool = $3";
}

/// A decision as it stands.
#[derive(Debug, Clone)]
pub(crate) struct StoredPin {
    pub(crate) edge: EdgeName,
    pub(crate) version: PluginVersion,
    pub(crate) tool: ToolId,
    pub(crate) pin: Pin,
}

/// Records a decision; the endpoint of one that is there never changes.
pub(crate) async fn put(tx: &mut Transaction, stored: &StoredPin, by: By<'_>) -> Result<(), Error> {
    let (state, earlier) = match &stored.pin.state {
        PinState::Pinned => ("pinned", Vec::new()),
        PinState::Moved { from } => ("moved", from.iter().map(endpoint_text).collect()),
        PinState::NewAt => ("new", Vec::new()),
    };
    let class = stored.pin.class.map_or("", AddressClass::name);
    let args = args![
        &stored.edge,
        &stored.version.plugin,
        &stored.version.version,
        &stored.tool,
        state,
        endpoint_text(&stored.pin.endpoint),
        serde_json::Value::from(earlier).to_string(),
        class,
        by.at,
        by.who,
    ];
    tx.execute(PUT, args).await.map(|_| ())
}

/// Decisions of an edge for a plugin.
pub(crate) async fn of_edge(
    tx: &mut Transaction,
    edge: &EdgeName,
    plugin: &PluginName,
) -> Result<Vec<StoredPin>, Error> {
    tx.rows(OF_EDGE, args![edge, plugin]).await?.iter().map(read).collect()
}

/// Decisions of all edges for a plugin.
pub(crate) async fn of_plugin(tx: &mut Transaction, plugin: &PluginName) -> Result<Vec<StoredPin>, Error> {
    tx.rows(OF_PLUGIN, args![plugin]).await?.iter().map(read).collect()
}

/// Approves an endpoint of a version's tool for the whole fleet.
pub(crate) async fn approve(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
    endpoint: &Endpoint,
    by: By<'_>,
) -> Result<(), Error> {
    let args = args![&version.plugin, &version.version, tool, endpoint_text(endpoint), by.at, by.who];
    tx.execute(APPROVE, args).await.map(|_| ())
}

/// Endpoints of a version's tool that were approved for the whole fleet.
pub(crate) async fn approved(
    tx: &mut Transaction,
    version: &PluginVersion,
    tool: &ToolId,
) -> Result<Vec<Endpoint>, Error> {
    let rows = tx.rows(APPROVED, args![&version.plugin, &version.version, tool]).await?;
    rows.iter().map(|row| row.parsed(0, parse_endpoint)).collect()
}

/// As it is kept, and as the API writes it.
pub(crate) fn endpoint_text(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Fixed(origin) => origin.to_string(),
        Endpoint::FromConnection { suffix, in_the_clear: false } => format!("connection:{suffix}"),
        Endpoint::FromConnection { suffix, in_the_clear: true } => format!("connection+http:{suffix}"),
    }
}

/// Reads it back.
pub(crate) fn parse_endpoint(text: &str) -> Result<Endpoint, domain::origin::OriginFault> {
    let from_connection =
        |suffix: &str, in_the_clear| Endpoint::FromConnection { suffix: suffix.to_owned(), in_the_clear };
    if let Some(suffix) = text.strip_prefix("connection:") {
        return Ok(from_connection(suffix, false));
    }
    match text.strip_prefix("connection+http:") {
        Some(suffix) => Ok(from_connection(suffix, true)),
        None => Origin::parse(text).map(Endpoint::Fixed),
    }
}

fn read(row: &Row) -> Result<StoredPin, Error> {
    let earlier = row.text(6)?;
    let earlier: Vec<String> = serde_json::from_str(&earlier)
        .map_err(|fault| Error::inconsistent("the earlier endpoints of a pin", &earlier, fault))?;
    let state = match row.text(4)?.as_str() {
        "pinned" => PinState::Pinned,
        "moved" => {
            let from = earlier.iter().map(|text| {
                parse_endpoint(text).map_err(|fault| Error::inconsistent("an endpoint", text, fault))
            });
            PinState::Moved { from: from.collect::<Result<_, _>>()? }
        }
        _ => PinState::NewAt,
    };
    Ok(StoredPin {
        edge: row.parsed(0, EdgeName::parse)?,
        version: read_version(row, 1)?,
        tool: row.parsed(3, ToolId::parse)?,
        pin: Pin { endpoint: row.parsed(5, parse_endpoint)?, class: row.parsed(7, parse_class)?, state },
    })
}

fn parse_class(text: &str) -> Result<Option<AddressClass>, &'static str> {
    match text {
        "" => Ok(None),
        "public" => Ok(Some(AddressClass::Public)),
        "private" => Ok(Some(AddressClass::Private)),
        "loopback" => Ok(Some(AddressClass::Loopback)),
        _ => Err("no class of addresses"),
    }
}
