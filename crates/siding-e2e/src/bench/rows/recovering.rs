//! Clearing up after a thousand shims that were killed.

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
use crate::bench::client::Client;
use crate::bench::population;
use crate::bench::recorded::{self, Past};
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::timed;

const NAME: &str = "recover";

pub(super) const ROW: Row = Row { name: NAME, about: "`siding reap` over 1,000 orphans", measure };

const ORPHANS: usize = 1000;
/// Orphans whose commands still run, when quick.
const FEW: usize = 200;
const MOST_MS: f64 = 2000.0;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    nothing_left(bench, table)?;
    let count = bench.pace.of(FEW, ORPHANS);
    still_running(bench, table, count)?;
    of_a_session(bench, table, count)
}

fn nothing_left(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place("recover-ended")?;
    recorded::tasks(&place, ORPHANS, Past::Orphaned)?;
    let client = place.client()?;
    ensure!(client.live()? == ORPHANS, "not all orphans are marked live");
    let took = reap(&place)?;
    ensure!(client.live()? == 0, "{} orphans are still marked live", client.live()?);
    add(table, ORPHANS, "nothing left", took);
    Ok(())
}

fn still_running(bench: &Bench, table: &mut Table, count: usize) -> Result<()> {
    let place = bench.stage.place("recover-living")?;
    let client = place.client()?;
    let ids = orphan(&client, count)?;
    let took = reap(&place)?;
    let rescued = ids.iter().filter(|id| is_rescued(&client, **id)).count();
    place.stop_all()?;
    ensure!(rescued == count, "only {rescued} of {count} living orphans were rescued");
    add(table, count, "still running", took);
    Ok(())
}

/// Their conversation is over too: they are stopped and ended, and the reaper waits for that.
fn of_a_session(bench: &Bench, table: &mut Table, count: usize) -> Result<()> {
    let place = bench.stage.place("recover-session")?;
    let mut client = place.client()?;
    let mut owner = Command::new("sleep").arg("3600").stdin(Stdio::null()).spawn()?;
    client.open_session("over", owner.id())?;
    let orphans = orphan(&client, count);
    owner.kill()?;
    owner.wait()?;
    let ids = orphans?;
    let took = reap(&place)?;
    let stopped = ids.iter().filter(|id| is_stopped(&client, **id)).count();
    ensure!(stopped == count, "only {stopped} of {count} orphans of a session were stopped");
    add(table, count, "still running, session over", took);
    place.until_quiet()
}

fn add(table: &mut Table, count: usize, what: &str, took: Duration) {
    let what = format!("{count} orphans, {what}");
    let line = Line::new(NAME, what, Unit::Ms, took.as_secs_f64() * 1e3);
    let target = if count == ORPHANS { Target::AtMost(MOST_MS) } else { Target::None };
    table.add(line.target(target));
}

/// Whether another shim keeps the task, and lives.
fn is_rescued(client: &Client, id: TaskId) -> bool {
    client.state(id).is_ok_and(|state| state.takeovers == 1 && procfs::is_running(state.shim))
}

/// Whether the task was stopped because its session is over.
fn is_stopped(client: &Client, id: TaskId) -> bool {
    client.state(id).is_ok_and(|state| {
        let stopped = Outcome::Stopped { by: "session".to_owned() };
        matches!(state.lifecycle.phase(), Phase::Ended { outcome, .. } if *outcome == stopped)
    })
}

fn reap(place: &Place) -> Result<Duration> {
    timed(&mut place.siding(["reap"]))
}

/// Starts tasks and kills their shims.
fn orphan(client: &Client, count: usize) -> Result<Vec<TaskId>> {
    let ids = (0..count).map(|_| population::add(client)).collect::<Result<Vec<_>>>()?;
    let shims = ids.iter().map(|id| {
        let shim = client.shim(*id)?;
        Process::of(u32::try_from(shim.pid)?).context("a shim has gone by itself")
    });
    let shims = shims.collect::<Result<Vec<Process>>>()?;
    shims.iter().for_each(|shim| shim.kill());
    let until = Instant::now() + Duration::from_secs(10);
    while shims.iter().any(|shim| shim.alive()) {
        ensure!(Instant::now() < until, "a killed shim does not die");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(ids)
}
