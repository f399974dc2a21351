//! What an idle task costs with all that the kernel holds for it.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use siding_e2e::processes::Process;

use super::Row;
use crate::bench::Bench;
use crate::bench::cgroup::{Held, MemoryGroup};
use crate::bench::roles::POPULATE;
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};

const NAME: &str = "all-in";

pub(super) const ROW: Row = Row {
    name: NAME,
    about: "memory of an idle task with the kernel's share (root, cgroup version 1)",
    measure,
};

/// Enough that what a memory cgroup keeps in stock (a quarter of a MiB a core) is a KiB a task.
const TASKS: usize = 300;
/// Until the starter's own memory is given back, and the shims have let go of what only a start
/// needs.
const SETTLE: Duration = Duration::from_secs(3);

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let groups = (MemoryGroup::new("plain"), MemoryGroup::new("siding"));
    let (Some(plain), Some(group)) = groups else {
        table.note(NAME, "not measured: no memory cgroup (version 1) can be made here");
        return Ok(());
    };
    let sleepers = Sleepers(start(bench, &plain, None)?);
    ensure!(sleepers.0.len() == TASKS, "only {} sleep", sleepers.0.len());
    std::thread::sleep(SETTLE);
    let theirs = plain.held()?;
    drop(sleepers);
    let dir = bench.stage.path().join(NAME);
    std::fs::create_dir(&dir)?;
    let said = start(bench, &group, Some(&dir))?;
    ensure!(said.is_empty(), "unexpected output");
    std::thread::sleep(SETTLE);
    let ours = group.held()?;
    let place = Place::resume(dir, bench.stage.siding());
    ensure!(place.client()?.live()? == TASKS, "not all tasks live");
    place.stop_all()?;
    let each = |part: fn(&Held) -> f64| (part(&ours) - part(&theirs)) / TASKS as f64;
    let (anonymous, kernel) = (each(|held| held.anonymous), each(|held| held.kernel));
    table.add(
        Line::new(NAME, "a task beside its own process", Unit::KiB, anonymous + kernel)
            .target(Target::AtMost(220.0)),
    );
    table.add(Line::new(NAME, "  of that, memory of its shim", Unit::KiB, anonymous));
    table.add(Line::new(NAME, "  of that, the kernel's", Unit::KiB, kernel));
    table.add(Line::new(
        NAME,
        "page cache (given back on demand)",
        Unit::KiB,
        each(|held| held.cache),
    ));
    Ok(())
}

/// Fills a group with idle commands, as tasks of siding or without it; returns the processes that
/// were told of.
fn start(
    bench: &Bench,
    group: &MemoryGroup,
    place: Option<&std::path::Path>,
) -> Result<Vec<Process>> {
    let mut command = Command::new(bench.stage.own());
    command.arg(POPULATE).arg(group.door()).arg(TASKS.to_string()).stdin(Stdio::null());
    if let Some(place) = place {
        command.arg(place).arg(bench.stage.siding());
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "could not fill a memory cgroup");
    String::from_utf8(output.stdout)?
        .lines()
        .map(|pid| Process::of(pid.parse()?).context("a sleeper has gone"))
        .collect()
}

/// Processes that sleep. Killed when dropped.
#[derive(Debug)]
struct Sleepers(Vec<Process>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.0.iter().for_each(|process| process.kill());
    }
}
