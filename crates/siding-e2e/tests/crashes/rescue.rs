//! A shim that was killed, stopped or outlived, and the one that takes its place.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes, words};
use siding_model::outcome::Outcome;

use crate::state;
use crate::tasks::{self, CODE, GRACE, Kind, LINES, Task};

#[test]
fn forty_lines_are_kept_over_two_kills() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let lines: Vec<String> = (1..=40).map(|number| format!("line-{number}")).collect();
    let mut verbs = vec!["--quiet".to_owned()];
    for line in &lines {
        verbs.extend(["say", line, "sleep", "15"].map(str::to_owned));
        if line == "line-30" {
            // What is in the pipe of a task that ends while nobody keeps it is gone.
            verbs.push("stop-self".to_owned());
        }
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
    sandbox.wait_for_announcements("say", 15);
    let waiter = sandbox.siding(&["wait", "--json", "--timeout", "20s", &id]).spawn();
    eventually("the rescuer stores lines", || said("line-20"));
    let second = state::keeper(&sandbox, &id);
    assert_ne!(first, second);
    state::kill(second);
    assert_ne!(second, state::keeper(&sandbox, &id));
    let task = state::journal(&sandbox, &id).and_then(|folded| folded.state.leader?.process());
    let task = task.expect("it was started");
    let task = Process { pid: task.pid.try_into().expect("a number"), start: task.start_ticks };
    eventually("it has stopped", || processes::state(task.pid) == Some('T'));
    task.signal(Signal::CONT);
    let waited = waiter.wait().expect_code(0);
    assert_eq!(waited.json()["satisfied"], true, "{waited}");

    let outcome = state::assert_over(&sandbox, &id);
    assert!(state::is_true_or_lost(&outcome, CODE), "{outcome}");
    let output = state::output(&sandbox, &id);
    assert_eq!(output.lines().collect::<Vec<_>>(), lines);
    let state = state::journal(&sandbox, &id).expect("recorded").state;
    assert_eq!(state.takeovers, 2);
    let bytes = state.closed.expect("closed").output.bytes;
    assert_eq!(bytes, output.len() as u64);
}

/// Nothing is on the way between the task's pipe and its file, unless the pipe is full: whoever kills
/// a shim while its task writes kills no output.
#[test]
fn a_stream_is_whole_over_twenty_kills() {
    const KILLS: u64 = 20;
    const STEP: u64 = 3_000;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = sandbox.path("gate");
    // In bursts of less than the page that the pipe holds.
    let command = format!(
        "i=0; until [ -e {} ]; do seq -f line-$i-%g 50; i=$((i+1)); sleep .002; done",
        gate.display()
    );
    let run = ["run", "--background", "--json", "--env", "LC_ALL=C", "--", &command];
    let started = sandbox.siding(&run).run().expect_code(0);
    let id = started.json()["task_id"].as_str().expect("an id").to_owned();
    let file = state::dir(&sandbox, &id).join("output");
    let stored = || std::fs::metadata(&file).map_or(0, |facts| facts.len());
    for kill in 0..KILLS {
        let from = stored();
        eventually("it flows", || stored() > from + STEP);
        state::kill(state::keeper(&sandbox, &id));
        let _rescued = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
        assert_eq!(state::outcome(&sandbox, &id), None, "after {} kills", kill + 1);
    }
    std::fs::write(&gate, "").expect("writes");
    state::assert_over(&sandbox, &id);
    let output = state::output(&sandbox, &id);
    let mut lines = output.lines().peekable();
    for round in 0.. {
        if lines.peek().is_none() {
            break;
        }
        for line in 1..=50 {
            assert_eq!(lines.next(), Some(format!("line-{round}-{line}").as_str()));
        }
    }
    assert_eq!(
        state::journal(&sandbox, &id).expect("recorded").state.takeovers,
        u32::try_from(KILLS).expect("fits")
    );
}

/// SPEC 1.7: the same where the pipe is always full, so that whatever is under way when the shim is
/// killed is in the pipe and in the file.
#[test]
fn a_flood_is_whole_over_ten_kills() {
    const KILLS: u32 = 10;
    const STEP: u64 = 1 << 20;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = sandbox.path("gate");
    let command = format!(
        "n=1; until [ -e {} ]; do seq $n $((n+49999)); n=$((n+50000)); done",
        gate.display()
    );
    let run = ["run", "--background", "--json", "--env", "LC_ALL=C", "--", &command];
    let call = sandbox.siding(&run).env("SIDING_OUTPUT_KEEP_HEAD", "4GiB");
    let id = call.run().expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    let file = state::dir(&sandbox, &id).join("output");
    let stored = || std::fs::metadata(&file).map_or(0, |facts| facts.len());
    for kill in 1..=KILLS {
        let from = stored();
        eventually("it flows", || stored() > from + STEP);
        state::kill(state::keeper(&sandbox, &id));
        let _rescued = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
        assert_eq!(state::outcome(&sandbox, &id), None, "after {kill} kills");
    }
    std::fs::write(&gate, "").expect("writes");
    state::assert_over(&sandbox, &id);
    let output = state::output(&sandbox, &id);
    for (line, number) in output.lines().zip(1_u64..) {
        assert_eq!(line, number.to_string());
    }
    assert!(output.lines().count().is_multiple_of(50_000), "it ends with a whole round");
    assert_eq!(state::journal(&sandbox, &id).expect("recorded").state.takeovers, KILLS);
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
    let lived = state.elapsed_ms(state.last_event_at);
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
        eventually("the shim is held up", || !shim.is_alive() || state::stands(shim));
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
        state.lifecycle.deadline().ms_since(state.started)
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
    assert_eq!(state::journal(&sandbox, &id).expect("recorded").state.takeovers, 1);
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
    assert_eq!(state::journal(&sandbox, &id).expect("recorded").state.takeovers, 0);
}

#[test]
fn whoever_watches_the_output_goes_on_to_see_it() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let mut run = ["run", "--budget", "none", "--"].map(str::to_owned).to_vec();
    run.extend(sandbox.puppet_argv(&words("--quiet say one sleep 300 say two hang")));
    let mut client = sandbox.siding(&run).spawn();
    client.wait_for_stdout("one\n");
    client.signal(Signal::STOP);
    eventually("the client is stopped", || state::stands(client.process()));
    let id = state::tasks(&sandbox).into_iter().next().expect("it runs");
    state::kill(state::keeper(&sandbox, &id));
    // Nobody keeps the task while it writes the rest.
    sandbox.wait_for_announcements("say", 2);
    client.signal(Signal::CONT);
    client.wait_for_stdout("two\n");
    let _stopped = sandbox.siding(&["stop", "--grace", GRACE, &id]).run().expect_code(0);
    let _told = client.wait().expect_code(128 + 15);
    state::assert_over(&sandbox, &id);
}

/// A look at the machine must not need a descriptor for each process it finds.
#[test]
fn few_descriptors_do_not_make_the_living_dead() {
    const TASKS: usize = 12;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let tasks: Vec<Task> = (0..TASKS).map(|_| Task::new(Kind::Stubborn)).collect();
    let ids: Vec<String> = tasks.iter().map(|task| task.start(&sandbox, &[])).collect();
    for task in &tasks {
        task.stands(&sandbox);
    }
    ids.iter().for_each(|id| state::kill(state::keeper(&sandbox, id)));
    let line = format!("ulimit -n {}; {}", 2 * TASKS, sandbox.siding_line(&["ps", "--json"]));
    let _shown = sandbox.host("bash", &["-c", &line]).run().expect_code(0);
    for id in &ids {
        assert_eq!(state::outcome(&sandbox, id), None, "{id} lives");
    }
    let stop = ["stop", "--all", "--grace", GRACE];
    let _stopped = sandbox.siding(&stop).run().expect_code(0);
    for id in &ids {
        let by = "user".to_owned();
        assert_eq!(state::assert_over(&sandbox, id), Outcome::Stopped { by });
    }
}

/// Nor must whoever ends them: they are more than it may have files open.
#[test]
fn few_descriptors_end_many_strays() {
    const STRAYS: usize = 120;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // Nobody is left to be watched in place of all.
    let text = format!("for n in $(seq {STRAYS}); do sleep 300 & done");
    let run = ["run", "--background", "--json", "--", &text];
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    let shown = || sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
    eventually("its shell has ended", || shown()["phase"] == "lingering");
    state::kill(state::keeper(&sandbox, &id));
    let stop = sandbox.siding_line(&["stop", "--json", "--grace", GRACE, &id]);
    let line = format!("ulimit -n {}; {stop}", STRAYS / 2);
    let stopped = sandbox.host("bash", &["-c", &line]).run().expect_code(0).json();
    assert_eq!(state::members(&id), []);
    let report = &stopped["stop_report"];
    assert_eq!(report["survivors"], serde_json::json!([]), "{stopped:#}");
    let ended = usize::try_from(report["ended_total"].as_u64().expect("a number"));
    assert_eq!(ended, Ok(STRAYS), "{stopped:#}");
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Exited { code: 0 });
}

/// One that has none left sees no process at all. That is no proof that none is left: it looks again
/// until it can.
#[test]
fn a_rescuer_that_cannot_look_calls_nothing_gone() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let text = "trap 'sleep 300 & echo next $!; exit 7' TERM; sleep 300 & echo first $!; wait";
    let run = ["run", "--background", "--json", "--", text];
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    let named = |name: &str| {
        eventually_some(name, || {
            let output = state::output(&sandbox, &id);
            let (_, rest) = output.split_once(&format!("{name} "))?;
            Process::from_pid(rest.split_once('\n')?.0.parse().ok()?)
        })
    };
    let first = named("first");
    let leader = state::journal(&sandbox, &id).and_then(|folded| folded.state.leader);
    state::kill(state::keeper(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    let rescuer = state::keeper(&sandbox, &id);

    let limit_to = |most: u64| {
        let pid = Pid::from_raw(rescuer.pid.cast_signed());
        let limit = Rlimit { current: Some(most), ..getrlimit(Resource::Nofile) };
        prlimit(pid, Resource::Nofile, limit).expect("one's own shim");
    };
    limit_to(3);
    let leader = Pid::from_raw(leader.expect("it was spawned").pid()).expect("a number");
    rustix::process::kill_process(leader, Signal::TERM).expect("one's own");
    let next = named("next");
    let has_ended = || state::journal(&sandbox, &id).is_some_and(|it| it.state.closed.is_some());
    let is_known =
        || state::journal(&sandbox, &id).is_some_and(|folded| folded.state.leader_end.is_some());
    eventually("its leader's end is on record", is_known);
    let before = processes::voluntary_switches(rescuer.pid);
    state::kill(first);
    eventually("it has looked, and again", || {
        has_ended() || processes::voluntary_switches(rescuer.pid) >= before + 2
    });
    assert!(next.is_alive() && !has_ended(), "nothing proves that");
    limit_to(256);
    state::kill(next);
    eventually("it sees the end", has_ended);
    let outcome = state::assert_over(&sandbox, &id);
    assert!(state::is_true_or_lost(&outcome, 7), "{outcome}");
}

/// An end that cannot be written is kept until it can: whoever came later would make up another.
#[test]
fn an_end_that_cannot_be_written_is_not_lost() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = sandbox.path("gate");
    let text =
        format!("for n in $(seq 600); do [ -e {} ] && exit 7; sleep 0.1; done", gate.display());
    let run = ["run", "--background", "--json", "--", &text];
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    let shim = state::keeper(&sandbox, &id);
    let limit_to = |most: Option<u64>| {
        let limit = Rlimit { current: most, ..getrlimit(Resource::Fsize) };
        let pid = Pid::from_raw(shim.pid.cast_signed());
        prlimit(pid, Resource::Fsize, limit).expect("one's own shim");
    };
    // As on a disk that is full and where nothing can be set aside.
    limit_to(Some(1));
    std::fs::write(gate, "").expect("own directory");
    eventually("its processes have ended", || state::members(&id).is_empty());
    let before = processes::voluntary_switches(shim.pid);
    eventually("it has tried more than once", || {
        !shim.is_alive() || processes::voluntary_switches(shim.pid) >= before + 2
    });
    assert!(shim.is_alive() && state::outcome(&sandbox, &id).is_none(), "it goes on trying");
    limit_to(None);
    assert_eq!(state::ended(&sandbox, &id), Outcome::Exited { code: 7 });
    eventually("its shim has left", || !shim.is_alive());
    assert_eq!(state::assert_over(&sandbox, &id), Outcome::Exited { code: 7 });
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
