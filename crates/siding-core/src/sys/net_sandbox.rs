//! Confining a process to a part of the network before it calls exec. What it starts inherits that,
//! and nothing takes it back.
//!
//! Everything that can be made before is made by the parent: the child borrows its memory and only
//! makes system calls (`super::borrowed`).

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::landlock::PortRules;
use super::netns::{self, IdMaps, Loopback, check_result};
use super::netns_listener;
use super::seccomp::SeccompFilter;
use super::vfork::{vfork_and_run, wait_for_child};

/// What a process is confined to.
#[derive(Debug)]
pub struct NetSandbox(SandboxKind);

#[derive(Debug)]
enum SandboxKind {
    /// A network namespace of its own.
    Namespace { maps: IdMaps, loopback: Loopback, proxy_listener: Option<ProxyListener> },
    /// TCP connections to some ports.
    Ports { rules: PortRules, filter: SeccompFilter },
}

/// A socket that listens in the namespace, for somebody outside who lets things through.
#[derive(Debug)]
struct ProxyListener {
    port: u16,
    /// Socket to whoever takes it.
    receiver: OwnedFd,
}

/// What a confinement is made of, for saying what a kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxPart {
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
    ProxyListener,
}

impl fmt::Display for SandboxPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "make a network namespace",
            Self::User => "be the same user in a user namespace",
            Self::Loopback => "bring up the loopback of a network namespace",
            Self::Ports => "make rules for TCP ports (Landlock, ABI 4 of Linux 6.7)",
            Self::ProxyListener => "hand a proxy its socket",
            Self::Filter => "install a filter of system calls (seccomp)",
        })
    }
}

/// Why a process could not be confined. It has not called exec.
#[derive(Debug, thiserror::Error)]
#[error("could not {part}: {source}")]
pub struct SandboxError {
    /// What failed.
    pub part: SandboxPart,
    /// The operating system's reason.
    pub source: io::Error,
}

/// What failed in a child, as a value that it can leave behind: the part, and an errno.
pub(super) type SandboxFailure = (SandboxPart, c_int);

impl From<SandboxFailure> for SandboxError {
    fn from((part, errno): SandboxFailure) -> Self {
        Self { part, source: io::Error::from_raw_os_error(errno) }
    }
}

impl NetSandbox {
    /// No network but a loopback of its own, or not even that.
    #[must_use]
    pub fn isolated(loopback: Loopback) -> Self {
        Self(SandboxKind::Namespace {
            maps: IdMaps::for_this_process(),
            loopback,
            proxy_listener: None,
        })
    }

    /// A loopback of its own, where a socket listens that whoever holds the other end of `taker` is
    /// sent.
    ///
    /// # Errors
    ///
    /// [`SandboxError`] when there is no descriptor left.
    pub fn with_proxy_listener(taker: BorrowedFd<'_>, port: u16) -> Result<Self, SandboxError> {
        let taker = taker.try_clone_to_owned();
        let taker =
            taker.map_err(|source| SandboxError { part: SandboxPart::ProxyListener, source })?;
        let way_out = Some(ProxyListener { port, receiver: taker });
        let maps = IdMaps::for_this_process();
        Ok(Self(SandboxKind::Namespace { maps, loopback: Loopback::Up, proxy_listener: way_out }))
    }

    /// TCP connections to these ports and nothing else of the network; listening is left alone.
    ///
    /// # Errors
    ///
    /// [`SandboxError`] where the kernel, or what is known here of this machine, lacks it.
    pub fn allow_ports(ports: impl Iterator<Item = u16>) -> Result<Self, SandboxError> {
        let refused = |part| move |source| SandboxError { part, source };
        let rules = PortRules::connect_only(ports).map_err(refused(SandboxPart::Ports))?;
        let unknown = || refused(SandboxPart::Filter)(io::ErrorKind::Unsupported.into());
        let filter = SeccompFilter::new().ok_or_else(unknown)?;
        Ok(Self(SandboxKind::Ports { rules, filter }))
    }

    /// Confines the calling process.
    ///
    /// # Safety
    ///
    /// Only in a child that shares its parent's memory: it makes nothing but system calls.
    pub(super) unsafe fn enter(&self) -> Result<(), SandboxFailure> {
        match &self.0 {
            // SAFETY: the caller's.
            SandboxKind::Namespace { maps, loopback, proxy_listener: way_out } => unsafe {
                netns::enter(maps, *loopback)?;
                match way_out {
                    Some(ProxyListener { port, receiver: taker }) => {
                        netns_listener::create_and_send(*port, taker.as_fd())
                    }
                    None => Ok(()),
                }
            },
            // SAFETY: the caller's.
            SandboxKind::Ports { rules, filter } => unsafe { enter_port_rules(rules, filter) },
        }
    }

    /// Tries it on a process that ends at once.
    ///
    /// # Errors
    ///
    /// [`SandboxError`], as a task would be.
    pub fn try_in_child(&self) -> Result<(), SandboxError> {
        let mut trial = SandboxTrial { confinement: self, failed: None };
        // Without an exit signal it is invisible to a host that waits for any child.
        let pid = vfork_and_run(run_trial, (&raw mut trial).cast(), 0)
            .map_err(|source| SandboxError { part: SandboxPart::Namespace, source })?;
        wait_for_child(pid);
        trial.failed.map_or(Ok(()), |failed| Err(failed.into()))
    }
}

/// # Safety
///
/// Only in a child that shares its parent's memory: it makes nothing but system calls.
unsafe fn enter_port_rules(
    rules: &PortRules,
    filter: &SeccompFilter,
) -> Result<(), SandboxFailure> {
    // SAFETY: only system calls.
    unsafe {
        if rules.apply() != 0 {
            // Who has no rights may only give up rights that no program gives back
            // (PR_SET_NO_NEW_PRIVS).
            check_result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), SandboxPart::Ports)?;
            check_result(rules.apply() as c_int, SandboxPart::Ports)?;
        }
        check_result(filter.install(), SandboxPart::Filter)
    }
}

struct SandboxTrial<'c> {
    confinement: &'c NetSandbox,
    failed: Option<SandboxFailure>,
}

extern "C" fn run_trial(trial: *mut c_void) -> c_int {
    // SAFETY: `try_out` passes a `Trial` that nobody else touches until this child has ended. Only
    // system calls follow.
    unsafe {
        let trial = &mut *trial.cast::<SandboxTrial<'_>>();
        trial.failed = trial.confinement.enter().err();
        libc::_exit(0)
    }
}
