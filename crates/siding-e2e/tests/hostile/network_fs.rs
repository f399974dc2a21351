//! A state directory on a FUSE file system, which siding treats as a network file system.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use siding_e2e::{Sandbox, eventually, is_root, mounts, words};

use crate::{Task, assert_task_exits, live_shim};

/// The file system type that statfs(2) reports for FUSE (linux/magic.h).
const FUSE_SUPER_MAGIC: u64 = 0x6573_5546;

/// The FUSE program that serves the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServedFsKind {
    /// sshfs with a local server process. This file system supports neither FIFOs nor sockets.
    Sshfs,
    /// bindfs, which mirrors another directory.
    Bindfs,
}

/// A FUSE file system on the state directory, in a mount namespace of this test. The file system is
/// unmounted on drop.
#[derive(Debug)]
struct ServedFs {
    state: PathBuf,
    server: Child,
}

impl ServedFs {
    /// Mounts the file system. Returns `None` and prints the reason if the file system cannot be
    /// mounted.
    fn mount(sandbox: &Sandbox, kind: ServedFsKind) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: only root can mount");
            return None;
        }
        let state = sandbox.state_dir();
        let (backing_dir, state_text) =
            (sandbox.root().join("behind"), state.display().to_string());
        let mut serve = match kind {
            ServedFsKind::Sshfs => sshfs_command(sandbox, &backing_dir)?,
            ServedFsKind::Bindfs => {
                let mut serve = Command::new("bindfs");
                serve.arg("--no-allow-other").arg(&backing_dir);
                serve
            }
        };
        std::fs::create_dir(&backing_dir).expect("test directory");
        std::fs::set_permissions(&backing_dir, Permissions::from_mode(0o700))
            .expect("test directory");
        if let Err(error) = mounts::unshare_mounts() {
            eprintln!("skipped: mounting is not permitted here: {error}");
            return None;
        }
        serve.args(["-f", &state_text]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = match serve.spawn() {
            Ok(server) => server,
            Err(error) => {
                eprintln!("skipped: no {kind:?} here: {error}");
                return None;
            }
        };
        let mut ended = None;
        eventually("it is mounted", || {
            ended = server.try_wait().expect("waiting for the child succeeded");
            ended.is_some() || is_fuse(&state)
        });
        if let Some(status) = ended {
            eprintln!("skipped: {kind:?} cannot mount here: {status}");
            return None;
        }
        Some(Self { state, server })
    }
}

impl Drop for ServedFs {
    fn drop(&mut self) {
        mounts::unmount(&self.state);
        let _already_ended = self.server.kill();
        let _status = self.server.wait();
    }
}

/// Returns an sshfs command that uses a local `sftp-server` instead of a connection. Returns `None`
/// and prints the reason if no `sftp-server` is installed.
fn sshfs_command(sandbox: &Sandbox, backing_dir: &Path) -> Option<Command> {
    let candidates = ["/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server"];
    let Some(program) = candidates.into_iter().find(|path| Path::new(path).exists()) else {
        eprintln!("skipped: no sftp-server here");
        return None;
    };
    let connect = sandbox.root().join("connect");
    std::fs::write(&connect, format!("#!/bin/sh\nexec {program}\n")).expect("test directory");
    std::fs::set_permissions(&connect, Permissions::from_mode(0o700)).expect("test file");
    let mut serve = Command::new("sshfs");
    serve.arg("-o").arg(format!("ssh_command={}", connect.display()));
    serve.arg(format!("nowhere:{}", backing_dir.display()));
    Some(serve)
}

fn is_fuse(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type.cast_unsigned() == FUSE_SUPER_MAGIC)
}

/// Returns the directory that contains the runtime directories of the tasks.
fn runtime_dir(sandbox: &Sandbox) -> PathBuf {
    sandbox.home().join("run/siding")
}

fn file_names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn start_task(sandbox: &Sandbox, flags: &[&str], text: &str) -> Task {
    let head = ["run", "--background", "--json"];
    let args = [&head[..], flags, &["--", text]].concat();
    Task::of(&sandbox.siding(&args).run().expect_code(0))
}

fn with_each_fs_kind(test: impl Fn(&Sandbox)) {
    for kind in [ServedFsKind::Sshfs, ServedFsKind::Bindfs] {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        if let Some(_keeps_alive) = ServedFs::mount(&sandbox, kind) {
            println!("with {kind:?}");
            test(&sandbox);
            eventually("no runtime directory is left", || {
                file_names(&runtime_dir(&sandbox)).is_empty()
            });
            for id in sandbox.task_ids() {
                assert_task_exits(&id);
                let leftover = file_names(&sandbox.state_dir().join("tasks").join(id));
                assert!(!leftover.iter().any(|name| name == "runtime_dir"), "{leftover:?}");
            }
        }
    }
}

#[test]
fn task_on_a_network_fs_has_its_runtime_dir_elsewhere() {
    with_each_fs_kind(|sandbox| {
        let done = sandbox.siding(&["run", "--", "echo out; echo err >&2; exit 3"]).run();
        assert_eq!(done.expect_code(3).stdout_text(), "out\nerr\n");
        let task = start_task(sandbox, &["--stdin", "pipe"], "cat; setsid sleep 300 & wait");
        let id = task.id();
        assert_eq!(file_names(&runtime_dir(sandbox).join(id)), ["ctl", "in.fifo", "out.fifo"]);
        let dir = sandbox.state_dir().join("tasks").join(id);
        assert_eq!(file_names(&dir), ["journal", "output", "runtime_dir"]);
        // A later call with another `XDG_RUNTIME_DIR` must still find the runtime directory of the
        // task.
        let other = sandbox.path("elsewhere");
        let call = |args: &[&str]| sandbox.siding(args).env("XDG_RUNTIME_DIR", &other).run();
        let _written = call(&["input", id, "text"]).expect_code(0);
        let _closed = call(&["input", id, "--eof"]).expect_code(0);
        eventually("the input was read", || task.file() == b"text\n");
        let _stopped = call(&["stop", id]).expect_code(0);
        assert_task_exits(id);
        let pid = std::process::id().to_string();
        let _open = sandbox.siding(&["session", "open", "s", "--owner-pid", &pid]).run();
        let done = sandbox.siding(&["run", "--session", "s", "--", "true"]).run();
        let _done = done.expect_code(0);
        let _closed = sandbox.siding(&["session", "close", "s"]).run().expect_code(0);
        // Wait for the shims to exit, because a file that a shim has open cannot be removed
        // completely from such a file system.
        sandbox.task_ids().iter().for_each(|id| assert_task_exits(id));
        // To remove ended tasks, the reaper must be able to lock them on this file system.
        let reap = sandbox.siding(&["reap"]).env("SIDING_RETENTION_TASKS", "0");
        let _reaped = reap.run().expect_code(0);
        assert_eq!(file_names(&sandbox.state_dir().join("tasks")), Vec::<String>::new());
    });
}

/// siding recognizes that a task waits for input, although the FIFO of the task's standard input is
/// not in the task's directory.
#[test]
fn task_on_a_network_fs_that_reads_its_input_is_recognized() {
    with_each_fs_kind(|sandbox| {
        let text = "printf 'Proceed? [Y/n] '; cat; true";
        let task = start_task(sandbox, &["--stdin", "pipe"], text);
        eventually("it waits for input", || {
            let why = sandbox.siding(&["why", "--json", task.id()]).run().expect_code(0);
            why.json()["verdict"] == "input_wait"
        });
        let _stopped = sandbox.siding(&["stop", task.id()]).run().expect_code(0);
        assert_task_exits(task.id());
    });
}

/// Promises P25 and P137: a takeover finds the runtime directory of a task and loses no output, and
/// `reap` removes leftovers of runtime directories.
#[test]
fn takeover_finds_and_reap_clears_the_runtime_dir() {
    with_each_fs_kind(|sandbox| {
        let count = "for i in $(seq 40); do echo $i; sleep .02; done; exit 7";
        let task = start_task(sandbox, &[], count);
        live_shim(&task).kill();
        let waited = sandbox.siding(&["wait", "--json", task.id()]).run().expect_code(7);
        assert_eq!(waited.json()["by"][0]["detail"]["code"], 7, "{waited}");
        let lines: String = (1..=40).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&task.file()), lines);

        let verbs = words("mark lost hang");
        let task = start_task(sandbox, &[], &format!("exec {}", sandbox.puppet_line(&verbs)));
        let (shim, leader) = (live_shim(&task), sandbox.wait_for_mark("lost"));
        shim.kill();
        eventually("its shim is dead", || !shim.is_alive());
        leader.kill();
        eventually("the process is dead", || !leader.is_alive());
        assert!(runtime_dir(sandbox).join(task.id()).exists(), "the runtime directory must remain");
        let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
    });
}
