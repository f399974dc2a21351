//! Supervision of hosts: a command in a host's sandbox is a task like any other, and no process
//! that a host started outlives the host, except browsers and other hosts.
//!
//! The tests create the sandbox with bubblewrap, as Claude Code does. It has a read-only file
//! system, and separate PID, user and network namespaces. The host is a renamed copy of bash.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_e2e::{
    Invocation, Process, RunningProgram, Sandbox, eventually, eventually_some, is_root, processes,
};

use crate::support::{CONVERSATION_ID, SESSION_ID, event_json, has_bwrap, sandbox};

/// The uid of `nobody`, a user that owns no other process.
const NOBODY_UID: u32 = 65_534;

/// A copy of bash that acts as a host and has called the hook `session-start`.
struct RunningHost {
    running: RunningProgram,
}

/// Enables the supervision of hosts, gives adoption enough time on a slow machine, and sets
/// `CLAUDE_ENV_FILE` as Claude Code does.
fn with_host_supervision(call: Invocation) -> Invocation {
    call.env("SIDING_SUPERVISE_HOSTS", "true")
        .env("SIDING_ADOPT_WAIT", "20")
        .env("CLAUDE_ENV_FILE", "env")
}

/// Starts a host that opens a conversation, runs this script, and then runs commands from its
/// standard input.
#[track_caller]
fn start_host(sandbox: &Sandbox, script: &str) -> RunningHost {
    start_host_in(sandbox, CONVERSATION_ID, script)
}

#[track_caller]
fn start_host_in(sandbox: &Sandbox, conversation: &str, script: &str) -> RunningHost {
    start_host_with_env(sandbox, conversation, script, &[])
}

#[track_caller]
fn start_host_with_env(
    sandbox: &Sandbox,
    conversation: &str,
    script: &str,
    environment: &[(&str, &str)],
) -> RunningHost {
    let program = sandbox.path("agenthost");
    if !program.exists() {
        let bash =
            ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| PathBuf::from(path).exists());
        let _length = std::fs::copy(bash.expect("a bash"), &program).expect("test directory");
    }
    let start = event_json(sandbox, json!({"session_id": conversation, "source": "startup"}));
    std::fs::write(sandbox.path(&format!("start-{conversation}")), start).expect("test directory");
    let hook = sandbox.siding_line(&["hook", "session-start"]);
    let text = format!(
        "{hook} <start-{conversation} >>told || exit 9\n{script}\n: >ready-{conversation}\n\
         while read -r line; do eval \"$line\"; done"
    );
    let call = sandbox.host(program.to_str().expect("UTF-8"), &["-c", &text]);
    let mut call = with_host_supervision(call).stdin_pipe();
    for (name, value) in environment {
        call = call.env(name, value);
    }
    let running = call.spawn();
    eventually("the host is ready", || sandbox.path(&format!("ready-{conversation}")).exists());
    RunningHost { running }
}

/// Returns the shell line with which the host runs a command in a sandbox, in the background and
/// with the output in a file.
fn bwrap_command(command: &str, output: &str) -> String {
    bwrap_command_with_proc(command, output, "--proc /proc")
}

fn bwrap_command_with_proc(command: &str, output: &str, proc: &str) -> String {
    let inner = format!(
        "source ./env 2>/dev/null || true && eval {} < /dev/null && pwd -P >| /dev/null",
        shell_quoted(command)
    );
    // As in the real sandbox, a relay runs together with the command, if socat is installed.
    let outer = format!(
        "{{ socat TCP4-LISTEN:3128,fork UNIX-CONNECT:/nowhere; }} >/dev/null 2>&1 &\n\
         /bin/bash -c {}; exit $?",
        shell_quoted(&inner)
    );
    let words = format!(
        "bwrap --new-session --die-with-parent --ro-bind / / --dev /dev --unshare-pid --unshare-user \
         --unshare-net {proc} -- /bin/bash -c {}",
        shell_quoted(&outer)
    );
    let wrapper = shell_quoted("eval \"$1\"; exit $?");
    format!(
        "setsid /bin/sh -c {wrapper} /bin/sh {} >{output} 2>&1 </dev/null &",
        shell_quoted(&words)
    )
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r#"'"'"'"#))
}

#[track_caller]
fn list_tasks(sandbox: &Sandbox) -> Vec<Value> {
    let listed = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0).json();
    listed.as_array().expect("a list").clone()
}

/// Waits until a task exists and returns it.
#[track_caller]
fn wait_for_task(sandbox: &Sandbox) -> Value {
    eventually_some("the command is a task", || list_tasks(sandbox).into_iter().next())
}

fn task_id(task: &Value) -> String {
    task["task_id"].as_str().expect("an id").to_owned()
}

/// Returns every process with this text in its command line, except hosts, whose command line
/// contains the whole test script.
fn processes_with_text(text: &str) -> Vec<Process> {
    let has = |pid: &u32| {
        processes::comm(*pid) != "agenthost"
            && std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(text))
    };
    processes::list_pids().into_iter().filter(has).filter_map(Process::from_pid).collect()
}

/// Returns the supervisors of this sandbox's hosts.
fn supervisors(sandbox: &Sandbox) -> Vec<Process> {
    let state = sandbox.state_dir().display().to_string();
    let is_one = |process: &Process| processes::comm(process.pid) == "siding-host";
    processes_with_text(&state).into_iter().filter(is_one).collect()
}

/// Waits until no supervisor, no record of a host, and no process with one of these texts is left,
/// and returns the duration of the wait.
#[track_caller]
fn wait_until_host_is_cleaned_up(sandbox: &Sandbox, texts: &[&str]) -> Duration {
    let started = Instant::now();
    eventually("nothing of the host is left", || {
        supervisors(sandbox).is_empty()
            && texts.iter().all(|text| processes_with_text(text).is_empty())
            && std::fs::read_dir(sandbox.state_dir().join("hosts"))
                .map_or(true, |mut hosts| hosts.next().is_none())
    });
    started.elapsed()
}

/// Returns the content of a file in the sandbox, or an empty text if the file does not exist.
fn read_test_file(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path(name)).unwrap_or_default()
}

/// Returns a command that runs for longer than any test, with arguments that no other test uses.
fn endless_command(sandbox: &Sandbox, number: u32) -> String {
    // The argument must be a number, so the sandbox's unique path is encoded as digits.
    let name = sandbox.root().display().to_string();
    let digits: String = name.bytes().map(|byte| format!("{byte:03}")).collect();
    format!("sleep {number}.{digits}")
}

#[track_caller]
fn assert_sandboxed_command_is_supervised(sandbox: &Sandbox, proc: &str) {
    let endless = endless_command(sandbox, 3_001);
    let command = format!("echo S=$SIDING_SESSION; {endless}");
    let host = start_host(sandbox, &bwrap_command_with_proc(&command, "out", proc));
    let task = wait_for_task(sandbox);
    assert_eq!((&task["adopted"], &task["sandbox"]), (&json!(true), &json!("bwrap")), "{task:#}");
    assert_eq!((&task["session_id"], &task["command"]), (&json!(SESSION_ID), &json!(command)));
    assert_eq!(task["output"]["path"], json!(sandbox.path("out")), "{task:#}");
    eventually("the command knows its session", || {
        read_test_file(sandbox, "out") == format!("S={SESSION_ID}\n")
    });
    let id = task_id(&task);
    let inside = eventually_some("the program runs", || {
        processes_with_text(&endless).into_iter().find(|one| processes::comm(one.pid) == "sleep")
    });
    assert_eq!(processes::read_birthmark(inside.pid), processes::birthmark_from_id(&id));
    eventually("it sleeps", || {
        let why = sandbox.siding(&["why", &id]).run().expect_code(0).stdout_text();
        why.contains("waits for a timer")
    });
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0).json();
    assert_eq!(stopped["phase"], "ended", "{stopped:#}");
    assert!(processes_with_text(&endless).is_empty(), "{:?}", processes_with_text(&endless));
    assert!(
        read_test_file(sandbox, "out").contains("[siding] stopped by"),
        "{}",
        read_test_file(sandbox, "out")
    );
    host.running.process().kill();
    let took = wait_until_host_is_cleaned_up(sandbox, &[]);
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn sandboxed_command_is_a_task_and_can_be_stopped() {
    if has_bwrap() {
        assert_sandboxed_command_is_supervised(&sandbox(), "--proc /proc");
    }
}

/// A sandboxed command is supervised even with `enableWeakerNestedSandbox`, where `/proc` inside
/// the sandbox shows pids of another PID namespace.
#[test]
fn sandboxed_command_is_supervised_with_the_hosts_proc() {
    if has_bwrap() {
        assert_sandboxed_command_is_supervised(&sandbox(), "");
    }
}

#[test]
fn sandboxed_command_of_an_ordinary_user_is_supervised() {
    if is_root() && has_bwrap() {
        let mut sandbox = Sandbox::new_for_uid(NOBODY_UID);
        sandbox.expect_clean();
        assert_sandboxed_command_is_supervised(&sandbox, "--proc /proc");
    }
}

#[test]
fn sandboxed_command_ends_at_its_deadline() {
    if !has_bwrap() {
        return;
    }
    let sandbox = sandbox();
    let endless = endless_command(&sandbox, 3_002);
    let script = bwrap_command(&endless, "out");
    let host =
        start_host_with_env(&sandbox, CONVERSATION_ID, &script, &[("SIDING_MAX_ELAPSED", "3s")]);
    eventually("the command is stopped", || {
        read_test_file(&sandbox, "out").contains("at its deadline of 3s")
    });
    eventually("all its processes have ended", || processes_with_text(&endless).is_empty());
    host.running.process().kill();
    let _took = wait_until_host_is_cleaned_up(&sandbox, &[]);
}

/// Failure F64, anthropics/claude-code#51932: within 15 s after a host is killed, all processes and
/// the socket of its sandbox are gone, and the log names the ended processes. Without siding, a
/// relay of the sandbox became a child of pid 1 and ran forever.
#[test]
fn killed_host_leaves_no_processes() {
    if !has_bwrap() {
        return;
    }
    let sandbox = sandbox();
    let (boxed_text, helper) = (endless_command(&sandbox, 3_003), endless_command(&sandbox, 3_004));
    let socket = sandbox.path("claude-http-1.sock");
    let relay = format!(
        "socat UNIX-LISTEN:{},fork,reuseaddr TCP:localhost:9 & (setsid {helper} &) ; ",
        socket.display()
    );
    // One helper ignores SIGTERM; another helper is an orphan in its own process session.
    let stubborn = format!("setsid bash -c 'trap \"\" TERM; {helper}; :' & ");
    let script = format!("{relay}{stubborn}{}", bwrap_command(&boxed_text, "out"));
    let host = start_host(&sandbox, &script);
    let _task = wait_for_task(&sandbox);
    let has_socat = !processes_with_text(&format!("UNIX-LISTEN:{}", socket.display())).is_empty();
    if has_socat {
        eventually("the relay listens", || socket.exists());
    }
    host.running.process().kill();
    let texts = [boxed_text.as_str(), helper.as_str(), "claude-http-1.sock,fork"];
    let took = wait_until_host_is_cleaned_up(&sandbox, &texts);
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert!(!socket.exists());
    let log = std::fs::read_to_string(sandbox.state_dir().join("reaped.log")).expect("a log");
    assert!(log.contains(r#""rule":"host-ended""#) && log.contains(&helper), "{log}");
}

#[test]
fn only_the_killed_hosts_processes_are_ended() {
    let sandbox = sandbox();
    let (one, other) = (endless_command(&sandbox, 3_005), endless_command(&sandbox, 3_006));
    let first = start_host_in(&sandbox, "first", &format!("setsid {one} &"));
    let second = start_host_in(&sandbox, "second", &format!("setsid {other} &"));
    assert_eq!(supervisors(&sandbox).len(), 2);
    first.running.process().kill();
    eventually("the killed host's process is ended", || processes_with_text(&one).is_empty());
    eventually("the host's supervisor has exited", || supervisors(&sandbox).len() == 1);
    assert_eq!(processes_with_text(&other).len(), 1);
    second.running.process().kill();
    let _took = wait_until_host_is_cleaned_up(&sandbox, &[&other]);
}

/// Returns a shell line that calls a hook with an event on standard input, as the host does.
fn hook_line(sandbox: &Sandbox, name: &str, more: Value) -> String {
    let file = format!("event-{name}");
    std::fs::write(sandbox.path(&file), event_json(sandbox, more)).expect("test directory");
    format!("{} <{file} >>told", sandbox.siding_line(&["hook", name]))
}

#[test]
fn next_event_replaces_a_killed_host_supervisor() {
    let sandbox = sandbox();
    let helper = endless_command(&sandbox, 3_007);
    let more = json!({"tool_name": "Bash", "tool_input": {"command": "true"}});
    let hook = hook_line(&sandbox, "pre-tool-use", more);
    let mut host = start_host(&sandbox, &format!("setsid {helper} &"));
    let [first] = supervisors(&sandbox).try_into().expect("exactly one entry");
    first.kill();
    eventually("the process has exited", || !first.is_alive());
    host.running.write_stdin(format!("{hook}; : >went\n").as_bytes());
    eventually("the event was answered", || sandbox.path("went").exists());
    let [second] = supervisors(&sandbox).try_into().expect("exactly one new supervisor");
    assert_ne!(first.pid, second.pid);
    host.running.process().kill();
    let _took = wait_until_host_is_cleaned_up(&sandbox, &[&helper]);
}

#[test]
fn reap_ends_processes_of_a_killed_host_and_supervisor() {
    let sandbox = sandbox();
    let helper = endless_command(&sandbox, 3_008);
    let host = start_host(&sandbox, &format!("setsid {helper} &"));
    let [supervisor] = supervisors(&sandbox).try_into().expect("exactly one entry");
    eventually("the helper runs", || processes_with_text(&helper).len() == 1);
    supervisor.kill();
    host.running.process().kill();
    eventually("both have exited", || !supervisor.is_alive() && !host.running.process().is_alive());
    let dry_run = sandbox.siding(&["reap", "--dry-run"]).run().expect_code(0).stdout_text();
    // The output is wrapped at 80 columns, so the words are joined again.
    let dry_run = dry_run.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(dry_run.contains("would end") && dry_run.contains(&helper), "{dry_run}");
    assert_eq!(processes_with_text(&helper).len(), 1);
    let reaped = sandbox.siding(&["reap", "--json"]).run().expect_code(0).json();
    assert_eq!(reaped["counts"]["host_process_ended"], 1, "{reaped:#}");
    let _took = wait_until_host_is_cleaned_up(&sandbox, &[&helper]);
}

/// Promise P116: if a host and its supervisor are killed at a failpoint of the supervisor, `siding
/// reap` ends the remaining processes.
#[test]
fn host_supervisor_killed_at_any_failpoint_leaves_nothing() {
    if !has_bwrap() {
        return;
    }
    for point in ["command_marked", "host_ending"] {
        let sandbox = sandbox();
        let (boxed_text, helper) =
            (endless_command(&sandbox, 3_009), endless_command(&sandbox, 3_010));
        std::fs::write(sandbox.state_dir().join("pause-supervisor-at"), point)
            .expect("test directory");
        let stubborn = format!("setsid bash -c 'trap \"\" TERM; {helper}; :' & ");
        let host =
            start_host(&sandbox, &format!("{stubborn}{}", bwrap_command(&boxed_text, "out")));
        let [supervisor] = supervisors(&sandbox).try_into().expect("exactly one entry");
        if point == "host_ending" {
            let _task = wait_for_task(&sandbox);
            host.running.process().kill();
        }
        eventually("the supervisor is paused", || processes::state(supervisor.pid) == Some('T'));
        supervisor.kill();
        host.running.process().kill();
        eventually("both have exited", || {
            !supervisor.is_alive() && !host.running.process().is_alive()
        });
        let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
        let _took = wait_until_host_is_cleaned_up(&sandbox, &[&boxed_text, &helper]);
    }
}

/// Returns the processor time of a process, in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// Every process in a sandbox can write to the supervisor's FIFO, so a flood of wake-ups must not
/// make the supervisor use much processor time.
#[test]
fn ten_thousand_supervisor_wakeups_use_little_cpu() {
    if !has_bwrap() {
        return;
    }
    let sandbox = sandbox();
    let endless = endless_command(&sandbox, 3_011);
    let host = start_host(&sandbox, &bwrap_command(&endless, "out"));
    let _task = wait_for_task(&sandbox);
    let [supervisor] = supervisors(&sandbox).try_into().expect("exactly one entry");
    let hosts = std::fs::read_dir(sandbox.state_dir().join("hosts")).expect("the entry exists");
    let fifo = hosts.flatten().next().expect("exactly one entry").path().join("bell");
    let ticks = || cpu_ticks(supervisor.pid);
    let before = ticks();
    for round in 0..10_000_u32 {
        let ring = [b'c', b'd', b'l', 0xff][round as usize % 4];
        let mut fifo_writer =
            std::fs::OpenOptions::new().write(true).open(&fifo).expect("the entry exists");
        std::io::Write::write_all(&mut fifo_writer, &[ring])
            .expect("writing to the FIFO succeeded");
    }
    let spent = ticks() - before;
    assert!(spent < 100, "{spent} clock ticks for 10,000 rings");
    assert!(supervisor.is_alive() && list_tasks(&sandbox).len() == 1);
    host.running.process().kill();
    let _took = wait_until_host_is_cleaned_up(&sandbox, &[&endless]);
}

/// A browser that a person opened through the agent survives the end of the host.
#[test]
fn users_browser_is_excluded_from_host_cleanup() {
    let sandbox = sandbox();
    let sleep =
        ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| PathBuf::from(path).exists());
    let browser = sandbox.path("firefox");
    let _length =
        std::fs::copy(sleep.expect("an installed `sleep`"), &browser).expect("test directory");
    let helper = endless_command(&sandbox, 3_012);
    let user_program = format!("{} 3013", browser.display());
    // The host itself starts one browser, and an adopted command starts another one.
    let init = sandbox.siding_line(&["shell-init", "bash"]);
    let adopted = format!("eval \"$({init})\"; setsid {user_program} & {helper}");
    // A copy of the host's program in a separate process session is another host, so it survives
    // too.
    let other = "while :; do sleep 1; done # another host";
    let script = format!(
        "setsid {user_program} &\nsetsid ./agenthost -c {} &\nbash -c {} &",
        shell_quoted(other),
        shell_quoted(&adopted)
    );
    let host = start_host(&sandbox, &script);
    let task = wait_for_task(&sandbox);
    let browsers = || -> Vec<Process> {
        let mut found = processes_with_text(&user_program);
        found.retain(|one| processes::comm(one.pid) == "firefox");
        found
    };
    eventually("both run", || browsers().len() == 2);
    let _stopped = sandbox.siding(&["stop", &task_id(&task)]).run().expect_code(0);
    host.running.process().kill();
    let _took = wait_until_host_is_cleaned_up(&sandbox, &[&helper]);
    let others = || -> Vec<Process> {
        let is_one = |pid: &u32| processes::command_line(*pid).starts_with("./agenthost -c while");
        processes::list_pids().into_iter().filter(is_one).filter_map(Process::from_pid).collect()
    };
    let hosts = others();
    hosts.iter().for_each(|one| one.kill());
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    let remaining_browsers = browsers();
    remaining_browsers.iter().for_each(|one| one.kill());
    assert_eq!(remaining_browsers.len(), 2, "{remaining_browsers:?}");
    eventually("the test's processes have exited", || browsers().is_empty() && others().is_empty());
}

/// siding cannot mark a host that has its own real-time limit (`RLIMIT_RTTIME`). The host's agent
/// is informed of this once.
#[test]
fn unsupervisable_host_is_reported_once() {
    let sandbox = sandbox();
    let again = hook_line(&sandbox, "session-start", json!({"source": "compact"}));
    let start = hook_line(&sandbox, "session-start", json!({"source": "startup"}));
    let host = sandbox.path("agenthost");
    let _length = std::fs::copy("/bin/bash", &host).expect("test directory");
    let doctor = sandbox.siding_line(&["doctor", "--host", "claude-code"]);
    let text = format!("ulimit -R 900000000000; {start}; {again}; {doctor} >doctor; exit 0");
    let call = sandbox.host(host.to_str().expect("UTF-8"), &["-c", &text]);
    let _done = with_host_supervision(call).run().expect_code(0);
    let hook_output = read_test_file(&sandbox, "told");
    assert_eq!(hook_output.matches("are not supervised by siding").count(), 1, "{hook_output}");
    assert!(hook_output.contains("RLIMIT_RTTIME 900000000000"), "{hook_output}");
    assert!(hook_output.contains("siding doctor --host claude-code"), "{hook_output}");
    let doctor = read_test_file(&sandbox, "doctor");
    assert!(doctor.contains("limited  sandboxed commands"), "{doctor}");
    assert!(doctor.contains("RLIMIT_RTTIME"), "{doctor}");
}
