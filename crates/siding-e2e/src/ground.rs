//! A control group (cgroup2) of a test, in which siding is called as a host would call it that has
//! been given one.
//!
//! Knows nothing of siding's own code for groups, so that a fault in that cannot hide itself.

use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::eventually::eventually;
use crate::processes::Process;
use crate::programs::is_root;
use crate::sandbox::Sandbox;
use crate::siding::Running;

/// Whose the group is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// An ordinary user's: the directory and the files that systemd hands over.
    To(u32),
    /// Root's, with the attribute by which systemd says so.
    ToRoot,
    /// Nobody's: siding must leave it alone.
    ToNobody,
}

/// A group below the test's own. Dropping it removes it with all that was left in it.
#[derive(Debug)]
pub struct Ground(PathBuf);

impl Ground {
    /// Makes one; `None`, with a word on stdout, where that takes rights that the test has not got.
    ///
    /// # Panics
    ///
    /// When a group can be made but not be given away.
    #[track_caller]
    pub fn new(given: Given) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sandbox-{}-{number}", std::process::id());
        let made = own().filter(|_| is_root()).map(|own| own.join(name));
        let Some(dir) = made.filter(|dir| std::fs::create_dir(dir).is_ok()) else {
            println!("left out: it takes root and a cgroup2 hierarchy that can be written");
            return None;
        };
        match given {
            Given::To(uid) => {
                for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
                    chown(dir.join(name), Some(uid), Some(uid)).expect("root may");
                }
            }
            Given::ToRoot => {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(&dir, "user.delegate", b"1", flags).expect("one's own group");
            }
            Given::ToNobody => {}
        }
        Some(Self(dir))
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// The directory of a task's group in it, there or not.
    pub fn of_task(&self, id: &str) -> PathBuf {
        self.0.join(format!("siding-{id}"))
    }

    /// The names of the groups in it.
    pub fn names(&self) -> BTreeSet<String> {
        directories(&self.0).into_iter().filter_map(|name| name.into_string().ok()).collect()
    }

    /// Starts a call of the program under test as one of its processes.
    #[track_caller]
    pub fn siding<A: AsRef<str>>(&self, sandbox: &Sandbox, args: &[A]) -> Running {
        let line = format!("read -r _; exec {}", sandbox.siding_line(args));
        let mut host = sandbox.host("bash", &["-c", &line]).must_not_be_held().stdin_open().spawn();
        put(&self.0, host.process());
        host.write_stdin(b"\n");
        host.close_stdin();
        host
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _nothing_in_it = std::fs::write(self.0.join("cgroup.kill"), "1");
        // A second panic would hide the first, which says more.
        if std::thread::panicking() {
            remove(&self.0);
        } else {
            eventually("the test's control group is gone", || remove(&self.0));
        }
    }
}

/// Moves a process to a group.
///
/// # Panics
///
/// When that is refused.
#[track_caller]
pub fn put(group: &Path, process: Process) {
    std::fs::write(group.join("cgroup.procs"), process.pid.to_string()).expect("root may");
}

/// The numbers of a group's processes, empty when there is no such group.
pub fn members(group: &Path) -> BTreeSet<u32> {
    let list = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

/// The directory of this process's group.
fn own() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    Some(Path::new(mount).join(path))
}

/// Removes what tasks have left below this process's group, with a test that ended them the hard
/// way.
pub(crate) fn remove_groups_of(ids: &[String]) {
    let Some(own) = own() else { return };
    for id in ids {
        let group = own.join(format!("siding-{id}"));
        if group.exists() {
            remove(&group);
        }
    }
}

/// Removes a group and those in it; returns whether it is gone.
fn remove(group: &Path) -> bool {
    for name in directories(group) {
        remove(&group.join(name));
    }
    std::fs::remove_dir(group).is_ok() || !group.exists()
}

fn directories(group: &Path) -> Vec<std::ffi::OsString> {
    let Ok(entries) = std::fs::read_dir(group) else { return Vec::new() };
    let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_dir).map(|entry| entry.file_name()).collect()
}
