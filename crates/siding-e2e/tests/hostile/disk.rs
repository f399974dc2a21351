//! State directories on a file system that has no free space, has no free inodes, or is mounted
//! read-only.

use std::ffi::CString;
use std::path::PathBuf;

use siding_core::store::StateDir;
use siding_core::task::launch::IdleShim;
use siding_e2e::fill_pattern::FillPattern;
use siding_e2e::{Process, Sandbox, eventually, eventually_some, is_root, mounts, words};
use siding_model::id::{TaskId, TaskKind};
use siding_model::monitor::Monitor;
use siding_model::spec::{TaskCommand, TaskSpec};

use crate::{
    Task, assert_no_crash_or_hang, assert_refused, assert_same, assert_task_exits,
    entries_when_idle, perform, shell,
};

/// A tmpfs on the state directory, in a mount namespace of this test. The tmpfs is unmounted on
/// drop.
#[derive(Debug)]
struct MountedDisk(PathBuf);

impl MountedDisk {
    /// Mounts the tmpfs. Returns `None` and prints the reason if the tmpfs cannot be mounted.
    fn mount(sandbox: &Sandbox, options: &str) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: only root can mount");
            return None;
        }
        let disk = Self(sandbox.state_dir());
        match mounts::unshare_mounts().and_then(|()| mounts::mount_tmpfs(&disk.0, 0, Some(options)))
        {
            Ok(()) => Some(disk),
            Err(error) => {
                eprintln!("skipped: mounting is not permitted here: {error}");
                None
            }
        }
    }

    /// Remounts the file system read-only or writable.
    fn set_read_only(&self, read_only: bool) {
        let flags = libc::MS_REMOUNT | if read_only { libc::MS_RDONLY } else { 0 };
        mounts::mount_tmpfs(&self.0, flags, None).expect("remounting succeeded");
    }

    /// Fills all space except `pages` pages of 4 KiB.
    fn fill_except_pages(&self, pages: usize) {
        let filler = self.0.join("filler");
        let mut file = std::fs::File::create(&filler).expect("the disk has space for a file");
        let full = std::io::copy(&mut std::io::repeat(0), &mut file);
        assert_eq!(
            full.expect_err("writing to the disk succeeded").raw_os_error(),
            Some(libc::ENOSPC)
        );
        let len = file.metadata().expect("test file").len();
        file.set_len(len - (pages << 12) as u64).expect("test file");
    }

    /// Creates files until only `left` free inodes remain.
    fn fill_inodes_except(&self, left: usize) {
        let taken = self.0.join("taken");
        std::fs::create_dir_all(&taken).expect("the disk has space for a directory");
        let name = |number: usize| taken.join(number.to_string());
        let first_failed = (0..).find(|number| std::fs::File::create(name(*number)).is_err());
        for number in 0..left {
            std::fs::remove_file(name(
                first_failed.expect("the disk fills up within the bound") - 1 - number,
            ))
            .expect("test file");
        }
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        mounts::unmount(&self.0);
    }
}

/// Returns a task as `siding show --json` describes it.
#[track_caller]
fn show_task(sandbox: &Sandbox, id: &str) -> Task {
    Task::of(&sandbox.siding(&["show", "--json", id]).run().expect_code(0))
}

#[test]
fn exit_is_recorded_on_a_full_disk() {
    const FLOOD_BYTES: u64 = 4 << 20;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(_keeps_alive) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let flood = words("fill 4M --block 64k exit 5");
    let task = Task::of(&perform(&sandbox, &flood).run().expect_code(5));
    for task in [&task, &show_task(&sandbox, task.id())] {
        assert_eq!(task.number("/outcome/code"), 5);
        assert_eq!(task.number("/output/bytes"), FLOOD_BYTES);
        let (kept, lost) = (task.number("/output/kept_bytes"), task.number("/output/lost_bytes"));
        assert_eq!(kept + lost, FLOOD_BYTES);
        assert!(kept > 512 << 10, "only {kept} bytes were stored");
        let file = task.file();
        assert_eq!(file.len() as u64, kept);
        assert_same(&file, &FillPattern::Blocks(65_536).bytes(0, file.len()), "what is kept");
    }
    let shown = sandbox.siding(&["output", task.id(), "--tail", "1"]).run().expect_code(0);
    assert!(shown.stderr_text().contains("of its output could not be stored"), "{shown}");
    let live = sandbox.state_dir().join("live");
    assert!(!entries_when_idle(&sandbox).iter().any(|path| path.parent() == Some(&live)));
    let done = shell(&sandbox, "echo hello").run();
    assert_refused(&done, "No space left on device");
}

#[test]
fn stop_is_recorded_on_a_full_disk() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(_keeps_alive) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let verbs = "--quiet fork setsid hang -- fill 2M --line 100 mark full hang";
    let argv = sandbox.puppet_argv(&words(verbs));
    let args = ["run", "--background", "--json", "--"].map(str::to_owned);
    let started = sandbox.siding(&[&args[..], &argv].concat()).run().expect_code(0);
    let _full = sandbox.wait_for_mark("full");
    let id = Task::of(&started).id().to_owned();
    let stopped = sandbox.siding(&["stop", "--json", "--grace", "5s", &id]).run().expect_code(0);
    for task in [Task::of(&stopped), show_task(&sandbox, &id)] {
        assert_eq!(task.text("/outcome/kind"), "stopped");
        assert_eq!(task.number("/stop_report/ended_total"), 2);
        assert!(task.number("/output/lost_bytes") > 0);
    }
    assert_task_exits(&id);
}

/// Returns the recorded holder of a task's terminal if it is alive.
fn living_holder(root: &StateDir, id: TaskId) -> Option<Process> {
    let state = root.task_dir(id).ok()?.read().ok()?.state;
    let holder = state.terminal?.holder?;
    let process = Process { pid: holder.pid.try_into().ok()?, start: holder.start_ticks };
    process.is_alive().then_some(process)
}

/// A holder that cannot be recorded would be mistaken for a process of the task, so on a full disk
/// the terminal has none until there is space again.
#[test]
fn a_holder_killed_on_a_full_disk_is_replaced_when_space_is_freed() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    // No other optional record may reserve space before the disk is full.
    let run = ["run", "--pty", "--background", "--json", "--stall-after", "0s", "--", "read -r _"];
    let task = Task::of(&sandbox.siding(&run).run().expect_code(0));
    let root = StateDir::open(&sandbox.state_dir()).expect("test directory");
    let id = task.id().parse().expect("an id");
    let first = eventually_some("the terminal has a holder", || living_holder(&root, id));
    disk.fill_except_pages(0);
    first.kill();
    eventually("the holder is dead", || !first.is_alive());
    // The shim handles the death of a holder before it answers a client.
    let keys = ["keys", "--wait-for", "input", "--timeout", "40s", task.id()];
    let _reads = sandbox.siding(&keys).run().expect_code(0);
    let journal = sandbox.state_dir().join("tasks").join(task.id()).join("journal");
    let journal = std::fs::read_to_string(journal).expect("the journal of the task");
    assert_eq!(journal.matches(r#""terminal":"opened""#).count(), 1, "{journal}");
    std::fs::remove_file(disk.0.join("filler")).expect("test file");
    let second = eventually_some("the terminal has another holder", || living_holder(&root, id));
    assert_ne!(first, second);
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", task.id()]).run().expect_code(0);
    assert_eq!(show_task(&sandbox, task.id()).text("/outcome/kind"), "stopped");
    assert_task_exits(task.id());
}

/// The final record of a task is written on a full disk even if the first and the final record are
/// as long as possible, because the first record does not use the reserved space.
#[test]
fn largest_end_record_fits_on_a_full_disk() {
    const CHILD_COUNT: usize = 70;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(_keeps_alive) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let children = [&["fork", "hang", "--"][..]; CHILD_COUNT].concat();
    let script = [&["--quiet"], &children[..], &words("fill 2M mark full hang")].concat();
    let text = format!("{} # {}", sandbox.puppet_line(&script), "x".repeat(100 << 10));
    let started = sandbox.siding(&["run", "--background", "--json", "--", &text]).run();
    let task = Task::of(&started.expect_code(0));
    let _full = sandbox.wait_for_mark("full");
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", task.id()]).run().expect_code(0);
    let task = show_task(&sandbox, task.id());
    assert!(task.number("/output/lost_bytes") > 0);
    assert_eq!(task.text("/outcome/kind"), "stopped");
    assert!(task.number("/stop_report/ended_total") > CHILD_COUNT as u64);
    assert_task_exits(task.id());
}

/// The final record of a monitor is written on a full disk, because the records of its lines do not
/// use the space that is reserved for the final record.
#[test]
fn end_of_a_frequent_monitor_is_recorded_on_a_full_disk() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(_keeps_alive) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let quiet = sandbox.siding(&["monitor", "--json", "--", "true"]).run().expect_code(0);
    let root = StateDir::open(&sandbox.state_dir()).expect("test directory");
    let quiet = Task::of(&quiet).id().parse().expect("an id");
    let quiet =
        root.task_dir(quiet).expect("the entry exists").read().expect("the task is recorded");
    let task_id = root.new_id(TaskKind::LocalBash).expect("an id");
    let line = "x".repeat(400);
    let fill = sandbox.puppet_line(&["--quiet", "fill", "2M", "--line", "400"]);
    let text = format!("{fill}; for n in {{1..3000}}; do echo {line}; done; exit 5");
    let spec = TaskSpec {
        task_id,
        command: TaskCommand::Shell { text, shell: "bash".to_owned() },
        monitor: Some(Monitor { pattern: None, burst: 1000, every_ms: 1 }),
        ..quiet.state.spec
    };
    let dir = root.create_task(task_id).expect("the disk has space");
    root.mark_live(task_id).expect("the disk has space");
    let environment = sandbox.environment().into_iter();
    let environment: Vec<CString> = environment
        .map(|(name, value)| CString::new(format!("{name}={value}")).expect("a string without NUL"))
        .collect();
    let program = CString::new(sandbox.siding_line::<&str>(&[])).expect("a string without NUL");
    let shim = IdleShim::start(&program).expect("the command starts");
    let _link =
        shim.start_task(&root, dir, &spec, &environment, None).expect("the shim starts the task");
    let id = task_id.to_string();
    let wait = ["wait", "--timeout", "40s", &id];
    let _over = sandbox.siding(&wait).run().expect_code(5);
    let task = show_task(&sandbox, &id);
    assert_eq!(task.number("/outcome/code"), 5);
    assert!(task.number("/output/lost_bytes") > 0);
    assert_task_exits(&id);
}

/// Runs a command with `max_left` free units of a resource, and then again with one unit less each
/// time. Asserts that each call either succeeds, or fails and leaves no file.
fn run_with_shrinking_resource(
    sandbox: &Sandbox,
    max_left: usize,
    leave_available: impl Fn(usize),
) {
    let (mut worked, mut refused) = (0, 0);
    for left in (0..=max_left).rev() {
        leave_available(left);
        let before = entries_when_idle(sandbox);
        let done = shell(sandbox, "echo hello").run();
        assert_no_crash_or_hang(&done);
        if done.code == Some(0) {
            worked += 1;
            let task = Task::of(&done);
            // If the space suffices for the task but not for all of its output, the lost bytes are
            // counted.
            let lost = task.number("/output/lost_bytes") as usize;
            assert_same(&task.file(), &b"hello\n"[..6 - lost], "the output");
            assert_task_exits(task.id());
            std::fs::remove_dir_all(sandbox.state_dir().join("tasks").join(task.id()))
                .expect("test directory");
        } else {
            refused += 1;
            assert_refused(&done, "No space left on device");
            assert!(done.stderr_text().contains("hint: "), "{done}");
        }
        assert_eq!(entries_when_idle(sandbox), before, "{left} left: {done}");
    }
    assert!(worked > 0 && refused > 0, "{worked} worked, {refused} were refused");
}

#[test]
fn failed_run_on_a_full_disk_leaves_no_files() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let _made = shell(&sandbox, "true").run().expect_code(0);
    run_with_shrinking_resource(&sandbox, 9, |pages| disk.fill_except_pages(pages));
}

#[test]
fn failed_run_without_inodes_leaves_no_files() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=4m,nr_inodes=100") else { return };
    let _made = shell(&sandbox, "true").run().expect_code(0);
    run_with_shrinking_resource(&sandbox, 9, |inodes| disk.fill_inodes_except(inodes));
}

#[test]
fn first_run_without_inodes_reports_the_error() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=4m,nr_inodes=100") else { return };
    for inodes in 0..5 {
        disk.fill_inodes_except(inodes);
        let done = shell(&sandbox, "true").run();
        assert_refused(&done, "No space left on device");
    }
    disk.fill_inodes_except(20);
    let _done = shell(&sandbox, "true").run().expect_code(0);
}

#[test]
fn read_only_state_directory_can_be_read() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    disk.set_read_only(true);
    assert_refused(&shell(&sandbox, "true").run(), "Read-only file system");
    disk.set_read_only(false);
    let task = Task::of(&shell(&sandbox, "echo words; exit 3").run().expect_code(3));
    assert_task_exits(task.id());
    disk.set_read_only(true);
    let before = entries_when_idle(&sandbox);
    let done = shell(&sandbox, "true").run();
    assert_refused(&done, "Read-only file system");
    assert!(done.stderr_text().contains("SIDING_STATE_DIR"), "{done}");
    assert_eq!(show_task(&sandbox, task.id()).number("/outcome/code"), 3);
    let listed = sandbox.siding(&["ps", "--all", "--json"]).run().expect_code(0);
    assert!(listed.stdout_text().contains(task.id()), "{listed}");
    let read = sandbox.siding(&["output", "--all", task.id()]).run().expect_code(0);
    assert_eq!(read.stdout_text(), "words\n");
    let _over = sandbox.siding(&["wait", task.id()]).run().expect_code(3);
    let _over = sandbox.siding(&["stop", task.id()]).run().expect_code(0);
    assert_eq!(entries_when_idle(&sandbox), before);
}

/// If the disk has no space for the history database, `stats` and `history` read the journals
/// instead.
#[test]
fn history_works_without_disk_space() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    for _ in 0..3 {
        let _run = shell(&sandbox, "exit 3").run().expect_code(3);
    }
    let before = entries_when_idle(&sandbox);
    let ask = || {
        let stats = sandbox.siding(&["stats", "--json"]).run().expect_code(0);
        assert_eq!(stats.json()[0]["runs"], 3, "{stats}");
        assert!(stats.stderr_text().contains("history.db"), "{stats}");
    };
    disk.set_read_only(true);
    ask();
    assert_eq!(entries_when_idle(&sandbox), before);
    disk.set_read_only(false);
    disk.fill_except_pages(0);
    ask();
    let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
}

/// The task would otherwise be lost for `stats` and `history`.
#[test]
fn rm_removes_no_task_that_the_full_disk_keeps_from_the_history() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let task = Task::of(&shell(&sandbox, "exit 3").run().expect_code(3));
    assert_task_exits(task.id());
    disk.fill_except_pages(0);
    let refused = sandbox.siding(&["rm", task.id()]).run();
    assert_refused(&refused, "history.db");
    assert_eq!(show_task(&sandbox, task.id()).number("/outcome/code"), 3);
    let _removed = sandbox.siding(&["rm", "--force", task.id()]).run().expect_code(0);
    assert!(!sandbox.state_dir().join("tasks").join(task.id()).exists());
}

/// If an adoption cannot be recorded on disk, the shim keeps the record in memory and writes the
/// record as soon as there is space. Until then the shim leaves no partial files.
#[test]
fn adoption_on_a_full_disk_is_recorded_when_space_is_freed() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let argv = sandbox.puppet_argv(&words("--quiet mark host hang"));
    let host = sandbox.host(&argv[0], &argv[1..]).spawn();
    let pid = sandbox.wait_for_mark("host").pid.to_string();
    disk.fill_except_pages(1);
    let tasks = sandbox.state_dir().join("tasks");
    let changed = || std::fs::metadata(&tasks).and_then(|facts| facts.modified()).ok();
    let before = changed();
    let adopt = ["adopt", "--json", "--session", "cli", &pid];
    let adopt = sandbox.siding(&adopt).env("SIDING_ADOPT_KEEP_AFTER", "0s");
    let adopted = adopt.run().expect_code(0).json();
    let id = adopted["task_id"].as_str().expect("an id").to_owned();
    eventually("adoption was tried and undone", || {
        changed() != before && !tasks.join(&id).exists()
    });
    std::fs::remove_file(disk.0.join("filler")).expect("test file");
    eventually("the record exists", || {
        let shown = sandbox.siding(&["show", "--json", &id]).run();
        shown.code == Some(0) && shown.json()["phase"] == "running"
    });
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    drop(host);
    assert_eq!(show_task(&sandbox, &id).text("/outcome/kind"), "stopped");
    assert_task_exits(&id);
}

/// An adopted command that cannot be recorded still ends at its deadline and with its session.
#[test]
fn unrecorded_adoption_ends_at_deadline_and_with_its_session() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let Some(disk) = MountedDisk::mount(&sandbox, "mode=700,size=1m") else { return };
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let open = ["session", "open", "full", "--owner-pid", &owner.process().pid.to_string()];
    let _open = sandbox.siding(&open).run().expect_code(0);
    disk.fill_except_pages(0);
    for (name, session, deadline) in [("late", "cli", "1s"), ("over", "full", "30s")] {
        let output = sandbox.path(name);
        let verbs = format!("--quiet mark {name} hang");
        let line = format!("exec {} >{name}", sandbox.puppet_line(&words(&verbs)));
        let shell = sandbox.host("bash", &["-c", &line]).spawn();
        let near = sandbox.wait_for_mark(name);
        let pid = near.pid.to_string();
        let adopt = sandbox.siding(&["adopt", "--json", "--session", session, &pid]);
        let adopt = adopt.env("SIDING_ADOPT_KEEP_AFTER", "0s").env("SIDING_MAX_ELAPSED", deadline);
        let id = adopt.env("SIDING_KILL_GRACE", "200ms").run().expect_code(0).json();
        if session == "full" {
            owner.process().kill();
        }
        eventually("the process has ended", || !near.is_alive());
        assert_task_exits(id["task_id"].as_str().expect("an id"));
        let text = std::fs::read_to_string(&output).expect("the host's file");
        assert!(text.contains("; could not record this in the state directory\n"), "{text}");
        let _killed = shell.wait();
    }
    let _killed = owner.wait();
}
