//! Servers without their machines, for the simulation in `e2e`.
//!
//! The store with its SQL (`SQLite`), the operations, the fan-out, presence, the signer of heads and the
//! streams' sessions are the server's own. Each operation runs from its beginning to its end within one
//! moment of simulated time, so the engine's threads and time cannot leak into what happens. Nothing of
//! the server itself uses this module.

mod prepared;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use domain::audit::{FunctionDifference, Origin};
use domain::digest::ListingHash;
use domain::id::{EdgeName, NodeId, NodeName, PluginName, PluginVersion, ToolId};
use domain::plugin_set::{Part, Position, Scope};
use domain::time::Timestamp;
use tokio::runtime::Runtime;

pub use crate::grpc::stream::simulated::SimulatedStream;
pub use prepared::{Prepared, Pushed};

use crate::connector::Connector;
use crate::fleet::Fleet;
use crate::grpc::Context;
use crate::oauth::Asker;
use crate::operation::approve::{Approval, approve};
use crate::operation::assign::assign;
use crate::operation::assign_candidate::assign_candidate;
use crate::operation::unassign::unassign;
use crate::operation::unassign_candidate::unassign_candidate;
use crate::operation::verify_audit::verify_audit;
use crate::operation::{By, load_part};
use crate::pki::HeadSigner;
use crate::store::changes::{self, State};
use crate::store::sightings::{self, Place};
use crate::store::{Store, audits, nodes, snapshots};
use crate::vault::Vault;

thread_local! {
    /// Monotonic and wall-clock milliseconds of the server that is at work on this thread.
    static CLOCK: Cell<(u64, i64)> = const { Cell::new((0, 0)) };
}

/// Sets the clocks of the server that is at work next, in milliseconds.
pub fn set_clock(monotonic_ms: u64, wall_ms: i64) {
    CLOCK.set((monotonic_ms, wall_ms));
}

fn monotonic() -> u64 {
    CLOCK.get().0
}

fn wall() -> Timestamp {
    Timestamp::from_millis(CLOCK.get().1)
}

/// The same at the same moment, whichever seeds run beside: a draw of its own would need state.
fn random() -> u64 {
    let (monotonic, wall) = CLOCK.get();
    monotonic.wrapping_add(wall.unsigned_abs()).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// Why a step of the simulation could not be made: the machine it runs on is at fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database's files, or a runtime.
    #[error("{0}")]
    Machine(#[from] std::io::Error),
    /// An operation that cannot fail did.
    #[error("{what}: {reason}")]
    Failed {
        /// What was to be done.
        what: &'static str,
        /// What came of it.
        reason: String,
    },
}

fn failed<E: std::error::Error + 'static>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::Failed { what, reason: crate::server::Chain(&error).to_string() }
}

/// What the newest report of a tool on record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRecord {
    /// The boot that sent it.
    pub boot: String,
    /// Its sequence in that boot.
    pub sequence: u64,
}

/// The database of one simulated fleet, which its servers share.
#[derive(Debug)]
pub struct Database {
    prepared: Arc<Prepared>,
    runtime: Runtime,
    folder: PathBuf,
    store: Store,
    is_shared: bool,
}

/// One server.
#[derive(Debug)]
pub struct Server {
    context: Arc<Context>,
}

impl Database {
    /// A database in its prepared state, in an empty folder of its own, for one server or for several.
    ///
    /// # Errors
    /// The machine's.
    pub fn open(prepared: &Arc<Prepared>, folder: PathBuf, is_shared: bool) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("fleet.db");
        let store = runtime.block_on(open(&file, &prepared.database, is_shared))?;
        Ok(Self { prepared: Arc::clone(prepared), runtime, folder, store, is_shared })
    }

    /// A copy of how it is now.
    ///
    /// # Errors
    /// The machine's.
    pub fn copy(&self) -> Result<Vec<u8>, Error> {
        let to = self.folder.join("copy.db");
        self.runtime.block_on(self.store.copy_into(&to)).map_err(failed("copy the database"))?;
        let bytes = std::fs::read(&to)?;
        std::fs::remove_file(&to)?;
        Ok(bytes)
    }

    /// Puts a copy in its place. Servers that still have it open must be gone.
    ///
    /// # Errors
    /// The machine's.
    pub fn restore(&mut self, copy: &[u8]) -> Result<(), Error> {
        let file = self.folder.join("fleet.db");
        self.store = self.runtime.block_on(async {
            self.store.close().await;
            open(&file, copy, self.is_shared).await
        })?;
        Ok(())
    }

    /// How often heads may have been raised; each time servers are woken.
    pub fn wakes(&self) -> u64 {
        *self.store.wakes().borrow()
    }

    /// Starts a server.
    ///
    /// # Errors
    /// The machine's.
    pub fn server(&self) -> Result<Server, Error> {
        let prepared = &self.prepared;
        let signer = HeadSigner::open(&prepared.folder.join("signer.key"), &prepared.authority)
            .map_err(failed("open the signer of heads"))?;
        let vault = Arc::new(Vault::passing().map_err(failed("make a key of secrets"))?);
        let asker = Asker::new().map_err(failed("prepare TLS"))?;
        let context = self.runtime.block_on(async {
            Context {
                store: self.store.clone(),
                blobs: prepared.blobs.clone(),
                fleet: Fleet::new(self.store.clone(), signer, wall, random),
                connector: Connector::new(self.store.clone(), vault, asker, None, wall),
                authority: Arc::clone(&prepared.authority),
                clock: wall,
                monotonic,
                streams: tokio_util::task::TaskTracker::new(),
            }
        });
        Ok(Server { context: Arc::new(context) })
    }

    /// One look of a server's fan-out.
    pub fn look(&self, server: &Server, all: bool) -> Result<(), String> {
        let fleet = &server.context.fleet;
        let looked = self.runtime.block_on(async {
            // As often as a server writes what it remembers of nodes it compares everything.
            if all {
                fleet.flush().await;
            }
            fleet.look(all).await
        });
        looked.map_err(|error| crate::server::Chain(&error).to_string())
    }

    /// A node's stream reaches a server.
    ///
    /// # Errors
    /// Why it is not taken, for people.
    pub fn accept(&self, server: &Server, node: &NodeId) -> Result<SimulatedStream, String> {
        let address = SocketAddr::from(([127, 0, 0, 1], 9));
        let registered = self.runtime.block_on(server.context.fleet.register(node, address));
        match registered {
            Ok(Some(registration)) => {
                Ok(SimulatedStream::new(Arc::clone(&server.context), registration, address.to_string()))
            }
            Ok(None) => Err("no such node".to_owned()),
            Err(error) => Err(crate::server::Chain(&error).to_string()),
        }
    }

    /// Does the work that a stream has under way; `is_killed`: the server is killed right after.
    pub fn work(&self, stream: &mut SimulatedStream, is_killed: bool) {
        self.runtime.block_on(stream.work(is_killed));
    }

    // People.

    /// Assigns a version, asked for at `now`.
    ///
    /// # Errors
    /// What is said to the person.
    pub fn assign(&self, now: Timestamp, edge: &EdgeName, version: &PluginVersion) -> Result<bool, String> {
        let assigned = self.runtime.block_on(assign(&self.store, &person(now), edge, version));
        assigned.map(|assigned| assigned.changed).map_err(|error| error.to_string())
    }

    /// Takes a plugin away from an edge.
    ///
    /// # Errors
    /// What is said to the person.
    pub fn unassign(&self, now: Timestamp, edge: &EdgeName, plugin: &PluginName) -> Result<(), String> {
        let done = self.runtime.block_on(unassign(&self.store, &person(now), edge, plugin));
        done.map_err(|error| error.to_string())
    }

    /// Has an edge try a version on some nodes.
    ///
    /// # Errors
    /// What is said to the person.
    pub fn try_candidate(
        &self,
        now: Timestamp,
        edge: &EdgeName,
        version: &PluginVersion,
        nodes: &BTreeSet<NodeName>,
    ) -> Result<bool, String> {
        let tried = self.runtime.block_on(assign_candidate(&self.store, &person(now), edge, version, nodes));
        tried.map(|tried| tried.changed).map_err(|error| error.to_string())
    }

    /// Has an edge try a plugin's candidate no longer.
    ///
    /// # Errors
    /// What is said to the person.
    pub fn end_candidate(&self, now: Timestamp, edge: &EdgeName, plugin: &PluginName) -> Result<(), String> {
        let done = self.runtime.block_on(unassign_candidate(&self.store, &person(now), edge, plugin));
        done.map_err(|error| error.to_string())
    }

    /// The changes of a plugin that wait for a person, as they are shown.
    ///
    /// # Errors
    /// The machine's.
    pub fn open_changes(&self, plugin: &PluginName) -> Result<Vec<FunctionDifference>, Error> {
        let read = async {
            let mut tx = self.store.read().await?;
            let mut open = Vec::new();
            for variant in changes::of_plugin(&mut tx, plugin).await? {
                if variant.state != State::Open {
                    continue;
                }
                let snapshot = snapshots::of_version(&mut tx, &variant.version, None).await?;
                let key = (variant.tool.clone(), Arc::clone(&variant.function));
                open.push(FunctionDifference {
                    edge: variant.edge,
                    approved: snapshot.functions.get(&key).map(|approved| approved.hash),
                    version: variant.version,
                    tool: variant.tool,
                    function: variant.function,
                    seen: variant.seen,
                });
            }
            Ok(open)
        };
        self.runtime.block_on(read).map_err(|error: crate::store::Error| failed("read changes")(error))
    }

    /// Approves what was shown; answers what of it was done.
    ///
    /// # Errors
    /// What is said to the person.
    pub fn approve(
        &self,
        now: Timestamp,
        plugin: &PluginName,
        functions: Vec<FunctionDifference>,
    ) -> Result<Vec<FunctionDifference>, String> {
        let approval =
            Approval { plugin: plugin.clone(), functions, edge: None, origins: Vec::new(), attended: true };
        let decided = self.runtime.block_on(approve(&self.store, &person(now), &approval));
        decided.map(|decided| decided.functions).map_err(|error| error.to_string())
    }

    // For who checks.

    /// Where every part stands.
    ///
    /// # Errors
    /// The machine's.
    pub fn positions(&self) -> Result<Vec<(Scope, Part, Position)>, Error> {
        self.runtime.block_on(load_part::positions(&self.store, None)).map_err(failed("read positions"))
    }

    /// What the fleet goes by for a version.
    ///
    /// # Errors
    /// The machine's.
    pub fn approved(
        &self,
        version: &PluginVersion,
    ) -> Result<BTreeMap<(ToolId, Arc<str>), ListingHash>, Error> {
        let read = async {
            let mut tx = self.store.read().await?;
            let snapshot = snapshots::of_version(&mut tx, version, None).await?;
            Ok(snapshot.functions.into_iter().map(|(key, approved)| (key, approved.hash)).collect())
        };
        self.runtime.block_on(read).map_err(|error: crate::store::Error| failed("read snapshots")(error))
    }

    /// The newest report of a tool of a node, if one is on record; `None` as well if the node said that it
    /// has the version no longer.
    ///
    /// # Errors
    /// The machine's.
    pub fn reported(
        &self,
        node: &NodeId,
        version: &PluginVersion,
        tool: &ToolId,
    ) -> Result<Option<OnRecord>, Error> {
        let read = async {
            let mut tx = self.store.read().await?;
            let place = Place { node, version, tool, connection: "" };
            let newest = sightings::newest(&mut tx, &place).await?;
            Ok(newest.map(|newest| OnRecord { boot: newest.boot.to_string(), sequence: newest.sequence }))
        };
        self.runtime.block_on(read).map_err(|error: crate::store::Error| failed("read reports")(error))
    }

    /// Versions that a node is on record to have.
    ///
    /// # Errors
    /// The machine's.
    pub fn versions_of(&self, node: &NodeId) -> Result<Vec<PluginVersion>, Error> {
        let read = async {
            let mut tx = self.store.read().await?;
            Ok(nodes::versions::of(&mut tx, node).await?.into_iter().map(|one| one.version).collect())
        };
        self.runtime.block_on(read).map_err(|error: crate::store::Error| failed("read versions")(error))
    }

    /// How many audit events there are.
    ///
    /// # Errors
    /// The machine's.
    pub fn audit_length(&self) -> Result<u64, Error> {
        let read = async {
            let mut tx = self.store.read().await?;
            Ok(audits::tail(&mut tx).await?.seq)
        };
        self.runtime.block_on(read).map_err(|error: crate::store::Error| failed("read the audit log")(error))
    }

    /// Verifies the audit log from its first event to its last; the first fault, if there is one.
    ///
    /// # Errors
    /// The machine's.
    pub fn audit_fault(&self) -> Result<Option<String>, Error> {
        let verified =
            self.runtime.block_on(verify_audit(&self.store)).map_err(failed("verify the audit log"))?;
        Ok(verified.fault.map(|fault| fault.to_string()))
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.runtime.block_on(self.store.close());
    }
}

fn person(now: Timestamp) -> By {
    By { now, origin: Origin { actor: "person".to_owned(), source: "simulation".to_owned() } }
}

/// Opens a database that has these bytes.
async fn open(file: &std::path::Path, bytes: &[u8], is_shared: bool) -> Result<Store, Error> {
    for suffix in ["-wal", "-shm"] {
        let beside = PathBuf::from(format!("{}{suffix}", file.display()));
        if beside.exists() {
            std::fs::remove_file(beside)?;
        }
    }
    std::fs::write(file, bytes)?;
    let store = Store::open(&format!("sqlite:{}", file.display())).await;
    let store = store.map_err(failed("open the database"))?;
    Ok(if is_shared { store.shared() } else { store })
}
