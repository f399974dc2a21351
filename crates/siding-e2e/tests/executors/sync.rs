//! A project is copied to another machine before its command, and files are copied back after it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use siding_e2e::{Process, Sandbox, eventually, processes};

use crate::local_tasks::{kill_shim, task_id};
use crate::ssh_remote::{SshRemote, write_executor};
use crate::{create_file, sandbox, wait_for_file_command};

/// Names that a program could interpret as an option or as two names.
const HOSTILE_NAMES: [&[u8]; 4] = [b"-rf", b"a b\nc", b"\xff", b"it's *"];

fn named(dir: &Path, name: &[u8]) -> PathBuf {
    dir.join(OsStr::from_bytes(name))
}

#[track_caller]
fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("it is below a directory")).expect("test path");
    std::fs::write(path, text).expect("test directory");
}

#[track_caller]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn git(sandbox: &Sandbox, dir: &Path, arguments: &[&str]) {
    let _done = sandbox.host("git", arguments).cwd(dir).run().expect_code(0);
}

/// Creates a git work tree with the tracked files `main.c` and `sub/lib.c`, and an ignored
/// directory.
#[track_caller]
fn create_project(sandbox: &Sandbox) -> PathBuf {
    let project = sandbox.path("project");
    for name in ["main.c", "sub/lib.c"] {
        write(&project.join(name), name);
    }
    write(&project.join(".gitignore"), "ignored\n");
    write(&project.join("ignored/data"), "data");
    git(sandbox, &project, &["init", "-q"]);
    git(sandbox, &project, &["add", "-A"]);
    project
}

/// Copies the project and runs a shell text in its copy. Returns the directory of the remote command.
#[track_caller]
fn run_in_copy(remote: &SshRemote<'_>, project: &Path, flags: &[&str], text: &str) -> PathBuf {
    let done = remote.run(&[&["--sync"], flags].concat(), text).cwd(project).run().expect_code(0);
    PathBuf::from(done.json()["cwd"].as_str().expect("a directory"))
}

/// Returns the result of copying files back.
#[track_caller]
fn failed_fetches(remote: &SshRemote<'_>, id: &str) -> Value {
    remote.show(id)["fetch"]["failed"].clone()
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_copy_has_what_git_knows_and_keeps_what_the_command_built() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    for name in HOSTILE_NAMES {
        std::fs::write(named(&project, name), name).expect("test directory");
    }
    let build = "mkdir -p ignored && touch built ignored/built sub/built";
    let copy = run_in_copy(&remote, &project, &[], build);
    assert!(copy.starts_with(remote.home().join(".cache/siding/sync")), "{}", copy.display());
    assert_eq!(read(&copy.join("sub/lib.c")), "sub/lib.c");
    for name in HOSTILE_NAMES {
        let content = std::fs::read(named(&copy, name)).expect("it was copied");
        assert_eq!(content, name);
    }
    assert!(!copy.join("ignored/data").exists() && !copy.join(".git").exists());

    std::fs::remove_file(project.join("sub/lib.c")).expect("it exists");
    std::fs::remove_file(named(&project, b"a b\nc")).expect("it exists");
    write(&project.join("main.c"), "changed");
    assert_eq!(run_in_copy(&remote, &project, &[], "true"), copy);
    assert_eq!(read(&copy.join("main.c")), "changed");
    assert!(!copy.join("sub/lib.c").exists() && !named(&copy, b"a b\nc").exists());
    for built in ["built", "ignored/built", "sub/built"] {
        assert!(copy.join(built).exists(), "{built}");
    }
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_link_in_place_of_a_directory_redirects_no_file() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let outside = sandbox.path("outside");
    write(&outside.join("lib.c"), "outside");
    let redirect = format!("rm -r sub && ln -s {} sub", outside.display());
    let copy = run_in_copy(&remote, &project, &[], &redirect);
    let _same = run_in_copy(&remote, &project, &[], "true");
    assert_eq!(read(&copy.join("sub/lib.c")), "sub/lib.c");
    let _redirected = run_in_copy(&remote, &project, &[], &redirect);
    std::fs::remove_dir_all(project.join("sub")).expect("it exists");
    let _removed = run_in_copy(&remote, &project, &[], "true");
    assert_eq!(read(&outside.join("lib.c")), "outside");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_mapped_project_is_copied_to_its_directory() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let target = remote.home().join("src/copy");
    let keys = format!(
        "sync = [\"ignored\", \"missing\"]\npaths = {{ \"{}\" = \"{}\" }}\n",
        project.display(),
        target.display()
    );
    write_executor(&sandbox, &keys);
    let directory = run_in_copy(&remote, &project.join("sub"), &[], "true");
    assert_eq!(directory, target.join("sub"));
    assert_eq!(read(&target.join("main.c")), "main.c");
    assert_eq!(read(&target.join("ignored/data")), "data");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn two_projects_in_one_directory_are_refused() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (first, second) = (sandbox.path("first"), sandbox.path("second"));
    let target = remote.home().join("copy");
    let pairs =
        [&first, &second].map(|from| format!("\"{}\" = \"{}\"", from.display(), target.display()));
    write_executor(&sandbox, &format!("paths = {{ {} }}\n", pairs.join(", ")));
    write(&first.join("data/shared"), "first");
    write(&second.join("data/shared"), "second");
    let flags = ["--sync-path", "data"];
    assert_eq!(run_in_copy(&remote, &first, &flags, "true"), target);

    let refused = remote.run(&flags, "true").cwd(&second).run().expect_code(125);
    for part in ["another project", &first.display().to_string(), "paths", "sync-owners"] {
        assert!(refused.stderr_text().contains(part), "no {part}: {refused}");
    }
    assert_eq!(read(&target.join("data/shared")), "first");
    assert_eq!(run_in_copy(&remote, &first, &flags, "true"), target);

    let markers = remote.home().join(".cache/siding/sync-owners");
    std::fs::remove_dir_all(markers).expect("the owner is recorded");
    assert_eq!(run_in_copy(&remote, &second, &flags, "true"), target);
    assert_eq!(read(&target.join("data/shared")), "second");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn named_paths_are_copied_without_git() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let directory = sandbox.path("plain");
    for name in ["data/a", "other"] {
        write(&directory.join(name), name);
    }
    let copy = run_in_copy(&remote, &directory, &["--sync-path", "data"], "true");
    assert_eq!(read(&copy.join("data/a")), "data/a");
    assert!(!copy.join("other").exists());
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn nothing_is_started_if_the_project_cannot_be_copied() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    remote.cut();
    let done = remote.run(&["--sync"], "true").cwd(&project).run().expect_code(125);
    for part in ["nothing was started", "siding executors --check build"] {
        assert!(done.stderr_text().contains(part), "no {part}: {done}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
    assert_eq!(remote.remote_task_ids(), Vec::<String>::new());
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn files_are_here_when_the_call_returns() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    // The shell exits before the end of the task.
    let text = "mkdir -p out/deep; echo built > out/deep/file; sleep 60 & exit 3";
    let flags = ["--sync", "--fetch", "out", "--on-leader-exit", "linger"];
    let done = remote.run(&flags, text).cwd(project.join("sub")).run().expect_code(3);
    let id = task_id(&done);
    assert_eq!(read(&project.join("sub/out/deep/file")), "built\n");
    assert_eq!(failed_fetches(&remote, &id), json!([]));
    let _stopped = sandbox.siding(&["stop", &id]).run();
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn files_of_a_background_task_are_here_when_its_end_is_reported() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let gate = sandbox.path("gate");
    let text = format!("{}; echo built > out", wait_for_file_command(&gate));
    let flags = ["--background", "--sync", "--fetch", "out"];
    let done = remote.run(&flags, &text).cwd(&project).run().expect_code(0);
    let id = task_id(&done);
    assert_eq!(remote.show(&id)["fetch"]["failed"], Value::Null);
    remote.cut();
    let _since = remote.wait_until_unreachable(&id);
    create_file(&gate);
    remote.restore();
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
    assert_eq!(read(&project.join("out")), "built\n");
    assert!(remote.remote_show(&id)["fetch"].is_null(), "the remote task has no such request");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_file_that_cannot_be_fetched_changes_no_outcome() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let text = "printf 'no line break'; echo built > second";
    let flags = ["--sync", "--fetch", "missing", "--fetch", "second"];
    let done = remote.run(&flags, text).cwd(&project).run().expect_code(0);
    let id = task_id(&done);
    let output = remote.output(&id);
    let line = output.strip_prefix("no line break\nsiding: could not fetch missing: ");
    assert!(line.is_some_and(|why| why.ends_with('\n') && why.lines().count() == 1), "{output}");
    let view = remote.show(&id);
    assert_eq!(view["output"]["bytes"], output.len(), "{view}");
    assert_eq!(view["fetch"]["failed"][0]["path"], "missing", "{view}");
    assert_eq!(view["fetch"]["failed"].as_array().map(Vec::len), Some(1), "{view}");
    assert_eq!(read(&project.join("second")), "built\n");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn fetched_files_stay_in_the_working_directory() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let outside = sandbox.path("outside");
    std::fs::create_dir(&outside).expect("test directory");
    write(&project.join(".gitignore"), "ignored\nout\n");
    std::os::unix::fs::symlink(&outside, project.join("out")).expect("test directory");
    let text = "mkdir out; echo built > out/file; ln -s /etc out/link";
    let flags = ["--sync", "--fetch", "out"];
    let id = task_id(&remote.run(&flags, text).cwd(&project).run().expect_code(0));
    assert_eq!(std::fs::read_dir(&outside).expect("it exists").count(), 0);
    assert_eq!(read(&project.join("out/file")), "built\n");
    assert!(std::fs::symlink_metadata(project.join("out/link")).is_err(), "it leads outside");
    let view = remote.show(&id);
    let expected = json!({"count": 1, "names": ["out/link"]});
    assert_eq!(view["fetch"]["skipped_links"], expected, "{view}");
    assert_eq!(view["fetch"]["failed"], json!([]), "{view}");
    let output = remote.output(&id);
    assert!(output.starts_with("siding: 1 symbolic link was not fetched"), "{output}");
    assert_eq!(view["output"]["bytes"], output.len(), "{view}");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_stopped_task_fetches_nothing() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let flags = ["--background", "--sync", "--fetch", "out"];
    let text = "echo built > out; echo ready; exec sleep 60";
    let id = task_id(&remote.run(&flags, text).cwd(&project).run().expect_code(0));
    remote.wait_for_output(&id, "ready\n".len());
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    assert_eq!(remote.wait_outcome(&id)["kind"], "stopped");
    assert!(!project.join("out").exists());
    let failed = failed_fetches(&remote, &id);
    assert_eq!(failed[0]["path"], "out", "{failed}");
    assert!(failed[0]["why"].as_str().is_some_and(|why| why.ends_with("requested a stop")));
}

/// Starts a task whose file `big` is fetched slowly, and kills its mirror while rsync writes the
/// file. The shell text `prologue` runs before this rsync. Returns the id of the task, and the
/// processes of this rsync. A new mirror copies at full speed.
#[track_caller]
fn kill_mirror_during_copy(
    remote: &SshRemote<'_>,
    project: &Path,
    prologue: &str,
) -> (String, Vec<Process>) {
    let slow = format!("{prologue} exec /usr/bin/rsync --bwlimit=256 \"$@\"");
    remote.write_local_program("rsync", &slow);
    let flags = ["--background", "--sync", "--fetch", "big"];
    let done = remote.run(&flags, "head -c 8M /dev/zero > big").cwd(project).run().expect_code(0);
    let id = task_id(&done);
    eventually("rsync writes the file", || !partial_files(project).is_empty());
    remote.write_local_program("rsync", "exec /usr/bin/rsync \"$@\"");
    let copying = rsync_processes(project);
    assert!(copying.len() >= 2, "a generator and a receiver: {copying:?}");
    kill_shim(remote.sandbox, &id);
    (id, copying)
}

/// Returns the temporary files into which rsync writes `big`.
fn partial_files(project: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(project).expect("test directory").flatten();
    let is_partial = |path: &PathBuf| path.to_string_lossy().contains("/.big.");
    entries.map(|entry| entry.path()).filter(is_partial).collect()
}

/// Returns the processes of rsync that copy to this directory.
fn rsync_processes(directory: &Path) -> Vec<Process> {
    let is_copying = |pid: &u32| {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
        processes::comm(*pid) == "rsync" && cwd.is_ok_and(|cwd| cwd == directory)
    };
    let pids = processes::list_pids().into_iter().filter(is_copying);
    pids.filter_map(Process::from_pid).collect()
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_copy_of_a_killed_mirror_has_ended_before_the_end_is_recorded() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let (id, copying) = kill_mirror_during_copy(&remote, &project, "");
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
    assert!(copying.iter().all(|process| !process.is_alive()), "{copying:?}");
    assert_eq!(failed_fetches(&remote, &id), json!([]));
    assert_eq!(std::fs::metadata(project.join("big")).expect("it was fetched").len(), 8 << 20);
    assert_eq!(partial_files(&project), Vec::<PathBuf>::new());
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_stop_after_the_mirror_was_killed_records_the_end_after_the_copy() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let (id, copying) = kill_mirror_during_copy(&remote, &project, "");
    let _stopped = sandbox.siding(&["stop", &id]).run();
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
    assert!(copying.iter().all(|process| !process.is_alive()), "{copying:?}");
    assert_eq!(failed_fetches(&remote, &id)[0]["path"], "big");
    assert!(!project.join("big").exists());
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_copy_waits_for_the_processes_of_an_earlier_one() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let project = create_project(&sandbox);
    let gate = sandbox.path("gate");
    // A process that inherits the lock and ignores the signals.
    let prologue = format!("(trap '' HUP TERM; {}) &", wait_for_file_command(&gate));
    let (id, copying) = kill_mirror_during_copy(&remote, &project, &prologue);
    let _done = sandbox.siding(&["wait", "--timeout", "2s", &id]).run();
    assert_eq!(remote.show(&id)["outcome"], Value::Null);
    // A shell that waits in place of rsync has the same name. It forks before each sleep, and the
    // child has this name for a moment.
    let (earlier, later) = (rsync_processes(&project), rsync_processes(&project));
    let is_new = |process: &&Process| later.contains(process) && !copying.contains(process);
    assert_eq!(earlier.iter().find(is_new), None, "a second copy");
    create_file(&gate);
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
    assert_eq!(failed_fetches(&remote, &id), json!([]));
}

/// These calls need no other machine.
#[test]
fn copies_that_cannot_work_are_refused_before_anything_starts() {
    let sandbox = sandbox();
    write_executor(&sandbox, "");
    let plain = sandbox.path("plain");
    std::fs::create_dir(&plain).expect("test directory");
    let calls: [(&[&str], &str); 7] = [
        (&["--sync"], "--on EXECUTOR"),
        (&["--fetch", "out"], "--on EXECUTOR"),
        (&["--on", "build", "--sync"], "--sync-path"),
        (&["--on", "build", "--sync-path", "missing"], "cannot be copied"),
        (&["--on", "build", "--sync-path", "../other"], "outside of the project"),
        (&["--on", "build", "--fetch", "../other"], "without `..`"),
        (&["--on", "build", "--fetch", "/etc"], "relative path"),
    ];
    for (flags, part) in calls {
        let args = [&["run"], flags, &["--", "true"]].concat();
        let done = sandbox.siding(&args).cwd(&plain).run().expect_code(125);
        assert!(done.stderr_text().contains(part), "{flags:?} without {part}: {done}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

/// This call needs no other machine.
#[test]
fn a_mapped_directory_with_a_line_break_is_refused() {
    let sandbox = sandbox();
    let plain = sandbox.path("plain");
    write(&plain.join("data"), "");
    let keys = format!("paths = {{ \"{}\" = \"/srv/a\\n/etc\" }}\n", plain.display());
    write_executor(&sandbox, &keys);
    let args = ["run", "--on", "build", "--sync-path", "data", "--", "true"];
    let done = sandbox.siding(&args).cwd(&plain).run().expect_code(125);
    let text = done.stderr_text();
    assert!(text.contains("control character") && text.contains("/srv/a\\n/etc"), "{done}");
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}
