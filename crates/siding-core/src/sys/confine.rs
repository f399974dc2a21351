//! Confining a process to a part of the network before it calls exec. What it starts inherits that,
//! and nothing takes it back.
//!
//! Everything that can be made before is made by the parent: the child borrows its memory and only
//! makes system calls (`super::borrowed`).

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::borrowed::{borrow_and_run, wait_for};
use super::landlock::Rules;
use super::netns::{self, Loopback, Maps, check};
use super::tcp_only::Filter;
use super::way_out;

/// What a process is confined to.
#[derive(Debug)]
pub struct Confinement(Kind);

#[derive(Debug)]
enum Kind {
    /// A network namespace of its own.
    Namespace { maps: Maps, loopback: Loopback, way_out: Option<WayOut> },
    /// TCP connections to some ports.
    Ports { rules: Rules, filter: Filter },
}

/// A socket that listens in the namespace, for somebody outside who lets things through.
#[derive(Debug)]
struct WayOut {
    port: u16,
    /// Socket to whoever takes it.
    taker: OwnedFd,
}

/// What a confinement is made of, for saying what a kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A network namespace, in a user namespace where this user may not make one alone.
    Namespace,
    /// The user in the user namespace.
    User,
    /// The namespace's loopback.
    Loopback,
    /// Landlock's rules for ports.
    Ports,
    /// The filter of system calls that goes with them.
    Filter,
    /// The socket at which a proxy listens.
    WayOut,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "make a network namespace",
            Self::User => "be the same user in a user namespace",
            Self::Loopback => "bring up the loopback of a network namespace",
            Self::Ports => "make rules for TCP ports (Landlock, ABI 4 of Linux 6.7)",
            Self::WayOut => "hand a proxy its socket",
            Self::Filter => "install a filter of system calls (seccomp)",
        })
    }
}

/// Why a process could not be confined. It has not called exec.
#[derive(Debug, thiserror::Error)]
#[error("could not {part}: {source}")]
pub struct Refused {
    /// What failed.
    pub part: Part,
    /// The operating system's reason.
    pub source: io::Error,
}

/// What failed in a child, as a value that it can leave behind: the part, and an errno.
pub(super) type Failed = (Part, c_int);

impl From<Failed> for Refused {
    fn from((part, errno): Failed) -> Self {
        Self { part, source: io::Error::from_raw_os_error(errno) }
    }
}

impl Confinement {
    /// No network but a loopback of its own, or not even that.
    #[must_use]
    pub fn alone(loopback: Loopback) -> Self {
        Self(Kind::Namespace { maps: Maps::of_this_process(), loopback, way_out: None })
    }

    /// A loopback of its own, where a socket listens that whoever holds the other end of `taker` is
    /// sent.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there is no descriptor left.
    pub fn behind(taker: BorrowedFd<'_>, port: u16) -> Result<Self, Refused> {
        let taker = taker.try_clone_to_owned();
        let taker = taker.map_err(|source| Refused { part: Part::WayOut, source })?;
        let way_out = Some(WayOut { port, taker });
        let maps = Maps::of_this_process();
        Ok(Self(Kind::Namespace { maps, loopback: Loopback::Up, way_out }))
    }

    /// TCP connections to these ports and nothing else of the network; listening is left alone.
    ///
    /// # Errors
    ///
    /// [`Refused`] where the kernel, or what is known here of this machine, lacks it.
    pub fn to_ports(ports: impl Iterator<Item = u16>) -> Result<Self, Refused> {
        let refused = |part| move |source| Refused { part, source };
        let rules = Rules::connect_only(ports).map_err(refused(Part::Ports))?;
        let unknown = || refused(Part::Filter)(io::ErrorKind::Unsupported.into());
        let filter = Filter::new().ok_or_else(unknown)?;
        Ok(Self(Kind::Ports { rules, filter }))
    }

    /// Confines the calling process.
    ///
    /// # Safety
    ///
    /// Only in a child that shares its parent's memory: it makes nothing but system calls.
    pub(super) unsafe fn enter(&self) -> Result<(), Failed> {
        match &self.0 {
            // SAFETY: the caller's.
            Kind::Namespace { maps, loopback, way_out } => unsafe {
                netns::enter(maps, *loopback)?;
                match way_out {
                    Some(WayOut { port, taker }) => way_out::hand(*port, taker.as_fd()),
                    None => Ok(()),
                }
            },
            // SAFETY: the caller's.
            Kind::Ports { rules, filter } => unsafe { enter_ports(rules, filter) },
        }
    }

    /// Tries it on a process that ends at once.
    ///
    /// # Errors
    ///
    /// [`Refused`], as a task would be.
    pub fn try_out(&self) -> Result<(), Refused> {
        let mut trial = Trial { confinement: self, failed: None };
        // Without an exit signal it is invisible to a host that waits for any child.
        let pid = borrow_and_run(run_trial, (&raw mut trial).cast(), 0)
            .map_err(|source| Refused { part: Part::Namespace, source })?;
        wait_for(pid);
        trial.failed.map_or(Ok(()), |failed| Err(failed.into()))
    }
}

/// # Safety
///
/// Only in a child that shares its parent's memory: it makes nothing but system calls.
unsafe fn enter_ports(rules: &Rules, filter: &Filter) -> Result<(), Failed> {
    // SAFETY: only system calls.
    unsafe {
        if rules.apply() != 0 {
            // Who has no rights may only give up rights that no program gives back
            // (PR_SET_NO_NEW_PRIVS).
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), Part::Ports)?;
            check(rules.apply() as c_int, Part::Ports)?;
        }
        check(filter.install(), Part::Filter)
    }
}

struct Trial<'c> {
    confinement: &'c Confinement,
    failed: Option<Failed>,
}

extern "C" fn run_trial(trial: *mut c_void) -> c_int {
    // SAFETY: `try_out` passes a `Trial` that nobody else touches until this child has ended. Only
    // system calls follow.
    unsafe {
        let trial = &mut *trial.cast::<Trial<'_>>();
        trial.failed = trial.confinement.enter().err();
        libc::_exit(0)
    }
}
