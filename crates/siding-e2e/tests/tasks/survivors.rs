//! Processes that survive a stop: those that the user may not signal, such as those below `sudo`,
//! and those that the shim cannot see.
//!
//! If `sudo` is installed, the tests use it with configuration files in a mount namespace of the
//! test. If sudo cannot be used, the test of survivors uses a setuid copy of setpriv instead, and
//! the other test of sudo is skipped.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use siding_e2e::{Process, Sandbox, eventually, mounts, words};

use crate::support::{Task, ordinary_user_sandbox, sandbox};

const SUDO_PATH: &str = "/usr/bin/sudo";

/// Returns the beginning of a shell command that runs its remaining words as root with the real
/// `sudo`. Returns `None` and prints the reason if sudo is missing or nothing can be mounted.
fn sudo_prefix(sandbox: &Sandbox) -> Option<String> {
    if !Path::new(SUDO_PATH).exists() {
        println!("no sudo here");
        return None;
    }
    let uid = std::os::unix::fs::MetadataExt::uid(
        &std::fs::metadata(sandbox.state_dir()).expect("the entry exists"),
    );
    let bind_with_line = |file: &str, line: &str, mode: u32| {
        let seen = sandbox.root().join(file.rsplit('/').next().unwrap_or_default());
        let mut text = std::fs::read_to_string(file)?;
        text.push_str(line);
        std::fs::write(&seen, text)?;
        std::fs::set_permissions(&seen, std::fs::Permissions::from_mode(mode))?;
        mounts::bind_mount(&seen, Path::new(file))
    };
    let made = mounts::unshare_mounts()
        .and_then(|()| {
            bind_with_line("/etc/passwd", &format!("guest:x:{uid}:{uid}::/:/bin/sh\n"), 0o644)
        })
        .and_then(|()| bind_with_line("/etc/shadow", "guest:*:20000::::::\n", 0o600))
        .and_then(|()| bind_with_line("/etc/sudoers", "\nguest ALL=(root) NOPASSWD: ALL\n", 0o440));
    match made {
        Ok(()) => Some(format!("{SUDO_PATH} -n")),
        Err(error) => {
            println!("mounting is not permitted here: {error}");
            None
        }
    }
}

/// Returns the beginning of a shell command that runs its remaining words as root with a setuid
/// copy of setpriv. Returns `None` and prints the reason if setpriv is missing.
fn setuid_setpriv_prefix(sandbox: &Sandbox) -> Option<String> {
    let candidates = ["/usr/bin/setpriv", "/bin/setpriv"];
    let Some(program) = candidates.into_iter().find(|path| Path::new(path).exists()) else {
        println!("skipped: no setpriv here");
        return None;
    };
    let helper = sandbox.root().join("elevate");
    std::fs::copy(program, &helper).expect("test directory");
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o4755)).expect("test file");
    Some(format!("{} --reuid 0 --regid 0 --clear-groups", helper.display()))
}

/// Kernel fact K22: sudo forwards SIGTERM to its command, so an ordinary stop ends a command of
/// root below sudo.
#[test]
fn stop_ends_a_process_below_sudo() {
    let Some(mut sandbox) = ordinary_user_sandbox() else {
        return;
    };
    sandbox.expect_clean();
    let Some(sudo) = sudo_prefix(&sandbox) else {
        println!("skipped");
        return;
    };
    let elevated = sandbox.puppet_line(&words("mark other hang"));
    let task = Task::start(&sandbox, &format!("{sudo} {elevated}; echo code $?"));
    let other = sandbox.wait_for_mark("other");
    let view = task.stop(&["--grace", "20s"]);
    assert!(!other.is_alive(), "{view:#}");
    assert_eq!(view["outcome"]["kind"], "stopped", "{view:#}");
    assert_eq!(view["stop_report"]["survivors"], serde_json::json!([]), "{view:#}");
    task.expect_stopped();
}

/// Promise P33, kernel fact K22: a process of root below an ordinary user's task is reported as a
/// survivor, and the call fails; all other processes have ended.
#[test]
fn stop_reports_an_unkillable_process_of_another_user() {
    // The check for remaining processes is disabled, because the survivor is ended only when the
    // sandbox is dropped. The test runs as root and may signal the survivor.
    let Some(sandbox) = ordinary_user_sandbox() else {
        return;
    };
    let Some(elevate) = sudo_prefix(&sandbox).or_else(|| setuid_setpriv_prefix(&sandbox)) else {
        return;
    };
    let elevated = sandbox.puppet_line(&words("ignore TERM mark other hang"));
    let own = sandbox.puppet_line(&words("mark own hang"));
    let text = format!("{own} & {elevate} {elevated}");
    let task = Task::start_with(&sandbox, &["--grace", "100ms"], &text);
    let (own, other) = (sandbox.wait_for_mark("own"), sandbox.wait_for_mark("other"));
    let done = sandbox.siding(&["stop", "--json", &task.id]).run().expect_code(125);
    println!("with a survivor: {:?}", done.elapsed);
    assert!(other.is_alive() && !own.is_alive(), "{done}");
    let survivors = &done.json()["stop_report"]["survivors"];
    assert_eq!(survivors.as_array().map(Vec::len), Some(1), "{done}");
    assert_eq!(survivors[0]["pid"], other.pid);
    assert_eq!(survivors[0]["uid"], 0);
    let why = survivors[0]["why"].as_str().expect("a reason");
    assert!(why.contains("user 0"), "{done}");
    assert_eq!(done.json()["outcome"]["kind"], "stopped");
    assert!(task.output().contains("could not be ended"), "{}", task.output());
    assert!(task.journal().contains(r#""proof":"none"#), "{}", task.journal());
}

/// A shim without a free descriptor can neither read `/proc` nor open a pidfd. Such a shim must not
/// conclude that the tree is empty. The shim records the end without a proof, and `siding reap`
/// ends the remaining processes.
#[test]
fn shim_without_descriptors_reports_the_end_as_unproven() {
    let sandbox = sandbox();
    let verbs = words("fork setsid mark left hang -- hang");
    let task = Task::start_puppet(&sandbox, &["--timeout", "3s", "--grace", "0s"], &verbs);
    let remaining = sandbox.wait_for_mark("left");
    let shim = task.show()["shim_pid"].as_i64().expect("a number");
    let none = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    let shim = libc::pid_t::try_from(shim).expect("a process number");
    // SAFETY: `none` is a valid `rlimit` that lives until the call returns, and the call writes
    // nothing, because the pointer for the old limit is null.
    let set =
        unsafe { libc::prlimit(shim, libc::RLIMIT_NOFILE, &raw const none, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    eventually("its grace period is over", || task.journal().contains("grace_over"));
    eventually("the shim has given up", || task.journal().contains(r#""record":"closed""#));
    assert!(remaining.is_alive(), "the process must survive");
    assert!(task.journal().contains(r#""proof":"none"#), "{}", task.journal());
    eventually("its shim has exited", || {
        Process::from_pid(shim.cast_unsigned()).is_none_or(|shim| !shim.is_alive())
    });
    let why = &task.show()["stop_report"]["unproven"];
    assert!(why.as_str().is_some_and(|why| why.contains("siding reap")), "{why}");
    assert!(task.output().contains("could not determine which"), "{}", task.output());
    let report = sandbox.siding(&["stop", &task.id]).run().expect_code(125);
    assert!(report.stdout_text().contains("NOT PROVEN"), "{report}");
    let reaped = sandbox.siding(&["reap"]).run().expect_code(0);
    assert!(!remaining.is_alive(), "{reaped}");
}
