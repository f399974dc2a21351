//! The proxy of a task that may reach only some remote hosts.
//!
//! The task is in a network namespace that contains only a loopback interface. Before its exec, the
//! task's leader creates a listening socket there and passes it to the proxy, which runs outside
//! the namespace. The task can therefore reach a remote host only by a request to the proxy that
//! names the host. Names are resolved in the proxy, never in the task.
//!
//! The proxy exits when no process has the other end of its socket open. The task's shim holds that
//! end, so the proxy exits with the task. The proxy also exits when the shim is killed, and the
//! task then reaches no remote host.

mod relay;
mod resolve;
mod serve;
mod tunnel;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::id::TaskId;
use siding_model::net::{NetPolicy, RemoteHosts};

use crate::processes::cgroup;
use crate::processes::siding_process::{SELF_EXE, STARTER_FD};
use crate::sys::{birthmark, daemonize, descriptor, file, process, unix_socket};

/// The first argument that makes the program a proxy. The task's id follows.
pub const PROXY_ARGUMENT: &str = "__proxy";

/// The process name of a proxy. The name distinguishes the proxy, which carries the task's mark,
/// from the processes that the task has started.
pub const PROXY_NAME: &CStr = c"siding-proxy";

/// The port on which the proxy listens in the task's network namespace; it is also the default port
/// of the proxy Squid.
pub const PROXY_PORT: u16 = 3128;

/// The maximum size of a packet with a policy, in bytes: 256 names of 253 bytes, with ports.
const MAX_POLICY_BYTES: usize = 80 << 10;

/// Starts a proxy for these remote hosts. The proxy exits when the returned socket and all copies
/// of it are closed.
///
/// # Errors
///
/// The I/O error of the system call.
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

/// Runs this process as a proxy until the other end of its socket is closed. Returns the exit code
/// of the process.
#[must_use]
pub fn main() -> u8 {
    const USAGE_EXIT_CODE: u8 = 2;
    let task = std::env::args().nth(2).and_then(|id| id.parse().ok());
    let (Ok(control), Some(task)) = (descriptor::take_inherited(STARTER_FD), task) else {
        eprintln!("siding: `__proxy` is started by siding itself; run `siding --help`");
        return USAGE_EXIT_CODE;
    };
    join_task(task);
    // While this process is in a directory, the file system of that directory cannot be unmounted.
    let _best_effort = std::env::set_current_dir("/");
    match receive_policy(&control).map(|(hosts, listener)| serve::serve(control, listener, hosts)) {
        Some(()) => 0,
        None => u8::from(true),
    }
}

/// Sets the task's mark on this process, and moves the process out of the control group of an
/// enclosing task. Otherwise the proxy of a nested task would count as a process of the outer task
/// and be killed with that task. Failures are ignored, because the proxy exits with its own task in
/// any case.
fn join_task(task: TaskId) {
    // The name is set first, so that no scan sees the mark under another process name.
    process::set_name(PROXY_NAME);
    let _best_effort = birthmark::set_birthmark(task.birthmark());
    let _best_effort = cgroup::OwnCgroup::find().map(|own| own.leave_task_group());
}

/// Receives the policy from the starter, and the listening socket from the task's leader. Returns
/// `None` if the policy is invalid, or if one of the two does not arrive because the start of the
/// task has failed.
fn receive_policy(control: &OwnedFd) -> Option<(RemoteHosts, OwnedFd)> {
    let policy = unix_socket::receive(control, MAX_POLICY_BYTES, true).ok()??;
    let NetPolicy::Allow(hosts) = std::str::from_utf8(&policy).ok()?.parse().ok()? else {
        return None;
    };
    let (_, descriptors) = unix_socket::receive_with_fds(control, 1).ok()??;
    Some((hosts, descriptors.into_iter().next()?))
}
