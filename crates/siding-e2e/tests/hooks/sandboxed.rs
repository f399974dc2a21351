//! What a host runs in a sandbox is a task like any, and nothing that it started outlives it.
//!
//! The sandbox is bubblewrap's, as Claude Code builds it: the file system read only, namespaces of its
//! own for processes and users. The host is a copy of a shell under another name.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_e2e::{
    Invocation, Process, RunningProgram, Sandbox, eventually, eventually_some, is_root, processes,
};

use crate::support::{CONVERSATION, SESSION, event, sandbox};

/// A user that owns nothing.
const NOBODY: u32 = 65_534;

/// Whether bubblewrap makes sandboxes here. Where this is to prove something it must.
fn has_bwrap() -> bool {
    let probe =
        ["--ro-bind", "/", "/", "--unshare-pid", "--unshare-user", "--proc", "/proc", "true"];
    let works = std::process::Command::new("bwrap").args(probe).output();
    let works = works.is_ok_and(|done| done.status.success());
    if !works {
        assert!(std::env::var_os("CI").is_none(), "install bubblewrap: these tests prove nothing");
        println!("left out: bubblewrap makes no sandbox here");
    }
    works
}

/// A host that runs, with the hooks of its conversation.
struct Host {
    running: RunningProgram,
}

/// Sets what a host's hooks and shells have in their environment.
fn supervised(call: Invocation) -> Invocation {
    call.env("SIDING_SUPERVISE_HOSTS", "true")
        .env("SIDING_ADOPT_WAIT", "20")
        .env("CLAUDE_ENV_FILE", "env")
}

/// Starts a host that begins a conversation, does this, and then what it is told on standard input.
#[track_caller]
fn host(sandbox: &Sandbox, script: &str) -> Host {
    host_of(sandbox, CONVERSATION, script)
}

#[track_caller]
fn host_of(sandbox: &Sandbox, conversation: &str, script: &str) -> Host {
    host_with(sandbox, conversation, script, &[])
}

#[track_caller]
fn host_with(
    sandbox: &Sandbox,
    conversation: &str,
    script: &str,
    environment: &[(&str, &str)],
) -> Host {
    let program = sandbox.path("agenthost");
    if !program.exists() {
        let bash =
            ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| PathBuf::from(path).exists());
        let _length = std::fs::copy(bash.expect("a bash"), &program).expect("own directory");
    }
    let start = event(sandbox, json!({"session_id": conversation, "source": "startup"}));
    std::fs::write(sandbox.path(&format!("start-{conversation}")), start).expect("own directory");
    let hook = sandbox.siding_line(&["hook", "session-start"]);
    let text = format!(
        "{hook} <start-{conversation} >>told || exit 9\n{script}\n: >ready-{conversation}\n\
         while read -r line; do eval \"$line\"; done"
    );
    let call = sandbox.host(program.to_str().expect("UTF-8"), &["-c", &text]);
    let mut call = supervised(call).stdin_pipe();
    for (name, value) in environment {
        call = call.env(name, value);
    }
    let running = call.spawn();
    eventually("the host is ready", || sandbox.path(&format!("ready-{conversation}")).exists());
    Host { running }
}

/// A command as the host puts it into a sandbox, in the background, with its output in a file.
fn boxed(command: &str, output: &str) -> String {
    boxed_with(command, output, "--proc /proc")
}

fn boxed_with(command: &str, output: &str, proc: &str) -> String {
    let inner = format!(
        "source ./env 2>/dev/null || true && eval {} < /dev/null && pwd -P >| /dev/null",
        quoted(command)
    );
    // Beside the command stands the sandbox's relay, where there is one to be had.
    let outer = format!(
        "{{ socat TCP4-LISTEN:3128,fork UNIX-CONNECT:/nowhere; }} >/dev/null 2>&1 &\n\
         /bin/bash -c {}; exit $?",
        quoted(&inner)
    );
    let words = format!(
        "bwrap --new-session --die-with-parent --ro-bind / / --dev /dev --unshare-pid --unshare-user \
         --unshare-net {proc} -- /bin/bash -c {}",
        quoted(&outer)
    );
    let wrapper = quoted("eval \"$1\"; exit $?");
    format!("setsid /bin/sh -c {wrapper} /bin/sh {} >{output} 2>&1 </dev/null &", quoted(&words))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r#"'"'"'"#))
}

/// The tasks there are, as `ps --json` lists them.
#[track_caller]
fn tasks(sandbox: &Sandbox) -> Vec<Value> {
    let listed = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0).json();
    listed.as_array().expect("a list").clone()
}

/// Waits for the one task there is.
#[track_caller]
fn the_task(sandbox: &Sandbox) -> Value {
    eventually_some("the command is a task", || tasks(sandbox).into_iter().next())
}

fn id(task: &Value) -> String {
    task["task_id"].as_str().expect("an id").to_owned()
}

/// Every process that has this text in its command line, but for hosts: theirs is a whole script.
fn with_text(text: &str) -> Vec<Process> {
    let has = |pid: &u32| {
        processes::comm(*pid) != "agenthost"
            && std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).replace('\0', " ").contains(text))
    };
    processes::list_pids().into_iter().filter(has).filter_map(Process::from_pid).collect()
}

/// The supervisors of this sandbox's hosts.
fn supervisors(sandbox: &Sandbox) -> Vec<Process> {
    let state = sandbox.state_dir().display().to_string();
    let is_one = |process: &Process| processes::comm(process.pid) == "siding-host";
    with_text(&state).into_iter().filter(is_one).collect()
}

/// Waits until nothing of a host is left, and says how long that took.
#[track_caller]
fn until_over(sandbox: &Sandbox, texts: &[&str]) -> Duration {
    let started = Instant::now();
    eventually("nothing of the host is left", || {
        supervisors(sandbox).is_empty()
            && texts.iter().all(|text| with_text(text).is_empty())
            && std::fs::read_dir(sandbox.state_dir().join("hosts"))
                .map_or(true, |mut hosts| hosts.next().is_none())
    });
    started.elapsed()
}

/// What stands in a file of the test.
fn text_of(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path(name)).unwrap_or_default()
}

/// A command that runs until it is ended, and that no other test has.
fn endless(sandbox: &Sandbox, number: u32) -> String {
    // The sandbox's name is its own.
    let name = sandbox.root().display().to_string();
    let digits: String = name.bytes().map(|byte| format!("{byte:03}")).collect();
    format!("sleep {number}.{digits}")
}

#[track_caller]
fn assert_whole(sandbox: &Sandbox, proc: &str) {
    let endless = endless(sandbox, 3_001);
    let command = format!("echo S=$SIDING_SESSION; {endless}");
    let host = host(sandbox, &boxed_with(&command, "out", proc));
    let task = the_task(sandbox);
    assert_eq!((&task["adopted"], &task["sandbox"]), (&json!(true), &json!("bwrap")), "{task:#}");
    assert_eq!((&task["session_id"], &task["command"]), (&json!(SESSION), &json!(command)));
    assert_eq!(task["output"]["path"], json!(sandbox.path("out")), "{task:#}");
    eventually("it knows its session", || text_of(sandbox, "out") == format!("S={SESSION}\n"));
    let id = id(&task);
    let inside = with_text(&endless).into_iter().find(|one| processes::comm(one.pid) == "sleep");
    let inside = inside.expect("runs");
    assert_eq!(processes::read_birthmark(inside.pid), processes::birthmark_from_id(&id));
    let why = sandbox.siding(&["why", &id]).run().expect_code(0).stdout_text();
    assert!(why.contains("waiting on timer"), "{why}");
    let stopped = sandbox.siding(&["stop", "--json", &id]).run().expect_code(0).json();
    assert_eq!(stopped["phase"], "ended", "{stopped:#}");
    assert!(with_text(&endless).is_empty(), "{:?}", with_text(&endless));
    assert!(text_of(sandbox, "out").contains("[siding] stopped by"), "{}", text_of(sandbox, "out"));
    host.running.process().kill();
    let took = until_over(sandbox, &[]);
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn a_command_in_a_sandbox_is_a_task_and_can_be_stopped() {
    if has_bwrap() {
        assert_whole(&sandbox(), "--proc /proc");
    }
}

/// With `enableWeakerNestedSandbox` numbers of processes mean others inside than `/proc` shows there.
#[test]
fn so_it_is_where_proc_is_that_of_the_host() {
    if has_bwrap() {
        assert_whole(&sandbox(), "");
    }
}

#[test]
fn so_it_is_for_an_ordinary_user() {
    if is_root() && has_bwrap() {
        let mut sandbox = Sandbox::new_for_uid(NOBODY);
        sandbox.expect_clean();
        assert_whole(&sandbox, "--proc /proc");
    }
}

#[test]
fn a_command_in_a_sandbox_has_a_deadline() {
    if !has_bwrap() {
        return;
    }
    let sandbox = sandbox();
    let endless = endless(&sandbox, 3_002);
    let script = boxed(&endless, "out");
    let host = host_with(&sandbox, CONVERSATION, &script, &[("SIDING_MAX_ELAPSED", "3s")]);
    eventually("it is stopped", || text_of(&sandbox, "out").contains("at its deadline of 3s"));
    eventually("all of it has ended", || with_text(&endless).is_empty());
    host.running.process().kill();
    let _took = until_over(&sandbox, &[]);
}

/// anthropics/claude-code#51932: the sandbox's relay lived on with parent 1, for ever.
#[test]
fn nothing_outlives_a_host_that_is_killed() {
    if !has_bwrap() {
        return;
    }
    let sandbox = sandbox();
    let (boxed_text, helper) = (endless(&sandbox, 3_003), endless(&sandbox, 3_004));
    let socket = sandbox.path("claude-http-1.sock");
    let relay = format!(
        "socat UNIX-LISTEN:{},fork,reuseaddr TCP:localhost:9 & (setsid {helper} &) ; ",
        socket.display()
    );
    // One that does not hear the polite signal, and one that has lost its parents.
    let stubborn = format!("setsid bash -c 'trap \"\" TERM; {helper}; :' & ");
    let script = format!("{relay}{stubborn}{}", boxed(&boxed_text, "out"));
    let host = host(&sandbox, &script);
    let _task = the_task(&sandbox);
    let has_socat = !with_text(&format!("UNIX-LISTEN:{}", socket.display())).is_empty();
    if has_socat {
        eventually("the relay listens", || socket.exists());
    }
    host.running.process().kill();
    let texts = [boxed_text.as_str(), helper.as_str(), "claude-http-1.sock,fork"];
    let took = until_over(&sandbox, &texts);
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(!socket.exists());
    let log = std::fs::read_to_string(sandbox.state_dir().join("reaped.log")).expect("a log");
    assert!(log.contains(r#""rule":"host-ended""#) && log.contains(&helper), "{log}");
}

#[test]
fn of_two_hosts_only_what_the_killed_one_left_is_ended() {
    let sandbox = sandbox();
    let (one, other) = (endless(&sandbox, 3_005), endless(&sandbox, 3_006));
    let first = host_of(&sandbox, "first", &format!("setsid {one} &"));
    let second = host_of(&sandbox, "second", &format!("setsid {other} &"));
    assert_eq!(supervisors(&sandbox).len(), 2);
    first.running.process().kill();
    eventually("its own is ended", || with_text(&one).is_empty());
    eventually("its supervisor has left", || supervisors(&sandbox).len() == 1);
    assert_eq!(with_text(&other).len(), 1);
    second.running.process().kill();
    let _took = until_over(&sandbox, &[&other]);
}

/// Calls a hook as the host does.
fn hook_line(sandbox: &Sandbox, name: &str, more: Value) -> String {
    let file = format!("event-{name}");
    std::fs::write(sandbox.path(&file), event(sandbox, more)).expect("own directory");
    format!("{} <{file} >>told", sandbox.siding_line(&["hook", name]))
}

#[test]
fn a_supervisor_that_was_killed_is_replaced_by_the_next_event() {
    let sandbox = sandbox();
    let helper = endless(&sandbox, 3_007);
    let more = json!({"tool_name": "Bash", "tool_input": {"command": "true"}});
    let hook = hook_line(&sandbox, "pre-tool-use", more);
    let mut host = host(&sandbox, &format!("setsid {helper} &"));
    let [first] = supervisors(&sandbox).try_into().expect("one");
    first.kill();
    eventually("it is gone", || !first.is_alive());
    host.running.write_stdin(format!("{hook}; : >went\n").as_bytes());
    eventually("the event was answered", || sandbox.path("went").exists());
    let [second] = supervisors(&sandbox).try_into().expect("another");
    assert_ne!(first.pid, second.pid);
    host.running.process().kill();
    let _took = until_over(&sandbox, &[&helper]);
}

#[test]
fn the_reaper_ends_what_a_host_left_whose_supervisor_was_killed_too() {
    let sandbox = sandbox();
    let helper = endless(&sandbox, 3_008);
    let host = host(&sandbox, &format!("setsid {helper} &"));
    let [supervisor] = supervisors(&sandbox).try_into().expect("one");
    supervisor.kill();
    host.running.process().kill();
    eventually("both are gone", || !supervisor.is_alive() && !host.running.process().is_alive());
    let foreseen = sandbox.siding(&["reap", "--dry-run"]).run().expect_code(0).stdout_text();
    // It is folded.
    let foreseen = foreseen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(foreseen.contains("would end") && foreseen.contains(&helper), "{foreseen}");
    assert_eq!(with_text(&helper).len(), 1);
    let reaped = sandbox.siding(&["reap", "--json"]).run().expect_code(0).json();
    assert_eq!(reaped["counts"]["host_process_ended"], 1, "{reaped:#}");
    let _took = until_over(&sandbox, &[&helper]);
}

/// A supervisor is stopped between two of its steps, and killed there.
#[test]
fn wherever_a_supervisor_is_killed_the_host_leaves_nothing() {
    if !has_bwrap() {
        return;
    }
    for point in ["command_marked", "host_ending"] {
        let sandbox = sandbox();
        let (boxed_text, helper) = (endless(&sandbox, 3_009), endless(&sandbox, 3_010));
        std::fs::write(sandbox.state_dir().join("pause-supervisor-at"), point)
            .expect("own directory");
        let stubborn = format!("setsid bash -c 'trap \"\" TERM; {helper}; :' & ");
        let host = host(&sandbox, &format!("{stubborn}{}", boxed(&boxed_text, "out")));
        let [supervisor] = supervisors(&sandbox).try_into().expect("one");
        if point == "host_ending" {
            let _task = the_task(&sandbox);
            host.running.process().kill();
        }
        eventually("it has stopped", || processes::state(supervisor.pid) == Some('T'));
        supervisor.kill();
        host.running.process().kill();
        eventually("both are gone", || {
            !supervisor.is_alive() && !host.running.process().is_alive()
        });
        let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
        let _took = until_over(&sandbox, &[&boxed_text, &helper]);
    }
}

/// User and system time of a process, in clock ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

/// The bell is within reach of whatever runs in the sandbox.
#[test]
fn whoever_rings_ten_thousand_times_costs_little() {
    if !has_bwrap() {
        return;
    }
    let sandbox = sandbox();
    let endless = endless(&sandbox, 3_011);
    let host = host(&sandbox, &boxed(&endless, "out"));
    let _task = the_task(&sandbox);
    let [supervisor] = supervisors(&sandbox).try_into().expect("one");
    let hosts = std::fs::read_dir(sandbox.state_dir().join("hosts")).expect("there");
    let bell = hosts.flatten().next().expect("one").path().join("bell");
    let ticks = || cpu_ticks(supervisor.pid);
    let before = ticks();
    for round in 0..10_000_u32 {
        let ring = [b'c', b'd', b'l', 0xff][round as usize % 4];
        let mut bell = std::fs::OpenOptions::new().write(true).open(&bell).expect("is there");
        std::io::Write::write_all(&mut bell, &[ring]).expect("is read");
    }
    let spent = ticks() - before;
    assert!(spent < 100, "{spent} clock ticks for 10,000 rings");
    assert!(supervisor.is_alive() && tasks(&sandbox).len() == 1);
    host.running.process().kill();
    let _took = until_over(&sandbox, &[&endless]);
}

/// An editor or browser that was opened through the agent is a person's.
#[test]
fn a_persons_program_is_spared() {
    let sandbox = sandbox();
    let sleep =
        ["/bin/sleep", "/usr/bin/sleep"].into_iter().find(|path| PathBuf::from(path).exists());
    let browser = sandbox.path("firefox");
    let _length = std::fs::copy(sleep.expect("a sleep"), &browser).expect("own directory");
    let helper = endless(&sandbox, 3_012);
    let mine = format!("{} 3013", browser.display());
    // One by the host itself, one by a command that it has adopted.
    let init = sandbox.siding_line(&["shell-init", "bash"]);
    let adopted = format!("eval \"$({init})\"; setsid {mine} & {helper}");
    // And a conversation of the host's in the background.
    let other = "while :; do sleep 1; done # another host";
    let script = format!(
        "setsid {mine} &\nsetsid ./agenthost -c {} &\nbash -c {} &",
        quoted(other),
        quoted(&adopted)
    );
    let host = host(&sandbox, &script);
    let task = the_task(&sandbox);
    let browsers = || -> Vec<Process> {
        let mut found = with_text(&mine);
        found.retain(|one| processes::comm(one.pid) == "firefox");
        found
    };
    eventually("both run", || browsers().len() == 2);
    let _stopped = sandbox.siding(&["stop", &id(&task)]).run().expect_code(0);
    host.running.process().kill();
    let _took = until_over(&sandbox, &[&helper]);
    let others = || -> Vec<Process> {
        let is_one = |pid: &u32| processes::command_line(*pid).starts_with("./agenthost -c while");
        processes::list_pids().into_iter().filter(is_one).filter_map(Process::from_pid).collect()
    };
    let hosts = others();
    hosts.iter().for_each(|one| one.kill());
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    let kept = browsers();
    kept.iter().for_each(|one| one.kill());
    assert_eq!(kept.len(), 2, "{kept:?}");
    eventually("they are gone", || browsers().is_empty() && others().is_empty());
}

/// Where a host cannot be marked its agent is told, once.
#[test]
fn an_agent_whose_host_cannot_be_watched_is_told_once() {
    let sandbox = sandbox();
    let again = hook_line(&sandbox, "session-start", json!({"source": "compact"}));
    let start = hook_line(&sandbox, "session-start", json!({"source": "startup"}));
    let host = sandbox.path("agenthost");
    let _length = std::fs::copy("/bin/bash", &host).expect("own directory");
    let doctor = sandbox.siding_line(&["doctor", "--host", "claude-code"]);
    let text = format!("ulimit -R 900000000000; {start}; {again}; {doctor} >doctor; exit 0");
    let call = sandbox.host(host.to_str().expect("UTF-8"), &["-c", &text]);
    let _done = supervised(call).run().expect_code(0);
    let told = text_of(&sandbox, "told");
    assert_eq!(told.matches("are not kept by siding").count(), 1, "{told}");
    assert!(told.contains("RLIMIT_RTTIME 900000000000"), "{told}");
    assert!(told.contains("siding doctor --host claude-code"), "{told}");
    let doctor = text_of(&sandbox, "doctor");
    assert!(doctor.contains("limited  sandboxed commands"), "{doctor}");
    assert!(doctor.contains("RLIMIT_RTTIME"), "{doctor}");
}
