//! The order in which a server starts.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::audit::Origin;
use domain::time::Timestamp;
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::folder::DataFolder;
use super::{CERTIFICATE_LIFE_MAX, Chain, Config, Error, Server};
use super::{rollouts, secrets};
use crate::api::{self, AppState, Clock, Door};
use crate::auth::first_start;
use crate::fleet::Fleet;
use crate::grpc::{self, Context};
use crate::operation::By;
use crate::operation::roll_authority::{bind_next, switch};
use crate::operation::start_fleet::{bind_authority, start_fleet};
use crate::pki::{self, Authority, AuthorityFiles, HeadSigner, ServerKey, server_config};
use crate::store::{self, Blobs, Store, meta};

/// How many connections may wait to be accepted: those of a fleet that comes back at once, as far
/// as the kernel allows.
const BACKLOG: u32 = 4_096;

/// How often the node port's certificate is made anew, long before it ends.
const RENEW_EVERY: Duration = Duration::from_hours(24);

pub(super) async fn start(config: Config) -> Result<Server, Error> {
    check_people_listen(config.people_listen)?;
    check_certificate_life(config.node_certificate_life)?;
    let folder = DataFolder::open(&config.data)?;
    let by = By { now: now(), origin: Origin { actor: "server".to_owned(), source: "start".to_owned() } };
    let store = Store::open(&database(&config, &folder)).await.map_err(Error::Store)?;
    let fleet_record = start_fleet(&store, &by, &config.fleet_name).await.map_err(Error::Prepare)?;
    let authority = Arc::new(open_authority(&config, &store, &by, &fleet_record.id).await?);
    let signer = HeadSigner::open(&folder.path().join("signer.key"), &authority)?;
    let admin_token = first_start::admin_token(&store, &by, folder.path()).await.map_err(Error::Prepare)?;
    let blobs = open_blobs(folder.path())?;
    let connector = secrets::open(&config, &store, &by, now).await?;

    let people = listen("people", config.people_listen)?;
    let nodes = listen("nodes", config.node_listen)?;
    let people_address = local(&people, "people", config.people_listen)?;
    let node_address = local(&nodes, "nodes", config.node_listen)?;
    let advertised = config.node_address.clone().unwrap_or_else(|| node_address.to_string());

    let fleet = Fleet::new(store.clone(), signer, now, rand::random);
    let streams = TaskTracker::new();
    let context = Arc::new(Context {
        store: store.clone(),
        blobs: blobs.clone(),
        fleet: fleet.clone(),
        connector: connector.clone(),
        authority: Arc::clone(&authority),
        clock: now,
        monotonic,
        streams: streams.clone(),
    });
    let people_routes = api::router(AppState {
        store: store.clone(),
        blobs,
        fleet: Arc::new(fleet.clone()),
        connector,
        door: Door { node_address: advertised.clone(), authority_sha256: authority.key_digest().to_string() },
        clock: Clock::new(now),
    });
    let (stop_people, stop_nodes) = (CancellationToken::new(), CancellationToken::new());
    let server_key = Arc::new(ServerKey::new(&authority, hosts(&advertised, node_address))?);
    let tls = Arc::new(server_config(Arc::clone(&server_key), &authority)?);
    let node_port = grpc::serve(
        nodes,
        tls,
        Arc::from(fleet_record.id.as_str()),
        grpc::routes(&context),
        stop_nodes.clone(),
    );
    let tasks = vec![
        ("node port", tokio::spawn(node_port)),
        ("fan-out", tokio::spawn(fan_out(fleet.clone(), stop_nodes.clone()))),
        ("rollouts", tokio::spawn(rollouts::run(store.clone(), fleet.clone(), now, stop_nodes.clone()))),
        ("certificate", tokio::spawn(renew(server_key, Arc::clone(&authority), stop_nodes.clone()))),
        ("people's port", tokio::spawn(serve_people(people, people_routes, stop_people.clone()))),
    ];
    Ok(Server {
        people_address,
        node_address,
        advertised,
        admin_token,
        fleet_id: fleet_record.id,
        store,
        fleet,
        streams,
        stop_people,
        stop_nodes,
        tasks,
        folder,
    })
}

fn database(config: &Config, folder: &DataFolder) -> String {
    let own = || format!("sqlite:{}", folder.path().join("pintle.db").display());
    config.database.clone().unwrap_or_else(own)
}

/// People's tokens go over no network in plain HTTP.
fn check_people_listen(address: SocketAddr) -> Result<(), Error> {
    if address.ip().to_canonical().is_loopback() { Ok(()) } else { Err(Error::Exposed { address }) }
}

fn check_certificate_life(got: Duration) -> Result<(), Error> {
    if (Duration::from_secs(1)..=CERTIFICATE_LIFE_MAX).contains(&got) {
        return Ok(());
    }
    Err(Error::CertificateLife { got, most: CERTIFICATE_LIFE_MAX })
}

/// The fleet's authority: made by the first server, the same one for each after it; and beside it those that the
/// fleet goes over to, or comes from, if their keys are here.
async fn open_authority(config: &Config, store: &Store, by: &By, fleet: &str) -> Result<Authority, Error> {
    let path = config.authority_key.clone().unwrap_or_else(|| config.data.join("ca.key"));
    let files = AuthorityFiles::new(&path);
    let bound = bound_authority(store).await.map_err(Error::Store)?;
    let authority = match Authority::open(&path, fleet, bound.as_deref()) {
        Err(pki::Error::OtherAuthority { path, got, expected }) => {
            let key = got.to_string();
            if !switch(store, by, &key).await.map_err(Error::Prepare)? {
                return Err(pki::Error::OtherAuthority { path, got, expected }.into());
            }
            Authority::open(&path, fleet, Some(&key))?
        }
        opened => opened?,
    };
    let own = authority.key_digest().to_string();
    // Of two servers that start at once on a new database, one binds its key and the other stops.
    let bound = bind_authority(store, by, &own).await.map_err(Error::Prepare)?;
    authority.check_bound(&path, &bound)?;
    let mut authority = authority.with_node_life(config.node_certificate_life);
    if files.next.exists() {
        let next = Authority::open(&files.next, fleet, None)?;
        bind_next(store, by, &next.key_digest().to_string()).await.map_err(Error::Prepare)?;
        authority = authority.beside(&next);
    }
    if files.previous.exists() {
        authority = authority.beside(&Authority::open(&files.previous, fleet, None)?);
    }
    Ok(authority)
}

/// Where the node port is reached: at the advertised host, on loopback, and where it listens if that
/// is one address.
fn hosts(advertised: &str, listens: SocketAddr) -> Vec<String> {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !listens.ip().is_unspecified() {
        hosts.push(listens.ip().to_string());
    }
    if let Some((host, _)) = advertised.rsplit_once(':') {
        hosts.push(host.trim_start_matches('[').trim_end_matches(']').to_owned());
    }
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// SHA-256 of the key that the fleet is bound to, if it is.
async fn bound_authority(store: &Store) -> Result<Option<String>, store::Error> {
    let mut tx = store.read().await?;
    meta::get(&mut tx, meta::AUTHORITY_KEY).await
}

fn open_blobs(data: &Path) -> Result<Blobs, Error> {
    Blobs::open(data).map_err(|source| Error::Folder {
        verb: "open the archives in",
        path: data.to_owned(),
        source,
    })
}

fn listen(whom: &'static str, address: SocketAddr) -> Result<TcpListener, Error> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A server that was just stopped leaves connections behind that would keep the port.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|source| Error::Listen { whom, address, source })
}

fn local(listener: &TcpListener, whom: &'static str, address: SocketAddr) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(|source| Error::Listen { whom, address, source })
}

/// Runs the fan-out until the server stops. Without it no change would reach a node, so a panic in
/// it is logged and it begins anew: it keeps nothing between two looks that the database does not.
async fn fan_out(fleet: Fleet, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let (fleet, until) = (fleet.clone(), stop.clone());
        let ended = tokio::spawn(async move { fleet.run(until).await }).await;
        if let Err(error) = ended {
            tracing::error!(%error, "the fan-out broke off and begins anew");
        }
    }
}

async fn serve_people(listener: TcpListener, routes: axum::Router, stop: CancellationToken) {
    let served =
        axum::serve(listener, routes).with_graceful_shutdown(async move { stop.cancelled().await }).await;
    if let Err(error) = served {
        tracing::error!(%error, "the people's port ended");
    }
}

/// Renews the node port's certificate.
async fn renew(key: Arc<ServerKey>, authority: Arc<Authority>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(RENEW_EVERY) => {}
        }
        if let Err(error) = key.renew(&authority) {
            tracing::error!(error = %Chain(&error), "the node port's certificate could not be renewed");
        }
    }
}

/// The monotonic clock, in milliseconds since it was first asked.
fn monotonic() -> u64 {
    static STARTED: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let elapsed = STARTED.get_or_init(std::time::Instant::now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock; everything that is recorded or signed has its time from here.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_ports_certificate_is_for_every_place_where_it_is_reached() {
        let listens = SocketAddr::from(([0, 0, 0, 0], 7401));
        assert_eq!(hosts("fleet.example:443", listens), ["127.0.0.1", "::1", "fleet.example", "localhost"]);
        assert_eq!(hosts("[2001:db8::7]:7401", listens), ["127.0.0.1", "2001:db8::7", "::1", "localhost"]);
        let one = SocketAddr::from(([10, 0, 0, 7], 7401));
        assert_eq!(hosts("10.0.0.7:7401", one), ["10.0.0.7", "127.0.0.1", "::1", "localhost"]);
    }
}
