//! Checks that the peak memory of the shim and of `siding run` does not grow with the output of the
//! command.

use std::process::Stdio;

use anyhow::{Context as _, Result};

use siding_model::terminal::TerminalSize;

use super::Row;
use crate::bench::Bench;
use crate::bench::client::{BenchClient, shell_command};
use crate::bench::helper_commands::WRITE_COMMAND;
use crate::bench::process_usage;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "flat-memory";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "peak memory of shim and caller while a command writes", measure };

const SMALL_OUTPUT_BYTES: u64 = 4 << 20;
const LARGE_OUTPUT_BYTES: u64 = 1 << 30;
/// A terminal passes on 4 KiB at a time, so its output takes longer than that of a pipe.
const LARGE_TERMINAL_OUTPUT_BYTES: u64 = 200_000_000;
/// Maximum ratio at which the memory still counts as constant. A difference of a few pages is
/// noise; a higher ratio means that the memory grows.
const MAX_GROWTH_RATIO: f64 = 1.25;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let mut client = place.client()?;
    let command = |bytes: u64| {
        format!("exec {} {WRITE_COMMAND} {bytes} 65536", bench.workspace.bench_program().display())
    };
    let mut add = |what: &str, much: f64, little: f64| {
        table.add(
            TableLine::new(ROW_NAME, what, Unit::KiB, much)
                .with_reference("the same with 4 MiB of output", little)
                .with_target(Target::RatioAtMost(MAX_GROWTH_RATIO)),
        );
    };
    let (much, little) = (
        peak_of_shim(&client, &command(LARGE_OUTPUT_BYTES))?,
        peak_of_shim(&client, &command(SMALL_OUTPUT_BYTES))?,
    );
    add("shim, 1 GiB of output", much, little);
    let (much, little) = (
        peak_of_caller(&place, &command(LARGE_OUTPUT_BYTES))?,
        peak_of_caller(&place, &command(SMALL_OUTPUT_BYTES))?,
    );
    add("`siding run`, 1 GiB of output", much, little);
    client.terminal = Some(TerminalSize::DEFAULT);
    let (much, little) = (
        peak_of_shim(&client, &colored_output_command(LARGE_TERMINAL_OUTPUT_BYTES))?,
        peak_of_shim(&client, &colored_output_command(SMALL_OUTPUT_BYTES))?,
    );
    add("shim of a terminal, 200 MB of output", much, little);
    place.wait_until_idle()
}

/// Returns a shell text that writes colored lines. The shim searches the output of a terminal for
/// queries, so the output has escape sequences.
fn colored_output_command(bytes: u64) -> String {
    format!(r#"yes "$(printf '\033[31mred\033[m \033[1mbold\033[m')" | head -c {bytes}"#)
}

/// Returns the peak memory of the shim from the start of the task until this process detects its
/// end, in KiB.
fn peak_of_shim(client: &BenchClient, command: &str) -> Result<f64> {
    let task = client.start(shell_command(command))?;
    task.wait_until_running()?;
    let shim = client.shim_process(task.id)?;
    let mut peak = None;
    loop {
        let closed = task.poll_closed(1)?;
        peak = process_usage::peak_resident(shim.pid).or(peak);
        if closed {
            break;
        }
    }
    task.wait_for_shim_exit()?;
    client.ensure_success(task.id)?;
    peak.context("the shim exited before its memory could be read")
}

/// Returns the peak memory of a `siding run` whose output is discarded, in KiB.
fn peak_of_caller(place: &RowDir, command: &str) -> Result<f64> {
    let mut call = place.siding_command(["run", "--budget", "none", command]);
    let mut child = call.stdout(Stdio::null()).spawn()?;
    let pid = i32::try_from(child.id())?;
    let mut peak = None;
    let status = loop {
        peak = process_usage::peak_resident(pid).or(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_micros(500));
    };
    anyhow::ensure!(status.success(), "`siding run` ended with {status}");
    place.wait_until_idle()?;
    peak.context("`siding run` exited before its memory could be read")
}
