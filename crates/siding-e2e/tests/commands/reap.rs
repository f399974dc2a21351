//! `siding reap`.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use siding_e2e::{Finished, Sandbox, processes, words};

use crate::support::{HANG, ended, ok, sandbox, shown, start, stop_all};

/// A task that was never recorded.
const UNBORN: &str = "b-4k7q0n2m8x5t";

/// Calls it with room for two ended tasks.
#[track_caller]
fn reap(sandbox: &Sandbox, flags: &[&str]) -> Finished {
    let call = sandbox.siding(&[&["reap"], flags].concat());
    call.env("SIDING_RETENTION_TASKS", "2").run().expect_code(0)
}

/// What was done, or would be: the kind of each step and its task.
fn steps(view: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let steps = view["steps"].as_array().expect("a list");
    let mut steps: Vec<_> = steps
        .iter()
        .map(|step| (text(&step["what"]), text(step.get("task_id").unwrap_or(&step["task"]))))
        .collect();
    steps.sort();
    steps
}

fn tasks(sandbox: &Sandbox) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(sandbox.state_dir().join("tasks"))
        .expect("the state directory is there")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Every name below a directory with all that a change would change.
fn listing(dir: &Path) -> BTreeMap<String, (u32, u64, u64, i64, i64)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let facts = entry.metadata().expect("it is there");
        let moments = (facts.mtime(), facts.mtime_nsec());
        let fact = (facts.mode(), facts.ino(), facts.len(), moments.0, moments.1);
        all.insert(path.display().to_string(), fact);
        if facts.is_dir() {
            all.extend(listing(&path));
        }
    }
    all
}

/// Makes the directory of a task that was never recorded, as old as an hour.
fn make_unborn(sandbox: &Sandbox) {
    let dir = sandbox.state_dir().join("tasks").join(UNBORN);
    std::fs::DirBuilder::new().mode(0o700).create(&dir).expect("own directory");
    let old = SystemTime::now() - Duration::from_secs(3600);
    File::open(&dir).and_then(|dir| dir.set_modified(old)).expect("own directory");
}

/// A cloned repository does not have the records of others removed.
#[test]
fn a_project_says_nothing_of_what_is_kept() {
    let sandbox = sandbox();
    let ids = ["true", "exit 3"].map(|text| ended(&sandbox, text));
    crate::support::write(
        &sandbox,
        ".siding/config.toml",
        "retention_age = \"0s\"\nretention_tasks = 0\nretention_bytes = 0\n",
    );
    let done = ok(&sandbox, &["reap"]);
    for key in ["retention_age", "retention_tasks", "retention_bytes"] {
        assert!(done.err().contains(&format!("`{key}` is not used")), "{done}");
    }
    let mut kept = ids.to_vec();
    kept.sort();
    assert_eq!(tasks(&sandbox), kept);
    // What a person says counts.
    let mine = sandbox.siding(&["reap"]).env("SIDING_RETENTION_TASKS", "0");
    let _done = mine.run().expect_code(0);
    assert_eq!(tasks(&sandbox), Vec::<String>::new());
}

#[test]
fn a_dry_run_changes_nothing_and_foretells_what_is_done() {
    let sandbox = sandbox();
    let old: Vec<_> = (0..4).map(|number| ended(&sandbox, &format!("exit {number}"))).collect();
    let living = start(&sandbox, &[], HANG);
    make_unborn(&sandbox);
    symlink(&old[3], sandbox.state_dir().join("same/0123456789abcdef")).expect("own directory");
    let before = listing(&sandbox.state_dir());
    let words = reap(&sandbox, &["--dry-run"]).out();
    let foretold = reap(&sandbox, &["--dry-run", "--json"]).json();
    assert_eq!(listing(&sandbox.state_dir()), before);
    assert_eq!(foretold["dry_run"], true);
    assert!(words.contains(&format!("{}  would remove", old[0])), "{words}");
    assert!(
        words.ends_with("would do: past retention 2, never started 1, stale claims 1\n"),
        "{words}"
    );
    let done = reap(&sandbox, &["--json"]).json();
    assert_eq!(done["dry_run"], false);
    assert_eq!(steps(&done), steps(&foretold));
    assert_eq!(done["counts"], foretold["counts"]);
    let mut left = vec![old[2].clone(), old[3].clone(), living.clone()];
    left.sort();
    assert_eq!(tasks(&sandbox), left);
    assert_eq!(shown(&sandbox, &living)["phase"], "running");
    assert_eq!(reap(&sandbox, &[]).out(), "nothing to clear\n");
    stop_all(&sandbox);
}

#[test]
fn what_ended_first_goes_first_and_the_living_do_not_count() {
    let sandbox = sandbox();
    let old = ended(&sandbox, "echo old");
    let running: Vec<_> = (0..3).map(|_| start(&sandbox, &[], HANG)).collect();
    let new: Vec<_> = (0..2).map(|number| ended(&sandbox, &format!("exit {number}"))).collect();
    let out = reap(&sandbox, &[]).out();
    assert!(out.starts_with(&format!("{old}  removed: ended 20")), "{out}");
    assert!(out.ends_with("done: past retention 1\n"), "{out}");
    let mut left = [running, new].concat();
    left.sort();
    assert_eq!(tasks(&sandbox), left);
    stop_all(&sandbox);
}

/// A directory that is only just being made is somebody's task.
#[test]
fn a_task_that_was_never_recorded_is_removed_once_it_is_old() {
    let sandbox = sandbox();
    let _nothing = ok(&sandbox, &["ps"]);
    make_unborn(&sandbox);
    let dir = sandbox.state_dir().join("tasks").join(UNBORN);
    let touch = |at| File::open(&dir).and_then(|dir| dir.set_modified(at)).expect("own directory");
    touch(SystemTime::now());
    assert_eq!(reap(&sandbox, &[]).out(), "nothing to clear\n");
    assert!(dir.exists());
    touch(SystemTime::now() - Duration::from_secs(3600));
    let out = reap(&sandbox, &[]).out();
    assert!(out.starts_with(&format!("{UNBORN}  removed: it was never started\n")), "{out}");
    assert!(!dir.exists());
}

/// SPEC 4: only what carries the mark of an ended task is ended.
#[test]
fn a_stray_of_an_ended_task_is_ended_and_nobody_else() {
    let sandbox = sandbox();
    let id = ended(&sandbox, "true");
    let living = start(&sandbox, &[], &sandbox.puppet_line(&words("--quiet mark member hang")));
    let member = sandbox.marked("member");
    let mark = processes::birthmark(&id).expect("a task's id");
    let limit = format!("--rttime={mark}:{mark}");
    let argv = sandbox.puppet_argv(&words("--quiet mark stray hang"));
    let stray = sandbox.host("prlimit", &[vec![limit], argv].concat()).spawn();
    let stranger = sandbox.puppet(&words("--quiet mark stranger hang")).spawn();
    let _announced = (sandbox.marked("stray"), sandbox.marked("stranger"));
    let pid = stray.process().pid;
    let foretold = reap(&sandbox, &["--dry-run", "--json"]).json();
    assert_eq!(foretold["steps"][0]["pid"], pid, "{foretold}");
    assert!(stray.process().alive());
    let done = reap(&sandbox, &["--json"]).json();
    let [step] = done["steps"].as_array().expect("a list").as_slice() else {
        panic!("not one step: {done}");
    };
    assert_eq!((&step["what"], &step["pid"]), (&"stray_ended".into(), &pid.into()), "{done}");
    assert_eq!((&step["signal"], &step["task_id"]), (&"SIGTERM".into(), &id.into()), "{done}");
    let _ended = stray.wait().expect_signal(15);
    assert!(stranger.process().alive() && member.alive());
    assert_eq!(shown(&sandbox, &living)["phase"], "running");
    drop(stranger);
    stop_all(&sandbox);
}

#[test]
fn files_that_no_record_explains_are_left_alone() {
    let sandbox = sandbox();
    let _one = ended(&sandbox, "true");
    for name in ["notes.txt", "tasks/notes.txt", "live/notes.txt", "sessions/notes.txt"] {
        std::fs::write(sandbox.state_dir().join(name), "mine").expect("own directory");
    }
    std::fs::create_dir(sandbox.state_dir().join("tasks/mine")).expect("own directory");
    let before = listing(&sandbox.state_dir());
    assert_eq!(reap(&sandbox, &[]).out(), "nothing to clear\n");
    assert_eq!(listing(&sandbox.state_dir()), before);
}
