//! The owner of a to-do, and whether its process still exists.

use std::io;

use serde::{Deserialize, Serialize};
use siding_core::sys::{procfs, system_info};
use siding_model::process::{BootId, ProcRef};

/// The owner of a to-do: an agent, and the process in which it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoOwner {
    /// The agent's name. No two running agents have the same name.
    pub owner: String,
    /// The process in which the agent runs.
    pub process: ProcRef,
    /// The boot during which that process was started.
    pub boot: BootId,
    /// The inode number of the process's PID namespace; 0 if the kernel does not report it.
    pub namespace: u64,
    /// The id of the machine, which distinguishes a reboot from another machine.
    pub machine: String,
}

/// Whether the process of an owner still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerPresence {
    /// The process is running on this machine.
    Running,
    /// The process has certainly ended.
    Exited,
    /// The process cannot be observed, because it is on another machine or in another PID
    /// namespace.
    Unknown,
}

impl TodoOwner {
    /// Returns the identity of an agent in this process.
    ///
    /// # Errors
    ///
    /// The I/O error if `/proc` is not mounted.
    pub fn current(owner: &str) -> io::Result<Self> {
        Self::for_process(owner, procfs::self_ref().ok_or(io::ErrorKind::NotFound)?)
    }

    /// Returns the identity of an agent in a process of this machine and PID namespace.
    ///
    /// # Errors
    ///
    /// The I/O error if `/proc` is not mounted.
    pub fn for_process(owner: &str, process: ProcRef) -> io::Result<Self> {
        Ok(Self {
            owner: owner.to_owned(),
            process,
            boot: procfs::boot_id()?,
            namespace: procfs::pid_namespace().unwrap_or(0),
            machine: system_info::system_id(),
        })
    }

    /// Returns whether the process of another owner still exists. `self` must be an owner of this
    /// boot and PID namespace.
    #[must_use]
    pub fn presence_of(&self, other: &Self) -> OwnerPresence {
        if other.boot != self.boot {
            let is_this_machine = other.machine == self.machine;
            return if is_this_machine { OwnerPresence::Exited } else { OwnerPresence::Unknown };
        }
        if other.namespace != self.namespace {
            return OwnerPresence::Unknown;
        }
        if procfs::is_running(other.process) {
            OwnerPresence::Running
        } else {
            OwnerPresence::Exited
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_exited_only_when_its_process_is_known_to_be() {
        let here = TodoOwner::current("one").expect("/proc is mounted");
        assert_eq!(here.presence_of(&here), OwnerPresence::Running);
        let other = |change: fn(&mut TodoOwner)| {
            let mut other = here.clone();
            change(&mut other);
            here.presence_of(&other)
        };
        assert_eq!(other(|other| other.owner = "two".to_owned()), OwnerPresence::Running);
        assert_eq!(other(|other| other.process.start_ticks += 1), OwnerPresence::Exited);
        assert_eq!(other(|other| other.process.pid = i32::MAX), OwnerPresence::Exited);
        assert_eq!(other(|other| other.namespace += 1), OwnerPresence::Unknown);
        assert_eq!(other(|other| other.boot.0 = "earlier".to_owned()), OwnerPresence::Exited);
        let elsewhere = |other: &mut TodoOwner| {
            other.boot.0 = "another".to_owned();
            other.machine = "another".to_owned();
        };
        assert_eq!(other(elsewhere), OwnerPresence::Unknown);
    }
}
