//! Takeovers of tasks whose shim was killed, and repairs of tasks whose shim is stopped, has no
//! free descriptor or cannot write.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes, words};
use siding_model::outcome::Outcome;

use crate::state;
use crate::test_tasks::{self, EXIT_CODE, STOP_GRACE, TASK_OUTPUT, Task, TaskKind};

#[test]
fn output_is_complete_after_two_shim_kills() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let lines: Vec<String> = (1..=40).map(|number| format!("line-{number}")).collect();
    let mut verbs = vec!["--quiet".to_owned()];
    for line in &lines {
        verbs.extend(["say", line, "sleep", "15"].map(str::to_owned));
        if line == "line-30" {
            // The task stops itself here, because output in the pipe would be lost if the task
            // ended while it has no shim.
            verbs.push("stop-self".to_owned());
        }
    }
    verbs.extend(["exit", "7"].map(str::to_owned));
    let mut run = vec!["run".to_owned(), "--background".to_owned(), "--json".to_owned()];
    run.push("--".to_owned());
    run.extend(sandbox.puppet_argv(&verbs));
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    let first = state::wait_for_live_shim(&sandbox, &id);
    let has_line = |line: &str| state::output(&sandbox, &id).contains(&format!("{line}\n"));

    eventually("some lines are stored", || has_line("line-5"));
    state::kill_and_wait(first);
    // The task continues to write into the pipe while no shim reads it.
    sandbox.wait_for_announcements("say", 15);
    let waiter = sandbox.siding(&["wait", "--all", "--json", "--timeout", "20s", &id]).spawn();
    eventually("the new shim stores lines", || has_line("line-20"));
    let second = state::wait_for_live_shim(&sandbox, &id);
    assert_ne!(first, second);
    state::kill_and_wait(second);
    assert_ne!(second, state::wait_for_live_shim(&sandbox, &id));
    let task = state::journal(&sandbox, &id).and_then(|folded| folded.state.leader?.process());
    let task = task.expect("a recorded leader");
    let task = Process { pid: task.pid.try_into().expect("a number"), start: task.start_ticks };
    eventually("it has stopped", || processes::state(task.pid) == Some('T'));
    task.signal(Signal::CONT);
    let waited = waiter.wait().expect_code(0);
    assert_eq!(waited.json()["satisfied"], true, "{waited}");

    let outcome = state::assert_ended_cleanly(&sandbox, &id);
    assert!(state::is_exit_or_lost(&outcome, EXIT_CODE), "{outcome}");
    let output = state::output(&sandbox, &id);
    assert_eq!(output.lines().collect::<Vec<_>>(), lines);
    let state = state::journal(&sandbox, &id).expect("a recorded task").state;
    assert_eq!(state.takeovers, 2);
    let bytes = state.closed.expect("a closing record").output.bytes;
    assert_eq!(bytes, output.len() as u64);
}

/// Promise P25: killing a shim while its task writes loses no output, because every byte is always
/// in the pipe, in the output file, or in both.
#[test]
fn stream_is_complete_after_twenty_shim_kills() {
    const KILL_COUNT: u64 = 20;
    const MIN_GROWTH_BYTES: u64 = 3_000;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = sandbox.path("gate");
    // Each burst is smaller than a page, so that the burst fits into the small pipe of a silent
    // task.
    let command = format!(
        "i=0; until [ -e {} ]; do seq -f line-$i-%g 50; i=$((i+1)); sleep .002; done",
        gate.display()
    );
    let run = ["run", "--background", "--json", "--env", "LC_ALL=C", "--", &command];
    let started = sandbox.siding(&run).run().expect_code(0);
    let id = started.json()["task_id"].as_str().expect("an id").to_owned();
    let file = state::task_dir(&sandbox, &id).join("output");
    let stored = || std::fs::metadata(&file).map_or(0, |facts| facts.len());
    for kill in 0..KILL_COUNT {
        let from = stored();
        eventually("the output grows", || stored() > from + MIN_GROWTH_BYTES);
        state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
        let _rescued = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
        assert_eq!(state::outcome(&sandbox, &id), None, "after {} kills", kill + 1);
    }
    std::fs::write(&gate, "").expect("the gate file can be written");
    state::assert_ended_cleanly(&sandbox, &id);
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
        state::journal(&sandbox, &id).expect("a recorded task").state.takeovers,
        u32::try_from(KILL_COUNT).expect("the number fits")
    );
}

/// Promise P25: killing a shim loses no output even if the pipe is always full.
#[test]
fn full_pipe_output_is_complete_after_ten_shim_kills() {
    const KILL_COUNT: u32 = 10;
    const MIN_GROWTH_BYTES: u64 = 1 << 20;
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
    let file = state::task_dir(&sandbox, &id).join("output");
    let stored = || std::fs::metadata(&file).map_or(0, |facts| facts.len());
    for kill in 1..=KILL_COUNT {
        let from = stored();
        eventually("the output grows", || stored() > from + MIN_GROWTH_BYTES);
        state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
        let _rescued = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
        assert_eq!(state::outcome(&sandbox, &id), None, "after {kill} kills");
    }
    std::fs::write(&gate, "").expect("the gate file can be written");
    state::assert_ended_cleanly(&sandbox, &id);
    let output = state::output(&sandbox, &id);
    for (line, number) in output.lines().zip(1_u64..) {
        assert_eq!(line, number.to_string());
    }
    assert!(output.lines().count().is_multiple_of(50_000), "the output ends within a round");
    assert_eq!(state::journal(&sandbox, &id).expect("a recorded task").state.takeovers, KILL_COUNT);
}

#[test]
fn takeover_keeps_the_deadline() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Stubborn);
    let id = task.start(&sandbox, &["--timeout", "2s"]);
    task.wait_until_running(&sandbox);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps", "--json"]).run().expect_code(0);
    assert!(
        state::outcome(&sandbox, &id).is_none(),
        "the takeover must come well before the deadline"
    );
    assert_eq!(state::wait_for_outcome(&sandbox, &id), Outcome::Deadline { limit_ms: 2_000 });
    state::assert_ended_cleanly(&sandbox, &id);
    let state = state::journal(&sandbox, &id).expect("a recorded task").state;
    let lived = state.elapsed_ms(state.last_event_at);
    assert!((2_000..30_000).contains(&lived), "lived {lived} ms");
    let output = state::output(&sandbox, &id);
    assert!(output.contains("[siding] stopped at its deadline"), "{output}");
}

#[test]
fn next_command_enforces_a_deadline_missed_without_a_shim() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for is_killed in [true, false] {
        let task = Task::new(TaskKind::Stubborn);
        // The shim stops itself before the deadline, however long its start takes.
        let run = task.run(&sandbox, &["--background", "--timeout", "300ms"]);
        let (client, id, shim) = test_tasks::spawn_until_paused(&sandbox, run, "running");
        let paused = Instant::now();
        task.wait_until_running(&sandbox);
        // The client would replace a killed shim.
        let client = (!is_killed).then_some(client);
        if is_killed {
            state::kill_and_wait(shim);
        }
        eventually("the deadline has passed", || paused.elapsed() > Duration::from_millis(400));
        assert_eq!(state::outcome(&sandbox, &id), None, "the task ended without a shim");
        let wait = ["wait", "--all", "--json", "--timeout", "20s", &id];
        let _waited = sandbox.siding(&wait).run().expect_code(0);
        assert_eq!(state::assert_ended_cleanly(&sandbox, &id), Outcome::Deadline { limit_ms: 300 });
        drop(client);
    }
}

#[test]
fn deadline_extension_survives_a_takeover() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Stubborn);
    let id = task.start(&sandbox, &["--timeout", "10m"]);
    task.wait_until_running(&sandbox);
    let deadline_ms = || {
        let state = state::journal(&sandbox, &id).expect("a recorded task").state;
        state.lifecycle.deadline().expect("it counts").ms_since(state.started)
    };
    let _moved = sandbox.siding(&["extend", &id, "--to", "15m"]).run().expect_code(0);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let _moved = sandbox.siding(&["extend", &id, "5m"]).run().expect_code(0);
    assert_eq!(deadline_ms(), 20 * 60 * 1000);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let shown = sandbox.siding(&["ps", "--json", "--running"]).run().expect_code(0).json();
    assert_eq!(shown[0]["phase"], "running", "{shown}");
    assert_eq!(deadline_ms(), 20 * 60 * 1000);
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    assert_eq!(
        state::assert_ended_cleanly(&sandbox, &id),
        Outcome::Stopped { by: "user".to_owned() }
    );
}

#[test]
fn concurrent_commands_start_only_one_takeover_shim() {
    const COMMAND_COUNT: usize = 8;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Stubborn);
    let id = task.start(&sandbox, &[]);
    task.wait_until_running(&sandbox);
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let wait = ["wait", "--all", "--json", "--timeout", "30s", &id];
    let waiters: Vec<_> = (0..COMMAND_COUNT).map(|_| sandbox.siding(&wait).spawn()).collect();
    let rescuer = state::wait_for_live_shim(&sandbox, &id);
    eventually("only the new shim is left", || state::shims(&id) == [rescuer]);
    let _stopped = sandbox.siding(&["stop", "--grace", STOP_GRACE, &id]).run().expect_code(0);
    for waiter in waiters {
        let done = waiter.wait().expect_code(0);
        assert_eq!(done.json()["satisfied"], true, "{done}");
    }
    assert_eq!(
        state::assert_ended_cleanly(&sandbox, &id),
        Outcome::Stopped { by: "user".to_owned() }
    );
    assert_eq!(state::journal(&sandbox, &id).expect("a recorded task").state.takeovers, 1);
}

#[test]
fn sigstopped_shim_is_continued_by_the_next_command() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let task = Task::new(TaskKind::Stubborn);
    let id = task.start(&sandbox, &[]);
    task.wait_until_running(&sandbox);
    let shim = state::wait_for_live_shim(&sandbox, &id);
    for command in [&["ps"][..], &["stop", "--grace", STOP_GRACE, &id]] {
        shim.signal(Signal::STOP);
        eventually("the shim is stopped", || state::is_stopped(shim));
        let done = sandbox.siding(command).run().expect_code(0);
        assert!(
            done.elapsed < Duration::from_secs(8),
            "the call waited for an answer first: {done}"
        );
        assert!(!state::is_stopped(shim));
    }
    state::assert_ended_cleanly(&sandbox, &id);
    assert_eq!(state::journal(&sandbox, &id).expect("a recorded task").state.takeovers, 0);
}

#[test]
fn client_follows_output_across_a_takeover() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let mut run = ["run", "--budget", "none", "--"].map(str::to_owned).to_vec();
    run.extend(sandbox.puppet_argv(&words("--quiet say one sleep 300 say two hang")));
    let mut client = sandbox.siding(&run).spawn();
    client.wait_for_stdout("one\n");
    client.signal(Signal::STOP);
    eventually("the client is stopped", || state::is_stopped(client.process()));
    let id = state::task_ids(&sandbox).into_iter().next().expect("the process is alive");
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    // The task writes its remaining output while it has no shim.
    sandbox.wait_for_announcements("say", 2);
    client.signal(Signal::CONT);
    client.wait_for_stdout("two\n");
    let _stopped = sandbox.siding(&["stop", "--grace", STOP_GRACE, &id]).run().expect_code(0);
    let _told = client.wait().expect_code(128 + 15);
    state::assert_ended_cleanly(&sandbox, &id);
}

/// A command with a low descriptor limit does not record live tasks as lost, because its process
/// scan does not need a descriptor for each process.
#[test]
fn descriptor_limit_does_not_make_live_tasks_lost() {
    const TASK_COUNT: usize = 12;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let tasks: Vec<Task> = (0..TASK_COUNT).map(|_| Task::new(TaskKind::Stubborn)).collect();
    let ids: Vec<String> = tasks.iter().map(|task| task.start(&sandbox, &[])).collect();
    for task in &tasks {
        task.wait_until_running(&sandbox);
    }
    ids.iter().for_each(|id| state::kill_and_wait(state::wait_for_live_shim(&sandbox, id)));
    let line = format!("ulimit -n {}; {}", 2 * TASK_COUNT, sandbox.siding_line(&["ps", "--json"]));
    let _shown = sandbox.host("bash", &["-c", &line]).run().expect_code(0);
    for id in &ids {
        assert_eq!(state::outcome(&sandbox, id), None, "{id} must be alive");
    }
    let stop = ["stop", "--all", "--grace", STOP_GRACE];
    let _stopped = sandbox.siding(&stop).run().expect_code(0);
    for id in &ids {
        let by = "user".to_owned();
        assert_eq!(state::assert_ended_cleanly(&sandbox, id), Outcome::Stopped { by });
    }
}

/// A stop can end more processes than there are free descriptors, so it must not hold a pidfd of
/// every process at the same time.
#[test]
fn stop_under_a_descriptor_limit_ends_many_processes() {
    const STRAY_COUNT: usize = 120;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // The shell exits, so that siding must observe the exit of each child, and not only the exit of
    // the shell.
    let text = format!("for n in $(seq {STRAY_COUNT}); do sleep 300 & done");
    let run = ["run", "--background", "--json", "--", &text];
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    let shown = || sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
    eventually("its shell has ended", || shown()["phase"] == "lingering");
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let stop = sandbox.siding_line(&["stop", "--json", "--grace", STOP_GRACE, &id]);
    let line = format!("ulimit -n {}; {stop}", STRAY_COUNT / 2);
    let stopped = sandbox.host("bash", &["-c", &line]).run().expect_code(0).json();
    assert_eq!(state::members(&id), []);
    let report = &stopped["stop_report"];
    assert_eq!(report["survivors"], serde_json::json!([]), "{stopped:#}");
    let ended = usize::try_from(report["ended_total"].as_u64().expect("a number"));
    assert_eq!(ended, Ok(STRAY_COUNT), "{stopped:#}");
    assert_eq!(state::assert_ended_cleanly(&sandbox, &id), Outcome::Exited { code: 0 });
}

/// A shim without a free descriptor cannot read `/proc`. A scan that finds no process for this
/// reason proves nothing, so the shim scans again until a scan succeeds.
#[test]
fn takeover_shim_without_descriptors_does_not_assume_the_end() {
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
    state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
    let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
    let rescuer = state::wait_for_live_shim(&sandbox, &id);

    let limit_to = |max_files: u64| {
        let pid = Pid::from_raw(rescuer.pid.cast_signed());
        let limit = Rlimit { current: Some(max_files), ..getrlimit(Resource::Nofile) };
        prlimit(pid, Resource::Nofile, limit).expect("setting the shim's limit succeeded");
    };
    limit_to(3);
    let leader = Pid::from_raw(leader.expect("a spawned record").pid()).expect("a number");
    rustix::process::kill_process(leader, Signal::TERM).expect("a child process");
    let next = named("next");
    let has_ended = || state::journal(&sandbox, &id).is_some_and(|it| it.state.closed.is_some());
    let is_known =
        || state::journal(&sandbox, &id).is_some_and(|folded| folded.state.leader_end.is_some());
    eventually("its leader's end is recorded", is_known);
    let before = processes::voluntary_switches(rescuer.pid);
    state::kill_and_wait(first);
    eventually("the shim has scanned twice", || {
        has_ended() || processes::voluntary_switches(rescuer.pid) >= before + 2
    });
    assert!(next.is_alive() && !has_ended(), "the end was recorded without proof");
    limit_to(256);
    state::kill_and_wait(next);
    eventually("it sees the end", has_ended);
    let outcome = state::assert_ended_cleanly(&sandbox, &id);
    assert!(state::is_exit_or_lost(&outcome, 7), "{outcome}");
}

/// A shim that cannot write the final record of a task retries until the write succeeds, because a
/// later shim would not know the outcome.
#[test]
fn end_record_is_retried_until_it_can_be_written() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = sandbox.path("gate");
    let text =
        format!("for n in $(seq 600); do [ -e {} ] && exit 7; sleep 0.1; done", gate.display());
    let run = ["run", "--background", "--json", "--", &text];
    let started = sandbox.siding(&run).run().expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    let shim = state::wait_for_live_shim(&sandbox, &id);
    let limit_to = |max_bytes: Option<u64>| {
        let limit = Rlimit { current: max_bytes, ..getrlimit(Resource::Fsize) };
        let pid = Pid::from_raw(shim.pid.cast_signed());
        prlimit(pid, Resource::Fsize, limit).expect("setting the shim's limit succeeded");
    };
    // With this limit every write to the journal fails, as on a full disk without reserved space.
    limit_to(Some(1));
    std::fs::write(gate, "").expect("test directory");
    eventually("its processes have ended", || state::members(&id).is_empty());
    let before = processes::voluntary_switches(shim.pid);
    eventually("it has tried more than once", || {
        !shim.is_alive() || processes::voluntary_switches(shim.pid) >= before + 2
    });
    assert!(
        shim.is_alive() && state::outcome(&sandbox, &id).is_none(),
        "the shim must keep trying to write the end"
    );
    limit_to(None);
    assert_eq!(state::wait_for_outcome(&sandbox, &id), Outcome::Exited { code: 7 });
    eventually("its shim has exited", || !shim.is_alive());
    assert_eq!(state::assert_ended_cleanly(&sandbox, &id), Outcome::Exited { code: 7 });
}

#[test]
fn torn_journal_record_is_tolerated() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let cut = |path: &Path, by: u64| {
        let file =
            std::fs::File::options().write(true).open(path).expect("the journal can be opened");
        let len = file.metadata().expect("an open file").len();
        file.set_len(len - by).expect("test file");
    };
    for by in [1, 2, 20] {
        let task = Task::new(TaskKind::Stubborn);
        let id = task.start(&sandbox, &[]);
        task.wait_until_running(&sandbox);
        state::kill_and_wait(state::wait_for_live_shim(&sandbox, &id));
        cut(&state::task_dir(&sandbox, &id).join("journal"), by);
        let stop = ["stop", "--grace", STOP_GRACE, &id];
        let _stopped = sandbox.siding(&stop).run().expect_code(0);
        assert_eq!(
            state::assert_ended_cleanly(&sandbox, &id),
            Outcome::Stopped { by: "user".to_owned() }
        );
        assert_eq!(state::command_output(&sandbox, &id), TASK_OUTPUT);

        let task = Task::new(TaskKind::Brief);
        let (client, id, shim) =
            test_tasks::spawn_until_paused(&sandbox, task.run(&sandbox, &[]), "running");
        drop(client);
        state::kill_and_wait(shim);
        eventually("nothing of it is left", || processes::with_birthmark(&id).is_empty());
        cut(&state::task_dir(&sandbox, &id).join("journal"), by);
        let _waited = sandbox.siding(&["wait", "--all", &id]).run().expect_code(0);
        let outcome = state::assert_ended_cleanly(&sandbox, &id);
        assert!(state::is_exit_or_lost(&outcome, EXIT_CODE), "{outcome}");
    }
}
