//! Compares the times of calls of siding with those of the same calls of task-spooler.

use std::process::Child;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::Row;
use crate::bench::Bench;
use crate::bench::client::argv_command;
use crate::bench::helper_commands::STAMP_COMMAND;
use crate::bench::interleaved_runs::{
    self, Contender, InterleavedRounds, time_command, time_concurrent_calls,
};
use crate::bench::samples::Samples;
use crate::bench::syscalls::{self, SharedTimestamp};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::task_spooler::{self, TaskSpooler};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "spooler";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "start, end of a wait, and 200 concurrent calls, next to task-spooler",
    measure,
};

/// Maximum time of a call, relative to the same call of task-spooler.
const MAX_RATIO: f64 = 1.1;
/// Lifetime of the process that is waited for, in milliseconds. The waiting program must start
/// before the process exits.
const PROCESS_LIFETIME_MS: &str = "60";
/// Number of calls that are started without waiting for the previous ones.
const BURST_CALLS: usize = 200;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let spooler = TaskSpooler::start(&place.dir, BURST_CALLS);
    if spooler.is_none() {
        table.add_note(ROW_NAME, task_spooler::INSTALL_HINT);
    }
    let spooler = spooler.as_ref();
    measure_start(bench, &place, spooler, table)?;
    measure_wait(bench, &place, spooler, table)?;
    measure_burst(bench, &place, spooler, table)?;
    place.wait_until_idle()
}

/// Adds a line from the times of siding and, if it is installed, of task-spooler.
fn add_line(table: &mut ResultTable, label: &str, reference: &str, times: &[Samples]) {
    let line = TableLine::new(ROW_NAME, label, Unit::Ms, times[0].median());
    table.add(match times.get(1) {
        Some(theirs) => line
            .with_reference(reference, theirs.median())
            .with_target(Target::RatioAtMost(MAX_RATIO)),
        None => line,
    });
}

fn measure_start(
    bench: &Bench,
    place: &RowDir,
    spooler: Option<&TaskSpooler>,
    table: &mut ResultTable,
) -> Result<()> {
    let mut turns: Vec<Contender<'_>> = vec![Box::new(|| {
        let took = time_command(&mut place.siding_command(["run", "true"]))?;
        place.wait_until_idle()?;
        Ok(took)
    })];
    if let Some(spooler) = spooler {
        turns.push(Box::new(|| time_command(&mut spooler.run_command(["true"]))));
    }
    let rounds = InterleavedRounds { warm_up: 10, counted: bench.mode.pick(100, 500) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    add_line(table, "`siding run true`", "`tsp -fn true`", &times);
    Ok(())
}

/// Measures the time from the last instruction of a process to the end of the call that waits for
/// it.
fn measure_wait(
    bench: &Bench,
    place: &RowDir,
    spooler: Option<&TaskSpooler>,
    table: &mut ResultTable,
) -> Result<()> {
    let client = place.client()?;
    let file = place.dir.join("stamp");
    let stamp = SharedTimestamp::open(&file)?;
    let own = bench.workspace.bench_program();
    let (own, file) = (own.to_string_lossy(), file.to_string_lossy());
    let job = [&*own, STAMP_COMMAND, &*file, PROCESS_LIFETIME_MS];
    let since_end = || -> Result<Duration> {
        let now = syscalls::monotonic_now();
        let ended = stamp.get().context("the wait returned before the process ended")?;
        stamp.clear();
        Ok(now.saturating_sub(ended))
    };
    let mut turns: Vec<Contender<'_>> = vec![Box::new(|| {
        let task = client.start(argv_command(job))?;
        task.wait_until_running()?;
        time_command(&mut place.siding_command(["wait", &task.id.to_string()]))?;
        let took = since_end()?;
        task.wait_for_shim_exit()?;
        Ok(took)
    })];
    if let Some(spooler) = spooler {
        turns.push(Box::new(|| {
            spooler.start_job(job)?;
            time_command(&mut spooler.wait_command())?;
            since_end()
        }));
    }
    let rounds = InterleavedRounds { warm_up: 2, counted: bench.mode.pick(30, 150) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    add_line(table, "end until `siding wait` returned", "`tsp -w`", &times);
    Ok(())
}

fn measure_burst(
    bench: &Bench,
    place: &RowDir,
    spooler: Option<&TaskSpooler>,
    table: &mut ResultTable,
) -> Result<()> {
    let mut turns: Vec<Contender<'_>> = vec![Box::new(|| {
        let took =
            time_burst(|| place.siding_command(["run", "--allow-duplicate", "true"]).spawn())?;
        place.wait_until_idle()?;
        Ok(took)
    })];
    if let Some(spooler) = spooler {
        turns.push(Box::new(|| time_burst(|| spooler.run_command(["true"]).spawn())));
    }
    let rounds = InterleavedRounds { warm_up: 1, counted: bench.mode.pick(5, 25) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    add_line(table, "200 concurrent calls, each", "200 concurrent `tsp -fn true`", &times);
    Ok(())
}

/// Starts all calls concurrently, waits for them, and returns the mean time per call.
fn time_burst(start: impl Fn() -> std::io::Result<Child>) -> Result<Duration> {
    Ok(time_concurrent_calls(BURST_CALLS, start)? / BURST_CALLS as u32)
}
