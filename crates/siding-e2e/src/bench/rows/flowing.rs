//! How fast a command can write.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Row;
use crate::bench::client::{Client, shell};
use crate::bench::roles::WRITE;
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn, timed};
use crate::bench::{Bench, Pace};

const NAME: &str = "output";

pub(super) const ROW: Row =
    Row { name: NAME, about: "output of a command, against `> file`", measure };

/// More than any command here writes.
const EVERYTHING: u64 = 1 << 40;

/// One kind of output.
#[derive(Debug, Clone, Copy)]
struct Flow {
    what: &'static str,
    /// Bytes in one write.
    chunk: u64,
    /// Bytes kept at the end, `None` for the built-in setting.
    keep_tail: Option<u64>,
    least: f64,
}

const FLOWS: [Flow; 4] = [
    Flow { what: "lines of 128 B, all kept", chunk: 128, keep_tail: Some(EVERYTHING), least: 1.0 },
    Flow { what: "lines of 128 B, middle released", chunk: 128, keep_tail: None, least: 1.0 },
    Flow {
        what: "blocks of 64 KiB, all kept",
        chunk: 64 << 10,
        keep_tail: Some(EVERYTHING),
        least: 0.5,
    },
    Flow {
        what: "blocks of 64 KiB, middle released",
        chunk: 64 << 10,
        keep_tail: None,
        least: 0.5,
    },
];

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let mut client = place.client()?;
    let (lines, blocks) = match bench.pace {
        Pace::Quick => (128_u64 << 20, 384_u64 << 20),
        Pace::Full => (512 << 20, 1 << 30),
    };
    for flow in FLOWS {
        let bytes = if flow.chunk == 128 { lines } else { blocks };
        client.keep_tail = flow.keep_tail;
        let command =
            format!("exec {} {WRITE} {bytes} {}", bench.stage.own().display(), flow.chunk);
        let mut turns: [Turn<'_>; 2] = [
            Box::new(|| ours(&client, &command, bytes, flow)),
            Box::new(|| theirs(&place, &command, bytes)),
        ];
        let rounds = Rounds { warm_up: 1, counted: bench.pace.of(2, 9) };
        let times = turns::take(rounds, &mut turns)?;
        let rate = |ms: f64| (bytes >> 20) as f64 / (ms / 1e3);
        table.add(
            Line::new(NAME, flow.what, Unit::MibPerSecond, rate(times[0].median()))
                .against("bash -c 'COMMAND > file'", rate(times[1].median()))
                .target(Target::RatioAtLeast(flow.least)),
        );
    }
    place.until_quiet()
}

/// Runs the command as a task, makes sure that its output is whole, and removes it.
fn ours(client: &Client, command: &str, bytes: u64, flow: Flow) -> Result<Duration> {
    let ran = client.run(shell(command))?;
    let closed = client.state(ran.id)?.closed;
    let totals = closed.map(|closed| closed.output).unwrap_or_default();
    ensure!(
        totals.bytes == bytes && totals.lost == 0,
        "{}: {} of {bytes} bytes came, {} lost",
        flow.what,
        totals.bytes,
        totals.lost
    );
    let is_released = totals.gap.is_some();
    ensure!(is_released == flow.keep_tail.is_none(), "{}: the gap is {:?}", flow.what, totals.gap);
    fs::remove_dir_all(client.directory(ran.id))?;
    Ok(ran.known)
}

fn theirs(place: &Place, command: &str, bytes: u64) -> Result<Duration> {
    let file = place.work.join("file");
    let took = timed(
        Command::new("bash")
            .args(["-c", &format!("{command} > file")])
            .current_dir(&place.work)
            .stdin(Stdio::null()),
    )?;
    ensure!(fs::metadata(&file)?.len() == bytes, "the shell's file is not whole");
    fs::remove_file(&file)?;
    Ok(took)
}
