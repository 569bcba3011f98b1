//! Why the connection that an edge uses for a tool is of no use, for its plan and for people.

use domain::id::{EdgeName, PluginVersion};

use crate::operation::Error;
use crate::operation::set_connection::missing;
use crate::store::connections::{self, Connection, ConnectionKey, Grant};
use crate::store::{Transaction, plugins};

/// Why the connection that an edge uses for a tool is of no use, if so; for its plan.
pub(crate) async fn problem(
    tx: &mut Transaction,
    (version, name): (&PluginVersion, &str),
    edge: &EdgeName,
) -> Result<(Option<Connection>, Option<String>), Error> {
    let Some(connection) = connections::in_use(tx, &version.plugin, name, edge).await? else {
        return Ok((None, Some(not_set(version, name))));
    };
    let described = match plugins::get(tx, version).await? {
        Some(stored) => plugin::manifest::Manifest::read_accepted(&stored.manifest)
            .ok()
            .and_then(|manifest| manifest.connections.get(name).cloned())
            .unwrap_or_default(),
        None => plugin::manifest::Connection::default(),
    };
    let lacking = missing(&described, &connection)?;
    let key = &connection.key;
    let set = format!("pintle connection set {}/{name}{}", key.plugin, edge_flag(key));
    if let Some(first) = lacking.first() {
        let flag = if described.params.get(first).is_some_and(|param| !param.secret) {
            "--param"
        } else {
            "--secret"
        };
        let value = if flag == "--param" { "=VALUE" } else { "" };
        let lacks = lacking.join(", ");
        return Ok((
            Some(connection.clone()),
            Some(format!("its connection {name} lacks {lacks}; set it with: {set} {flag} {first}{value}")),
        ));
    }
    if let Some(oauth) = &connection.oauth {
        let token = connections::token(tx, key).await?;
        let was_refused = token.as_ref().is_some_and(|token| !token.problem.is_empty());
        let never = oauth.grant == Grant::Code && token.as_ref().is_none_or(|token| token.access.is_none());
        if was_refused || never {
            return Ok((Some(connection.clone()), Some(unauthorized(&connection))));
        }
    }
    Ok((Some(connection), None))
}

fn edge_flag(key: &ConnectionKey) -> String {
    key.edge.as_ref().map(|edge| format!(" --edge {edge}")).unwrap_or_default()
}

pub(super) fn not_set(version: &PluginVersion, name: &str) -> String {
    format!("its connection {name} was not set; set it with: pintle connection set {}/{name}", version.plugin)
}

pub(super) fn unauthorized(connection: &Connection) -> String {
    let key = &connection.key;
    let named = format!("{}/{}{}", key.plugin, key.name, edge_flag(key));
    match connection.oauth.as_ref().map(|oauth| oauth.grant) {
        Some(Grant::Code) => {
            format!(
                "a person has to authorize its connection {}: pintle connection authorize {named}",
                key.name
            )
        }
        _ => format!(
            "the authorization server takes the client of its connection {} no longer; set it anew with: pintle connection set {named}",
            key.name
        ),
    }
}
