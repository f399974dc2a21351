//! Runs the steps of a script in order.

use std::time::Duration;

use super::puppet_process::PuppetProcess;
use super::steps::{ChildKind, Disposition, Step};
use super::syscalls::{self, ForkSide};
use super::{process_verbs, stream_verbs, swarm_verbs, tree_verbs};

/// Pause after each relaunched child, so that a script whose children fail immediately is not a
/// fork storm.
const RELAUNCH_DELAY: Duration = Duration::from_millis(1);

/// Runs all steps in order. Does not return if one of them ends or replaces the process.
pub(super) fn run_steps(actor: &mut PuppetProcess, steps: Vec<Step>) {
    let mut steps = steps.into_iter();
    while let Some(step) = steps.next() {
        if step == Step::LeaderExits {
            process_verbs::leader_exits(actor, steps.collect());
        }
        run_step(actor, step);
    }
}

/// Runs the steps of a child process that was just forked, then exits.
fn run_child(actor: &mut PuppetProcess, verb: &str, steps: Vec<Step>) -> ! {
    let parent = actor.identity().pid;
    actor.init_after_fork();
    actor.announce(verb, &[("parent", parent.to_string())]);
    run_steps(actor, steps);
    syscalls::exit(0)
}

fn run_step(actor: &mut PuppetProcess, step: Step) {
    match step {
        Step::Say(text) => stream_verbs::write_text(actor, "say", 1, &format!("{text}\n")),
        Step::Err(text) => stream_verbs::write_text(actor, "err", 2, &format!("{text}\n")),
        Step::Write(text) => stream_verbs::write_text(actor, "write", 1, &text),
        Step::Mark(name) => actor.announce("mark", &[("text", name)]),
        Step::Report => process_verbs::report(actor),
        Step::Env(name) => stream_verbs::print_env(actor, &name),
        Step::Exit(code) => {
            actor.announce("exit", &[("code", code.to_string())]);
            syscalls::exit(code)
        }
        Step::Die(signal) => process_verbs::die(actor, signal),
        Step::Hang => {
            actor.announce("hang", &[]);
            hang()
        }
        Step::Sleep(time) => {
            actor.announce("sleep", &[("ms", time.as_millis().to_string())]);
            std::thread::sleep(time);
        }
        Step::Signals(disposition, signals) => set_dispositions(actor, disposition, &signals),
        Step::Child(ChildKind::Fork, steps) => fork(actor, steps),
        Step::Child(ChildKind::Vfork, steps) => vfork(actor, steps),
        Step::Child(ChildKind::Relaunch, steps) => relaunch(actor, &steps),
        Step::Wait => wait(actor),
        Step::Setsid => process_verbs::setsid(actor),
        Step::Setpgid => process_verbs::setpgid(actor),
        Step::Daemon => process_verbs::daemon(actor),
        Step::Orphan => process_verbs::orphan(actor),
        Step::ClearEnv => process_verbs::clear_environment(actor),
        Step::CloseFds => process_verbs::close_fds(actor),
        Step::Rename(name) => process_verbs::rename(actor, &name),
        Step::Chdir(dir) => process_verbs::change_directory(actor, &dir),
        Step::Subreaper => process_verbs::subreaper(actor),
        Step::ExecSelf(verbs) => process_verbs::exec_self(actor, verbs),
        Step::StopSelf => process_verbs::stop_self(actor),
        Step::LeaderExits => {}
        Step::LowerRttime => process_verbs::lower_rttime(actor),
        Step::Beat(file) => stream_verbs::beat(actor, &file),
        Step::Burn(time) => process_verbs::burn(actor, time),
        Step::Grow(bytes) => process_verbs::grow(actor, bytes),
        Step::HoldFds(number) => process_verbs::hold_fds(actor, number),
        Step::Listen(file, port) => stream_verbs::listen(actor, &file, port),
        Step::Fill(bytes, shape) => stream_verbs::fill(actor, bytes, shape),
        Step::ReadStdin => stream_verbs::read_stdin(actor),
        Step::Reopen(how, path, text) => stream_verbs::reopen(actor, how, &path, &text),
        Step::Truncate(path) => stream_verbs::truncate(actor, &path),
        Step::Ftruncate(fd) => stream_verbs::ftruncate(actor, fd),
        Step::Rewind(fd, text) => stream_verbs::rewind(actor, fd, &text),
        Step::Remove(path) => stream_verbs::remove(actor, &path),
        Step::Chmod(mode, path) => stream_verbs::chmod(actor, mode, &path),
        Step::Hop(time, beat) => swarm_verbs::hop(actor, time, beat.as_deref()),
        Step::Bomb { max_processes: most, setsid, refill } => {
            swarm_verbs::fork_bomb(actor, most, setsid, refill)
        }
        Step::Tree { seed, depth, width, beats } => {
            tree_verbs::run_tree(actor, seed, depth, width, beats.as_deref())
        }
    }
}

/// Sleeps until the kernel timer or another process kills this process.
pub(super) fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn set_dispositions(actor: &PuppetProcess, disposition: Disposition, signals: &[i32]) {
    let (verb, ignore) = match disposition {
        Disposition::Ignore => ("ignore", true),
        Disposition::Default => ("default", false),
    };
    for &signal in signals {
        if let Err(error) = syscalls::set_disposition(signal, ignore) {
            actor.fail_verb(verb, &error);
        }
    }
    let numbers: Vec<String> = signals.iter().map(i32::to_string).collect();
    actor.announce(verb, &[("signals", numbers.join(","))]);
}

fn fork(actor: &mut PuppetProcess, steps: Vec<Step>) {
    match syscalls::fork() {
        Ok(ForkSide::Child) => run_child(actor, "fork", steps),
        Ok(ForkSide::Parent(child)) => actor.announce("forked", &[("child", child.to_string())]),
        Err(error) => actor.fail_verb("fork", &error),
    }
}

fn vfork(actor: &mut PuppetProcess, steps: Vec<Step>) {
    actor.announce("vfork", &[]);
    match syscalls::fork_and_block() {
        Ok(ForkSide::Child) => run_child(actor, "vfork-child", steps),
        Ok(ForkSide::Parent(child)) => actor.announce("vforked", &[("child", child.to_string())]),
        Err(error) => actor.fail_verb("vfork", &error),
    }
}

fn relaunch(actor: &mut PuppetProcess, steps: &[Step]) -> ! {
    actor.announce("relaunch", &[]);
    while !actor.shutdown_requested() {
        match syscalls::fork() {
            Ok(ForkSide::Child) => run_child(actor, "launched", steps.to_vec()),
            Ok(ForkSide::Parent(child)) => {
                let child = rustix::process::Pid::from_raw(child);
                let _already_ended =
                    rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
            }
            // The fork failed, for example at a process limit. A relauncher must keep trying.
            Err(_) => {}
        }
        std::thread::sleep(RELAUNCH_DELAY);
    }
    syscalls::exit(0)
}

fn wait(actor: &PuppetProcess) {
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
