//! Another user cannot read or write a task's files, use the shim's socket, or signal the task
//! (promise P136).

use std::fs::{File, Permissions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use siding_e2e::{Sandbox, eventually, is_root};

use crate::{OTHER_UID, Task, assert_refused, assert_task_exits, collect_entries, live_shim};

/// Runs a function in a new thread with the credentials of an unprivileged user. The thread sets
/// the credentials by direct system calls, which change only the calling thread. The functions of
/// the C library would change all threads (credentials(7)).
fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            let user = libc::c_long::from(OTHER_UID);
            for (call, arguments) in [
                (libc::SYS_setgroups, [0; 3]),
                (libc::SYS_setresgid, [user; 3]),
                (libc::SYS_setresuid, [user; 3]),
            ] {
                let [one, two, three] = arguments;
                // SAFETY: the calls access no memory of this process (the group list is empty) and
                // change only this thread's credentials.
                let done = unsafe { libc::syscall(call, one, two, three) };
                assert_eq!(done, 0, "{}", Error::last_os_error());
            }
            work()
        });
        stranger.join().expect("the thread does not panic")
    })
}

/// Sends a stop request through the shim's socket, and returns the length of the answer.
fn request_stop(socket: &Path) -> Result<usize> {
    let flags = SocketFlags::CLOEXEC;
    let caller = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&caller, &SocketAddrUnix::new(socket)?)?;
    let request = br#"{"do":"stop","by":"stranger","grace_ms":0}"#;
    rustix::net::send(&caller, request, SendFlags::NOSIGNAL)?;
    let mut answer = [0_u8; 4096];
    Ok(rustix::net::recv(&caller, &mut answer, RecvFlags::empty())?.1)
}

fn signal(pid: u64, number: i32) -> Result<()> {
    // SAFETY: kill(2) accesses no memory of this process. The process belongs to the test's own
    // task, so a signal that is not denied reaches no other process.
    let done = unsafe { libc::kill(i32::try_from(pid).expect("a process number"), number) };
    if done == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

fn open_to_write(path: &Path) -> Result<File> {
    File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path)
}

#[track_caller]
fn assert_denied<T>(what: &str, done: Result<T>) {
    match done {
        Ok(_) => panic!("{what} worked"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}"),
    }
}

/// Starts a task, as the sandbox's user, that prints `secret` and waits for input.
fn start_task(sandbox: &Sandbox) -> Task {
    let args = ["run", "--background", "--json", "--stdin", "pipe", "--", "echo secret; read -r x"];
    let task = Task::of(&sandbox.siding(&args).run().expect_code(0));
    let output = task.text("/output/path").to_owned();
    eventually("the task has written its output", || {
        std::fs::read(&output).is_ok_and(|text| text == b"secret\n")
    });
    task
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("root has the permission");
}

#[test]
fn other_user_has_no_access_to_tasks() {
    if !is_root() {
        eprintln!("skipped: only root can run programs as another user");
        return;
    }
    for mut sandbox in [Sandbox::new(), Sandbox::new_for_uid(OTHER_UID + 2)] {
        sandbox.expect_clean();
        let task = start_task(&sandbox);
        let dir = sandbox.state_dir().join("tasks").join(task.id());
        let (shim, leader) = (task.number("/shim_pid"), task.number("/processes/0/pid"));
        as_other_user(|| {
            for path in [sandbox.state_dir(), sandbox.state_dir().join("live"), dir.clone()] {
                assert_denied("listing", std::fs::read_dir(&path));
            }
            for name in ["journal", "output", "out.fifo", "in.fifo"] {
                assert_denied(name, File::open(dir.join(name)));
                assert_denied(name, open_to_write(&dir.join(name)));
                assert_denied(name, std::fs::remove_file(dir.join(name)));
            }
            assert_denied("connecting", request_stop(&dir.join("ctl")));
            assert_denied("creating", File::create(sandbox.state_dir().join("live/mine")));
            for pid in [shim, leader] {
                assert_denied("asking", signal(pid, 0));
                assert_denied("killing", signal(pid, libc::SIGKILL));
                assert_denied("environment", std::fs::read(format!("/proc/{pid}/environ")));
                assert_denied("output pipe", File::open(format!("/proc/{pid}/fd/1")));
                let argv = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&argv).contains("secret"), "{argv:?}");
            }
        });
        // The other user cannot bypass the permissions by calling siding.
        let calls = [&["ps"][..], &["show", task.id()], &["stop", task.id()], &["reap"]];
        for args in calls {
            let call = sandbox.siding(args).as_user(OTHER_UID, OTHER_UID).cwd("/");
            assert_refused(&call.run(), "Permission denied");
        }
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", task.id()]).run().expect_code(0);
        assert_task_exits(task.id());
    }
}

/// If a user makes the directories accessible with chmod, another user still can neither open the
/// files nor use the socket.
#[test]
fn shim_refuses_connections_of_another_user() {
    if !is_root() {
        eprintln!("skipped: only root can run programs as another user");
        return;
    }
    for mut sandbox in [Sandbox::new(), Sandbox::new_for_uid(OTHER_UID + 3)] {
        sandbox.expect_clean();
        let task = start_task(&sandbox);
        let dir = sandbox.state_dir().join("tasks").join(task.id());
        for path in [&sandbox.state_dir(), &sandbox.state_dir().join("tasks"), &dir] {
            set_mode(path, 0o755);
        }
        set_mode(&dir.join("ctl"), 0o777);
        as_other_user(|| {
            for name in ["journal", "output", "out.fifo", "in.fifo"] {
                assert_denied(name, File::open(dir.join(name)));
                assert_denied(name, open_to_write(&dir.join(name)));
            }
            for _ in 0..300 {
                // The shim accepts the connection, reads the peer's credentials, and closes the
                // connection without an answer.
                let answer = request_stop(&dir.join("ctl"));
                let error_code = answer.as_ref().err().and_then(Error::raw_os_error);
                let disconnected =
                    [Some(libc::ECONNRESET), Some(libc::EPIPE)].contains(&error_code);
                assert!(
                    disconnected || answer.as_ref().is_ok_and(|bytes| *bytes == 0),
                    "{answer:?}"
                );
            }
        });
        assert!(live_shim(&task).is_alive());
        let call = ["show", "--json", task.id()];
        let shown = Task::of(&sandbox.siding(&call).run().expect_code(0));
        assert_eq!(shown.text("/phase"), "running");
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", task.id()]).run().expect_code(0);
        assert_task_exits(task.id());
    }
}

/// Lets siding create the state directory with this umask, and asserts that no entry is accessible
/// to other users.
fn assert_private_under_umask(umask: &str) {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let run = ["run", "--background", "--json", "--stdin", "pipe", "--", "read -r x"];
    let output_call = ["output", "--all"];
    let script = format!("umask {umask}; exec {}", sandbox.siding_line(&run));
    let call = || sandbox.host("bash", &["-c", &script]).forbid_held_output();
    let task = Task::of(&call().env_remove("SIDING_STATE_DIR").run().expect_code(0));
    let root = sandbox.home().join(".local/state/siding");
    let with_state_dir = |call: siding_e2e::Invocation| call.env("SIDING_STATE_DIR", &root).run();
    let script = format!("umask {umask}; exec {} {}", sandbox.siding_line(&output_call), task.id());
    let _read = with_state_dir(sandbox.host("bash", &["-c", &script])).expect_code(0);
    let mut kinds = std::collections::BTreeSet::new();
    let mut too_permissive = vec![];
    for path in std::iter::once(root.clone()).chain(entries_below(&root)) {
        let found = std::fs::symlink_metadata(&path).expect("the entry still exists");
        let kind = found.mode() & libc::S_IFMT;
        let wanted = if found.is_dir() { 0o700 } else { 0o600 };
        kinds.insert(kind);
        // The mode of a symbolic link is ignored (symlink(7)).
        if !found.is_symlink() && found.mode() & 0o7777 != wanted {
            too_permissive.push(format!("{:o} {}", found.mode(), path.display()));
        }
    }
    let all = [libc::S_IFIFO, libc::S_IFDIR, libc::S_IFREG, libc::S_IFLNK, libc::S_IFSOCK];
    assert_eq!(kinds, all.into(), "not every kind of file was checked");
    assert_eq!(too_permissive, Vec::<String>::new(), "umask {umask}");
    let _stopped =
        with_state_dir(sandbox.siding(&["stop", "--grace", "0s", task.id()])).expect_code(0);
    assert_task_exits(task.id());
}

fn entries_below(root: &Path) -> Vec<std::path::PathBuf> {
    let mut found = vec![];
    collect_entries(root, &mut found);
    found
}

#[test]
fn state_files_are_private_under_any_umask() {
    assert_private_under_umask("000");
    assert_private_under_umask("077");
    assert_private_under_umask("022");
}

#[test]
fn state_directory_writable_by_others_is_refused() {
    let sandbox = Sandbox::new();
    for mode in [0o770, 0o702, 0o777, 0o1777] {
        set_mode(&sandbox.state_dir(), mode);
        let calls = [&["run", "--", "true"][..], &["ps"], &["show", "b"], &["stop", "--all"]];
        for args in calls {
            let done = sandbox.siding(args).run();
            assert_refused(&done, "is writable by other users");
            assert!(done.stderr_text().contains("chmod 700"), "{done}");
        }
        assert!(entries_below(&sandbox.state_dir()).is_empty());
    }
    // siding accepts a state directory that others can read, because its subdirectories are
    // private.
    set_mode(&sandbox.state_dir(), 0o755);
    let _done = sandbox.siding(&["run", "--", "true"]).run().expect_code(0);
}

#[test]
fn state_directory_that_is_a_file_is_refused_with_its_path() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("plain");
    std::fs::write(&file, "").expect("test directory");
    for (dir, why) in [
        (file.clone(), "it is not a directory"),
        (file.join("below"), "a part of its path is not a directory"),
    ] {
        let done = sandbox.siding(&["ps"]).env("SIDING_STATE_DIR", &dir).run();
        let words = format!("the state directory `{}` cannot be used: {why}", dir.display());
        assert_refused(&done, &words);
        assert!(done.stderr_text().contains("hint: set SIDING_STATE_DIR to"), "{done}");
    }
}

#[test]
fn state_directory_of_another_user_is_refused() {
    if !is_root() {
        eprintln!("skipped: only root can run programs as another user");
        return;
    }
    let (own, other_user_sandbox) = (Sandbox::new(), Sandbox::new_for_uid(OTHER_UID + 4));
    let done = own
        .siding(&["run", "--", "true"])
        .env("SIDING_STATE_DIR", other_user_sandbox.state_dir())
        .run();
    assert_refused(&done, &format!("belongs to user {}", OTHER_UID + 4));
    set_mode(&own.state_dir(), 0o755);
    let done = other_user_sandbox
        .siding(&["run", "--", "true"])
        .env("SIDING_STATE_DIR", own.state_dir())
        .run();
    assert_refused(&done, "belongs to user 0");
    assert!(entries_below(&own.state_dir()).is_empty());
    assert!(entries_below(&other_user_sandbox.state_dir()).is_empty());
}
