//! Describes the machine on which the figures were measured.

use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

/// The properties of the machine that influence the figures.
#[derive(Debug)]
pub(super) struct SystemInfo {
    cpu: String,
    cores: usize,
    memory_mib: u64,
    kernel: String,
    load: String,
    file_system: String,
    user: u32,
}

impl SystemInfo {
    /// Describes the machine and the file system that holds `dir`.
    pub(super) fn collect(dir: &Path) -> Result<Self> {
        Ok(Self {
            cpu: field(&read_file("/proc/cpuinfo")?, "model name").unwrap_or_else(architecture),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: memory_mib(&read_file("/proc/meminfo")?, "MemTotal"),
            kernel: read_file("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            load: read_file("/proc/loadavg")?.split(' ').take(3).collect::<Vec<_>>().join(" "),
            file_system: file_system(&read_file("/proc/self/mountinfo")?, dir),
            user: rustix::process::geteuid().as_raw(),
        })
    }

    /// Formats the description that is printed above the table.
    pub(super) fn text(&self) -> String {
        let Self { cpu, cores, memory_mib, kernel, load, file_system, user } = self;
        format!(
            "cpu     {cpu}, {cores} cores; memory {memory_mib} MiB\n\
             kernel  {kernel}; user {user}; load {load} before the first row\n\
             state   {file_system}\n"
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "cpu": self.cpu,
            "cores": self.cores,
            "memory_mib": self.memory_mib,
            "kernel": self.kernel,
            "load_average": self.load,
            "file_system": self.file_system,
            "user": self.user,
        })
    }
}

fn read_file(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("could not read `{path}`"))
}

fn architecture() -> String {
    std::env::consts::ARCH.to_owned()
}

/// Returns the value of the first line `NAME : VALUE`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// Returns the memory that new processes can use, in MiB.
pub(super) fn available_memory_mib() -> Result<u64> {
    Ok(memory_mib(&read_file("/proc/meminfo")?, "MemAvailable"))
}

/// Returns the value of a line of `/proc/meminfo`, in MiB; zero if there is no such line.
fn memory_mib(meminfo: &str, name: &str) -> u64 {
    field(meminfo, name)
        .and_then(|value| value.split(' ').next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib / 1024)
}

/// Returns the type of the file system of `dir`, with a note if this file system makes siding
/// slower than others do.
fn file_system(mountinfo: &str, dir: &Path) -> String {
    let Some((device, kind)) = find_mount(mountinfo, dir) else {
        return "an unknown file system".to_owned();
    };
    if kind == "ext4" && !has_journal(device) {
        // To create a file, ext4 without a journal searches for a free inode and skips each inode
        // that was freed in the last minutes, one by one.
        return "ext4 without a journal (slow to create files after others were removed)"
            .to_owned();
    }
    kind.to_owned()
}

/// Returns the device and the type of the file system of `dir`. The longest of the mount points
/// that contain `dir` belongs to its file system. If several mounts have the same mount point, the
/// last mount hides the others.
fn find_mount<'m>(mountinfo: &'m str, dir: &Path) -> Option<(&'m str, &'m str)> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(2);
        let (device, _, point) = (left.next()?, left.next()?, left.next()?);
        let kind = right.split(' ').next()?;
        dir.starts_with(point).then_some((point.len(), device, kind))
    });
    mounts.max_by_key(|(length, ..)| *length).map(|(_, device, kind)| (device, kind))
}

/// Returns whether an ext4 file system has a journal; true if its device is unknown. The kernel
/// lists a journal as `DEVICE-INODE` in `/proc/fs/jbd2`.
fn has_journal(device: &str) -> bool {
    let link = std::fs::read_link(format!("/sys/dev/block/{device}")).ok();
    let name = link.as_deref().and_then(Path::file_name);
    let Some(name) = name.and_then(|name| name.to_str()) else { return true };
    std::fs::read_dir("/proc/fs/jbd2").is_ok_and(|journals| {
        let prefix = format!("{name}-");
        journals.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins_and_the_last_of_equal_ones() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                      2 1 0:5 / /tmp rw shared:1 - tmpfs none rw\n\
                      3 1 0:6 / /tmp rw - xfs /dev/b rw\n\
                      4 1 0:7 / /tmpfiles rw - nfs h:/x rw\n";
        assert_eq!(find_mount(mounts, Path::new("/tmp/x")), Some(("0:6", "xfs")));
        assert_eq!(find_mount(mounts, Path::new("/home")), Some(("8:1", "ext4")));
    }
}
