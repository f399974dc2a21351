//! Control groups (cgroup2): one for each task, where this process has been given a place to make
//! them.
//!
//! A group of its own is a third way to know a task's processes, beside descent and the mark: a
//! member cannot leave it by clearing its environment or lowering its mark, and the kernel ends all
//! members in one step. Nothing needs it. Where it cannot be had a task runs without.
//!
//! Groups are made beside each other and never inside each other: the end of a task must not be
//! the end of another that was started inside it. A group is used for one task and never again,
//! since one that was killed kills whoever is born into it later.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::ProcRef;

use crate::store::Root;
use crate::sys::{cgroupfs, file, process, procfs};
use crate::tree;

/// What the name of a task's group begins with; the task's id follows.
const PREFIX: &str = "siding-";

/// Where the hierarchy is found on nearly every machine: alone, or beside those of version 1. They
/// are tried first, since the kernel takes its time to write down a long table of mounts.
const USUAL_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The group that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    mount: PathBuf,
    /// From the root of the hierarchy, or of this process's view of it.
    path: PathBuf,
}

/// Whether groups may be made beside this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegation {
    /// They may.
    Ours,
    /// The directory is another user's.
    Foreign,
    /// Root may write there, but has not been given it: what manages the machine's groups, systemd
    /// most often, does not expect others in them.
    Managed,
}

impl Own {
    /// Finds it, `None` where no hierarchy of version 2 shows this process.
    #[must_use]
    pub fn find() -> Option<Self> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = Path::new(v2_path(&groups)?).to_owned();
        let usual = USUAL_MOUNTS.iter().map(Path::new).find(|mount| cgroupfs::is_here(mount));
        let mount = match usual {
            Some(mount) => mount.to_owned(),
            None => v2_mount(&std::fs::read_to_string("/proc/self/mountinfo").ok()?)?.into(),
        };
        Some(Self { mount, path })
    }

    /// Returns its directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        below(&self.mount, &self.path)
    }

    /// Returns the directory in which the groups of tasks are made: its own or, inside a task, the
    /// one that holds that task's group.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        below(&self.mount, outside_of_tasks(&self.path))
    }

    /// Says whether groups may be made there.
    #[must_use]
    pub fn delegation(&self) -> Delegation {
        let home = self.home();
        let own = process::effective_uid();
        if !std::fs::metadata(&home).is_ok_and(|facts| facts.uid() == own) {
            Delegation::Foreign
        } else if own == 0 && !self.is_left_to_root() {
            Delegation::Managed
        } else {
            Delegation::Ours
        }
    }

    /// Whether root runs in a view of the hierarchy that is all its own, a container's or that of a
    /// machine whose groups nobody manages, or below a group that was left to it.
    fn is_left_to_root(&self) -> bool {
        let path = outside_of_tasks(&self.path);
        path == Path::new("/")
            || path.ancestors().any(|path| cgroupfs::is_marked_delegated(&below(&self.mount, path)))
    }

    /// Returns the directory of the group that a task is to get, `None` when it cannot have one.
    #[must_use]
    pub fn group_for(&self, id: TaskId) -> Option<String> {
        let is_ours = self.delegation() == Delegation::Ours;
        let group = is_ours.then(|| self.home().join(name(id)))?;
        group.into_os_string().into_string().ok()
    }

    /// Moves this process out of the group of a task inside which it was started, so that it does
    /// not end with that task.
    ///
    /// # Errors
    ///
    /// The operating system's. Then that task's end must spare the group: see [`Group::kill`].
    pub fn leave_task(&self) -> io::Result<()> {
        if outside_of_tasks(&self.path) == self.path {
            return Ok(());
        }
        cgroupfs::enter(cgroupfs::open(&self.home())?)
    }
}

fn name(id: TaskId) -> String {
    format!("{PREFIX}{id}")
}

/// Returns the task whose group has this name.
fn task_of(name: &std::ffi::OsStr) -> Option<TaskId> {
    name.to_str()?.strip_prefix(PREFIX)?.parse().ok()
}

/// Returns the part of a group's path that lies above every task's group.
fn outside_of_tasks(path: &Path) -> &Path {
    let inside = |path: &&Path| path.file_name().and_then(task_of).is_some();
    path.ancestors().filter(inside).last().and_then(Path::parent).unwrap_or(path)
}

/// Returns a directory of the hierarchy from its path there, which begins with a slash.
fn below(mount: &Path, path: &Path) -> PathBuf {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    mount.iter().chain(names.map(Component::as_os_str)).collect()
}

/// Returns the path of a process in the hierarchy of version 2, from its `/proc/PID/cgroup`.
fn v2_path(groups: &str) -> Option<&str> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // From outside of this process's view of the hierarchy, or of one that was removed.
    let is_whole = path.starts_with('/') && !path.contains("/..") && !path.ends_with(" (deleted)");
    is_whole.then_some(path)
}

/// Returns where the hierarchy of version 2 is mounted as a whole, from `/proc/PID/mountinfo`.
fn v2_mount(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let (mount, _) = line.split_once(" - cgroup2 ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        (root == "/").then_some(place)
    })
}

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
        cgroupfs::make(&self.dir)?;
        cgroupfs::open(&self.dir)
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
    #[must_use]
    pub fn members(&self, root: &Root) -> Vec<ProcRef> {
        let mark = self.id.birthmark();
        self.pids()
            .into_iter()
            .filter_map(procfs::identify)
            // Read after who it is: the number may have changed hands since it was listed.
            .filter(|process| self.holds(process.pid))
            .filter(|process| !tree::is_foreign(root, mark, process.pid))
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "siding-b-4k7q0n2m8x5t";

    #[test]
    fn the_path_is_the_one_without_a_controller() {
        assert_eq!(v2_path("9:name=systemd:/a\n4:memory:/b\n0::/c/d\n"), Some("/c/d"));
        assert_eq!(v2_path("0::/\n"), Some("/"));
        assert_eq!(v2_path("1:cpu:/\n"), None);
        assert_eq!(v2_path("0::/../x\n"), None);
        assert_eq!(v2_path("0::/x (deleted)\n"), None);
    }

    #[test]
    fn only_a_mount_of_the_whole_hierarchy_counts() {
        let tmpfs = "31 24 0:27 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro\n";
        let part = "40 31 0:38 /docker/1 /mnt rw - cgroup2 cgroup2 rw\n";
        let whole = "41 31 0:38 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw\n";
        assert_eq!(v2_mount(&format!("{tmpfs}{part}{whole}")), Some("/sys/fs/cgroup/unified"));
        assert_eq!(v2_mount(&format!("{tmpfs}{part}")), None);
    }

    #[test]
    fn a_task_inside_a_task_gets_its_group_beside_it() {
        let outside = |path: String| outside_of_tasks(Path::new(&path)).display().to_string();
        assert_eq!(outside("/a/b".to_owned()), "/a/b");
        assert_eq!(outside("/".to_owned()), "/");
        assert_eq!(outside("/siding-mine/x".to_owned()), "/siding-mine/x");
        assert_eq!(outside(format!("/{TASK}")), "/");
        assert_eq!(outside(format!("/a/{TASK}")), "/a");
        assert_eq!(outside(format!("/a/{TASK}/own/{TASK}/x")), "/a");
    }

    #[test]
    fn directories_are_joined_without_a_stray_slash() {
        let mount = Path::new("/sys/fs/cgroup");
        assert_eq!(below(mount, Path::new("/")).as_os_str(), "/sys/fs/cgroup");
        assert_eq!(below(mount, Path::new("/a/b")).as_os_str(), "/sys/fs/cgroup/a/b");
    }
}
