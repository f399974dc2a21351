//! A control group (cgroup2) in which a test runs siding, as a host with its own group does. This
//! module uses none of siding's cgroup code, so that a bug in that code cannot hide itself.

use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cgroup_dir::{child_group_names, own_group_dir, remove_group};
use crate::eventually::eventually;
use crate::invocation::RunningProgram;
use crate::processes::Process;
use crate::programs::is_root;
use crate::sandbox::Sandbox;

/// The owner of a test's group, and whether siding may create subgroups in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupOwner {
    /// An ordinary user, who owns the directory and the files that systemd delegates.
    User(u32),
    /// Root, with the extended attribute by which systemd marks a delegation.
    Root,
    /// Root, without that attribute: the group is not delegated, so siding must not use it.
    Undelegated,
}

/// A group below the group of the test program. Dropping this value kills the group's processes and
/// removes the group.
#[derive(Debug)]
pub struct TestCgroup(PathBuf);

impl TestCgroup {
    /// Creates a group. Returns `None` and prints a message if the test does not run as root or
    /// there is no writable cgroup2 hierarchy.
    ///
    /// # Panics
    ///
    /// When a group can be created but its owner cannot be set.
    #[track_caller]
    pub fn new(owner: CgroupOwner) -> Option<Self> {
        static NEXT_GROUP_NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NEXT_GROUP_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("sandbox-{}-{number}", std::process::id());
        let made = own_group_dir().filter(|_| is_root()).map(|own| own.join(name));
        let Some(dir) = made.filter(|dir| std::fs::create_dir(dir).is_ok()) else {
            println!("left out: it takes root and a cgroup2 hierarchy that can be written");
            return None;
        };
        match owner {
            CgroupOwner::User(uid) => {
                for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
                    chown(dir.join(name), Some(uid), Some(uid)).expect("root has the permission");
                }
            }
            CgroupOwner::Root => {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(&dir, "user.delegate", b"1", flags).expect("a group file");
            }
            CgroupOwner::Undelegated => {}
        }
        Some(Self(dir))
    }

    /// Returns the group's directory in the mounted hierarchy.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// Returns the directory of a task's subgroup, whether it exists or not.
    pub fn task_group_dir(&self, id: &str) -> PathBuf {
        self.0.join(format!("siding-{id}"))
    }

    /// Returns the names of the direct subgroups.
    pub fn group_names(&self) -> BTreeSet<String> {
        child_group_names(&self.0).into_iter().filter_map(|name| name.into_string().ok()).collect()
    }

    /// Starts a call of the program under test as a process of the group.
    #[track_caller]
    pub fn siding<A: AsRef<str>>(&self, sandbox: &Sandbox, args: &[A]) -> RunningProgram {
        let line = format!("read -r _; exec {}", sandbox.siding_line(args));
        let mut host =
            sandbox.host("bash", &["-c", &line]).forbid_held_output().stdin_pipe().spawn();
        move_process(&self.0, host.process());
        host.write_stdin(b"\n");
        host.close_stdin();
        host
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let _best_effort = std::fs::write(self.0.join("cgroup.kill"), "1");
        // A second panic would abort the program and hide the first panic.
        if std::thread::panicking() {
            remove_group(&self.0);
        } else {
            eventually("the test's control group is gone", || remove_group(&self.0));
        }
    }
}

/// Moves a process to the group in the directory `group`.
///
/// # Panics
///
/// When the kernel refuses the move.
#[track_caller]
pub fn move_process(group: &Path, process: Process) {
    std::fs::write(group.join("cgroup.procs"), process.pid.to_string())
        .expect("root has the permission");
}

/// Returns the pids of a group's processes; empty when there is no such group.
pub fn member_pids(group: &Path) -> BTreeSet<u32> {
    let list = std::fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}
