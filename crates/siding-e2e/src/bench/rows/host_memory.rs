//! Whether memory grows with output.

use std::process::Stdio;

use anyhow::{Context as _, Result};

use super::Row;
use crate::bench::Bench;
use crate::bench::client::{Client, shell};
use crate::bench::memory;
use crate::bench::roles::WRITE;
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};

const NAME: &str = "flat-memory";

pub(super) const ROW: Row =
    Row { name: NAME, about: "peak memory of shim and caller while a command writes", measure };

const LITTLE: u64 = 4 << 20;
const MUCH: u64 = 1 << 30;
/// More than this is growth. A few pages more or less are chance.
const FLAT: f64 = 1.25;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let client = place.client()?;
    let command =
        |bytes: u64| format!("exec {} {WRITE} {bytes} 65536", bench.stage.own().display());
    let mut add = |what: &str, much: f64, little: f64| {
        table.add(
            Line::new(NAME, what, Unit::KiB, much)
                .against("the same with 4 MiB of output", little)
                .target(Target::RatioAtMost(FLAT)),
        );
    };
    let (much, little) = (of_shim(&client, &command(MUCH))?, of_shim(&client, &command(LITTLE))?);
    add("shim, 1 GiB of output", much, little);
    let (much, little) = (of_caller(&place, &command(MUCH))?, of_caller(&place, &command(LITTLE))?);
    add("`siding run`, 1 GiB of output", much, little);
    place.until_quiet()
}

/// Returns the peak of the shim until the end is known.
fn of_shim(client: &Client, command: &str) -> Result<f64> {
    let task = client.start(shell(command))?;
    task.until_running()?;
    let shim = client.shim(task.id)?;
    let mut peak = None;
    loop {
        let closed = task.closes_within(1)?;
        peak = memory::peak_resident(shim.pid).or(peak);
        if closed {
            break;
        }
    }
    task.until_left()?;
    client.succeeded(task.id)?;
    peak.context("the shim was gone before it could be looked at")
}

/// Returns the peak of a `siding run` whose output nobody keeps.
fn of_caller(place: &Place, command: &str) -> Result<f64> {
    let mut call = place.siding(["run", "--budget", "none", command]);
    let mut child = call.stdout(Stdio::null()).spawn()?;
    let pid = i32::try_from(child.id())?;
    let mut peak = None;
    let status = loop {
        peak = memory::peak_resident(pid).or(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_micros(500));
    };
    anyhow::ensure!(status.success(), "`siding run` ended with {status}");
    place.until_quiet()?;
    peak.context("`siding run` was gone before it could be looked at")
}
