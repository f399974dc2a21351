//! siding reports every exit code and every fatal signal as bash does, and its JSON distinguishes
//! an exit from a death by a signal.

use serde_json::{Value, json};
use siding_e2e::{Sandbox, words};

use crate::support::sandbox;

/// Number of calls that one shell runs concurrently.
const CONCURRENT_CALLS: usize = 8;
/// Number of texts that one shell runs. The shell must finish within a minute, and does so even if
/// each text takes more than a second.
const COMMANDS_PER_SHELL: usize = 32;

/// Runs each text under siding and under bash alone; returns both exit codes and siding's JSON.
fn run_under_siding_and_bash(sandbox: &Sandbox, texts: &[String]) -> Vec<(i32, i32, Value)> {
    texts
        .chunks(COMMANDS_PER_SHELL)
        .flat_map(|texts| run_batch_in_one_shell(sandbox, texts))
        .collect()
}

fn run_batch_in_one_shell(sandbox: &Sandbox, texts: &[String]) -> Vec<(i32, i32, Value)> {
    let run = sandbox.siding_line(&["run", "--json", "--"]);
    let script = format!(
        r#"ulimit -c 0
        one() {{
            {run} "$2" >"json$1"; mine=$?
            (exec bash -c "$2") >/dev/null 2>&1; echo "$mine $?" >"code$1"
        }}
        number=0
        for text; do
            one "$number" "$text" &
            ((++number % {CONCURRENT_CALLS})) || wait
        done
        wait"#
    );
    let args: Vec<&str> =
        ["-c", &script, "host"].into_iter().chain(texts.iter().map(String::as_str)).collect();
    let _done = sandbox.host("bash", &args).run().expect_code(0);
    (0..texts.len()).map(|number| read_result(sandbox, number)).collect()
}

fn read_result(sandbox: &Sandbox, number: usize) -> (i32, i32, Value) {
    let read = |name: &str| {
        let path = sandbox.path(&format!("{name}{number}"));
        std::fs::read_to_string(path).expect("the result file exists")
    };
    let codes = read("code");
    let mut codes = codes.split_whitespace().map(|code| code.parse().expect("a code"));
    let (siding_code, bash_code) =
        (codes.next().expect("two numbers"), codes.next().expect("two numbers"));
    (siding_code, bash_code, serde_json::from_str(&read("json")).expect("JSON"))
}

/// Promise P36, failures F17 and F18: all exit codes of commands that exit are reported as exit
/// codes, including 137, with which a shell reports a death by SIGKILL.
#[test]
fn every_exit_code_matches_bash() {
    let sandbox = sandbox();
    let texts: Vec<String> = (0..=255).map(|code| format!("exit {code}")).collect();
    for (code, (siding_code, bash_code, view)) in
        (0..).zip(run_under_siding_and_bash(&sandbox, &texts))
    {
        assert_eq!((siding_code, bash_code), (code, code), "{view}");
        assert_eq!(view["outcome"], json!({"kind": "exited", "code": code}));
    }
}

/// Promise P36: a shell that sends a signal to itself has the exit code and the signal that bash
/// reports.
#[test]
fn every_fatal_signal_matches_bash() {
    let sandbox = sandbox();
    // The list omits the stop signals, which end no process, and 32 and 33, which the C library
    // reserves (signal(7)).
    let numbers: Vec<i32> =
        (1..=64).filter(|number| ![19, 20, 21, 22, 32, 33].contains(number)).collect();
    let texts: Vec<String> = numbers.iter().map(|number| format!("kill -{number} $$")).collect();
    let mut names = vec![];
    for (number, (siding_code, bash_code, view)) in
        numbers.into_iter().zip(run_under_siding_and_bash(&sandbox, &texts))
    {
        assert_eq!(siding_code, bash_code, "signal {number}: {view}");
        if bash_code == 0 {
            assert_eq!(view["outcome"], json!({"kind": "exited", "code": 0}), "signal {number}");
            continue;
        }
        assert_eq!(siding_code, 128 + number);
        assert_eq!(view["outcome"]["kind"], "signaled", "signal {number}: {view}");
        names.push(view["outcome"]["signal"].as_str().expect("a name").to_owned());
    }
    for name in ["SIGHUP", "SIGKILL", "SIGSEGV", "SIGTERM"] {
        assert!(names.iter().any(|known| known == name), "no {name} in {names:?}");
    }
    // The signals that are ignored by default (CHLD, CONT, URG, WINCH) end no shell, and neither
    // does QUIT, which bash ignores.
    assert_eq!(names.len(), 22 + 31, "{names:?}");
}

/// Terminal stop signals with the default action do not stop a process in an orphaned process group
/// (setpgid(2) defines it), because no shell could continue the process. The process group of a task
/// is orphaned.
#[test]
fn terminal_stop_signals_do_not_stop_a_task() {
    let sandbox = sandbox();
    for number in [20, 21, 22] {
        let text = format!("kill -{number} $$; exit 4");
        let _done = sandbox.siding(&["run", "--", &text]).run().expect_code(4);
    }
}

/// Promise P36: the outcome of a program without a shell distinguishes a death by a signal from an
/// exit with the same code.
#[test]
fn death_by_signal_is_distinct_from_exit_with_the_same_code() {
    let sandbox = sandbox();
    for (verbs, code, kind) in [
        ("die KILL", 137, "signaled"),
        ("exit 137", 137, "exited"),
        ("die TERM", 143, "signaled"),
        ("die 64", 192, "signaled"),
        ("exit 124", 124, "exited"),
        ("exit 75", 75, "exited"),
        ("leader-exits exit 6", 6, "exited"),
    ] {
        let argv = sandbox.puppet_argv(&words(verbs));
        let args = [words("run --json --").into_iter().map(str::to_owned).collect(), argv].concat();
        let done = sandbox.siding(&args).run().expect_code(code);
        assert_eq!(done.json()["outcome"]["kind"], kind, "{done}");
    }
}
