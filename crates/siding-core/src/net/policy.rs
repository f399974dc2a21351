//! Prepares the enforcement of a task's network policy, and checks whether this machine supports
//! it.

use std::os::fd::BorrowedFd;

use siding_model::net::NetPolicy;

use crate::net::proxy;
use crate::sys::landlock;
use crate::sys::net_sandbox::{NetSandbox, SandboxError, SandboxPart};
use crate::sys::netns::Loopback;

/// The error for a network policy that this machine cannot enforce. The task's command has not run.
#[derive(Debug, thiserror::Error)]
#[error("the network policy `{policy}` cannot be enforced here: {source}")]
pub struct UnenforceablePolicy {
    /// The policy that was requested for the task.
    pub policy: NetPolicy,
    /// The part of the sandbox that failed, and the kernel's error.
    pub source: SandboxError,
}

impl UnenforceablePolicy {
    /// Returns the setting of this machine that prevents the enforcement, or the state of Landlock
    /// if its rules failed. `None` if no obstacle is known.
    #[must_use]
    pub fn kernel_obstacle(&self) -> Option<String> {
        match self.source.part {
            SandboxPart::Namespace | SandboxPart::User | SandboxPart::Loopback => {
                namespace_restriction().map(str::to_owned)
            }
            SandboxPart::Ports => Some(match landlock::abi_version() {
                Some(abi) => format!("Landlock has ABI {abi} on this machine"),
                None => "Landlock is missing or disabled".to_owned(),
            }),
            SandboxPart::Filter | SandboxPart::ProxyListener => None,
        }
    }

    /// Returns [`Self::kernel_obstacle`] as text, followed by the policies that can be enforced
    /// instead.
    #[must_use]
    pub fn advice(&self) -> String {
        let works = |policy: &&str| policy.parse().is_ok_and(|one| check_enforceable(&one).is_ok());
        let works = SAMPLE_POLICIES.iter().map(|(_, policy)| policy).filter(|policy| works(policy));
        let works: Vec<_> = works.map(|policy| format!("`--net {policy}`")).collect();
        let reason =
            self.kernel_obstacle().map_or_else(String::new, |obstacle| format!("{obstacle}; "));
        format!("{reason}nothing was started; this machine can enforce {}", works.join(", "))
    }
}

/// One policy of each kind, the least restrictive first: the option that a check shows, and an
/// example.
pub(crate) const SAMPLE_POLICIES: [(&str, &str); 5] = [
    ("--net host", "host"),
    ("--net ports", "ports:443"),
    ("--net allow", "allow:example.org"),
    ("--net loopback", "loopback"),
    ("--net none", "none"),
];

/// Returns the setting that prevents an ordinary user from creating user namespaces; `None` if none
/// of the known settings does.
fn namespace_restriction() -> Option<&'static str> {
    const USERNS_SYSCTLS: [(&str, &str, &str); 3] = [
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0"),
        (
            "/proc/sys/kernel/unprivileged_userns_clone",
            "0",
            "kernel.unprivileged_userns_clone is 0",
        ),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "AppArmor keeps user namespaces from programs without a profile \
             (kernel.apparmor_restrict_unprivileged_userns is 1)",
        ),
    ];
    let is_set = |(path, value, _): &&(&str, &str, &str)| {
        std::fs::read_to_string(path).is_ok_and(|found| found.trim() == *value)
    };
    USERNS_SYSCTLS.iter().find(is_set).map(|(.., says)| *says)
}

/// Returns the sandbox for a task's processes, or `None` if the policy restricts nothing. `proxy`
/// is the socket to the task's proxy. Without this socket, a task that needs a proxy reaches only
/// its own loopback interface.
///
/// # Errors
///
/// [`UnenforceablePolicy`].
pub fn net_sandbox(
    policy: &NetPolicy,
    proxy: Option<BorrowedFd<'_>>,
) -> Result<Option<NetSandbox>, UnenforceablePolicy> {
    let refused = |source| UnenforceablePolicy { policy: policy.clone(), source };
    match policy {
        NetPolicy::Unrestricted => Ok(None),
        NetPolicy::None => Ok(Some(NetSandbox::isolated(Loopback::Down))),
        NetPolicy::Loopback => Ok(Some(NetSandbox::isolated(Loopback::Up))),
        NetPolicy::Ports(ports) => NetSandbox::allow_ports(ports.iter()).map(Some).map_err(refused),
        NetPolicy::Allow(_) => match proxy {
            Some(proxy) => {
                NetSandbox::with_proxy_listener(proxy, proxy::PROXY_PORT).map(Some).map_err(refused)
            }
            None => Ok(Some(NetSandbox::isolated(Loopback::Up))),
        },
    }
}

/// Checks that a policy can be enforced. Called before a task is recorded. The check starts a child
/// process and takes about a millisecond, unless the policy restricts nothing.
///
/// # Errors
///
/// [`UnenforceablePolicy`].
pub fn check_enforceable(policy: &NetPolicy) -> Result<(), UnenforceablePolicy> {
    let Some(confinement) = net_sandbox(policy, None)? else { return Ok(()) };
    let refused = |source| UnenforceablePolicy { policy: policy.clone(), source };
    confinement.try_in_child().map_err(refused)
}
