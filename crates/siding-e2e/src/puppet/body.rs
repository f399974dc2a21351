//! What a puppet does to its own process.

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siding_e2e::processes;

use super::actor::Actor;
use super::kernel::{self, Side};
use super::perform;
use super::steps::Step;

/// Name of a daemon that does not want to be found.
const INNOCENT: &str = "innocent";
const LARGE_RTTIME_US: u64 = 1 << 60;

/// Goes on in a child whose parent has ended when this returns, or soon after.
pub(super) fn fork_away(actor: &mut Actor, verb: &str) {
    match kernel::fork() {
        Ok(Side::Child) => actor.born(),
        Ok(Side::Parent(_)) => kernel::exit(0),
        Err(error) => actor.cannot(verb, &error),
    }
}

pub(super) fn orphan(actor: &mut Actor) {
    fork_away(actor, "orphan");
    actor.announce("orphan", &[]);
}

pub(super) fn daemon(actor: &mut Actor) {
    fork_away(actor, "daemon");
    let _cannot_fail = rustix::process::setsid();
    fork_away(actor, "daemon");
    become_innocent(actor);
    actor.announce("daemon", &[]);
}

/// Drops everything by which a process is usually found.
pub(super) fn become_innocent(actor: &mut Actor) {
    let _root_is_there = std::env::set_current_dir("/");
    kernel::wipe_environment();
    set_name(INNOCENT);
    let _closed = kernel::close_all();
    actor.fall_silent();
}

pub(super) fn close_fds(actor: &mut Actor) {
    actor.fall_silent();
    match kernel::close_all() {
        Ok(()) => actor.announce("closefds", &[]),
        Err(error) => actor.cannot("closefds", &error),
    }
}

pub(super) fn rename(actor: &Actor, name: &str) {
    set_name(name);
    actor.announce("rename", &[("text", name.to_owned())]);
}

fn set_name(name: &str) {
    kernel::overwrite_command_line(name);
    if let Ok(name) = std::ffi::CString::new(name) {
        let _too_long_is_cut = rustix::thread::set_name(&name);
    }
}

pub(super) fn subreaper(actor: &Actor) {
    match rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        Ok(()) => actor.announce("subreaper", &[]),
        Err(error) => actor.cannot("subreaper", &error),
    }
}

pub(super) fn exec_self(actor: &Actor, verbs: Vec<String>) -> ! {
    actor.announce("exec-self", &[]);
    let error = kernel::exec_self(&actor.command_line(verbs));
    actor.cannot("exec-self", &error)
}

/// Kills itself. Goes on only when the signal's default action does not end a process.
pub(super) fn die(actor: &Actor, signal: i32) {
    actor.announce("die", &[("signal", signal.to_string())]);
    let _no_core_file = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // Refused for KILL and STOP, whose action cannot be changed anyway.
    let _fixed = kernel::dispose(signal, false);
    kernel::signal_self(signal);
    actor.announce("survived", &[("signal", signal.to_string())]);
}

/// Lets a second thread do the rest, and ends the main thread.
pub(super) fn leader_exits(actor: &mut Actor, rest: Vec<Step>) -> ! {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().spawn_scoped(scope, || {
            actor.announce("leader-exits", &[]);
            perform::all(actor, rest);
            kernel::exit(0)
        });
        match worker {
            Ok(_) => kernel::exit_thread(),
            Err(_) => kernel::exit(70),
        }
    })
}

pub(super) fn lower_rttime(actor: &Actor) {
    let now = getrlimit(Resource::Rttime);
    let lower = now.maximum.unwrap_or(LARGE_RTTIME_US) / 2;
    match setrlimit(Resource::Rttime, Rlimit { current: Some(lower), maximum: Some(lower) }) {
        Ok(()) => actor.announce("lower-rttime", &[("us", lower.to_string())]),
        Err(error) => actor.cannot("lower-rttime", &error),
    }
}

pub(super) fn burn(actor: &Actor, time: Option<Duration>) {
    actor.announce("burn", &[]);
    let begun = Instant::now();
    let mut heat = 0_u64;
    while time.is_none_or(|time| begun.elapsed() < time) {
        for _ in 0..10_000 {
            heat = std::hint::black_box(heat.wrapping_mul(31).wrapping_add(7));
        }
    }
}

/// The smallest page there is.
const PAGE: usize = 4096;

pub(super) fn grow(actor: &Actor, bytes: u64) {
    let mut memory: Vec<u8> = vec![];
    if let Err(error) = memory.try_reserve_exact(bytes as usize) {
        actor.cannot("grow", &error);
    }
    // A byte in each page: to write them all one by one takes a program without optimisation seconds.
    for page in memory.spare_capacity_mut().iter_mut().step_by(PAGE) {
        page.write(1);
    }
    let _kept_for_ever = memory.leak();
    actor.announce("grow", &[("bytes", bytes.to_string())]);
}

pub(super) fn hold_fds(actor: &Actor, number: u64) {
    let limit = getrlimit(Resource::Nofile);
    let _as_far_as_it_goes =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    // Who holds all there are could open no log any more, and would go on unannounced.
    let for_the_log = std::fs::File::open("/dev/null");
    let mut held = 0_u64;
    while held < number {
        match std::fs::File::open("/dev/null") {
            Ok(file) => std::mem::forget(file),
            Err(_) => break,
        }
        held += 1;
    }
    drop(for_the_log);
    actor.announce("hold-fds", &[("held", held.to_string())]);
}

/// Tells what this process was given by whoever started it.
pub(super) fn report(actor: &Actor) {
    let pid = actor.me().pid;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_default().split_ascii_whitespace().next().unwrap_or_default().to_owned()
    };
    let Some(stat) = processes::stat(pid) else { actor.cannot("report", &"no /proc") };
    let mark = processes::birthmark_of(pid).map_or("none".to_owned(), |mark| mark.to_string());
    // The directory that is being listed shows its own descriptor, which is gone by now.
    let fds: Vec<String> = processes::descriptors(pid)
        .into_iter()
        .filter(|(_, leads_to)| !leads_to.starts_with(format!("/proc/{pid}/fd")))
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
