//! Helpers for tests of network policies.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use siding_e2e::{Process, ProgramOutput, Sandbox, eventually, is_root, processes};

const UNPRIVILEGED_UID: u32 = 1001;

/// Returns a sandbox for the current user and, if this user is root, a second sandbox for an
/// unprivileged user.
pub(crate) fn root_and_user_sandboxes() -> Vec<Sandbox> {
    let mut all = vec![Sandbox::new()];
    if is_root() {
        all.push(Sandbox::new_for_uid(UNPRIVILEGED_UID));
    } else {
        println!("left out: the second sandbox, which needs root");
    }
    all.iter_mut().for_each(Sandbox::expect_clean);
    all
}

/// A server that counts connections. It listens on the machine's loopback, outside any task's
/// network namespace.
pub(crate) struct CountingServer {
    /// Port of the listener on 127.0.0.1.
    pub(crate) port: u16,
    accepted: Arc<AtomicUsize>,
}

impl CountingServer {
    /// Starts the server, whose thread runs until the test process ends.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("the value exists").port();
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(stream);
            }
        });
        Self { port, accepted: taken }
    }

    /// Returns the number of connections accepted since the start.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

/// Returns a shell text that connects to the port once and fails if the connection fails.
pub(crate) fn connect_command(port: u16) -> String {
    format!("(: <>/dev/tcp/127.0.0.1/{port})")
}

/// Runs a shell text with a network policy.
pub(crate) fn run_with_policy(sandbox: &Sandbox, policy: &str, text: &str) -> ProgramOutput {
    sandbox.siding(&["run", "--allow-duplicate", "--net", policy, "--", text]).run()
}

/// Starts a shell text in the background with a policy and returns the task's id.
#[track_caller]
pub(crate) fn start_with_policy(sandbox: &Sandbox, policy: &str, text: &str) -> String {
    let args = ["run", "--background", "--json", "--net", policy, "--", text];
    let done = sandbox.siding(&args).run().expect_code(0);
    done.json()["task_id"].as_str().expect("a task id").to_owned()
}

/// Returns the JSON of `siding show`.
#[track_caller]
pub(crate) fn show_task(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// Kills a task's shim and waits until another shim has taken over the task.
#[track_caller]
pub(crate) fn kill_shim_and_wait_for_takeover(sandbox: &Sandbox, id: &str) {
    let shim = show_task(sandbox, id)["shim_pid"].as_i64().map(i32::try_from);
    let shim = shim.and_then(Result::ok).and_then(Pid::from_raw).expect("a process");
    kill_process(shim, Signal::KILL).expect("the process is alive");
    let args = ["wait", "--timeout", "100ms", id];
    eventually("another shim has taken over", || {
        let _bound_reached = sandbox.siding(&args).run();
        show_task(sandbox, id)["rescues"] == 1
    });
}

/// Returns a shell text that requests a tunnel from the proxy and prints the first line of the
/// answer.
pub(crate) fn proxy_connect_command(target: &str) -> String {
    let request = format!("CONNECT {target} HTTP/1.1\\r\\n\\r\\n");
    format!("(exec 3<>/dev/tcp/127.0.0.1/3128; printf '{request}' >&3; head -n 1 <&3)")
}

/// Returns the running proxy processes of a task.
pub(crate) fn proxy_processes(id: &str) -> Vec<Process> {
    let line = format!("siding __proxy {id}");
    let is_one = |pid: &u32| processes::command_line(*pid).trim() == line;
    processes::list_pids().into_iter().filter(is_one).filter_map(Process::from_pid).collect()
}

/// Waits until a task's journal has its final record, and returns the task's output. Calls no
/// siding command, because a command that reports the end would acknowledge the notice of the end.
#[track_caller]
pub(crate) fn wait_for_end(sandbox: &Sandbox, id: &str) -> String {
    let dir = sandbox.state_dir().join("tasks").join(id);
    let read = |name| std::fs::read_to_string(dir.join(name)).expect("the entry exists");
    eventually("it has ended", || read("journal").contains("\"record\":\"closed\""));
    read("output")
}
