//! The control group of one task: creation, members, kill and removal.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::ProcRef;

use super::delegation::v2_path;
use super::{group_name, parse_group_name};
use crate::processes::tree;
use crate::store::StateDir;
use crate::sys::{cgroupfs, file, procfs};

/// The control group of one task. The group may or may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskGroup {
    id: TaskId,
    dir: PathBuf,
}

impl TaskGroup {
    /// Returns the group that a task's journal names, if it names one. A path that siding cannot
    /// have created is ignored.
    #[must_use]
    pub fn from_task(task: &TaskState) -> Option<Self> {
        let id = task.spec.task_id;
        let dir = PathBuf::from(task.cgroup.as_deref()?);
        (dir.is_absolute() && dir.file_name().and_then(parse_group_name) == Some(id))
            .then_some(Self { id, dir })
    }

    /// Creates the group and returns its directory. Must be called before the task starts.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call, including `EEXIST`, because a group is not used again.
    pub fn create(&self) -> io::Result<OwnedFd> {
        std::fs::create_dir(&self.dir)?;
        file::open_directory(&self.dir)
    }

    /// Returns the absolute path of the group's directory, which may not exist.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Returns whether the directory of the group exists in a cgroup2 hierarchy.
    #[must_use]
    pub fn exists(&self) -> bool {
        cgroupfs::is_cgroup2(&self.dir)
    }

    /// Returns whether any process lives in the group or below it; false if the group does not
    /// exist or cannot be read.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        cgroupfs::open(&self.dir).and_then(cgroupfs::is_populated).unwrap_or(false)
    }

    /// Returns the task's living processes in the group. Processes of other tasks, such as a shim
    /// that could not leave the group, are left out.
    ///
    /// A listed process may start another and exit before it is inspected. An empty result is
    /// therefore returned only after a list in which no process had exited, or after the last
    /// attempt.
    #[must_use]
    pub fn members(&self, root: &StateDir) -> Vec<ProcRef> {
        /// Number of attempts after which the remaining members are left to the caller's next scan.
        const MAX_MEMBER_SCANS: u32 = 100;
        let mark = self.id.birthmark();
        for _ in 0..MAX_MEMBER_SCANS {
            let listed = self.member_pids();
            let mut found: Vec<ProcRef> =
                listed.iter().filter_map(|pid| procfs::identify(*pid)).collect();
            // Membership is checked after the process was identified, because its pid may have been
            // reused since the list was read.
            found.retain(|process| self.contains(process.pid) && tree::is_alive(*process));
            let is_whole =
                found.len() == listed.len() && !(listed.is_empty() && self.is_populated());
            found.retain(|process| !tree::is_of_other_task(root, mark, process.pid));
            if is_whole || !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Returns whether a process is in the group or below it; false if its file in `/proc` cannot
    /// be read.
    #[must_use]
    pub fn contains(&self, pid: i32) -> bool {
        let Ok(groups) = std::fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
            return false;
        };
        let own = group_name(self.id);
        v2_path(&groups).is_some_and(|path| path.split('/').any(|part| part == own))
    }

    /// Sends SIGKILL to all members in one step, which a fork cannot escape.
    ///
    /// Does nothing if a member must not be killed with the task: this process, or a process of
    /// another task. In this case the caller's sweep kills each process separately. The sweep is
    /// needed in any case, because `cgroup.kill` misses a process whose main thread has exited
    /// while other threads run.
    pub fn kill(&self, root: &StateDir) {
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let mark = self.id.birthmark();
        let is_excluded = |pid: i32| pid == own || tree::is_of_other_task(root, mark, pid);
        if !self.member_pids().into_iter().any(is_excluded) {
            // A failure is ignored, because the caller's sweep does not depend on this call:
            // kernels before 5.14 have no `cgroup.kill`.
            let _not_there = cgroupfs::open(&self.dir).and_then(cgroupfs::kill);
        }
    }

    /// Removes the group and the groups that the task created in it, except those in which or below
    /// which a process lives. Returns whether the group no longer exists.
    pub fn remove(&self) -> bool {
        if std::fs::remove_dir(&self.dir).is_ok() {
            return true;
        }
        for below in self.descendant_groups(|_| true).iter().rev() {
            let _in_use = std::fs::remove_dir(below);
        }
        std::fs::remove_dir(&self.dir).is_ok() || !self.exists()
    }

    /// Returns the process IDs of all members of the group and of the groups below it.
    fn member_pids(&self) -> Vec<i32> {
        let is_populated =
            |dir: &Path| cgroupfs::open(dir).and_then(cgroupfs::is_populated).unwrap_or(false);
        let below = self.descendant_groups(is_populated);
        let list = |dir: &PathBuf| cgroupfs::open(dir).and_then(cgroupfs::processes);
        let mut found: Vec<i32> = std::iter::once(&self.dir)
            .chain(&below)
            .flat_map(|dir| list(dir).unwrap_or_default())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the directories below the group for which `wanted` returns true, each after its
    /// parent. Directories below an unwanted one are not listed.
    fn descendant_groups(&self, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut next = 0;
        let mut dir = self.dir.clone();
        loop {
            let names = cgroupfs::open(&dir).and_then(file::list_directories).unwrap_or_default();
            found.extend(names.iter().map(|name| dir.join(name)).filter(|dir| wanted(dir)));
            let Some(following) = found.get(next) else { return found };
            dir.clone_from(following);
            next += 1;
        }
    }
}
