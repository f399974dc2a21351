//! The group of one task.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::ProcRef;

use super::own::v2_path;
use super::{name, task_of};
use crate::store::Root;
use crate::sys::{cgroupfs, file, procfs};
use crate::tree;

/// The group of one task, which may or may not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    id: TaskId,
    dir: PathBuf,
}

impl Group {
    /// Returns the group on a task's record. A path that siding cannot have made is none.
    #[must_use]
    pub fn of(task: &TaskState) -> Option<Self> {
        let id = task.spec.task_id;
        let dir = PathBuf::from(task.cgroup.as_deref()?);
        (dir.is_absolute() && dir.file_name().and_then(task_of) == Some(id))
            .then_some(Self { id, dir })
    }

    /// Makes it and returns its directory. Only before the task begins.
    ///
    /// # Errors
    ///
    /// The operating system's, `EEXIST` included: a group that has been used is not used again.
    pub fn make(&self) -> io::Result<OwnedFd> {
        std::fs::create_dir(&self.dir)?;
        file::open_directory(&self.dir)
    }

    /// Returns its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Whether it is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        cgroupfs::is_here(&self.dir)
    }

    /// Whether anything lives in it.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        cgroupfs::open(&self.dir).and_then(cgroupfs::is_populated).unwrap_or(false)
    }

    /// Returns the task's living processes in it. What belongs to another task is left out: a shim
    /// that could not leave, say.
    ///
    /// One that was listed may have started another and be gone before it is looked at. So nobody
    /// is said to live there before a list of which nobody was gone.
    #[must_use]
    pub fn members(&self, root: &Root) -> Vec<ProcRef> {
        /// Lists after which the rest is left to the next look.
        const MOST: u32 = 100;
        let mark = self.id.birthmark();
        for _ in 0..MOST {
            let listed = self.pids();
            let mut found: Vec<ProcRef> =
                listed.iter().filter_map(|pid| procfs::identify(*pid)).collect();
            // Read after who it is: the number may have changed hands since it was listed.
            found.retain(|process| self.holds(process.pid) && tree::lives(*process));
            let is_whole =
                found.len() == listed.len() && !(listed.is_empty() && self.is_populated());
            found.retain(|process| !tree::is_foreign(root, mark, process.pid));
            if is_whole || !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Whether a process is in it, or below it.
    #[must_use]
    pub fn holds(&self, pid: i32) -> bool {
        let Ok(groups) = std::fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
            return false;
        };
        let own = name(self.id);
        v2_path(&groups).is_some_and(|path| path.split('/').any(|part| part == own))
    }

    /// Sends SIGKILL to everything in it, in one step that no fork escapes.
    ///
    /// Does nothing when somebody is in it who must not be killed with the task: this process, or
    /// one of another task. The sweep that follows knows each process by itself.
    pub fn kill(&self, root: &Root) {
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let mark = self.id.birthmark();
        let spared = |pid: i32| pid == own || tree::is_foreign(root, mark, pid);
        if !self.pids().into_iter().any(spared) {
            // Older kernels cannot, and the sweep needs no help.
            let _not_there = cgroupfs::open(&self.dir).and_then(cgroupfs::kill);
        }
    }

    /// Removes it with the groups that the task has made in it. Does nothing while anything lives
    /// there; returns whether it is gone.
    pub fn remove(&self) -> bool {
        if std::fs::remove_dir(&self.dir).is_ok() {
            return true;
        }
        for below in self.groups_below(|_| true).iter().rev() {
            let _in_use = std::fs::remove_dir(below);
        }
        std::fs::remove_dir(&self.dir).is_ok() || !self.exists()
    }

    /// Returns the numbers of everything that lives in it and below it.
    fn pids(&self) -> Vec<i32> {
        let is_populated =
            |dir: &Path| cgroupfs::open(dir).and_then(cgroupfs::is_populated).unwrap_or(false);
        let below = self.groups_below(is_populated);
        let list = |dir: &PathBuf| cgroupfs::open(dir).and_then(cgroupfs::processes);
        let mut found: Vec<i32> = std::iter::once(&self.dir)
            .chain(&below)
            .flat_map(|dir| list(dir).unwrap_or_default())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the directories of the groups below it that are `wanted` and not below an unwanted
    /// one, each after the one it lies in.
    fn groups_below(&self, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        let mut next = 0;
        let mut dir = self.dir.clone();
        loop {
            let names = cgroupfs::open(&dir).and_then(file::directories).unwrap_or_default();
            found.extend(names.iter().map(|name| dir.join(name)).filter(|dir| wanted(dir)));
            let Some(following) = found.get(next) else { return found };
            dir.clone_from(following);
            next += 1;
        }
    }
}
