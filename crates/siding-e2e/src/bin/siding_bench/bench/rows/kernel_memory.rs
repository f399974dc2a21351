//! The memory of an idle task, including all memory that the kernel holds for the task.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use siding_e2e::processes::Process;

use super::Row;
use crate::bench::Bench;
use crate::bench::cgroup::{GroupMemory, MemoryCgroup};
use crate::bench::helper_commands::POPULATE_COMMAND;
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
    let groups = (MemoryCgroup::new("plain"), MemoryCgroup::new("siding"));
    let (Some(plain), Some(group)) = groups else {
        table.add_note(ROW_NAME, "not measured: no memory cgroup (version 1) can be made here");
        return Ok(());
    };
    let sleepers = SleepingProcesses(populate_group(bench, &plain, None)?);
    ensure!(sleepers.0.len() == TASK_COUNT, "only {} processes sleep", sleepers.0.len());
    std::thread::sleep(SETTLE_TIME);
    let theirs = plain.memory_usage()?;
    drop(sleepers);
    let dir = bench.workspace.path().join(ROW_NAME);
    std::fs::create_dir(&dir)?;
    let output = populate_group(bench, &group, Some(&dir))?;
    ensure!(output.is_empty(), "unexpected output");
    std::thread::sleep(SETTLE_TIME);
    let ours = group.memory_usage()?;
    let place = RowDir::open(dir, bench.workspace.siding_program());
    ensure!(place.client()?.live_count()? == TASK_COUNT, "not all tasks are alive");
    place.stop_all()?;
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
    Ok(())
}

/// Starts idle commands in a group: tasks of siding if `place` is `Some`, otherwise plain
/// processes. Returns the plain processes, whose pids the helper prints; returns an empty list for
/// tasks.
fn populate_group(
    bench: &Bench,
    group: &MemoryCgroup,
    place: Option<&std::path::Path>,
) -> Result<Vec<Process>> {
    let mut command = Command::new(bench.workspace.bench_program());
    command
        .arg(POPULATE_COMMAND)
        .arg(group.procs_file())
        .arg(TASK_COUNT.to_string())
        .stdin(Stdio::null());
    if let Some(place) = place {
        command.arg(place).arg(bench.workspace.siding_program());
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
