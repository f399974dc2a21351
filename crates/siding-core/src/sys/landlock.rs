//! Landlock rules for TCP ports (Linux 6.7, ABI 4).
//!
//! The C library has no functions for Landlock; the structures are those of linux/landlock.h.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const ACCESS_NET_CONNECT_TCP: u64 = 1 << 1;
/// `LANDLOCK_RULE_NET_PORT`.
const RULE_NET_PORT: u32 = 2;

/// `struct landlock_ruleset_attr`, with the fields of ABI 4.
#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
}

/// `struct landlock_net_port_attr`.
#[repr(C)]
struct NetPortAttr {
    allowed_access: u64,
    port: u64,
}

/// A ruleset that is ready to be enforced.
#[derive(Debug)]
pub(super) struct PortRules(OwnedFd);

impl PortRules {
    /// Creates rules that allow TCP connections to these ports only. Listening is not restricted.
    ///
    /// # Errors
    ///
    /// `ENOSYS` or `EOPNOTSUPP` if there is no Landlock, `E2BIG` if its ABI is below 4.
    pub(super) fn connect_only(ports: impl Iterator<Item = u16>) -> io::Result<Self> {
        let handled =
            RulesetAttr { handled_access_fs: 0, handled_access_net: ACCESS_NET_CONNECT_TCP };
        // SAFETY: the kernel only reads the structure, whose size is passed with it.
        let made = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const handled,
                size_of::<RulesetAttr>(),
                0,
            )
        };
        let rules = RawFd::try_from(made).ok().filter(|fd| *fd >= 0);
        // SAFETY: the descriptor was just created and has no other owner.
        let rules = rules.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let rules = Self(rules.ok_or_else(io::Error::last_os_error)?);
        for port in ports {
            rules.allow_connect(port)?;
        }
        Ok(rules)
    }

    fn allow_connect(&self, port: u16) -> io::Result<()> {
        let rule = NetPortAttr { allowed_access: ACCESS_NET_CONNECT_TCP, port: port.into() };
        // SAFETY: the kernel only reads the structure, which is the right one for `RULE_NET_PORT`.
        let added = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.0.as_raw_fd(),
                RULE_NET_PORT,
                &raw const rule,
                0,
            )
        };
        if added == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Enforces the rules on the calling thread and everything that it starts. Returns -1 on
    /// failure, with the error in `errno`.
    ///
    /// # Safety
    ///
    /// Must be called only in a child, because the restriction is permanent.
    pub(super) unsafe fn apply(&self) -> libc::c_long {
        // SAFETY: the call takes only numbers. The caller runs in a child, as this function
        // requires, so only the child is restricted.
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.as_fd().as_raw_fd(), 0) }
    }
}

impl AsFd for PortRules {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the version of the Landlock ABI, or `None` if the kernel lacks Landlock or has it
/// disabled.
#[must_use]
pub fn abi_version() -> Option<u32> {
    /// `LANDLOCK_CREATE_RULESET_VERSION`.
    const CREATE_RULESET_VERSION: u32 = 1;
    let none = std::ptr::null::<RulesetAttr>();
    // SAFETY: when the version is requested, the kernel reads no structure.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, CREATE_RULESET_VERSION)
    };
    u32::try_from(abi).ok()
}
