//! What remote tools are reached with: for whom it is, where it may go, when it is dropped.

use std::path::PathBuf;
use std::sync::Arc;

use domain::digest::Digest;
use domain::id::{EdgeName, NodeId, PluginVersion, ToolId};
use domain::time::Timestamp;

use crate::connector::{Connector, Credentials, Fault, Wanted};
use crate::oauth::{Asker, Endpoints, Granted};
use crate::operation::Error;
use crate::operation::create_edge::create_edge;
use crate::operation::keep_token::{self, Held};
use crate::operation::remove_connection::remove_connection;
use crate::operation::set_connection::{
    ConnectionInput, ConnectionSet, SecretInput, parse_key, set_connection,
};
use crate::operation::testing::{Fleet, code, edge};
use crate::store::connections::{self, Connection, ConnectionKey, Grant, OAuth};
use crate::store::testing::{Bench, on_both};
use crate::vault::{Secret, Vault};

/// Version `version` of a plugin whose tool `wx` is reached with the connection `crm`.
fn behind(version: &str, url: &str) -> String {
    format!(
        "name: wx\nversion: {version}\ntools:\n  wx: {{ url: \"{url}\", connection: crm }}\n  local: {{ command: [\"server\"] }}\n\
         connections:\n  crm: {{ params: {{ host: {{}}, token: {{ secret: true }} }} }}\n"
    )
}

const BY_HOST: &str = "https://${params.host}.crm.example/mcp";

fn words(input: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    input.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn token(value: &str) -> ConnectionInput {
    let secret = SecretInput::Value(Secret::new(value.to_owned()));
    ConnectionInput { secrets: [("token".to_owned(), secret)].into(), ..ConnectionInput::default() }
}

fn host(value: &str) -> ConnectionInput {
    ConnectionInput { params: words(&[("host", value)]), ..ConnectionInput::default() }
}

fn bearer() -> ConnectionInput {
    let header = ("Authorization".to_owned(), "Bearer ${params.token}".to_owned());
    ConnectionInput { headers: Some(vec![header]), ..token("s3cret") }
}

fn oauth(issuer: Option<&str>) -> ConnectionInput {
    let oauth = OAuth {
        grant: Grant::ClientCredentials,
        client_id: "pintle".to_owned(),
        client_secret: Some("token".to_owned()),
        scopes: Vec::new(),
        issuer: issuer.map(str::to_owned),
        found: None,
    };
    ConnectionInput { oauth: Some(oauth), ..ConnectionInput::default() }
}

struct Stage {
    fleet: Fleet,
    vault: Arc<Vault>,
    files: Option<PathBuf>,
}

impl Stage {
    async fn new(bench: Bench) -> Self {
        Self { fleet: Fleet::new(bench).await, vault: Arc::new(Vault::passing().unwrap()), files: None }
    }

    async fn set(&self, key: &ConnectionKey, input: &ConnectionInput) -> Result<ConnectionSet, Error> {
        let places = (&self.fleet.store, &*self.vault, self.files.as_deref());
        set_connection(places, &self.fleet.by(), key, input).await
    }

    async fn given(&self, node: &NodeId, of: (&str, &str), there: (u64, &str)) -> Result<Credentials, Fault> {
        self.given_to((node, "node-1"), of, there).await
    }

    async fn given_to(
        &self,
        (node, name): (&NodeId, &str),
        (of, tool): (&str, &str),
        (connection_version, origin): (u64, &str),
    ) -> Result<Credentials, Fault> {
        let clock = || Timestamp::from_millis(1_796_000_000_000);
        let asker = Asker::new().unwrap();
        let vault = Arc::clone(&self.vault);
        let connector = Connector::new(self.fleet.store.clone(), vault, asker, self.files.clone(), clock);
        let version = PluginVersion::parse(of).unwrap();
        let tool = ToolId::parse(tool).unwrap();
        let wanted = Wanted { version: &version, tool: &tool, connection_version, origin, refused: "" };
        connector.of_node((node, &Digest::of(name.as_bytes())), &wanted).await
    }

    async fn find(&self, key: &ConnectionKey) -> Connection {
        let mut tx = self.fleet.store.read().await.unwrap();
        connections::find(&mut tx, key).await.unwrap().unwrap()
    }
}

fn nobody() -> NodeId {
    NodeId::parse("00000000-0000-7000-8000-000000000000").unwrap()
}

fn crm() -> ConnectionKey {
    parse_key("wx/crm", None).unwrap()
}

fn why(given: Result<Credentials, Fault>) -> String {
    match given {
        Err(Fault::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

// R3.67, R3.98
#[test]
fn a_node_is_given_what_its_edges_plan_goes_there_with_and_nothing_else() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let node = stage.fleet.node(&edge(), "node-1").await;
        stage.fleet.install(&behind("1.0.0", BY_HOST), "wx@1.0.0").await;
        let missing = why(stage.given(&node, ("wx@1.0.0", "wx"), (1, "https://one.crm.example")).await);
        assert!(missing.contains("pintle connection set wx/crm"), "{missing}");
        let input = ConnectionInput { params: host("one").params, ..bearer() };
        let set = stage.set(&crm(), &input).await.unwrap();
        assert!(set.missing.is_empty() && set.dropped.is_empty());
        let version = set.connection.version;
        let there = (version, "https://one.crm.example");
        let given = stage.given(&node, ("wx@1.0.0", "wx"), there).await.unwrap();
        assert_eq!(given.headers[0].0, "authorization");
        assert_eq!(given.headers[0].1.reveal(), "Bearer s3cret");
        assert!(!format!("{given:?}").contains("s3cret"));

        for place in ["https://two.crm.example", "http://one.crm.example", "https://one.crm.example:8443", ""]
        {
            let reason = why(stage.given(&node, ("wx@1.0.0", "wx"), (version, place)).await);
            assert!(reason.contains("does not reach"), "{reason}");
        }
        assert!(why(stage.given(&node, ("wx@1.0.0", "local"), there).await).contains("no connection"));
        assert!(why(stage.given(&node, ("wx@9.0.0", "wx"), there).await).contains("no connection"));
        let stale = stage.given(&node, ("wx@1.0.0", "wx"), (version - 1, there.1)).await;
        assert!(matches!(stale, Err(Fault::Passing(_))), "{stale:?}");
        let other = why(stage.given(&nobody(), ("wx@1.0.0", "wx"), there).await);
        assert!(other.contains("may not work"), "{other}");

        // An edge that does not have the plugin.
        let far = EdgeName::parse("far-1").unwrap();
        create_edge(&stage.fleet.store, &stage.fleet.by(), &far).await.unwrap();
        let stranger = stage.fleet.node(&far, "node-2").await;
        let told = why(stage.given_to((&stranger, "node-2"), ("wx@1.0.0", "wx"), there).await);
        assert!(told.contains("edge far-1"), "{told}");
        assert!(
            why(stage.given(&stranger, ("wx@1.0.0", "wx"), there).await).contains("may not work"),
            "another key"
        );
        // A version that is on its way out goes where its successor goes, or nowhere.
        stage.fleet.install(&behind("1.1.0", BY_HOST), "wx@1.1.0").await;
        assert!(stage.given(&node, ("wx@1.0.0", "wx"), there).await.is_ok());
        remove_connection(&stage.fleet.store, &stage.fleet.by(), &crm()).await.unwrap();
        assert!(why(stage.given(&node, ("wx@1.1.0", "wx"), there).await).contains("was not set"));
    });
}

// R3.66
#[test]
fn an_endpoint_that_waits_for_a_person_gets_nothing() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let node = stage.fleet.node(&edge(), "node-1").await;
        stage.fleet.install(&behind("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        let version = stage.set(&crm(), &bearer()).await.unwrap().connection.version;
        assert!(stage.given(&node, ("wx@1.0.0", "wx"), (version, "https://a.example")).await.is_ok());
        let moved = stage.fleet.install(&behind("1.1.0", "https://b.example/mcp"), "wx@1.1.0").await;
        assert_eq!(moved.waiting.len(), 1);
        for origin in ["https://b.example", "https://a.example"] {
            let reason = why(stage.given(&node, ("wx@1.1.0", "wx"), (version, origin)).await);
            assert!(reason.contains("waits for approval"), "{reason}");
        }
    });
}

// R3.67
#[test]
fn credentials_are_for_the_host_that_they_were_given_for() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        stage.fleet.install(&behind("1.0.0", BY_HOST), "wx@1.0.0").await;
        // The newest version has a host of its own: another value moves the older one all the same.
        stage.fleet.push(&behind("2.0.0", "https://fixed.example/mcp")).await.unwrap();
        stage.set(&crm(), &bearer()).await.unwrap();
        let first = stage.set(&crm(), &host("one")).await.unwrap();
        assert!(first.dropped.is_empty(), "they were given for no other host");
        let moved = stage.set(&crm(), &host("two")).await.unwrap();
        assert_eq!((moved.dropped, moved.missing), (vec!["token".to_owned()], vec!["token".to_owned()]));
        assert!(stage.find(&crm()).await.secrets.is_empty());
        let both = ConnectionInput { params: host("three").params, ..token("n3w") };
        assert!(stage.set(&crm(), &both).await.unwrap().missing.is_empty());
        for bad in ["evil.example/x", "a@b", "", "a..b", "127.0.0.1#"] {
            assert_eq!(code(stage.set(&crm(), &host(bad)).await), "invalid", "{bad}");
        }
        assert_eq!(stage.find(&crm()).await.params["host"], "three");
    });
}

// R3.98
#[test]
fn a_clients_secret_is_shown_to_no_other_authorization_server() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        stage.fleet.install(&behind("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        stage.set(&crm(), &bearer()).await.unwrap();
        let one = stage.set(&crm(), &oauth(Some("https://id.example"))).await.unwrap();
        assert!(
            one.dropped.is_empty() && one.connection.headers.is_empty(),
            "a token stands in for the header"
        );
        let same = stage.set(&crm(), &oauth(Some("https://id.example"))).await.unwrap();
        assert!(same.dropped.is_empty());
        let other = stage.set(&crm(), &oauth(Some("https://evil.example"))).await.unwrap();
        assert_eq!(other.dropped, ["token"]);
        let back = stage.set(&crm(), &bearer()).await.unwrap();
        assert_eq!(back.connection.oauth, None, "a header stands in for the token");
    });
}

// R3.98
#[test]
fn secrets_are_read_from_the_places_for_them_alone() {
    on_both(|bench| async move {
        let mut stage = Stage::new(bench).await;
        let node = stage.fleet.node(&edge(), "node-1").await;
        stage.fleet.install(&behind("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        stage.set(&crm(), &bearer()).await.unwrap();
        let from = |input: SecretInput| ConnectionInput {
            secrets: [("token".to_owned(), input)].into(),
            ..ConnectionInput::default()
        };
        for variable in ["PATH", "PINTLE_CA_KEY", "PINTLE_SECRET_A B", ""] {
            assert_eq!(
                code(stage.set(&crm(), &from(SecretInput::Env(variable.to_owned()))).await),
                "invalid"
            );
        }
        let root = tempfile::tempdir().unwrap();
        let (folder, outside) = (root.path().join("secrets"), root.path().join("ca.key"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&outside, "the fleet's").unwrap();
        std::fs::write(folder.join("crm"), "in-a-file\n").unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("link")).unwrap();
        let file = |name: &str| from(SecretInput::File(folder.join(name).display().to_string()));
        let said = stage.set(&crm(), &file("crm")).await.unwrap_err().to_string();
        assert!(said.contains("without a folder"), "{said}");
        stage.files = Some(folder.canonicalize().unwrap());
        for bad in ["../ca.key", "/etc/passwd"] {
            assert_eq!(code(stage.set(&crm(), &file(bad)).await), "invalid", "{bad}");
        }
        let version = stage.set(&crm(), &file("crm")).await.unwrap().connection.version;
        let given = stage.given(&node, ("wx@1.0.0", "wx"), (version, "https://a.example")).await.unwrap();
        assert_eq!(given.headers[0].1.reveal(), "Bearer in-a-file");
        let version = stage.set(&crm(), &file("link")).await.unwrap().connection.version;
        let reason = why(stage.given(&node, ("wx@1.0.0", "wx"), (version, "https://a.example")).await);
        assert!(reason.contains("is not in the file") && !reason.contains("the fleet's"), "{reason}");
    });
}

fn endpoints(resource: &str) -> Endpoints {
    Endpoints {
        issuer: "https://id.example".to_owned(),
        token: "https://id.example/token".to_owned(),
        authorization: None,
        revocation: None,
        resource: resource.to_owned(),
        secret_in_body: false,
    }
}

fn granted(access: &str) -> Granted {
    Granted { access: Secret::new(access.to_owned()), refresh: None, expires_in: None }
}

// R3.98
#[test]
fn one_server_at_a_time_asks_for_a_token_and_what_it_gets_is_for_the_connection_as_it_was() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        stage.fleet.install(&behind("1.0.0", "https://a.example/mcp"), "wx@1.0.0").await;
        let input = ConnectionInput { oauth: oauth(None).oauth, ..token("s3cret") };
        stage.set(&crm(), &input).await.unwrap();
        let (store, by) = (&stage.fleet.store, stage.fleet.by());
        let vault = (store, &*stage.vault);
        let key = crm();
        let at = endpoints("https://a.example/mcp");
        let first = keep_token::lease(store, &key, 0, by.now).await.unwrap().unwrap();
        assert!(keep_token::lease(store, &key, 0, by.now).await.unwrap().is_none());
        let connection = stage.find(&key).await;
        let (given, none) = (granted("first"), Held::default());
        let keeps = |leave| keep_token::keep(vault, &by, &connection, (leave, &none), (&at, &given));
        assert!(keeps(first).await.unwrap());
        assert!(!keeps(first).await.unwrap(), "leave is good once");
        let held = keep_token::held(store, &stage.vault, &key).await.unwrap();
        assert_eq!((held.number, held.access.unwrap().reveal()), (1, "first"));
        assert_eq!(stage.find(&key).await.oauth.unwrap().found.as_deref(), Some("https://id.example"));

        // It is set anew while somebody asks.
        let leave = keep_token::lease(store, &key, 1, by.now).await.unwrap().unwrap();
        stage.set(&key, &token("an0ther")).await.unwrap();
        assert!(!keeps(leave).await.unwrap());
        assert!(keep_token::held(store, &stage.vault, &key).await.unwrap().access.is_none());
        // Who does not come to an end holds nobody up for good.
        keep_token::lease(store, &key, 0, by.now).await.unwrap().unwrap();
        stage.fleet.pass(120_000);
        let later = stage.fleet.by().now;
        let second = keep_token::lease(store, &key, 0, later).await.unwrap().unwrap();
        keep_token::give_back(store, &key, second, later).await.unwrap();
        assert!(keep_token::lease(store, &key, 0, later).await.unwrap().is_some());
    });
}

// R3.98
#[test]
fn a_token_is_shown_to_the_server_that_it_is_for() {
    on_both(|bench| async move {
        let stage = Stage::new(bench).await;
        let node = stage.fleet.node(&edge(), "node-1").await;
        let two = "  other: { url: \"https://b.example/mcp\", connection: crm }\nconnections:";
        let manifest = behind("1.0.0", "https://a.example/mcp").replace("connections:", two);
        stage.fleet.install(&manifest, "wx@1.0.0").await;
        let input = ConnectionInput { oauth: oauth(None).oauth, ..token("s3cret") };
        let version = stage.set(&crm(), &input).await.unwrap().connection.version;
        let (store, by) = (&stage.fleet.store, stage.fleet.by());
        let leave = keep_token::lease(store, &crm(), 0, by.now).await.unwrap().unwrap();
        let connection = stage.find(&crm()).await;
        let given = (&endpoints("https://a.example/mcp"), &granted("t0ken"));
        let vault = (store, &*stage.vault);
        keep_token::keep(vault, &by, &connection, (leave, &Held::default()), given).await.unwrap();
        let own = stage.given(&node, ("wx@1.0.0", "wx"), (version, "https://a.example")).await.unwrap();
        assert_eq!(own.headers[0].1.reveal(), "Bearer t0ken");
        let reason = why(stage.given(&node, ("wx@1.0.0", "other"), (version, "https://b.example")).await);
        assert!(reason.contains("is for https://a.example/mcp"), "{reason}");
    });
}
