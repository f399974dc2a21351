//! Does the steps of a script, one after the other.

use std::time::Duration;

use super::actor::Actor;
use super::kernel::{self, Side};
use super::steps::{Child, Disposition, Step};
use super::{body, crowd, grove, streams};

/// Shortest life of a relaunched child that counts as none of our business; a quicker one is
/// followed by a pause of this length, so that a failing script is no fork storm.
const RELAUNCH_PAUSE: Duration = Duration::from_millis(1);

/// Does all steps. Returns when they are done and none of them ended or replaced the process.
pub(super) fn all(actor: &mut Actor, steps: Vec<Step>) {
    let mut steps = steps.into_iter();
    while let Some(step) = steps.next() {
        if step == Step::LeaderExits {
            body::leader_exits(actor, steps.collect());
        }
        one(actor, step);
    }
}

/// Does the steps in a child that was just forked, and ends it.
fn as_child(actor: &mut Actor, verb: &str, steps: Vec<Step>) -> ! {
    let parent = actor.me().pid;
    actor.born();
    actor.announce(verb, &[("parent", parent.to_string())]);
    all(actor, steps);
    kernel::exit(0)
}

fn one(actor: &mut Actor, step: Step) {
    match step {
        Step::Say(text) => streams::say(actor, "say", 1, &format!("{text}\n")),
        Step::Err(text) => streams::say(actor, "err", 2, &format!("{text}\n")),
        Step::Write(text) => streams::say(actor, "write", 1, &text),
        Step::Mark(name) => actor.announce("mark", &[("text", name)]),
        Step::Report => body::report(actor),
        Step::Env(name) => streams::env(actor, &name),
        Step::Exit(code) => {
            actor.announce("exit", &[("code", code.to_string())]);
            kernel::exit(code)
        }
        Step::Die(signal) => body::die(actor, signal),
        Step::Hang => {
            actor.announce("hang", &[]);
            hang()
        }
        Step::Sleep(time) => {
            actor.announce("sleep", &[("ms", time.as_millis().to_string())]);
            std::thread::sleep(time);
        }
        Step::Signals(disposition, signals) => dispose(actor, disposition, &signals),
        Step::Child(Child::Fork, steps) => fork(actor, steps),
        Step::Child(Child::Vfork, steps) => vfork(actor, steps),
        Step::Child(Child::Relaunch, steps) => relaunch(actor, &steps),
        Step::Wait => wait(actor),
        Step::Setsid => {
            let _leader_already = rustix::process::setsid();
            actor.announce("setsid", &[]);
        }
        Step::Setpgid => {
            let _leader_already = rustix::process::setpgid(None, None);
            actor.announce("setpgid", &[]);
        }
        Step::Daemon => body::daemon(actor),
        Step::Orphan => body::orphan(actor),
        Step::ClearEnv => {
            kernel::wipe_environment();
            actor.announce("clearenv", &[]);
        }
        Step::CloseFds => body::close_fds(actor),
        Step::Rename(name) => body::rename(actor, &name),
        Step::Chdir(dir) => match std::env::set_current_dir(&dir) {
            Ok(()) => actor.announce("chdir", &[("text", dir.display().to_string())]),
            Err(error) => actor.cannot("chdir", &error),
        },
        Step::Subreaper => body::subreaper(actor),
        Step::ExecSelf(verbs) => body::exec_self(actor, verbs),
        Step::StopSelf => {
            actor.announce("stop-self", &[]);
            kernel::signal_self(libc::SIGSTOP);
            actor.announce("continued", &[]);
        }
        Step::LeaderExits => {}
        Step::LowerRttime => body::lower_rttime(actor),
        Step::Beat(file) => streams::beat(actor, &file),
        Step::Burn(time) => body::burn(actor, time),
        Step::Grow(bytes) => body::grow(actor, bytes),
        Step::HoldFds(number) => body::hold_fds(actor, number),
        Step::Listen(file, port) => streams::listen(actor, &file, port),
        Step::Fill(bytes, shape) => streams::fill(actor, bytes, shape),
        Step::ReadStdin => streams::read_stdin(actor),
        Step::Reopen(how, path, text) => streams::reopen(actor, how, &path, &text),
        Step::Truncate(path) => streams::truncate(actor, &path),
        Step::Ftruncate(fd) => streams::ftruncate(actor, fd),
        Step::Rewind(fd, text) => streams::rewind(actor, fd, &text),
        Step::Remove(path) => streams::remove(actor, &path),
        Step::Chmod(mode, path) => streams::chmod(actor, mode, &path),
        Step::Hop(time, beat) => crowd::hop(actor, time, beat.as_deref()),
        Step::Bomb { most, setsid, refill } => crowd::bomb(actor, most, setsid, refill),
        Step::Tree { seed, depth, width, beats } => {
            grove::tree(actor, seed, depth, width, beats.as_deref())
        }
    }
}

/// Waits for ever, that is until the kernel's timer.
pub(super) fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn dispose(actor: &Actor, disposition: Disposition, signals: &[i32]) {
    let (verb, ignore) = match disposition {
        Disposition::Ignore => ("ignore", true),
        Disposition::Default => ("default", false),
    };
    for &signal in signals {
        if let Err(error) = kernel::dispose(signal, ignore) {
            actor.cannot(verb, &error);
        }
    }
    let numbers: Vec<String> = signals.iter().map(i32::to_string).collect();
    actor.announce(verb, &[("signals", numbers.join(","))]);
}

fn fork(actor: &mut Actor, steps: Vec<Step>) {
    match kernel::fork() {
        Ok(Side::Child) => as_child(actor, "fork", steps),
        Ok(Side::Parent(child)) => actor.announce("forked", &[("child", child.to_string())]),
        Err(error) => actor.cannot("fork", &error),
    }
}

fn vfork(actor: &mut Actor, steps: Vec<Step>) {
    actor.announce("vfork", &[]);
    match kernel::fork_and_block() {
        Ok(Side::Child) => as_child(actor, "vfork-child", steps),
        Ok(Side::Parent(child)) => actor.announce("vforked", &[("child", child.to_string())]),
        Err(error) => actor.cannot("vfork", &error),
    }
}

fn relaunch(actor: &mut Actor, steps: &[Step]) -> ! {
    actor.announce("relaunch", &[]);
    while !actor.must_end() {
        match kernel::fork() {
            Ok(Side::Child) => as_child(actor, "launched", steps.to_vec()),
            Ok(Side::Parent(child)) => {
                let child = rustix::process::Pid::from_raw(child);
                let _ignored_sigchld =
                    rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
            }
            // No room for a process now: a relauncher tries again, that is its nature.
            Err(_) => {}
        }
        std::thread::sleep(RELAUNCH_PAUSE);
    }
    kernel::exit(0)
}

fn wait(actor: &Actor) {
    while let Ok(Some((child, status))) =
        rustix::process::wait(rustix::process::WaitOptions::empty())
    {
        let end = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => ("code", code.to_string()),
            (None, Some(signal)) => ("signal", signal.to_string()),
            (None, None) => continue,
        };
        actor.announce("reaped", &[("child", child.to_string()), end]);
    }
}
