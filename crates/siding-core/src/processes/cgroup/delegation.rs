//! The group that this process is in, the directory in which the groups of tasks may be created,
//! and leaving the group of a task.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use siding_model::id::TaskId;

use super::{group_name, parse_group_name};
use crate::sys::{cgroupfs, process, procfs};

/// The usual mount points of the version 2 hierarchy: without version 1 hierarchies, and with them.
/// These paths are tried first, because reading `mountinfo` makes the kernel format the whole mount
/// table.
const USUAL_MOUNT_POINTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The control group that this process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCgroup {
    mount: PathBuf,
    /// The path from the root of the hierarchy, or from the root of this process's cgroup
    /// namespace.
    path: PathBuf,
}

/// Whether groups may be created in [`OwnCgroup::task_groups_dir`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegation {
    /// This user owns the directory. If the user is root, the group is also delegated, or is the
    /// root of the visible hierarchy. The directory may still be on a read-only mount.
    Delegated,
    /// Another user owns the directory, or this process cannot access it.
    OtherUser,
    /// Root can write to the directory, but the group is not delegated, and the manager of the
    /// machine's groups, usually systemd, expects only its own groups there.
    Managed,
}

impl OwnCgroup {
    /// Returns the group of this process, or `None` if no version 2 hierarchy shows this process.
    #[must_use]
    pub fn find() -> Option<Self> {
        let groups = procfs::self_cgroups().ok()?;
        let path = Path::new(v2_path(&groups)?).to_owned();
        let usual =
            USUAL_MOUNT_POINTS.iter().map(Path::new).find(|mount| cgroupfs::is_cgroup2(mount));
        let mount = match usual {
            Some(mount) => mount.to_owned(),
            None => v2_mount(&std::fs::read_to_string("/proc/self/mountinfo").ok()?)?.into(),
        };
        Some(Self { mount, path })
    }

    /// Returns the absolute path of the group's directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        join_path(&self.mount, &self.path)
    }

    /// Returns the directory in which the groups of tasks are created: the directory of this
    /// process's group or, if this process runs inside a task, the parent directory of that task's
    /// group. [`Self::group_for`] can choose the parent of this directory instead.
    #[must_use]
    pub fn task_groups_dir(&self) -> PathBuf {
        join_path(&self.mount, path_above_tasks(&self.path))
    }

    /// Returns whether groups may be created in [`Self::task_groups_dir`].
    #[must_use]
    pub fn delegation(&self) -> Delegation {
        if !is_owned_by_this_user(&self.task_groups_dir()) {
            Delegation::OtherUser
        } else if process::effective_uid() == 0 && !self.is_delegated_to_root() {
            Delegation::Managed
        } else {
            Delegation::Delegated
        }
    }

    /// Returns whether root may create groups. This requires that this process's group is the root
    /// of the visible hierarchy (in a container, or on a machine without a group manager), or that
    /// the group or one of its ancestors is delegated.
    fn is_delegated_to_root(&self) -> bool {
        let path = path_above_tasks(&self.path);
        path == Path::new("/")
            || path
                .ancestors()
                .any(|path| cgroupfs::is_marked_delegated(&join_path(&self.mount, path)))
    }

    /// Returns the directory for the group of a task, or `None` if the task cannot have a group.
    /// With `memory`, a group with a memory controller is preferred.
    #[must_use]
    pub fn group_for(&self, id: TaskId, memory: bool) -> Option<String> {
        if self.delegation() != Delegation::Delegated {
            return None;
        }
        let home = self.task_groups_dir();
        let place = if memory { self.dir_with_memory_controller(&home) } else { None };
        let group = place.unwrap_or(home).join(group_name(id));
        group.into_os_string().into_string().ok()
    }

    /// Returns a directory whose child groups have a memory controller: `home`, its parent, or
    /// `None`.
    ///
    /// The kernel enables no memory controller below a group that has processes itself (the "no
    /// internal processes" rule, cgroups(7)), and this process is in `home`. An administrator can
    /// put the host into a child of the delegated group, as systemd does with `DelegateSubgroup=`.
    /// Then the parent of `home` is delegated too, and task groups can be created next to the
    /// host's group. The parent is not used if the host's own group has limits, because tasks
    /// outside that group would escape the limits.
    fn dir_with_memory_controller(&self, home: &Path) -> Option<PathBuf> {
        if home == self.mount {
            return has_memory_controller_below(home).then(|| home.to_owned());
        }
        if enable_memory_controller_below(home) {
            return Some(home.to_owned());
        }
        let above = home.parent().filter(|above| *above != self.mount)?;
        let is_ours = is_owned_by_this_user(above)
            && (process::effective_uid() != 0 || cgroupfs::is_marked_delegated(above));
        let fits = is_ours && has_no_limits(home) && enable_memory_controller_below(above);
        fits.then(|| above.to_owned())
    }

    /// Moves this process out of the group of the task in which it was started, so that the end of
    /// that task does not kill this process. Does nothing outside a task's group.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call. The group of that task is then not killed as a whole: see
    /// [`TaskGroup::kill`](super::TaskGroup::kill).
    pub fn leave_task_group(&self) -> io::Result<()> {
        if path_above_tasks(&self.path) == self.path {
            return Ok(());
        }
        cgroupfs::enter(cgroupfs::open(&self.task_groups_dir())?)
    }
}

fn is_owned_by_this_user(dir: &Path) -> bool {
    std::fs::metadata(dir).is_ok_and(|facts| facts.uid() == process::effective_uid())
}

/// Returns whether the child groups of this group have a memory controller.
fn has_memory_controller_below(dir: &Path) -> bool {
    file_lists_memory(&dir.join("cgroup.subtree_control"))
}

/// Like [`has_memory_controller_below`], but first tries to enable the controller. The kernel
/// allows that only in a group without processes.
fn enable_memory_controller_below(dir: &Path) -> bool {
    has_memory_controller_below(dir)
        || file_lists_memory(&dir.join("cgroup.controllers"))
            && std::fs::write(dir.join("cgroup.subtree_control"), "+memory").is_ok()
}

fn file_lists_memory(file: &Path) -> bool {
    let list = std::fs::read_to_string(file).unwrap_or_default();
    list.split_ascii_whitespace().any(|controller| controller == "memory")
}

/// Returns whether this group sets no limit on memory, processes or CPU time.
fn has_no_limits(dir: &Path) -> bool {
    ["memory.max", "memory.high", "pids.max", "cpu.max"].into_iter().all(|name| {
        // A controller that is not enabled has no files, and limits nothing.
        std::fs::read_to_string(dir.join(name)).is_ok_and(|text| text.starts_with("max"))
            || !dir.join(name).exists()
    })
}

/// Returns the part of a group's path above the outermost task group, or the whole path if it
/// contains no task group.
fn path_above_tasks(path: &Path) -> &Path {
    let inside = |path: &&Path| path.file_name().and_then(parse_group_name).is_some();
    path.ancestors().filter(inside).last().and_then(Path::parent).unwrap_or(path)
}

/// Returns the directory for a path in the hierarchy. The path begins with a slash, so `Path::join`
/// would drop the mount point.
fn join_path(mount: &Path, path: &Path) -> PathBuf {
    let names = path.components().filter(|part| matches!(part, Component::Normal(_)));
    mount.iter().chain(names.map(Component::as_os_str)).collect()
}

/// Returns the path of a process in the version 2 hierarchy, from its `/proc/PID/cgroup`
/// (cgroups(7)).
pub(super) fn v2_path(groups: &str) -> Option<&str> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    // A path with `/..` is outside this process's cgroup namespace; ` (deleted)` marks a removed
    // group.
    let is_whole = path.starts_with('/') && !path.contains("/..") && !path.ends_with(" (deleted)");
    is_whole.then_some(path)
}

/// Returns the mount point of the whole version 2 hierarchy, from `/proc/PID/mountinfo`
/// (proc_pid_mountinfo(5)).
fn v2_mount(mounts: &str) -> Option<&str> {
    mounts.lines().find_map(|line| {
        let (mount, _) = line.split_once(" - cgroup2 ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        (root == "/").then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK_GROUP: &str = "siding-b-4k7q0n2m8x5t";

    #[test]
    fn the_v2_path_is_the_entry_without_controllers() {
        assert_eq!(v2_path("9:name=systemd:/a\n4:memory:/b\n0::/c/d\n"), Some("/c/d"));
        assert_eq!(v2_path("0::/\n"), Some("/"));
        assert_eq!(v2_path("1:cpu:/\n"), None);
        assert_eq!(v2_path("0::/../x\n"), None);
        assert_eq!(v2_path("0::/x (deleted)\n"), None);
    }

    #[test]
    fn only_a_mount_of_the_hierarchy_root_is_used() {
        let tmpfs = "31 24 0:27 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro\n";
        let part = "40 31 0:38 /docker/1 /mnt rw - cgroup2 cgroup2 rw\n";
        let whole = "41 31 0:38 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw\n";
        assert_eq!(v2_mount(&format!("{tmpfs}{part}{whole}")), Some("/sys/fs/cgroup/unified"));
        assert_eq!(v2_mount(&format!("{tmpfs}{part}")), None);
    }

    #[test]
    fn a_nested_task_gets_a_sibling_group() {
        let outside = |path: String| path_above_tasks(Path::new(&path)).display().to_string();
        assert_eq!(outside("/a/b".to_owned()), "/a/b");
        assert_eq!(outside("/".to_owned()), "/");
        assert_eq!(outside("/siding-mine/x".to_owned()), "/siding-mine/x");
        assert_eq!(outside(format!("/{TASK_GROUP}")), "/");
        assert_eq!(outside(format!("/a/{TASK_GROUP}")), "/a");
        assert_eq!(outside(format!("/a/{TASK_GROUP}/own/{TASK_GROUP}/x")), "/a");
    }

    /// Uses a hierarchy of plain files, because no machine that runs the tests delegates a
    /// controller.
    #[test]
    fn memory_controller_is_found_in_the_groups_dir_or_its_parent() {
        let tree = tempfile::tempdir().expect("a directory");
        let (unit, host) = (tree.path().join("unit"), tree.path().join("unit/host"));
        std::fs::create_dir_all(&host).expect("own directory");
        let write = |dir: &Path, name: &str, text: &str| {
            std::fs::write(dir.join(name), text).expect("own directory");
        };
        let own = OwnCgroup { mount: tree.path().to_owned(), path: PathBuf::from("/unit/host") };
        let place = || own.dir_with_memory_controller(&own.task_groups_dir());
        assert_eq!(place(), None, "no group has a controller");
        write(&host, "cgroup.subtree_control", "cpu memory pids\n");
        assert_eq!(place(), Some(host.clone()), "already enabled");
        write(&host, "cgroup.subtree_control", "");
        write(&host, "cgroup.controllers", "cpu memory\n");
        assert_eq!(place(), Some(host.clone()), "enabled by this call");
        assert!(
            has_memory_controller_below(&host.clone())
                || file_lists_memory(&host.join("cgroup.controllers"))
        );
        let asked = std::fs::read_to_string(host.join("cgroup.subtree_control"));
        assert_eq!(asked.expect("the file exists"), "+memory");

        // Without these files the write fails, just as the kernel refuses the write to a group that
        // contains the host.
        std::fs::remove_file(host.join("cgroup.controllers")).expect("own file");
        std::fs::remove_file(host.join("cgroup.subtree_control")).expect("own file");
        write(&unit, "cgroup.subtree_control", "memory\n");
        let is_user = process::effective_uid() != 0;
        assert_eq!(place(), is_user.then(|| unit.clone()), "root needs the delegation mark");
        write(&host, "memory.max", "max\n");
        assert_eq!(place(), is_user.then(|| unit.clone()));
        write(&host, "memory.max", "4096\n");
        assert_eq!(place(), None, "tasks must not escape the host's limit");
    }

    #[test]
    fn paths_are_joined_without_a_duplicate_slash() {
        let mount = Path::new("/sys/fs/cgroup");
        assert_eq!(join_path(mount, Path::new("/")).as_os_str(), "/sys/fs/cgroup");
        assert_eq!(join_path(mount, Path::new("/a/b")).as_os_str(), "/sys/fs/cgroup/a/b");
    }
}
