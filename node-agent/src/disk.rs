//! What is said of a disk that does not take something: how much room it has.

use std::io::{self, ErrorKind};
use std::path::Path;

/// Bytes that a disk has for this user, and in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

impl Space {
    /// Of the disk that the path, or the nearest folder above it that is there, is on.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let stat = path.ancestors().find_map(|path| rustix::fs::statvfs(path).ok())?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Self { free: bytes(stat.f_bavail), total: bytes(stat.f_blocks) })
    }
}

impl std::fmt::Display for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} are free", Bytes(self.free), Bytes(self.total))
    }
}

/// A number of bytes for people.
pub(crate) struct Bytes(pub(crate) u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(size, _)| self.0 >= *size) {
            Some((size, unit)) => {
                let tenths = self.0.saturating_mul(10) / size;
                write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

/// Whether the disk is full, or the user's share of it.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The error of a file system, with how much room the disk of `path` has where that is the matter.
pub(crate) fn explained(path: &Path, error: io::Error) -> io::Error {
    if !is_full(&error) {
        return error;
    }
    match Space::at(path) {
        Some(space) => io::Error::new(error.kind(), format!("{error}: {space} on its disk")),
        None => error,
    }
}

/// Tests on a disk of their own.
#[cfg(test)]
pub(crate) mod testing {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// Names the disk's folder to a test that runs on it.
    const DISK: &str = "PINTLE_TEST_SMALL_DISK";

    /// Runs the calling test once more, by its path, in a process of its own in which the folder that is
    /// answered with is a disk of so many bytes. `None`: that was done, and it passed.
    ///
    /// Needs what containers give root, and other users where they may make namespaces: mounting.
    pub(crate) fn on_small_disk(test: &str, bytes: u64) -> Option<PathBuf> {
        const SCRIPT: &str = r#"mount -t tmpfs -o "size=$1" tmpfs "$2" && exec "$3" --exact "$4" --nocapture --test-threads 1"#;
        if let Some(folder) = std::env::var_os(DISK) {
            return Some(folder.into());
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !rustix::process::getuid().is_root() {
            command.arg("--map-root-user");
        }
        command.args(["sh", "-c", SCRIPT, "sh", &bytes.to_string()]).arg(folder.path());
        command.arg(std::env::current_exe().unwrap()).arg(test).env(DISK, folder.path());
        let output = command.output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        None
    }

    /// Writes until nothing more than `left` bytes fit.
    pub(crate) fn fill(folder: &Path, left: u64) -> PathBuf {
        use std::io::Write as _;
        let path = folder.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        while super::Space::at(folder).unwrap().free > left && file.write_all(&[1; 4_096]).is_ok() {}
        path
    }

    /// Lets nothing be written to the disk any more.
    pub(crate) fn make_read_only(folder: &Path) {
        assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(folder).status().unwrap().success());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_with_its_room_and_another_fault_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("not/there/yet");
        let full = explained(&path, ErrorKind::StorageFull.into());
        assert!(full.to_string().contains(" are free on its disk") && is_full(&full), "{full}");
        let denied = explained(&path, ErrorKind::PermissionDenied.into());
        assert!(!denied.to_string().contains("free"), "{denied}");
    }

    #[test]
    fn bytes_are_told_in_units_of_their_size() {
        let rows = [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ];
        for (bytes, text) in rows {
            let shown = Bytes(bytes).to_string();
            assert!(bytes == u64::MAX || shown == text, "{shown}");
        }
    }
}
