//! Who holds a to-do, and whether it is still there.

use std::io;

use serde::{Deserialize, Serialize};
use siding_core::sys::{procfs, system_info};
use siding_model::process::{BootId, ProcRef};

/// Who works on a to-do: an agent in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoOwner {
    /// The agent's name. No two agents that live have the same one.
    pub owner: String,
    /// The process that it lives in.
    pub process: ProcRef,
    /// The boot in which that was started.
    pub boot: BootId,
    /// The process namespace in which it has its number; 0 where the kernel does not tell.
    pub namespace: u64,
    /// The machine.
    pub machine: String,
}

/// Whether somebody is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerPresence {
    /// Its process runs.
    Running,
    /// Its process was seen to be gone.
    Exited,
    /// It cannot be seen from here.
    Unknown,
}

impl TodoOwner {
    /// Returns an agent that lives in this process.
    ///
    /// # Errors
    ///
    /// The operating system's, where `/proc` is not mounted.
    pub fn current(owner: &str) -> io::Result<Self> {
        Self::for_process(owner, procfs::self_ref().ok_or(io::ErrorKind::NotFound)?)
    }

    /// Returns an agent that is there as long as a process of this machine.
    ///
    /// # Errors
    ///
    /// The operating system's, where `/proc` is not mounted.
    pub fn for_process(owner: &str, process: ProcRef) -> io::Result<Self> {
        Ok(Self {
            owner: owner.to_owned(),
            process,
            boot: procfs::boot_id()?,
            namespace: procfs::pid_namespace().unwrap_or(0),
            machine: system_info::system_id(),
        })
    }

    /// Looks whether another is still there. `self` is in this process.
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
        let here = TodoOwner::current("one").expect("has /proc");
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
