//! Finds the control group directory of this process, and removes groups that tests left behind.

use std::path::{Path, PathBuf};

/// Returns the directory of this process's group; `None` without a mounted cgroup2 hierarchy.
pub(crate) fn own_group_dir() -> Option<PathBuf> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    Some(Path::new(mount).join(path))
}

/// Removes the control groups of these tasks, which killed shims left below this process's group.
pub(crate) fn remove_task_groups(ids: &[String]) {
    let Some(own) = own_group_dir() else { return };
    for id in ids {
        let group = own.join(format!("siding-{id}"));
        if group.exists() {
            remove_group(&group);
        }
    }
}

/// Removes a group and its subgroups. Returns false if the group could not be removed, for example
/// because it still has processes.
pub(crate) fn remove_group(group: &Path) -> bool {
    for name in child_group_names(group) {
        remove_group(&group.join(name));
    }
    std::fs::remove_dir(group).is_ok() || !group.exists()
}

pub(crate) fn child_group_names(group: &Path) -> Vec<std::ffi::OsString> {
    let Ok(entries) = std::fs::read_dir(group) else { return Vec::new() };
    let is_dir = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_dir).map(|entry| entry.file_name()).collect()
}
