//! The speed at which a command can write output, as a task and with the output redirected to a
//! file.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::Row;
use crate::bench::client::{BenchClient, shell_command};
use crate::bench::helper_commands::WRITE_COMMAND;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;
use crate::bench::{Bench, BenchMode};

const ROW_NAME: &str = "output";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "output of a command, against `> file`", measure };

/// An output limit in bytes that no command of this row reaches.
const UNLIMITED_BYTES: u64 = 1 << 40;

/// The way in which a command writes its output, and the amount that siding retains.
#[derive(Debug, Clone, Copy)]
struct OutputCase {
    label: &'static str,
    /// Bytes per `write` of the command.
    chunk: u64,
    /// Number of bytes that siding retains at the end of the output; `None` uses the built-in
    /// setting.
    keep_tail: Option<u64>,
    min_ratio: f64,
}

const OUTPUT_CASES: [OutputCase; 4] = [
    OutputCase {
        label: "lines of 128 B, all kept",
        chunk: 128,
        keep_tail: Some(UNLIMITED_BYTES),
        min_ratio: 1.0,
    },
    OutputCase {
        label: "lines of 128 B, middle released",
        chunk: 128,
        keep_tail: None,
        min_ratio: 1.0,
    },
    OutputCase {
        label: "blocks of 64 KiB, all kept",
        chunk: 64 << 10,
        keep_tail: Some(UNLIMITED_BYTES),
        min_ratio: 0.5,
    },
    OutputCase {
        label: "blocks of 64 KiB, middle released",
        chunk: 64 << 10,
        keep_tail: None,
        min_ratio: 0.5,
    },
];

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let mut client = place.client()?;
    let (lines, blocks) = match bench.mode {
        BenchMode::Quick => (128_u64 << 20, 384_u64 << 20),
        BenchMode::Full => (512 << 20, 1 << 30),
    };
    for flow in OUTPUT_CASES {
        let bytes = if flow.chunk == 128 { lines } else { blocks };
        client.keep_tail = flow.keep_tail;
        let command = format!(
            "exec {} {WRITE_COMMAND} {bytes} {}",
            bench.workspace.bench_program().display(),
            flow.chunk
        );
        let mut turns: [Contender<'_>; 2] = [
            Box::new(|| run_as_task(&client, &command, bytes, flow)),
            Box::new(|| run_with_redirect(&place, &command, bytes)),
        ];
        let rounds = InterleavedRounds { warm_up: 1, counted: bench.mode.pick(2, 9) };
        let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
        let rate = |ms: f64| (bytes >> 20) as f64 / (ms / 1e3);
        table.add(
            TableLine::new(ROW_NAME, flow.label, Unit::MibPerSecond, rate(times[0].median()))
                .with_reference("bash -c 'COMMAND > file'", rate(times[1].median()))
                .with_target(Target::RatioAtLeast(flow.min_ratio)),
        );
    }
    place.wait_until_idle()
}

/// Runs the command as a task, checks that its output is complete, and removes the task.
fn run_as_task(
    client: &BenchClient,
    command: &str,
    bytes: u64,
    flow: OutputCase,
) -> Result<Duration> {
    let ran = client.run(shell_command(command))?;
    let closed = client.state(ran.id)?.closed;
    let totals = closed.map(|closed| closed.output).unwrap_or_default();
    ensure!(
        totals.bytes == bytes && totals.lost == 0,
        "{}: {} of {bytes} bytes arrived, {} lost",
        flow.label,
        totals.bytes,
        totals.lost
    );
    let is_released = totals.gap.is_some();
    ensure!(is_released == flow.keep_tail.is_none(), "{}: the gap is {:?}", flow.label, totals.gap);
    fs::remove_dir_all(client.task_dir(ran.id))?;
    Ok(ran.until_end_known)
}

fn run_with_redirect(place: &RowDir, command: &str, bytes: u64) -> Result<Duration> {
    let file = place.work.join("file");
    let took = time_command(
        Command::new("bash")
            .args(["-c", &format!("{command} > file")])
            .current_dir(&place.work)
            .stdin(Stdio::null()),
    )?;
    ensure!(fs::metadata(&file)?.len() == bytes, "the shell's file is incomplete");
    fs::remove_file(&file)?;
    Ok(took)
}
