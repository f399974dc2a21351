//! The memory of an idle task, including all memory that the kernel holds for the task.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use siding_e2e::processes::Process;

use super::Row;
use crate::bench::Bench;
use crate::bench::cgroup::{GroupMemory, MemoryCgroup};
use crate::bench::helper_commands::{POPULATE_COMMAND, TERMINAL_WORD};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "all-in";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "memory of an idle task with the kernel's share (root, cgroup version 1)",
    measure,
};

/// Number of tasks. The kernel charges a reserve of a quarter of a MiB per core to a memory cgroup
/// in advance. Divided by this number of tasks, the reserve is less than 1 KiB per task and core.
const TASK_COUNT: usize = 300;
/// Time until the starter has returned its own memory and the shims have freed their start-up
/// memory.
const SETTLE_TIME: Duration = Duration::from_secs(3);

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let groups = ["plain", "siding", "terminal"].map(MemoryCgroup::new);
    let [Some(plain), Some(group), Some(terminal_group)] = groups else {
        table.add_note(ROW_NAME, "not measured: no memory cgroup (version 1) can be made here");
        return Ok(());
    };
    let sleepers = SleepingProcesses(populate_group(bench, &plain, None)?);
    ensure!(sleepers.0.len() == TASK_COUNT, "only {} processes sleep", sleepers.0.len());
    std::thread::sleep(SETTLE_TIME);
    let theirs = plain.memory_usage()?;
    drop(sleepers);
    let ours = measure_tasks(bench, &group, false)?;
    let with_terminal = measure_tasks(bench, &terminal_group, true)?;
    let each = |part: fn(&GroupMemory) -> f64| (part(&ours) - part(&theirs)) / TASK_COUNT as f64;
    let (anonymous, kernel) = (each(|held| held.anonymous), each(|held| held.kernel));
    table.add(
        TableLine::new(ROW_NAME, "a task without its own process", Unit::KiB, anonymous + kernel)
            .with_target(Target::AtMost(220.0)),
    );
    table.add(TableLine::new(ROW_NAME, "  of that, memory of its shim", Unit::KiB, anonymous));
    table.add(TableLine::new(ROW_NAME, "  of that, kernel memory", Unit::KiB, kernel));
    table.add(TableLine::new(
        ROW_NAME,
        "page cache (reclaimed on demand)",
        Unit::KiB,
        each(|held| held.cache),
    ));
    // The plain process is subtracted from both, and the share of the holder and of the kernel's
    // terminal is the difference between them.
    let all = |used: &GroupMemory| used.anonymous + used.kernel;
    let terminal_task = (all(&with_terminal) - all(&theirs)) / TASK_COUNT as f64;
    table.add(
        TableLine::new(ROW_NAME, "a task with a terminal", Unit::KiB, terminal_task)
            .with_reference("the same without a terminal", anonymous + kernel),
    );
    Ok(())
}

/// Starts idle tasks in a group, with or without a terminal, and returns the memory of the group
/// once they are idle. The tasks are then stopped.
fn measure_tasks(bench: &Bench, group: &MemoryCgroup, has_terminal: bool) -> Result<GroupMemory> {
    let name = if has_terminal { TERMINAL_WORD } else { ROW_NAME };
    let dir = bench.workspace.path().join(name);
    std::fs::create_dir(&dir)?;
    let output = populate_group(bench, group, Some(TaskGroup { dir: &dir, has_terminal }))?;
    ensure!(output.is_empty(), "unexpected output");
    std::thread::sleep(SETTLE_TIME);
    let used = group.memory_usage()?;
    let place = RowDir::open(dir, bench.workspace.siding_program());
    ensure!(place.client()?.live_count()? == TASK_COUNT, "not all tasks are alive");
    place.stop_all()?;
    Ok(used)
}

/// Where the tasks of a group are, and their kind.
#[derive(Debug, Clone, Copy)]
struct TaskGroup<'d> {
    dir: &'d Path,
    has_terminal: bool,
}

/// Starts idle commands in a group: tasks of siding if `tasks` is `Some`, otherwise plain
/// processes. Returns the plain processes, whose pids the helper prints; returns an empty list for
/// tasks.
fn populate_group(
    bench: &Bench,
    group: &MemoryCgroup,
    tasks: Option<TaskGroup<'_>>,
) -> Result<Vec<Process>> {
    let mut command = Command::new(bench.workspace.bench_program());
    command
        .arg(POPULATE_COMMAND)
        .arg(group.procs_file())
        .arg(TASK_COUNT.to_string())
        .stdin(Stdio::null());
    if let Some(tasks) = tasks {
        command.arg(tasks.dir).arg(bench.workspace.siding_program());
        if tasks.has_terminal {
            command.arg(TERMINAL_WORD);
        }
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "could not fill a memory cgroup");
    String::from_utf8(output.stdout)?
        .lines()
        .map(|pid| Process::from_pid(pid.parse()?).context("a sleeping process has exited"))
        .collect()
}

/// Processes that sleep for an hour; dropping this value kills them.
#[derive(Debug)]
struct SleepingProcesses(Vec<Process>);

impl Drop for SleepingProcesses {
    fn drop(&mut self) {
        self.0.iter().for_each(|process| process.kill());
    }
}
