//! Bounds on the disk space and the memory that a task's output uses (promise P24).

use std::io::{PipeReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::Signal;
use siding_e2e::fill_pattern::FillPattern;
use siding_e2e::{
    Process, RunningProgram, Sandbox, Terminal, eventually, eventually_some, processes, words,
};
use siding_model::flow_control::max_unshown_bytes;
use siding_model::size::size_in_words;

use crate::{Task, assert_same, gate};

const KEEP_HEAD_BYTES: u64 = 1 << 20;
const KEEP_TAIL_BYTES: u64 = 2 << 20;
/// Disk space that the file system itself needs for a file with many holes.
const OVERHEAD_BYTES: u64 = 64 << 10;

/// Returns the disk space of a file, in bytes.
fn stored_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.blocks() * 512)
}

/// Returns the anonymous memory of a process, in bytes; shared memory is not counted.
fn anonymous_memory_bytes(pid: u64) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok().map(|kilobytes: u64| kilobytes << 10)
}

/// Starts a task with much output in the background, and takes samples until its shim has exited.
/// Returns the task, the highest disk use of its output and the highest memory use of its shim.
fn run_flood(sandbox: &Sandbox, call: siding_e2e::Invocation) -> (Task, u64, u64) {
    let task = Task::of(&call.run().expect_code(0));
    let path = task.text("/output/path").to_owned();
    let shim = task.number("/shim_pid");
    let (mut disk, mut memory) = (0, 0);
    eventually("the flood has ended", || {
        disk = disk.max(stored_bytes(Path::new(&path)));
        let living = anonymous_memory_bytes(shim);
        memory = memory.max(living.unwrap_or(0));
        living.is_none()
    });
    let ended = sandbox.siding(&["stop", "--json", task.id()]).run().expect_code(0);
    (Task::of(&ended), disk, memory)
}

#[track_caller]
fn assert_bounded(task: &Task, bytes: u64, (head, tail): (u64, u64), shape: FillPattern) {
    assert_eq!(task.number("/output/bytes"), bytes);
    assert_eq!(task.number("/output/lost_bytes"), 0);
    let (from, to) = (task.number("/output/gap/from"), task.number("/output/gap/to"));
    assert_eq!(from, head, "the beginning must be kept completely");
    assert!(bytes - to <= tail && bytes - to >= tail / 4 * 3, "the tail begins at {to}");
    assert_eq!(task.number("/output/kept_bytes"), bytes - (to - from));
    let file = task.file();
    assert_eq!(file.len() as u64, bytes, "offsets in the file are stream offsets");
    assert_same(&file[..head as usize], &shape.bytes(0, head as usize), "the head");
    let kept = &file[to as usize..];
    assert_same(kept, &shape.bytes(to, kept.len()), "the tail");
    assert!(file[from as usize..to as usize].iter().all(|byte| *byte == 0), "the gap is released");
}

#[test]
fn a_flood_is_bounded_on_disk_and_the_task_continues() {
    const FLOOD_BYTES: u64 = 64 << 20;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let verbs = words("--quiet fill 64M --block 64k exit 9");
    let argv = sandbox.puppet_argv(&verbs);
    let head = ["run", "--background", "--json", "--"].map(str::to_owned);
    let call = sandbox
        .siding(&[&head[..], &argv].concat())
        .env("SIDING_OUTPUT_KEEP_HEAD", "1MiB")
        .env("SIDING_OUTPUT_KEEP_TAIL", "2MiB");
    let (task, disk, memory) = run_flood(&sandbox, call);
    assert_eq!(task.number("/outcome/code"), 9);
    assert_bounded(
        &task,
        FLOOD_BYTES,
        (KEEP_HEAD_BYTES, KEEP_TAIL_BYTES),
        FillPattern::Blocks(65_536),
    );
    assert!(disk > KEEP_HEAD_BYTES, "the samples missed the output file");
    assert!(
        disk <= KEEP_HEAD_BYTES + KEEP_TAIL_BYTES + OVERHEAD_BYTES,
        "the output used {disk} bytes of disk"
    );
    assert!(memory <= 2 << 20, "the shim used {memory} bytes of memory");
}

#[test]
fn output_limits_may_be_smaller_than_a_disk_block() {
    let sandbox = Sandbox::new();
    for (head, tail) in [("0", "1"), ("1", "4095"), ("5000", "10000"), ("0", "100KiB")] {
        let argv = sandbox.puppet_argv(&words("--quiet fill 1000001 --line 77 exit 3"));
        let args = ["run", "--json", "--budget", "none", "--"].map(str::to_owned);
        let call = sandbox
            .siding(&[&args[..], &argv].concat())
            .env("SIDING_OUTPUT_KEEP_HEAD", head)
            .env("SIDING_OUTPUT_KEEP_TAIL", tail);
        let task = Task::of(&call.run().expect_code(3));
        let (from, to) = (task.number("/output/gap/from"), task.number("/output/gap/to"));
        let file = task.file();
        let shape = FillPattern::Lines(77);
        assert_eq!(file.len(), 1_000_001);
        assert_same(&file[..from as usize], &shape.bytes(0, from as usize), "the head");
        let kept = &file[to as usize..];
        assert!(!kept.is_empty(), "the last bytes must be kept, with {head} and {tail}");
        assert_same(kept, &shape.bytes(to, kept.len()), "the tail");
        let path = task.text("/output/path").to_owned();
        assert!(stored_bytes(Path::new(&path)) <= 128 << 10, "{head} and {tail}");
    }
}

/// To a late reader, siding reports how many bytes were released, and prints no zeros in place of
/// these bytes.
#[test]
fn a_late_reader_is_told_how_many_bytes_are_gone() {
    const FIRST_PART_BYTES: u64 = 1 << 20;
    const TOTAL_BYTES: u64 = 9 << 20;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = gate(&sandbox);
    let text = format!(
        "yes | head -c {FIRST_PART_BYTES}; cat {}; yes | head -c 8M; exit 9",
        gate.display()
    );
    let call = sandbox.siding(&["run", "--budget", "none", "--", &text]);
    let call =
        call.env("SIDING_OUTPUT_KEEP_HEAD", "64KiB").env("SIDING_OUTPUT_KEEP_TAIL", "2MiB").spawn();
    let file = eventually_some("the task exists", || {
        let id = sandbox.task_ids().pop()?;
        Some(sandbox.state_dir().join("tasks").join(id).join("output"))
    });
    let len = || std::fs::metadata(&file).map_or(0, |found| found.len());
    // Wait until the first part is stored, so that siding releases output only because of the flood
    // that follows.
    eventually("the first part is stored", || len() == FIRST_PART_BYTES);
    drop(std::fs::OpenOptions::new().write(true).open(gate).expect("the gate FIFO"));
    eventually("the flood is stored", || len() == TOTAL_BYTES);
    let done = call.wait().expect_code(9);
    assert!(!done.stdout.contains(&0), "discarded bytes were shown as zeros");
    let stderr = done.stderr_text();
    let gone = TOTAL_BYTES - done.stdout.len() as u64;
    assert!(gone > 0, "no bytes were discarded: {stderr}");
    let report = stderr.lines().rev().find(|line| line.contains("the reader was too slow: "));
    let expected = format!("too slow: {} of output lost", size_in_words(gone));
    assert!(report.is_some_and(|line| line.contains(&expected)), "{expected}: {stderr}");
}

/// Starts a command in a person's pipeline whose reader reads nothing yet, and returns once the
/// command waits for this reader.
fn start_with_slow_reader(
    sandbox: &Sandbox,
    terminal: &Terminal,
    command: &[String],
) -> (RunningProgram, String, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let head = ["run", "--grace", "10m", "--"].map(str::to_owned);
    let call = sandbox.siding(&[&head[..], command].concat());
    let call = call.on_terminal(terminal).stdout_to(writer);
    let call = call
        .env("SIDING_OUTPUT_KEEP_HEAD", "64KiB")
        .env("SIDING_OUTPUT_KEEP_TAIL", KEEP_TAIL_BYTES.to_string())
        .spawn();
    let id = eventually_some("the command has written ahead", || {
        let id = sandbox.task_ids().pop()?;
        let output = sandbox.state_dir().join("tasks").join(&id).join("output");
        let len = std::fs::metadata(output).map_or(0, |found| found.len());
        (len >= max_unshown_bytes(KEEP_TAIL_BYTES)).then_some(id)
    });
    eventually("the command waits for its reader", || {
        let why = sandbox.siding(&["why", "--json", &id]).run().expect_code(0).json();
        why["waiting_on"] == "pipe"
    });
    (call, id, reader)
}

/// A person's command waits for a slow reader, as in a shell pipeline. The reader therefore
/// receives the whole output, although siding keeps only a part of it.
#[test]
fn a_persons_command_waits_for_a_slow_reader() {
    const TOTAL_BYTES: usize = 32 << 20;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let terminal = Terminal::new(80, 24);
    let command = sandbox.puppet_argv(&words("--quiet fill 32M --block 64k exit 4"));
    let (call, id, mut reader) = start_with_slow_reader(&sandbox, &terminal, &command);
    let output = sandbox.state_dir().join("tasks").join(id).join("output");
    let ahead = std::fs::metadata(output).expect("the task exists").len();
    assert!(ahead <= KEEP_TAIL_BYTES, "the shim has read {ahead} bytes ahead of the reader");
    let mut received = Vec::new();
    reader.read_to_end(&mut received).expect("the test's pipe");
    let _ended = call.wait().expect_code(4);
    let expected = FillPattern::Blocks(65_536).bytes(0, TOTAL_BYTES);
    assert_same(&received, &expected, "the pipeline");
}

/// Returns the living shim of a task.
fn find_shim(id: &str) -> Option<Process> {
    let mut members = processes::with_birthmark(id).into_iter();
    members.find(|process| processes::comm(process.pid) == "siding-shim")
}

/// If the shim is killed while the command waits for its reader, the call starts another shim,
/// which stores all output of the command. The new shim reads ahead until the call has reported how
/// much it has shown, so the reader can miss output that is no longer kept. The call then says how
/// much.
#[test]
fn a_command_that_waits_for_its_reader_survives_the_death_of_its_shim() {
    const TOTAL_BYTES: usize = 16 << 20;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let mut terminal = Terminal::new(80, 24);
    let command = sandbox.puppet_argv(&words("--quiet fill 16M --block 64k exit 4"));
    let (call, id, mut reader) = start_with_slow_reader(&sandbox, &terminal, &command);
    find_shim(&id).expect("the task has a shim").kill();
    let mut received = Vec::new();
    reader.read_to_end(&mut received).expect("the test's pipe");
    let done = call.wait();
    // The new shim is not the parent of the command, so it may not receive the exit code.
    assert!(matches!(done.code, Some(4 | 125)), "{done}");
    let shown = sandbox.siding(&["show", "--json", &id]).run().expect_code(0);
    let task = Task::of(&shown);
    assert_eq!(task.number("/rescues"), 1, "{shown}");
    assert_eq!(task.number("/output/bytes"), TOTAL_BYTES as u64, "{shown}");
    assert_eq!(task.number("/output/lost_bytes"), 0, "{shown}");
    let expected = FillPattern::Blocks(65_536).bytes(0, TOTAL_BYTES);
    let gone = TOTAL_BYTES - received.len();
    if gone == 0 {
        assert_same(&received, &expected, "the pipeline");
        return;
    }
    let kept_tail = usize::try_from(KEEP_TAIL_BYTES / 4 * 3).expect("the number fits");
    assert!(received.starts_with(&expected[..64 << 10]), "the reader misses the beginning");
    assert!(received.ends_with(&expected[TOTAL_BYTES - kept_tail..]), "the reader misses the end");
    terminal.wait_for_text(&format!("too slow: {} of output lost", size_in_words(gone as u64)));
}

/// A command that waits for the reader of its call continues in the background once the call has
/// left.
#[test]
fn a_command_does_not_wait_for_the_reader_of_a_call_that_has_left() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let terminal = Terminal::new(80, 24);
    let (call, id, reader) = start_with_slow_reader(&sandbox, &terminal, &["yes".to_owned()]);
    call.signal(Signal::TERM);
    let _left = call.wait().expect_code(143);
    let output = sandbox.state_dir().join("tasks").join(&id).join("output");
    eventually("the command continues", || {
        std::fs::metadata(&output).is_ok_and(|found| found.len() > 8 * KEEP_TAIL_BYTES)
    });
    drop(reader);
    let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
}

/// A command that waits for its reader can be stopped, and can write before it exits.
#[test]
fn a_command_that_waits_for_its_reader_can_be_stopped() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let terminal = Terminal::new(80, 24);
    let text = "trap 'seq 100000; exit 3' TERM; while :; do seq 1000; done";
    let (call, id, reader) = start_with_slow_reader(&sandbox, &terminal, &[text.to_owned()]);
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    drop(reader);
    let _ended = call.wait();
    eventually("no process is left", || processes::with_birthmark(&id).is_empty());
}

/// With the built-in settings, at most 64 MiB of 3 GiB of output are stored on disk. Runs only if
/// `SIDING_TEST_FLOOD` is set, because writing 3 GiB takes long.
#[test]
fn three_gigabytes_of_output_keep_at_most_64_mib() {
    if std::env::var_os("SIDING_TEST_FLOOD").is_none() {
        eprintln!("skipped: SIDING_TEST_FLOOD is not set");
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let text = "yes | head -c 3G; exit 5";
    let call = sandbox.siding(&["run", "--background", "--json", "--", text]);
    let (task, disk, memory) = run_flood(&sandbox, call);
    assert_eq!(task.number("/outcome/code"), 5);
    assert_eq!(task.number("/output/bytes"), 3 << 30);
    assert!(disk <= (64 << 20) + OVERHEAD_BYTES, "the output used {disk} bytes of disk");
    assert!(memory <= 2 << 20, "the shim used {memory} bytes of memory");
    assert!(task.number("/output/kept_bytes") >= 60 << 20);
    eprintln!("most disk {disk}, most memory of the shim {memory}");
    assert_eq!(processes::with_birthmark(task.id()), []);
}
