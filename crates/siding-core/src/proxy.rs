//! The proxy of a task that may reach some hosts only.
//!
//! The task is in a network namespace that holds nothing but a loopback. A socket that listens there
//! is made by the task's leader before its exec and passed to this process, which is outside: so the
//! one way out is a request that names its host. Names are looked up here, never in the task.
//!
//! It ends when nobody holds the other end of its socket any more: the task's shim has it, so the
//! proxy ends with the task, and with a killed shim. Then the way out is shut.

mod relay;
mod resolve;
mod serve;
mod tunnel;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::id::TaskId;
use siding_model::net::{NetPolicy, RemoteHosts};

use crate::cgroup;
use crate::siding_process::{SELF_EXE, STARTER_FD};
use crate::sys::{birthmark, daemonize, descriptor, file, process, unix_socket};

/// First argument by which the program knows that it is to be a proxy. The task's id follows.
pub const PROXY_ARGUMENT: &str = "__proxy";

/// Name of a proxy's process. It has the task's mark, and is none of what the task has started.
pub const PROXY_NAME: &CStr = c"siding-proxy";

/// Where the proxy listens in the task's namespace, which is empty: Squid's port.
pub const PROXY_PORT: u16 = 3128;

/// Longest packet with a policy, in bytes: 256 names of 253 bytes, with ports.
const MAX_POLICY_BYTES: usize = 80 << 10;

/// Starts a proxy for these hosts. What is returned keeps it alive.
///
/// # Errors
///
/// The operating system's.
pub fn start(hosts: &RemoteHosts, task: TaskId) -> io::Result<OwnedFd> {
    let (ours, theirs) = unix_socket::pair()?;
    let null = file::open_null()?;
    let null = null.as_fd();
    let task = CString::new(task.to_string())?;
    daemonize::spawn_daemon(&daemonize::DaemonCommand {
        program: SELF_EXE,
        argv: &[c"siding", c"__proxy", &task],
        descriptors: &[null, null, null, theirs.as_fd()],
    })?;
    let policy = NetPolicy::Allow(hosts.clone()).to_string();
    unix_socket::send(&ours, policy.as_bytes(), true)?;
    Ok(ours)
}

/// Runs this process as a proxy until its task has ended. Returns the exit code of the process.
#[must_use]
pub fn main() -> u8 {
    const USAGE_EXIT_CODE: u8 = 2;
    let task = std::env::args().nth(2).and_then(|id| id.parse().ok());
    let (Ok(control), Some(task)) = (descriptor::take_inherited(STARTER_FD), task) else {
        eprintln!("siding: `__proxy` is started by siding itself; run `siding --help`");
        return USAGE_EXIT_CODE;
    };
    join_task(task);
    // The directory it was started in may be unmounted or removed.
    let _best_effort = std::env::set_current_dir("/");
    match receive_policy(&control).map(|(hosts, listener)| serve::serve(control, listener, hosts)) {
        Some(()) => 0,
        None => u8::from(true),
    }
}

/// Becomes a process of this task, and of none around it: the proxy of a task inside a task must not
/// count as the outer one's, nor end with that. What fails is as it was: it ends with its own task.
fn join_task(task: TaskId) {
    // First, so that nobody sees the mark under another name.
    process::set_name(PROXY_NAME);
    let _best_effort = birthmark::set_birthmark(task.birthmark());
    let _best_effort = cgroup::OwnCgroup::find().map(|own| own.leave_task_group());
}

/// Takes the policy of whoever started this process, and the socket of the task's leader. `None` when
/// there will be no task.
fn receive_policy(control: &OwnedFd) -> Option<(RemoteHosts, OwnedFd)> {
    let policy = unix_socket::receive(control, MAX_POLICY_BYTES, true).ok()??;
    let NetPolicy::Allow(hosts) = std::str::from_utf8(&policy).ok()?.parse().ok()? else {
        return None;
    };
    let (_, descriptors) = unix_socket::receive_with_fds(control, 1).ok()??;
    Some((hosts, descriptors.into_iter().next()?))
}
