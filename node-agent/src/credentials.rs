//! What remote tools are reached with: connections as the plan names them, and their headers, which are fetched from
//! the control plane for one tool at a time and kept in memory only.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::connection::check_header;
use domain::id::PluginVersion;
use domain::plugin_set::{Plan, PlannedConnection};
use http::{HeaderMap, HeaderName, HeaderValue};
use proto::v1::connections_client::ConnectionsClient;
use proto::v1::{FetchRequest, FetchResponse};

use crate::identity::Identity;
use crate::link::connect;
use crate::supervisor::Key;

/// For one answer: an authorization server may have to be asked first.
const ANSWER: Duration = Duration::from_secs(45);

/// Fetches for this node.
#[derive(Clone, Default)]
pub(crate) struct Credentials {
    /// `None` in tests and the simulation: then there are none.
    identity: Option<Arc<Identity>>,
    planned: Arc<Mutex<BTreeMap<Key, PlannedConnection>>>,
}

/// Without what may be a secret.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// What is asked for.
pub(crate) struct Wanted<'a> {
    /// Of the connection, as the plan has it.
    pub(crate) version: u64,
    /// Where it goes.
    pub(crate) origin: &'a str,
    /// Names the headers that the server there did not take; empty if it was shown none.
    pub(crate) refused: &'a str,
}

/// Headers as they were fetched.
pub(crate) struct Fetched {
    pub(crate) headers: HeaderMap,
    /// Names them for the control plane.
    pub(crate) name: String,
    /// How long they are good; `None`: until the plan says otherwise.
    pub(crate) valid: Option<Duration>,
}

impl Credentials {
    /// Fetches as this node.
    pub(crate) fn of(identity: Arc<Identity>) -> Self {
        Self { identity: Some(identity), planned: Arc::default() }
    }

    /// Goes by another plan.
    pub(crate) fn plan(&self, plan: &Plan) {
        let mut all = BTreeMap::new();
        for planned in plan.plugins.values() {
            let candidate = planned.candidate.as_ref().map(|(_, version)| version);
            for version in planned.installed.iter().chain(candidate) {
                for (tool, planned) in &version.tools {
                    let Some(connection) = &planned.connection else { continue };
                    all.insert((version.version.clone(), tool.clone()), connection.clone());
                }
            }
        }
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// What a tool is to be reached with, `name` being the connection's in its manifest. An outgoing version, which
    /// the plan no longer names, has what another tool of its plugin is reached with by that name: there is one such
    /// connection for an edge.
    pub(crate) fn planned(&self, (version, tool): &Key, name: &str) -> Option<PlannedConnection> {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(exact) = planned.get(&(version.clone(), tool.clone())) {
            return Some(exact.clone());
        }
        let is_it =
            |(of, _): &Key, one: &PlannedConnection| of.plugin == version.plugin && one.is_called(name);
        planned.iter().find(|(key, one)| is_it(key, one)).map(|(_, one)| one.clone())
    }

    /// The headers of a tool.
    ///
    /// # Errors
    /// Why there are none, for people.
    pub(crate) async fn fetch(&self, key: &Key, wanted: &Wanted<'_>) -> Result<Fetched, String> {
        let asked = tokio::time::timeout(ANSWER, self.ask(key, wanted)).await;
        let answer = asked
            .map_err(|_| format!("the control plane gave no answer within {} s", ANSWER.as_secs()))??;
        let mut headers = HeaderMap::new();
        for header in answer.headers {
            check_header(&header.name).map_err(|fault| fault.to_string())?;
            let name = HeaderName::try_from(header.name).map_err(|_| "a header has no name".to_owned())?;
            let value = HeaderValue::try_from(header.value);
            let mut value = value.map_err(|_| format!("the header {name} cannot be sent"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let valid = (answer.valid_ms > 0).then(|| Duration::from_millis(answer.valid_ms));
        Ok(Fetched { headers, name: answer.credential, valid })
    }

    async fn ask(&self, (version, tool): &Key, wanted: &Wanted<'_>) -> Result<FetchResponse, String> {
        let identity = self.identity.as_ref().ok_or("this node has no control plane")?;
        let PluginVersion { plugin, version } = version;
        let request = FetchRequest {
            plugin: plugin.as_str().to_owned(),
            version: version.to_string(),
            tool: tool.as_str().to_owned(),
            refused: wanted.refused.to_owned(),
            connection_version: wanted.version,
            origin: wanted.origin.to_owned(),
        };
        let channel = connect::open(&identity.address, identity.stream_tls()).await;
        let channel = channel.map_err(|error| crate::sentence(&error))?;
        let answer = ConnectionsClient::new(channel).fetch(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| status.message().to_owned())
    }
}
