//! The time that the reaper needs to recover the tasks of a thousand killed shims.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use siding_core::sys::procfs;
use siding_e2e::processes::Process;
use siding_model::id::TaskId;
use siding_model::lifecycle::Phase;
use siding_model::outcome::Outcome;

use super::Row;
use crate::bench::Bench;
use crate::bench::client::BenchClient;
use crate::bench::idle_tasks;
use crate::bench::interleaved_runs::time_command;
use crate::bench::recorded_tasks::{self, RecordedState};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "recover";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "`siding reap` over 1,000 orphans", measure };

const ORPHAN_COUNT: usize = 1000;
/// Number of orphaned tasks with running commands in quick mode.
const QUICK_ORPHAN_COUNT: usize = 200;
const MAX_REAP_MS: f64 = 2000.0;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    reap_ended(bench, table)?;
    let count = bench.mode.pick(QUICK_ORPHAN_COUNT, ORPHAN_COUNT);
    reap_running(bench, table, count)?;
    reap_session(bench, table, count)
}

fn reap_ended(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir("recover-ended")?;
    recorded_tasks::write_tasks(&place, ORPHAN_COUNT, RecordedState::Orphaned)?;
    let client = place.client()?;
    ensure!(client.live_count()? == ORPHAN_COUNT, "not all orphans are marked live");
    let took = reap(&place)?;
    ensure!(client.live_count()? == 0, "{} orphans are still marked live", client.live_count()?);
    add_line(table, ORPHAN_COUNT, "nothing left", took);
    Ok(())
}

fn reap_running(bench: &Bench, table: &mut ResultTable, count: usize) -> Result<()> {
    let place = bench.workspace.row_dir("recover-living")?;
    let client = place.client()?;
    let ids = start_orphans(&client, count)?;
    let took = reap(&place)?;
    let rescued = ids.iter().filter(|id| is_taken_over(&client, **id)).count();
    place.stop_all()?;
    ensure!(rescued == count, "only {rescued} of {count} living orphans were taken over");
    add_line(table, count, "still running", took);
    Ok(())
}

/// Measures orphaned tasks whose session has ended too. The reaper stops these tasks and waits for
/// their end.
fn reap_session(bench: &Bench, table: &mut ResultTable, count: usize) -> Result<()> {
    let place = bench.workspace.row_dir("recover-session")?;
    let mut client = place.client()?;
    let mut owner = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn()?;
    client.open_session("over", owner.id())?;
    let orphans = start_orphans(&client, count);
    owner.kill()?;
    owner.wait()?;
    let ids = orphans?;
    let took = reap(&place)?;
    let stopped = ids.iter().filter(|id| is_stopped(&client, **id)).count();
    ensure!(stopped == count, "only {stopped} of {count} orphans of a session were stopped");
    add_line(table, count, "still running, session over", took);
    place.wait_until_idle()
}

fn add_line(table: &mut ResultTable, count: usize, what: &str, took: Duration) {
    let what = format!("{count} orphans, {what}");
    let line = TableLine::new(ROW_NAME, what, Unit::Ms, took.as_secs_f64() * 1e3);
    let target = if count == ORPHAN_COUNT { Target::AtMost(MAX_REAP_MS) } else { Target::None };
    table.add(line.with_target(target));
}

/// Returns whether a new shim has taken over the task and is running.
fn is_taken_over(client: &BenchClient, id: TaskId) -> bool {
    client.state(id).is_ok_and(|state| state.takeovers == 1 && procfs::is_running(state.shim))
}

/// Returns whether the task was stopped because its session ended.
fn is_stopped(client: &BenchClient, id: TaskId) -> bool {
    client.state(id).is_ok_and(|state| {
        let stopped = Outcome::Stopped { by: "session".to_owned() };
        matches!(state.lifecycle.phase(), Phase::Ended { outcome, .. } if *outcome == stopped)
    })
}

fn reap(place: &RowDir) -> Result<Duration> {
    time_command(&mut place.siding_command(["reap"]))
}

/// Starts tasks, kills their shims, and returns when all shims have exited.
fn start_orphans(client: &BenchClient, count: usize) -> Result<Vec<TaskId>> {
    let ids =
        (0..count).map(|_| idle_tasks::start_idle_task(client)).collect::<Result<Vec<_>>>()?;
    let shims = ids.iter().map(|id| {
        let shim = client.shim_process(*id)?;
        Process::from_pid(u32::try_from(shim.pid)?).context("a shim has exited by itself")
    });
    let shims = shims.collect::<Result<Vec<Process>>>()?;
    shims.iter().for_each(|shim| shim.kill());
    let until = Instant::now() + Duration::from_secs(10);
    while shims.iter().any(|shim| shim.is_alive()) {
        ensure!(Instant::now() < until, "a killed shim did not exit");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(ids)
}
