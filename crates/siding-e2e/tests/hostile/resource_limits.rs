//! siding under limits on descriptors, processes and file sizes (`ulimit`).

use std::time::Instant;

use siding_e2e::{ProgramOutput, Sandbox, is_root};

use crate::{
    OTHER_UID, Task, assert_no_crash_or_hang, assert_same, assert_task_exits, entries_when_idle,
    live_shim,
};

/// Runs `echo hello` as a task, with siding under a limit of the shell's `ulimit`.
fn run_limited(sandbox: &Sandbox, limit: &str) -> ProgramOutput {
    let args = ["run", "--json", "--budget", "none", "--", "echo hello"];
    let script = format!("ulimit {limit} && exec {}", sandbox.siding_line(&args));
    sandbox.host("bash", &["-c", &script]).forbid_held_output().run()
}

/// Runs a command with a limit that grows from `least` until the call succeeds. Every call that
/// siding itself refuses must name the missing resource with `words` and leave no file.
fn run_with_growing_limit(sandbox: &Sandbox, option: &str, least: u32, words: &str) {
    let made = sandbox.siding(&["run", "--json", "--", "echo first"]).run().expect_code(0);
    let _made = Task::of(&made);
    let mut refused = 0;
    for limit in least.. {
        assert!(limit < least + 60, "the call still fails with a limit of {limit}");
        let before = entries_when_idle(sandbox);
        let done = run_limited(sandbox, &format!("{option} {limit}"));
        assert_no_crash_or_hang(&done);
        if done.code == Some(0) {
            assert_same(&Task::of(&done).file(), b"hello\n", "the output");
            break;
        }
        refused += 1;
        if done.code == Some(125) {
            assert!(done.stderr_text().starts_with("siding: "), "{option} {limit}: {done}");
            assert!(done.stderr_text().contains(words), "{option} {limit}: {done}");
            assert_eq!(entries_when_idle(sandbox), before, "{option} {limit}: {done}");
        } else {
            // The task was started and recorded, and its command failed because of the limit, as it
            // would fail in any shell.
            let task = Task::of(&done);
            eprintln!("{option} {limit}: {} {}", task.0["outcome"], task.0["output"]["text"]);
            assert_eq!(task.text("/phase"), "ended", "{option} {limit}: {done}");
        }
    }
    assert!(refused > 0, "the limit was never too low");
}

#[test]
fn descriptor_limit_is_reported_and_leaves_no_files() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    // The limits start at 5, because the loader of a dynamically linked program needs descriptors
    // in addition to the standard streams.
    run_with_growing_limit(&sandbox, "-n", 5, "Too many open files");
}

#[test]
fn process_limit_is_reported_and_leaves_no_files() {
    if !is_root() {
        eprintln!("skipped: only root can run programs as another user");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(OTHER_UID + 1);
    sandbox.expect_clean();
    run_with_growing_limit(&sandbox, "-u", 1, "Resource temporarily unavailable");
}

/// A limit on file sizes also applies to the shim. The shim counts output beyond the limit as lost,
/// as on a full disk, and continues to supervise the task.
#[test]
fn file_size_limit_loses_output_but_not_the_shim() {
    const FILE_LIMIT_BYTES: u64 = 100 << 10;
    const WRITTEN_BYTES: u64 = 300_000;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let text = "head -c 300000 /dev/zero | tr '\\0' x; head -c 200000 /dev/zero >large; exit $?";
    let args = ["run", "--json", "--budget", "none", "--", text];
    let script = format!("ulimit -c 0; ulimit -f 100; exec {}", sandbox.siding_line(&args));
    let done = sandbox.host("bash", &["-c", &script]).forbid_held_output().run().expect_code(153);
    let task = Task::of(&done);
    let task = Task::of(&sandbox.siding(&["show", "--json", task.id()]).run().expect_code(0));
    assert_eq!(task.0["outcome"], serde_json::json!({"kind": "exited", "code": 153}));
    assert_eq!(task.number("/rescues"), 0);
    assert_eq!(task.number("/output/kept_bytes"), FILE_LIMIT_BYTES);
    // The output also contains the shell's message about SIGXFSZ, whose length is not fixed.
    let bytes = task.number("/output/bytes");
    assert!(bytes >= WRITTEN_BYTES, "{bytes}");
    assert_eq!(task.number("/output/lost_bytes"), bytes - FILE_LIMIT_BYTES);
    assert_eq!(
        std::fs::metadata(sandbox.path("large")).expect("the entry exists").len(),
        FILE_LIMIT_BYTES
    );
}

/// A shim without a free descriptor cannot accept a client, so its listening socket stays readable.
/// The shim must not poll the socket in a busy loop, and therefore retries only a few times a
/// second.
#[test]
fn shim_without_descriptors_accepts_clients_later_without_busy_loop() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let run = ["run", "--background", "--json", "--", "sleep 300"];
    let task = Task::of(&sandbox.siding(&run).run().expect_code(0));
    let shim = live_shim(&task);
    let set_max_files = |limit: u64| {
        let limit = libc::rlimit { rlim_cur: limit, rlim_max: 4096 };
        let pid = libc::pid_t::try_from(shim.pid).expect("a process number");
        // SAFETY: `limit` is a valid `rlimit` that lives until the call returns, and the call
        // writes nothing, because the pointer for the old limit is null.
        let set = unsafe {
            libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
        };
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    };
    set_max_files(3);
    let stop = sandbox.siding(&["stop", "--grace", "0s", task.id()]).spawn();
    let (before, began) = (cpu_ticks(shim.pid), Instant::now());
    // These calls take some time and send no request to the shim.
    for _ in 0..60 {
        let _listed = sandbox.siding(&["session", "list"]).run().expect_code(0);
    }
    let (used, elapsed) = (cpu_ticks(shim.pid) - before, began.elapsed());
    // A tick is 10 ms.
    assert!(u128::from(used) * 10 < elapsed.as_millis() / 4, "{used} ticks in {elapsed:?}");
    assert!(shim.is_alive());
    set_max_files(4096);
    let _stopped = stop.wait().expect_code(0);
    assert_task_exits(task.id());
}

/// Returns the processor time of a process, in clock ticks (proc_pid_stat(5)).
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is alive");
    let (_, fields) = stat.rsplit_once(") ").expect("a `)` after the process name");
    let fields: Vec<&str> = fields.split(' ').collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("a number")).sum()
}
