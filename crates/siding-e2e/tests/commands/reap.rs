//! `siding reap`: retention of tasks, removal of leftovers, termination of stray processes, and dry
//! runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use siding_e2e::{ProgramOutput, Sandbox, processes, words};

use crate::support::{HANG_COMMAND, run_ok, run_to_end, sandbox, show_task, start_task, stop_all};

/// The id of a task that has a directory but no record.
const NEVER_STARTED_ID: &str = "b-4k7q0n2m8x5t";

/// Runs `siding reap` with a retention of two ended tasks.
#[track_caller]
fn run_reap(sandbox: &Sandbox, flags: &[&str]) -> ProgramOutput {
    let call = sandbox.siding(&[&["reap"], flags].concat());
    call.env("SIDING_RETENTION_TASKS", "2").run().expect_code(0)
}

/// Returns the kind and the task of each executed or planned step, sorted.
fn sorted_steps(view: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let steps = view["steps"].as_array().expect("a list");
    let mut steps: Vec<_> = steps
        .iter()
        .map(|step| (text(&step["kind"]), text(step.get("task_id").unwrap_or(&step["task"]))))
        .collect();
    steps.sort();
    steps
}

fn task_directories(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(sandbox.state_dir().join("tasks"))
        .expect("the state directory exists")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Returns every path below a directory with its mode, inode, length and modification time.
fn list_metadata(dir: &Path) -> BTreeMap<String, (u32, u64, u64, i64, i64)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let facts = entry.metadata().expect("the entry exists");
        let moments = (facts.mtime(), facts.mtime_nsec());
        let fact = (facts.mode(), facts.ino(), facts.len(), moments.0, moments.1);
        all.insert(path.display().to_string(), fact);
        if facts.is_dir() {
            all.extend(list_metadata(&path));
        }
    }
    all
}

/// Creates the directory of a task that was never recorded, with a modification time an hour ago.
fn make_never_started_task(sandbox: &Sandbox) {
    let dir = sandbox.state_dir().join("tasks").join(NEVER_STARTED_ID);
    std::fs::DirBuilder::new().mode(0o700).create(&dir).expect("test directory");
    let old = SystemTime::now() - Duration::from_secs(3600);
    File::open(&dir).and_then(|dir| dir.set_modified(old)).expect("test directory");
}

/// Promise P91: retention settings in a project's file are ignored, because a cloned repository
/// could delete the records of other projects.
#[test]
fn retention_settings_of_a_project_are_ignored() {
    let sandbox = sandbox();
    let ids = ["true", "exit 3"].map(|text| run_to_end(&sandbox, text));
    crate::support::write(
        &sandbox,
        ".siding/config.toml",
        "retention_age = \"0s\"\nretention_tasks = 0\nretention_bytes = 0\n",
    );
    let done = run_ok(&sandbox, &["reap"]);
    for key in ["retention_age", "retention_tasks", "retention_bytes"] {
        assert!(done.stderr_text().contains(&format!("`{key}` is not used")), "{done}");
    }
    let mut kept = ids.to_vec();
    kept.sort();
    assert_eq!(task_directories(&sandbox), kept);
    // The same setting in the user's environment applies.
    let mine = sandbox.siding(&["reap"]).env("SIDING_RETENTION_TASKS", "0");
    let _done = mine.run().expect_code(0);
    assert_eq!(task_directories(&sandbox), Vec::<String>::new());
}

#[test]
fn a_dry_run_changes_nothing_and_predicts_the_real_run() {
    let sandbox = sandbox();
    let old: Vec<_> =
        (0..4).map(|number| run_to_end(&sandbox, &format!("exit {number}"))).collect();
    let living = start_task(&sandbox, &[], HANG_COMMAND);
    make_never_started_task(&sandbox);
    symlink(&old[3], sandbox.state_dir().join("dedup/0123456789abcdef")).expect("test directory");
    let before = list_metadata(&sandbox.state_dir());
    let words = run_reap(&sandbox, &["--dry-run"]).stdout_text();
    let foretold = run_reap(&sandbox, &["--dry-run", "--json"]).json();
    assert_eq!(list_metadata(&sandbox.state_dir()), before);
    assert_eq!(foretold["dry_run"], true);
    assert!(words.contains(&format!("{}  would remove", old[0])), "{words}");
    assert!(
        words.ends_with("would do: past retention 2, never started 1, stale claims 1\n"),
        "{words}"
    );
    let done = run_reap(&sandbox, &["--json"]).json();
    assert_eq!(done["dry_run"], false);
    assert_eq!(sorted_steps(&done), sorted_steps(&foretold));
    assert_eq!(done["counts"], foretold["counts"]);
    let mut left = vec![old[2].clone(), old[3].clone(), living.clone()];
    left.sort();
    assert_eq!(task_directories(&sandbox), left);
    assert_eq!(show_task(&sandbox, &living)["phase"], "running");
    assert_eq!(run_reap(&sandbox, &[]).stdout_text(), "nothing to clear\n");
    stop_all(&sandbox);
}

#[test]
fn retention_removes_the_oldest_ended_task_and_ignores_running_ones() {
    let sandbox = sandbox();
    let old = run_to_end(&sandbox, "echo old");
    let running: Vec<_> = (0..3).map(|_| start_task(&sandbox, &[], HANG_COMMAND)).collect();
    let new: Vec<_> =
        (0..2).map(|number| run_to_end(&sandbox, &format!("exit {number}"))).collect();
    let out = run_reap(&sandbox, &[]).stdout_text();
    assert!(out.starts_with(&format!("{old}  removed: ended 20")), "{out}");
    assert!(out.ends_with("done: past retention 1\n"), "{out}");
    let mut left = [running, new].concat();
    left.sort();
    assert_eq!(task_directories(&sandbox), left);
    stop_all(&sandbox);
}

/// A task directory without a record is removed only if it is old, because a new directory may
/// belong to a task that is starting.
#[test]
fn a_task_without_a_record_is_removed_once_it_is_old() {
    let sandbox = sandbox();
    let _nothing = run_ok(&sandbox, &["ps"]);
    make_never_started_task(&sandbox);
    let dir = sandbox.state_dir().join("tasks").join(NEVER_STARTED_ID);
    let touch = |at| File::open(&dir).and_then(|dir| dir.set_modified(at)).expect("test directory");
    touch(SystemTime::now());
    assert_eq!(run_reap(&sandbox, &[]).stdout_text(), "nothing to clear\n");
    assert!(dir.exists());
    touch(SystemTime::now() - Duration::from_secs(3600));
    let out = run_reap(&sandbox, &[]).stdout_text();
    assert!(
        out.starts_with(&format!("{NEVER_STARTED_ID}  removed: it was never started\n")),
        "{out}"
    );
    assert!(!dir.exists());
}

/// Promise P86: `reap` ends a process with the birthmark of an ended task, and ends no process of a
/// running task.
#[test]
fn reap_ends_only_the_marked_process_of_an_ended_task() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "true");
    let living =
        start_task(&sandbox, &[], &sandbox.puppet_line(&words("--quiet mark member hang")));
    let member = sandbox.wait_for_mark("member");
    let mark = processes::birthmark_from_id(&id).expect("a task's id");
    let limit = format!("--rttime={mark}:{mark}");
    let argv = sandbox.puppet_argv(&words("--quiet mark stray hang"));
    let stray = sandbox.host("prlimit", &[vec![limit], argv].concat()).spawn();
    let stranger = sandbox.puppet(&words("--quiet mark stranger hang")).spawn();
    let _announced = (sandbox.wait_for_mark("stray"), sandbox.wait_for_mark("stranger"));
    let pid = stray.process().pid;
    let foretold = run_reap(&sandbox, &["--dry-run", "--json"]).json();
    assert_eq!(foretold["steps"][0]["pid"], pid, "{foretold}");
    assert!(stray.process().is_alive());
    let done = run_reap(&sandbox, &["--json"]).json();
    let [step] = done["steps"].as_array().expect("a list").as_slice() else {
        panic!("expected exactly one step: {done}");
    };
    assert_eq!((&step["kind"], &step["pid"]), (&"stray_ended".into(), &pid.into()), "{done}");
    assert_eq!((&step["signal"], &step["task_id"]), (&"SIGTERM".into(), &id.into()), "{done}");
    let _ended = stray.wait().expect_signal(15);
    assert!(stranger.process().is_alive() && member.is_alive());
    let metrics = run_ok(&sandbox, &["metrics"]).stdout_text();
    assert!(metrics.contains("\nsiding_reaped_processes{rule=\"task-ended\"} 1\n"), "{metrics}");
    assert_eq!(show_task(&sandbox, &living)["phase"], "running");
    drop(stranger);
    stop_all(&sandbox);
}

#[test]
fn reap_leaves_unknown_files_alone() {
    let sandbox = sandbox();
    let _one = run_to_end(&sandbox, "true");
    for name in ["notes.txt", "tasks/notes.txt", "live/notes.txt", "sessions/notes.txt"] {
        std::fs::write(sandbox.state_dir().join(name), "mine").expect("test directory");
    }
    std::fs::create_dir(sandbox.state_dir().join("tasks/mine")).expect("test directory");
    let before = list_metadata(&sandbox.state_dir());
    assert_eq!(run_reap(&sandbox, &[]).stdout_text(), "nothing to clear\n");
    assert_eq!(list_metadata(&sandbox.state_dir()), before);
}
