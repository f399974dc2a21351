//! Session starts and the `siding reap` of a timer, which report and end unowned processes (promise
//! P88). The built-in rules match leftover processes of every agent's sandbox on the machine. Each
//! script therefore runs in a separate PID namespace, in which siding sees only the script's
//! processes.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use siding_e2e::{ProgramOutput, Sandbox, words};

use crate::support::{sandbox, write};

/// The first lines of each script. They start a host and a relay, and store the relay's pid in
/// `$relay`. The function `orphan` kills the host and waits until a dry run of the reaper would end
/// the relay.
const SCRIPT_PRELUDE: &str = "\
export SIDING_FOREIGN_REAP= SIDING_MAX_ELAPSED_HARD_CAP=1s
bin/claude host & host=$!
until [ -s relay ]; do sleep .02; done
relay=$(cat relay)
sees() { siding reap --foreign --dry-run | grep -q \"$1\"; }
until sees 'left [0-9]* alone: the host `claude`'; do sleep .02; done
orphan() { kill -9 $host; wait $host; until sees 'would end'; do sleep .02; done; }
lives() { [ -e /proc/$relay ] && echo lives || echo gone; }
";

/// Runs a script after [`SCRIPT_PRELUDE`] in a PID namespace. Returns `None` if the user may not
/// create a PID namespace.
fn run_in_pid_namespace(sandbox: &Sandbox, script: &str) -> Option<ProgramOutput> {
    let bin = sandbox.path("bin");
    std::fs::create_dir_all(&bin).expect("test directory");
    let verbs = words("--quiet mark relay mark UNIX-LISTEN:/tmp/claude-http-3126.sock,fork hang");
    let mut argv = sandbox.puppet_argv(&verbs);
    symlink(&argv[0], bin.join("socat")).expect("test directory");
    symlink("/bin/bash", bin.join("claude")).expect("test directory");
    argv[0] = bin.join("socat").display().to_string();
    // The shells read their commands from files, so that the socket's name is only in the relay's
    // command line.
    write(sandbox, "host", format!("{} & echo $! > relay\nwait\n", argv.join(" ")));
    let siding = sandbox.siding_line::<&str>(&[]);
    let event = json!({"session_id": "3b0e", "source": "startup", "cwd": sandbox.path("")});
    write(sandbox, "event", event.to_string());
    let functions = format!(
        "siding() {{ {siding} \"$@\"; }}\nbegin() {{ siding hook session-start < event; }}\n"
    );
    write(sandbox, "script", [functions.as_str(), SCRIPT_PRELUDE, script].concat());
    let done = sandbox.host("unshare", &["-Urpf", "--mount-proc", "bash", "script"]).run();
    if done.stderr_text().contains("unshare:") {
        println!("left out: no user namespaces here: {done}");
        return None;
    }
    Some(done.expect_code(0))
}

fn read_file(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn additional_context(sandbox: &Sandbox, name: &str) -> String {
    let answer: Value = serde_json::from_str(&read_file(sandbox, name)).expect("JSON");
    answer["hookSpecificOutput"]["additionalContext"].as_str().expect("a text").to_owned()
}

/// Promise P88: the first session start on a machine only reports orphans. Later session starts end
/// orphans and name the rule for each process.
#[test]
fn the_first_session_start_reports_orphans_and_the_next_ends_them() {
    let sandbox = sandbox();
    let script = "\
begin > live; lives > 0
orphan
siding reap --dry-run > foretold
begin > first; lives > 1
begin > second; lives > 2
begin > third
";
    if run_in_pid_namespace(&sandbox, script).is_none() {
        return;
    }
    assert_eq!(read_file(&sandbox, "live") + &read_file(&sandbox, "third"), "");
    assert_eq!(
        ["0", "1", "2"].map(|name| read_file(&sandbox, name)),
        ["lives\n", "lives\n", "gone\n"]
    );
    let foretold = read_file(&sandbox, "foretold");
    assert!(foretold.contains("would do: foreign orphans found 1\n"), "{foretold}");
    let first = additional_context(&sandbox, "first");
    for part in [
        "Processes of an ended agent session are still running:\n- ",
        "(rule claude-sandbox)",
        "mark UNIX-LISTEN:/tmp/cla",
        "`siding reap --foreign` ends them now",
        r#"`foreign_reap = "off"`"#,
    ] {
        assert!(first.contains(part), "{first}");
    }
    assert!(!first.contains("cleaned up"), "{first}");
    let second = additional_context(&sandbox, "second");
    assert!(second.ends_with("earlier crashes: foreign orphans ended 1.\n"), "{second}");
    let log = std::fs::read_to_string(sandbox.state_dir().join("reaped.log")).expect("a log");
    assert!(log.contains("\"rule\":\"claude-sandbox\"") && log.lines().count() == 1, "{log}");
    let record = sandbox.state_dir().join("foreign-reports");
    let record = std::fs::read_to_string(record).expect("a record");
    let record: Value = serde_json::from_str(record.trim()).expect("one line of JSON");
    assert_eq!((&record["format"], &record["rules"]), (&json!(1), &json!(["claude-sandbox"])));
}

/// Promise P88: the report of `siding session open` counts as the first report, so the next `siding
/// reap`, as a timer runs it, ends the orphan.
#[test]
fn session_open_reports_orphans_and_the_timer_run_ends_them() {
    let sandbox = sandbox();
    let script = "\
orphan
siding session open one --owner-pid $$ > opened; lives > 1
siding reap --json > reaped; lives > 2
begin > begun; begin > again
";
    if run_in_pid_namespace(&sandbox, script).is_none() {
        return;
    }
    let opened = read_file(&sandbox, "opened");
    assert!(opened.contains("(rule claude-sandbox)"), "{opened}");
    assert!(opened.contains("This first time they are only reported."), "{opened}");
    let reaped: Value = serde_json::from_str(&read_file(&sandbox, "reaped")).expect("JSON");
    assert_eq!(reaped["counts"]["foreign_ended"], 1, "{reaped}");
    // No agent has received the report yet, so the next session start delivers it, and no later
    // start does.
    let begun = additional_context(&sandbox, "begun");
    assert!(begun.contains("now terminates such processes"), "{begun}");
    assert_eq!(read_file(&sandbox, "again"), "");
    assert_eq!(["1", "2"].map(|name| read_file(&sandbox, name)), ["lives\n", "gone\n"]);
}

#[test]
fn the_foreign_reap_setting_selects_off_report_or_end() {
    let sandbox = sandbox();
    let script = "\
orphan
mkdir -p .siding; echo 'foreign_reap = \"end\"' > .siding/config.toml
siding reap > project 2>&1
siding reap --foreign --dry-run --json | grep -c foreign_ended >> project
SIDING_FOREIGN_REAP=off siding reap > off 2>/dev/null
SIDING_FOREIGN_REAP=report siding reap > report 2>/dev/null
SIDING_FOREIGN_REAP=report siding reap > again 2>/dev/null; lives > 1
rm $SIDING_STATE_DIR/foreign-reports
SIDING_FOREIGN_REAP=end siding reap > end 2>/dev/null; lives > 2
";
    if run_in_pid_namespace(&sandbox, script).is_none() {
        return;
    }
    let project = read_file(&sandbox, "project");
    assert!(project.contains("`foreign_reap` is not used"), "{project}");
    assert!(project.contains("done: foreign orphans found 1\n"), "{project}");
    assert_eq!(read_file(&sandbox, "off"), "nothing to clear\n");
    for name in ["report", "again"] {
        let report = read_file(&sandbox, name);
        assert!(report.contains("because `foreign_reap` is `report`"), "{report}");
        assert!(report.lines().all(|line| line.chars().count() <= 80), "{report}");
    }
    assert!(read_file(&sandbox, "end").ends_with("done: foreign orphans ended 1\n"));
    assert_eq!(["1", "2"].map(|name| read_file(&sandbox, name)), ["lives\n", "gone\n"]);
}

/// Promise P91: a project's short deadlines do not lower the minimum age of orphans, which may
/// belong to other projects.
#[test]
fn a_project_cap_does_not_lower_the_minimum_orphan_age() {
    let sandbox = sandbox();
    let script = "\
orphan
export SIDING_MAX_ELAPSED_HARD_CAP=
mkdir -p .siding; echo 'max_elapsed_hard_cap = \"1s\"' > .siding/config.toml
siding reap > reaped; siding reap --foreign --json > foreign; begin > begun; lives > 1
";
    if run_in_pid_namespace(&sandbox, script).is_none() {
        return;
    }
    assert_eq!(read_file(&sandbox, "reaped"), "nothing to clear\n");
    assert_eq!(read_file(&sandbox, "begun"), "");
    let foreign = read_file(&sandbox, "foreign");
    assert!(foreign.contains("old, less than 4h"), "{foreign}");
    assert_eq!(read_file(&sandbox, "1"), "lives\n");
}

/// Promise P87: the relay of a dead host is not ended while a process of a live host names its
/// socket.
#[test]
fn the_relay_of_a_dead_host_stays_while_its_socket_is_in_use() {
    let sandbox = sandbox();
    let script = "\
mv relay first; bin/claude host & other=$!
until [ -s relay ]; do sleep .02; done
kept=$(cat relay)
mv first relay
kill -9 $host; wait $host
until siding reap --foreign --dry-run --json | grep -q 'refers to its socket'; do sleep .02; done
SIDING_FOREIGN_REAP=end siding reap > same; lives > 1
kill -9 $other; until sees 'would end'; do sleep .02; done
SIDING_FOREIGN_REAP=end siding reap > ended; relay=$kept; lives > 2
";
    if run_in_pid_namespace(&sandbox, script).is_none() {
        return;
    }
    assert_eq!(read_file(&sandbox, "same"), "nothing to clear\n");
    assert!(read_file(&sandbox, "ended").ends_with("done: foreign orphans ended 2\n"));
    assert_eq!(["1", "2"].map(|name| read_file(&sandbox, name)), ["lives\n", "gone\n"]);
}
