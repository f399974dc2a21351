//! A small file system for tests of a full disk.

use std::path::PathBuf;
use std::process::Command;

/// A file system of 64 KiB, unmounted on drop.
pub(crate) struct Tiny(PathBuf);

impl Tiny {
    /// Mounts a new file system on a directory. Prints a message and returns `None` if mounting is
    /// not permitted.
    pub(crate) fn mount(at: PathBuf) -> Option<Self> {
        let mount = ["-t", "tmpfs", "-o", "size=64k", "none"];
        let output = Command::new("mount").args(mount).arg(&at).output();
        let is_mounted = output.is_ok_and(|output| output.status.success());
        if !is_mounted {
            eprintln!("left out: may not mount");
        }
        is_mounted.then(|| Self(at))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(&self.0).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("`{}` is still mounted", self.0.display());
        }
    }
}
