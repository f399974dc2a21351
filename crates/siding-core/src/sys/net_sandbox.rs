//! Confines a process to a part of the network before the process calls exec. Everything that the
//! process starts inherits the confinement, which cannot be undone.
//!
//! The parent prepares all data, because the child shares the parent's memory and may only make
//! system calls (`super::vfork`).

use std::ffi::{c_int, c_void};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::landlock::PortRules;
use super::netns::{self, IdMaps, Loopback, check_result};
use super::netns_listener;
use super::seccomp::SeccompFilter;
use super::vfork::{vfork_and_run, wait_for_child};

/// A confinement that the parent has prepared, for a child to enter before its exec.
#[derive(Debug)]
pub struct NetSandbox(SandboxKind);

#[derive(Debug)]
enum SandboxKind {
    /// A separate network namespace.
    Namespace { maps: IdMaps, loopback: Loopback, proxy_listener: Option<ProxyListener> },
    /// TCP connections to some ports, listening for TCP connections, and no other use of the
    /// network.
    Ports { rules: PortRules, filter: SeccompFilter },
}

/// A socket that listens in the namespace, for a proxy that runs outside the namespace.
#[derive(Debug)]
struct ProxyListener {
    port: u16,
    /// The socket over which the proxy receives the listening socket.
    receiver: OwnedFd,
}

/// The parts of a confinement, for reporting what a kernel lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxPart {
    /// A network namespace. It is inside a new user namespace if this user may not create a network
    /// namespace otherwise.
    Namespace,
    /// The mapping of the user and the group into the user namespace.
    User,
    /// The loopback interface of the namespace.
    Loopback,
    /// The Landlock rules for ports.
    Ports,
    /// The system call filter that refuses the uses of the network that Landlock does not control.
    Filter,
    /// The socket on which a proxy listens.
    ProxyListener,
}

impl fmt::Display for SandboxPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "create a network namespace",
            Self::User => "map the user into a user namespace",
            Self::Loopback => "bring up the loopback interface of a network namespace",
            Self::Ports => "create rules for TCP ports (Landlock, ABI 4 of Linux 6.7)",
            Self::ProxyListener => "pass the listening socket to the proxy",
            Self::Filter => "install a system call filter (seccomp)",
        })
    }
}

/// The error of a confinement that could not be prepared, or that a process could not enter. The
/// process has not called exec.
#[derive(Debug, thiserror::Error)]
#[error("could not {part}: {source}")]
pub struct SandboxError {
    /// The part of the confinement that could not be set up.
    pub part: SandboxPart,
    /// The cause, which the message contains.
    pub source: io::Error,
}

/// A failure in a child, as plain data that the child can store in the memory that it shares with
/// its parent: the part and the errno.
pub(super) type SandboxFailure = (SandboxPart, c_int);

impl From<SandboxFailure> for SandboxError {
    fn from((part, errno): SandboxFailure) -> Self {
        Self { part, source: io::Error::from_raw_os_error(errno) }
    }
}

impl NetSandbox {
    /// Creates a confinement that allows no network except a loopback interface of its own, which
    /// may be down.
    #[must_use]
    pub fn isolated(loopback: Loopback) -> Self {
        Self(SandboxKind::Namespace {
            maps: IdMaps::for_this_process(),
            loopback,
            proxy_listener: None,
        })
    }

    /// Creates a confinement that allows only a loopback interface of its own. A socket that
    /// listens there is sent over `taker` to the process at the other end.
    ///
    /// # Errors
    ///
    /// [`SandboxError`] if no descriptor is left.
    pub fn with_proxy_listener(taker: BorrowedFd<'_>, port: u16) -> Result<Self, SandboxError> {
        let taker = taker.try_clone_to_owned();
        let taker =
            taker.map_err(|source| SandboxError { part: SandboxPart::ProxyListener, source })?;
        let way_out = Some(ProxyListener { port, receiver: taker });
        let maps = IdMaps::for_this_process();
        Ok(Self(SandboxKind::Namespace { maps, loopback: Loopback::Up, proxy_listener: way_out }))
    }

    /// Creates a confinement that allows TCP connections to these ports, listening for TCP
    /// connections, and no other use of the network.
    ///
    /// # Errors
    ///
    /// [`SandboxError`] if the kernel lacks Landlock's rules for ports (Linux 6.7), or if siding
    /// knows no system call filter for this architecture.
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
    /// Must be called in a child that shares its parent's memory. Makes only system calls.
    pub(super) unsafe fn enter(&self) -> Result<(), SandboxFailure> {
        match &self.0 {
            // SAFETY: the caller runs in a child, as this function requires.
            SandboxKind::Namespace { maps, loopback, proxy_listener: way_out } => unsafe {
                netns::enter(maps, *loopback)?;
                match way_out {
                    Some(ProxyListener { port, receiver: taker }) => {
                        netns_listener::create_and_send(*port, taker.as_fd())
                    }
                    None => Ok(()),
                }
            },
            // SAFETY: the caller runs in a child, as this function requires.
            SandboxKind::Ports { rules, filter } => unsafe { enter_port_rules(rules, filter) },
        }
    }

    /// Tests the confinement by applying it to a child that exits immediately.
    ///
    /// # Errors
    ///
    /// The [`SandboxError`] with which the start of a task would fail.
    pub fn try_in_child(&self) -> Result<(), SandboxError> {
        let mut trial = SandboxTrial { confinement: self, failed: None };
        // Without an exit signal the process is invisible to a host that waits for any child.
        let pid = vfork_and_run(run_trial, (&raw mut trial).cast(), 0)
            .map_err(|source| SandboxError { part: SandboxPart::Namespace, source })?;
        wait_for_child(pid);
        trial.failed.map_or(Ok(()), |failed| Err(failed.into()))
    }
}

/// # Safety
///
/// Must be called in a child that shares its parent's memory. Makes only system calls.
unsafe fn enter_port_rules(
    rules: &PortRules,
    filter: &SeccompFilter,
) -> Result<(), SandboxFailure> {
    // SAFETY: this process is a child, as this function requires, so only the child is confined.
    // `rules` and `filter` live for the whole call.
    unsafe {
        if rules.apply() != 0 {
            // Without CAP_SYS_ADMIN a thread may restrict itself only if no later exec can gain
            // privileges (PR_SET_NO_NEW_PRIVS, landlock_restrict_self(2)).
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
    // SAFETY: `try_in_child` passes a `SandboxTrial` that no other code touches until this child
    // has exited. Only system calls follow.
    unsafe {
        let trial = &mut *trial.cast::<SandboxTrial<'_>>();
        trial.failed = trial.confinement.enter().err();
        libc::_exit(0)
    }
}
