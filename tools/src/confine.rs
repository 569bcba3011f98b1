//! What the kernel lets a tool's processes reach: Landlock, as far as the kernel has it.
//!
//! What a tool may reach is the node's to say, from the manifest's permissions ([`Confinement`]). The shim
//! applies it to the thread that starts the tool, so that it holds from the tool's first instruction on,
//! for all that it starts, and not for the shim, which has to end them. [`Confined`] is the honest word on
//! what came of it.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use serde::{Deserialize, Serialize};

/// The newest interface of the kernel that rules are written for; an older kernel enforces what it knows.
const NEWEST: ABI = ABI::V6;

/// Read and run by every tool: what programs are loaded from, and what they read of the system as they
/// start. Not the homes of users, not `/tmp`, not `/var`, not `/run` but where resolvers keep their file.
const SYSTEM: [&str; 12] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/proc",
    "/sys/devices/system/cpu",
    "/nix/store",
    "/gnu/store",
    "/run/systemd/resolve",
];

/// Devices without which programs do not work and with which they do no harm.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// What a tool's processes may reach besides what every program needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Files and folders that they read and run; those that are not there are passed over.
    pub read: Vec<PathBuf>,
    /// Files and folders that they change as well.
    pub write: Vec<PathBuf>,
    /// TCP ports, of any host, that they connect to. They listen on none.
    pub connect: Vec<u16>,
}

/// What came of a confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confined {
    /// None was asked for: the tool declares nothing.
    Undeclared,
    /// There is no shim to apply it.
    NoShim,
    /// The kernel has no Landlock, or it is off.
    Unsupported,
    /// By Landlock's interface of this version, or the newest that this program knows.
    By(u8),
}

impl std::fmt::Display for Confined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Undeclared => f.write_str("to nothing: its manifest declares no permissions"),
            Self::NoShim => f.write_str("to nothing: this node starts tools without its shim"),
            Self::Unsupported => f.write_str("to nothing: this kernel has no Landlock, or it is off"),
            Self::By(1..=3) => f.write_str("to its files; this kernel cannot confine ports and signals"),
            Self::By(4 | 5) => f.write_str("to its files and TCP ports; this kernel cannot confine signals"),
            Self::By(_) => f.write_str("to its files, TCP ports and own processes"),
        }
    }
}

/// What the kernel that runs here does for a tool that declares what it reaches.
pub fn supported() -> Confined {
    // Learned by restricting a thread that does nothing.
    let created = Ruleset::default().handle_access(AccessFs::Execute).and_then(Ruleset::create);
    let asked =
        created.ok().and_then(|created| std::thread::spawn(move || created.restrict_self()).join().ok());
    asked.and_then(Result::ok).map_or(Confined::Unsupported, |status| by(status.landlock))
}

impl Confinement {
    /// Restricts the calling thread, and what it starts from now on, for good.
    ///
    /// # Errors
    /// The kernel has Landlock and refuses: then nothing may be started.
    pub(crate) fn apply(&self) -> Result<Confined, RulesetError> {
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?;
        let reads = AccessFs::from_read(NEWEST);
        let system = SYSTEM.iter().map(PathBuf::from);
        let ports = self.connect.iter();
        let ports = ports.map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
        let status = ruleset
            .add_rules(path_beneath_rules(system.chain(self.read.iter().cloned()), reads))?
            .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile | AccessFs::WriteFile))?
            .add_rules(path_beneath_rules(&self.write, AccessFs::from_all(NEWEST)))?
            .add_rules(ports)?
            .restrict_self()?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Ok(Confined::Unsupported),
            RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(by(status.landlock)),
        }
    }
}

fn by(status: LandlockStatus) -> Confined {
    match status {
        LandlockStatus::NotEnabled | LandlockStatus::NotImplemented => Confined::Unsupported,
        LandlockStatus::Available { effective_abi, .. } => {
            let version = u8::try_from(effective_abi as i32).unwrap_or_default();
            if version == 0 { Confined::Unsupported } else { Confined::By(version) }
        }
    }
}
