//! Who holds a to-do, and whether it is still there.

use std::io;

use serde::{Deserialize, Serialize};
use siding_core::sys::{procfs, system_info};
use siding_model::process::{BootId, ProcRef};

/// Who works on a to-do: an agent in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
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
pub enum Presence {
    /// Its process runs.
    Here,
    /// Its process was seen to be gone.
    Gone,
    /// It cannot be seen from here.
    Unseen,
}

impl Holder {
    /// Returns an agent that lives in this process.
    ///
    /// # Errors
    ///
    /// The operating system's, where `/proc` is not mounted.
    pub fn here(owner: &str) -> io::Result<Self> {
        Self::of(owner, procfs::self_ref().ok_or(io::ErrorKind::NotFound)?)
    }

    /// Returns an agent that is there as long as a process of this machine.
    ///
    /// # Errors
    ///
    /// The operating system's, where `/proc` is not mounted.
    pub fn of(owner: &str, process: ProcRef) -> io::Result<Self> {
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
    pub fn looks_for(&self, other: &Self) -> Presence {
        if other.boot != self.boot {
            let is_this_machine = other.machine == self.machine;
            return if is_this_machine { Presence::Gone } else { Presence::Unseen };
        }
        if other.namespace != self.namespace {
            return Presence::Unseen;
        }
        if procfs::is_running(other.process) { Presence::Here } else { Presence::Gone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gone_is_only_who_is_seen_to_be_gone() {
        let here = Holder::here("one").expect("has /proc");
        assert_eq!(here.looks_for(&here), Presence::Here);
        let other = |change: fn(&mut Holder)| {
            let mut other = here.clone();
            change(&mut other);
            here.looks_for(&other)
        };
        assert_eq!(other(|other| other.owner = "two".to_owned()), Presence::Here);
        assert_eq!(other(|other| other.process.start_ticks += 1), Presence::Gone);
        assert_eq!(other(|other| other.process.pid = i32::MAX), Presence::Gone);
        assert_eq!(other(|other| other.namespace += 1), Presence::Unseen);
        assert_eq!(other(|other| other.boot.0 = "earlier".to_owned()), Presence::Gone);
        let elsewhere = |other: &mut Holder| {
            other.boot.0 = "another".to_owned();
            other.machine = "another".to_owned();
        };
        assert_eq!(other(elsewhere), Presence::Unseen);
    }
}
