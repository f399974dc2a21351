//! The verbs that act on the puppet's own process.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siding_e2e::processes;

use super::executor;
use super::puppet_process::PuppetProcess;
use super::steps::Step;
use super::syscalls::{self, ForkSide};

/// The process name of a daemon, which must not reveal that the process is a puppet.
const ANONYMOUS_NAME: &str = "innocent";
const LARGE_RTTIME_US: u64 = 1 << 60;

/// Forks, exits in the parent, and returns in the child, which continues with the script. The
/// parent may still be alive for a moment when the function returns.
pub(super) fn fork_and_exit_parent(actor: &mut PuppetProcess, verb: &str) {
    match syscalls::fork() {
        Ok(ForkSide::Child) => actor.init_after_fork(),
        Ok(ForkSide::Parent(_)) => syscalls::exit(0),
        Err(error) => actor.fail_verb(verb, &error),
    }
}

pub(super) fn orphan(actor: &mut PuppetProcess) {
    fork_and_exit_parent(actor, "orphan");
    actor.announce("orphan", &[]);
}

pub(super) fn daemon(actor: &mut PuppetProcess) {
    fork_and_exit_parent(actor, "daemon");
    let _best_effort = rustix::process::setsid();
    fork_and_exit_parent(actor, "daemon");
    remove_identity(actor);
    actor.announce("daemon", &[]);
}

/// Removes the working directory, environment, name and descriptors by which a test or siding could
/// find the process. The birthmark and the control group remain.
pub(super) fn remove_identity(actor: &mut PuppetProcess) {
    let _best_effort = std::env::set_current_dir("/");
    syscalls::wipe_environment();
    set_name(ANONYMOUS_NAME);
    let _best_effort = syscalls::close_all_fds();
    actor.mute_stdout();
}

pub(super) fn setsid(actor: &PuppetProcess) {
    let _best_effort = rustix::process::setsid();
    actor.announce("setsid", &[]);
}

pub(super) fn setpgid(actor: &PuppetProcess) {
    let _best_effort = rustix::process::setpgid(None, None);
    actor.announce("setpgid", &[]);
}

pub(super) fn clear_environment(actor: &PuppetProcess) {
    syscalls::wipe_environment();
    actor.announce("clearenv", &[]);
}

pub(super) fn change_directory(actor: &PuppetProcess, dir: &Path) {
    match std::env::set_current_dir(dir) {
        Ok(()) => actor.announce("chdir", &[("text", dir.display().to_string())]),
        Err(error) => actor.fail_verb("chdir", &error),
    }
}

pub(super) fn stop_self(actor: &PuppetProcess) {
    actor.announce("stop-self", &[]);
    syscalls::signal_self(libc::SIGSTOP);
    actor.announce("continued", &[]);
}

pub(super) fn close_fds(actor: &mut PuppetProcess) {
    actor.mute_stdout();
    match syscalls::close_all_fds() {
        Ok(()) => actor.announce("closefds", &[]),
        Err(error) => actor.fail_verb("closefds", &error),
    }
}

pub(super) fn rename(actor: &PuppetProcess, name: &str) {
    set_name(name);
    actor.announce("rename", &[("text", name.to_owned())]);
}

fn set_name(name: &str) {
    syscalls::overwrite_command_line(name);
    if let Ok(name) = std::ffi::CString::new(name) {
        let _best_effort = rustix::thread::set_name(&name);
    }
}

pub(super) fn subreaper(actor: &PuppetProcess) {
    match rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        Ok(()) => actor.announce("subreaper", &[]),
        Err(error) => actor.fail_verb("subreaper", &error),
    }
}

pub(super) fn exec_self(actor: &PuppetProcess, verbs: Vec<String>) -> ! {
    actor.announce("exec-self", &[]);
    let error = syscalls::exec_self(&actor.command_line(verbs));
    actor.fail_verb("exec-self", &error)
}

/// Sends the signal, with its default action, to this process. Returns only if that action does not
/// end the process.
pub(super) fn die(actor: &PuppetProcess, signal: i32) {
    actor.announce("die", &[("signal", signal.to_string())]);
    let _best_effort = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // The kernel refuses to set the disposition of KILL and STOP, whose actions are fixed
    // (signal(7)).
    let _best_effort = syscalls::set_disposition(signal, false);
    syscalls::signal_self(signal);
    actor.announce("survived", &[("signal", signal.to_string())]);
}

/// Runs the remaining steps in a second thread and ends the main thread.
pub(super) fn leader_exits(actor: &mut PuppetProcess, rest: Vec<Step>) -> ! {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().spawn_scoped(scope, || {
            actor.announce("leader-exits", &[]);
            executor::run_steps(actor, rest);
            syscalls::exit(0)
        });
        match worker {
            Ok(_) => syscalls::exit_thread(),
            Err(_) => syscalls::exit(70),
        }
    })
}

pub(super) fn lower_rttime(actor: &PuppetProcess) {
    let now = getrlimit(Resource::Rttime);
    let lower = now.maximum.unwrap_or(LARGE_RTTIME_US) / 2;
    match setrlimit(Resource::Rttime, Rlimit { current: Some(lower), maximum: Some(lower) }) {
        Ok(()) => actor.announce("lower-rttime", &[("us", lower.to_string())]),
        Err(error) => actor.fail_verb("lower-rttime", &error),
    }
}

pub(super) fn burn(actor: &PuppetProcess, time: Option<Duration>) {
    actor.announce("burn", &[]);
    let started_at = Instant::now();
    let mut accumulator = 0_u64;
    while time.is_none_or(|time| started_at.elapsed() < time) {
        for _ in 0..10_000 {
            accumulator = std::hint::black_box(accumulator.wrapping_mul(31).wrapping_add(7));
        }
    }
}

/// The smallest page size of the supported processors.
const PAGE_BYTES: usize = 4096;

pub(super) fn grow(actor: &PuppetProcess, bytes: u64) {
    let mut memory: Vec<u8> = vec![];
    if let Err(error) = memory.try_reserve_exact(bytes as usize) {
        actor.fail_verb("grow", &error);
    }
    // Touches one byte per page: writing every byte would take an unoptimized build seconds.
    for page in memory.spare_capacity_mut().iter_mut().step_by(PAGE_BYTES) {
        page.write(1);
    }
    let _keeps_alive = memory.leak();
    actor.announce("grow", &[("bytes", bytes.to_string())]);
}

pub(super) fn hold_fds(actor: &PuppetProcess, number: u64) {
    let limit = getrlimit(Resource::Nofile);
    let _best_effort =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    // Keeps one descriptor free for the log: if all were in use, the log could not be opened and
    // later steps would not be announced.
    let reserved_for_log = std::fs::File::open("/dev/null");
    let mut opened = 0_u64;
    while opened < number {
        match std::fs::File::open("/dev/null") {
            Ok(file) => std::mem::forget(file),
            Err(_) => break,
        }
        opened += 1;
    }
    drop(reserved_for_log);
    actor.announce("hold-fds", &[("held", opened.to_string())]);
}

/// Announces the ids, umask, signal masks, birthmark, working directory and descriptors of this
/// process.
pub(super) fn report(actor: &PuppetProcess) {
    let pid = actor.identity().pid;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().split_ascii_whitespace().next().unwrap_or_default().to_owned()
    };
    let Some(stat) = processes::stat(pid) else { actor.fail_verb("report", &"no /proc") };
    let mark = processes::read_birthmark(pid).map_or("none".to_owned(), |mark| mark.to_string());
    let fds: Vec<String> = processes::descriptors(pid)
        .into_iter()
        .map(|(fd, leads_to)| format!("{fd}={}", leads_to.display()))
        .collect();
    let cwd = std::env::current_dir().unwrap_or_default();
    let fields = [
        ("parent", stat.parent.to_string()),
        ("group", stat.group.to_string()),
        ("session", stat.session.to_string()),
        ("uid", line("Uid")),
        ("gid", line("Gid")),
        ("umask", line("Umask")),
        ("blocked", line("SigBlk")),
        ("ignored", line("SigIgn")),
        ("birthmark", mark),
        ("text", format!("cwd={} {}", cwd.display(), fds.join(" "))),
    ];
    actor.announce("report", &fields);
}
