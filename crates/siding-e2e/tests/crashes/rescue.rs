//! A shim that was killed, stopped or outlived, and the one that takes its place.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use siding_e2e::{Process, Running, Sandbox, eventually, eventually_some, processes, words};
use siding_model::lifecycle::Phase;
use siding_model::outcome::{LeaderEnd, Outcome};

use crate::state;
use crate::tasks::{self, CODE, GRACE, Kind, LINES, Task};

/// Tells the copy of this program that plays the reaper what to run.
const REAPER_RUNS: &str = "CRASHES_REAPER_RUNS";

#[test]
fn forty_lines_are_kept_over_two_kills() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let lines: Vec<String> = (1..=40).map(|number| format!("line-{number}")).collect();
    let mut verbs = vec!["--quiet".to_owned()];
    for line in &lines {
        verbs.extend(["say", line, "sleep", "15"].map(str::to_owned));
    }
    verbs.extend(["exit", "7"].map(str::to_owned));
    let mut run = vec!["run".to_owned(), "--background".to_owned(), "--json".to_owned()];
    run.push("--".to_owned());
    run.extend(sandbox.puppet_argv(&verbs));
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    let first = state::keeper(&sandbox, &id);
    let said = |line: &str| state::output(&sandbox, &id).contains(&format!("{line}\n"));

    eventually("some lines are stored", || said("line-5"));
    state::kill(first);
    // It writes on while nobody reads.
    sandbox.all_announced("say", 15);
    let waiter = sandbox.siding(&["wait", "--json", "--timeout", "20s", &id]).spawn();
    eventually("the rescuer stores lines", || said("line-20"));
    let second = state::keeper(&sandbox, &id);
    assert_ne!(first, second);
    state::kill(second);
    let waited = waiter.wait().expect_code(0);
    assert_eq!(waited.json()["satisfied"], true, "{waited}");

    let outcome = state::assert_over(&sandbox, &id);
    assert!(state::is_true_or_lost(&outcome, CODE), "{outcome}");
    let output = state::output(&sandbox, &id);
    assert_eq!(output.lines().collect::<Vec<_>>(), lines);
    let state = state::journal(&sandbox, &id).expect("recorded").state;
    assert_eq!(state.rescues, 2);
    let bytes = state.closed.expect("closed").output.bytes;
    assert_eq!(bytes, output.len() as u64);
}

#[test]
fn the_deadline_goes_on() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let id = task.start(&sandbox, &["--timeout", "700ms"]);
    task.stands(&sandbox);
    state::kill(state::keeper(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
    assert!(state::outcome(&sandbox, &id).is_none(), "rescued well before its deadline");
    assert_eq!(state::ended(&sandbox, &id), Outcome::Deadline { limit_ms: 700 });
    state::assert_over(&sandbox, &id);
    let state = state::journal(&sandbox, &id).expect("recorded").state;
    let lived = state.elapsed_ms(state.last_at);
    assert!((700..5_000).contains(&lived), "lived {lived} ms");
    let output = state::output(&sandbox, &id);
    assert!(output.contains("[siding] stopped at its deadline"), "{output}");
}

#[test]
fn a_deadline_that_passed_while_nobody_kept_it_is_kept_by_the_next_command() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for signal in [Signal::KILL, Signal::STOP] {
        let task = Task::new(Kind::Stubborn);
        let begun = Instant::now();
        let id = task.start(&sandbox, &["--timeout", "300ms"]);
        task.stands(&sandbox);
        let shim = state::keeper(&sandbox, &id);
        shim.signal(signal);
        eventually("the shim is held up", || !shim.alive() || state::stands(shim));
        eventually("the deadline has passed", || begun.elapsed() > Duration::from_millis(600));
        assert_eq!(state::outcome(&sandbox, &id), None, "nobody is there to end it");
        let wait = ["wait", "--json", "--timeout", "20s", &id];
        let _waited = sandbox.siding(&wait).run().expect_code(0);
        assert_eq!(state::assert_over(&sandbox, &id), Outcome::Deadline { limit_ms: 300 });
    }
}

#[test]
fn an_extension_holds_and_can_be_given_under_a_new_shim() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let id = task.start(&sandbox, &["--timeout", "10m"]);
    task.stands(&sandbox);
    let deadline_ms = || {
        let state = state::journal(&sandbox, &id).expect("recorded").state;
        state.life.deadline().ms_since(state.started)
    };
    let _moved = sandbox.siding(&["extend", &id, "--to", "15m"]).run().expect_code(0);
    state::kill(state::keeper(&sandbox, &id));
    let _moved = sandbox.siding(&["extend", &id, "5m"]).run().expect_code(0);
    assert_eq!(deadline_ms(), 20 * 60 * 1000);
    state::kill(state::keeper(&sandbox, &id));
    let shown = sandbox.siding(&["ps", "--json", "--running"]).run().expect_code(0).json();
    assert_eq!(shown[0]["phase"], "running", "{shown}");
    assert_eq!(deadline_ms(), 20 * 60 * 1000);
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Stopped { by: "user".to_owned() });
}

#[test]
fn many_commands_at_once_give_one_rescuer() {
    const COMMANDS: usize = 8;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let id = task.start(&sandbox, &[]);
    task.stands(&sandbox);
    state::kill(state::keeper(&sandbox, &id));
    let wait = ["wait", "--json", "--timeout", "30s", &id];
    let waiters: Vec<_> = (0..COMMANDS).map(|_| sandbox.siding(&wait).spawn()).collect();
    let rescuer = state::keeper(&sandbox, &id);
    eventually("only the rescuer is left", || state::shims(&id) == [rescuer]);
    let _stopped = sandbox.siding(&["stop", "--grace", GRACE, &id]).run().expect_code(0);
    for waiter in waiters {
        let done = waiter.wait().expect_code(0);
        assert_eq!(done.json()["satisfied"], true, "{done}");
    }
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Stopped { by: "user".to_owned() });
    assert_eq!(state::journal(&sandbox, &id).expect("recorded").state.rescues, 1);
}

#[test]
fn a_stopped_shim_is_continued_by_whoever_needs_it() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let id = task.start(&sandbox, &[]);
    task.stands(&sandbox);
    let shim = state::keeper(&sandbox, &id);
    for command in [&["ps"][..], &["stop", "--grace", GRACE, &id]] {
        shim.signal(Signal::STOP);
        eventually("the shim is stopped", || state::stands(shim));
        let done = sandbox.siding(command).run().expect_code(0);
        assert!(done.elapsed < Duration::from_secs(8), "it waited for an answer first: {done}");
        assert!(!state::stands(shim));
    }
    state::assert_over(&sandbox, &id);
    assert_eq!(state::journal(&sandbox, &id).expect("recorded").state.rescues, 0);
}

#[test]
fn a_leader_that_ended_unseen_leaves_a_task_that_lingers() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let id = task.start(&sandbox, &[]);
    let [leader, stray] = task.stands(&sandbox);
    state::kill(state::keeper(&sandbox, &id));
    state::kill(leader);
    let shown = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    assert!(stray.alive());
    eventually("it is known to linger", || {
        let state = state::journal(&sandbox, &id).expect("recorded").state;
        matches!(state.life.phase(), Phase::Lingering { .. })
    });
    assert_eq!(shown[0]["outcome"], serde_json::Value::Null);
    let stopped = sandbox.siding(&["stop", "--json", "--grace", GRACE, &id]).run().expect_code(0);
    let outcome = state::assert_over(&sandbox, &id);
    // SIGKILL is the truth where init had not taken the status away yet.
    assert!(matches!(outcome, Outcome::Lost { .. } | Outcome::Signaled { .. }), "{outcome}");
    let ended = &stopped.json()["stop_report"]["ended"];
    assert_eq!(ended[0]["pid"], stray.pid, "{stopped}");
}

fn is_child_of(child: Process, parent: Process) -> bool {
    processes::stat(child.pid).is_some_and(|stat| stat.parent == parent.pid)
}

#[test]
fn a_leader_nobody_noted_is_not_mixed_up_with_what_it_left() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // The child looks like its parent, leads a session as its parent does, and ends otherwise.
    for child in ["setsid", "setpgid"] {
        let verbs = format!("fork {child} mark child-{child} read-stdin hang -- exit 3");
        let mut run = ["run", "--background", "--json", "--"].map(str::to_owned).to_vec();
        run.extend(sandbox.puppet_argv(&words(&verbs)));
        let (client, id, shim) = tasks::pause(&sandbox, sandbox.siding(&run), "spawned");
        let child = sandbox.marked(&format!("child-{child}"));
        eventually("the leader has ended", || is_child_of(child, shim));
        state::kill(shim);
        let _told = client.wait();
        let _kept = state::keeper(&sandbox, &id);
        child.signal(Signal::TERM);
        let outcome = state::ended(&sandbox, &id);
        assert!(state::is_true_or_lost(&outcome, 3), "{outcome}");
        state::assert_over(&sandbox, &id);
    }
}

#[test]
fn a_stop_ends_what_a_leader_left_that_nobody_noted() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let line = sandbox.puppet_line(&words("--quiet ignore TERM mark left hang"));
    let run = ["run", "--background", "--json", "--", &format!("{line} & exit 3")];
    let (client, id, shim) = tasks::pause(&sandbox, sandbox.siding(&run), "spawned");
    let left = sandbox.marked("left");
    eventually("the shell has ended", || is_child_of(left, shim));
    state::kill(shim);
    let _told = client.wait();
    let stop = ["stop", "--json", "--grace", GRACE, &id];
    let stopped = sandbox.siding(&stop).run().expect_code(0);
    assert!(!left.alive(), "{stopped}");
    let outcome = state::assert_over(&sandbox, &id);
    assert!(state::is_true_or_lost(&outcome, 3), "{outcome}");
}

/// A host that takes in orphans and never reaps them, so that their statuses stay where they are.
struct Reaper {
    process: Running,
}

impl Reaper {
    /// Starts one that runs a task.
    fn running(sandbox: &Sandbox, task: &Task, point: &str) -> Self {
        let own_program = std::env::current_exe().expect("a test has a program");
        let play = ["--exact", "rescue::a_status_that_nobody_took_is_found", "--nocapture"];
        let mut run = ["run", "--background", "--grace", GRACE, "--"].map(str::to_owned).to_vec();
        run.extend(task.command(sandbox));
        let call = sandbox.host(&own_program.display().to_string(), &play);
        let call = call.env(REAPER_RUNS, sandbox.siding_line(&run)).stdin_open();
        Self { process: call.pause_at(point).spawn() }
    }

    /// Is the reaper, in a copy of this program: runs the line and waits to be killed.
    fn play(line: &OsStr) {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own)).expect("anybody may");
        let mut shell = Command::new("sh");
        let client = shell.arg("-c").arg(line).stdout(Stdio::null()).spawn();
        let _done = client.expect("there is a shell").wait().expect("an own child");
        let _until_killed = std::io::stdin().lines().count();
    }

    /// Waits until it has a dead process.
    fn has(&self, dead: Process) {
        eventually("the dead is the reaper's", || {
            let stat = processes::stat(dead.pid);
            stat.is_some_and(|stat| stat.parent == self.process.process().pid && stat.state == 'Z')
        });
    }
}

#[test]
fn a_status_that_nobody_took_is_found() {
    if let Some(line) = std::env::var_os(REAPER_RUNS) {
        return Reaper::play(&line);
    }
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Brief);
    let reaper = Reaper::running(&sandbox, &task, "running");
    let (id, shim) = state::paused(&sandbox, &BTreeSet::new(), "running");
    let leader = eventually_some("the leader has ended", || {
        let leader = state::journal(&sandbox, &id)?.state.leader?;
        let leader = Process { pid: leader.pid.try_into().ok()?, start: leader.start_ticks };
        (!leader.alive()).then_some(leader)
    });
    shim.kill();
    reaper.has(leader);
    let _waited = sandbox.siding(&["wait", &id]).run().expect_code(0);
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Exited { code: CODE });
}

#[test]
fn a_status_that_comes_after_the_kill_does_not_hide_who_asked_for_it() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(Kind::Stubborn);
    let reaper = Reaper::running(&sandbox, &task, "killing");
    let [leader, stray] = task.stands(&sandbox);
    let stopper = sandbox.siding(&["stop", "--all", "--grace", GRACE]).spawn();
    let (id, shim) = state::paused(&sandbox, &BTreeSet::new(), "killing");
    state::kill(leader);
    state::kill(stray);
    shim.kill();
    reaper.has(leader);
    let _stopped = stopper.wait().expect_code(0);
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Stopped { by: "user".to_owned() });
    let state = state::journal(&sandbox, &id).expect("recorded").state;
    assert!(matches!(state.leader_end, Some(LeaderEnd::Signaled { .. })), "{state:?}");
}

#[test]
fn a_torn_record_is_survived() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let cut = |path: &Path, by: u64| {
        let file = std::fs::File::options().write(true).open(path).expect("there is a journal");
        let len = file.metadata().expect("an open file").len();
        file.set_len(len - by).expect("one's own file");
    };
    for by in [1, 2, 20] {
        let task = Task::new(Kind::Stubborn);
        let id = task.start(&sandbox, &[]);
        task.stands(&sandbox);
        state::kill(state::keeper(&sandbox, &id));
        cut(&state::dir(&sandbox, &id).join("journal"), by);
        let stop = ["stop", "--grace", GRACE, &id];
        let _stopped = sandbox.siding(&stop).run().expect_code(0);
        assert_eq!(state::assert_over(&sandbox, &id), Outcome::Stopped { by: "user".to_owned() });
        assert_eq!(state::own_output(&sandbox, &id), LINES);

        let task = Task::new(Kind::Brief);
        let (client, id, shim) = tasks::pause(&sandbox, task.run(&sandbox, &[]), "running");
        drop(client);
        state::kill(shim);
        eventually("nothing of it is left", || processes::with_birthmark(&id).is_empty());
        cut(&state::dir(&sandbox, &id).join("journal"), by);
        let _waited = sandbox.siding(&["wait", &id]).run().expect_code(0);
        let outcome = state::assert_over(&sandbox, &id);
        assert!(state::is_true_or_lost(&outcome, CODE), "{outcome}");
    }
}
