//! Clearing up after a thousand shims that were killed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use siding_e2e::processes::Process;

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
const MOST_MS: f64 = 2000.0;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let ended = bench.stage.place("recover-ended")?;
    recorded::tasks(&ended, ORPHANS, Past::Orphaned)?;
    let client = ended.client()?;
    ensure!(client.live()? == ORPHANS, "not all orphans are marked live");
    let took = reap(&ended)?;
    ensure!(client.live()? == 0, "{} orphans are still marked live", client.live()?);
    add(table, "nothing of them is left", took);

    let living = bench.stage.place("recover-living")?;
    let client = living.client()?;
    orphan(&client)?;
    let took = reap(&living)?;
    let rescued = client.live()?;
    living.stop_all()?;
    ensure!(rescued == ORPHANS, "only {rescued} living orphans were rescued");
    add(table, "their commands still run", took);
    Ok(())
}

fn add(table: &mut Table, what: &str, took: Duration) {
    table.add(
        Line::new(NAME, what, Unit::Ms, took.as_secs_f64() * 1e3).target(Target::AtMost(MOST_MS)),
    );
}

fn reap(place: &Place) -> Result<Duration> {
    timed(&mut place.siding(["reap"]))
}

/// Starts tasks and kills their shims.
fn orphan(client: &Client) -> Result<()> {
    let shims = population::shims(client, ORPHANS)?;
    let shims: Vec<Process> =
        shims.iter().filter_map(|shim| Process::of(u32::try_from(shim.pid).ok()?)).collect();
    ensure!(shims.len() == ORPHANS, "a shim has gone by itself");
    shims.iter().for_each(|shim| shim.kill());
    let until = Instant::now() + Duration::from_secs(10);
    while shims.iter().any(|shim| shim.alive()) {
        ensure!(Instant::now() < until, "a killed shim does not die");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
