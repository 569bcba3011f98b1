//! The agent's end of a lease: the socket whose end tells a shim that the agent is gone.
//!
//! The kernel closes it with the process, whatever ends that. The other end is in `shim`.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use tokio::io::AsyncReadExt as _;

use crate::shim;

/// Bytes of one word of a shim; the longest has half as many.
const WORD: usize = 32;

/// Where a shim that is about to be started comes to.
pub(super) struct Door {
    name: String,
    listener: tokio::net::UnixListener,
}

/// What a shim said of the start.
pub(super) enum Begun {
    /// The tool runs under this number, confined by this version of Landlock (0: by none).
    Started(u32, u8, Lease),
    /// It was not started, since the kernel refused to confine it.
    Unconfined,
    /// The system did not start the program.
    Failed(io::Error),
}

/// As long as this is held, the tool may run.
#[derive(Debug)]
pub(super) struct Lease(UnixStream);

impl Door {
    pub(super) fn open() -> io::Result<Self> {
        // Chance keeps agents of several containers that share a network apart.
        let chance = RandomState::new().build_hasher().finish();
        let name = format!("pintle-tool-{}-{chance:016x}", std::process::id());
        // An abstract name: no file is left behind, and no file system has to know sockets.
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name.as_bytes())?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { name, listener: tokio::net::UnixListener::from_std(listener)? })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the shim with this number has come and said how the start went.
    pub(super) async fn begun(self, shim: u32) -> io::Result<Begun> {
        let mut stream = loop {
            let (stream, _) = self.listener.accept().await?;
            // Others on this machine could come here too.
            if stream.peer_cred()?.pid().and_then(|pid| u32::try_from(pid).ok()) == Some(shim) {
                break stream;
            }
        };
        let mut word = Vec::with_capacity(WORD);
        // By bytes: behind the line there may be the last word of a tool that ended at once.
        while !word.ends_with(b"\n") && word.len() < WORD {
            word.push(stream.read_u8().await?);
        }
        let stream = stream.into_std()?;
        let word = String::from_utf8_lossy(&word);
        match word.trim_end().split_once(' ') {
            Some(("started", numbers)) => numbers.split_once(' ').and_then(|(number, version)| {
                Some(Begun::Started(number.parse().ok()?, version.parse().ok()?, Lease(stream)))
            }),
            Some(("unconfined", _)) => Some(Begun::Unconfined),
            Some(("failed", number)) => {
                number.parse().ok().map(|number| Begun::Failed(io::Error::from_raw_os_error(number)))
            }
            _ => None,
        }
        .ok_or_else(|| io::Error::other("its shim said something else than how the start went"))
    }
}

impl Lease {
    /// Has TERM sent to the tool's group.
    pub(super) fn terminate(&self) {
        // A shim that is gone has ended the tool already.
        (&self.0).write_all(&shim::TERM).ok();
    }

    /// Has everything killed at once.
    pub(super) fn kill(&self) {
        (&self.0).write_all(&shim::KILL).ok();
    }

    /// How the tool ended, after its shim has: `None` if the shim was killed itself. Bytes that are there
    /// are read, none is waited for.
    pub(super) fn last_word(&self) -> Option<Box<str>> {
        let mut word = [0; WORD];
        let count = (&self.0).read(&mut word).ok()?;
        let word = std::str::from_utf8(word.get(..count)?).ok()?;
        match word.trim_end().split_once(' ')? {
            ("code", number) => Some(format!("ended with exit code {number}").into()),
            ("signal", number) => Some(format!("was ended by signal {number}").into()),
            ("over", most) => Some(format!("was ended: it had more than {most} processes, its limit").into()),
            _ => None,
        }
    }
}
