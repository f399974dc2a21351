//! The number of tokens that a model reads to follow a build: with polls of the output, and with
//! the answers of siding.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Row;
use crate::bench::Bench;
use crate::bench::helper_commands::BUILD_COMMAND;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::token_count::{
    BUILD_LINES, LINES_AT_BUDGET, POLL_COUNT, TokenCount, build_lines, format_poll_answer,
    format_tool_call,
};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "tokens";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "what a model reads to follow a build, against polling", measure };

/// Longest time for a part of the build's output to arrive.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Exit code of `siding run` for a command that continues in the background.
const EXIT_STILL_RUNNING: i32 = 75;
/// The command in the counted tool calls. The bench runs the helper that simulates the build
/// instead of this command.
const TYPED_COMMAND: &str = "make -j8 all";

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let gate = place.dir.join("gate");
    let made = Command::new("mkfifo").arg(&gate).status()?;
    ensure!(made.success(), "could not make a FIFO");
    let build_command = format!(
        "exec {} {BUILD_COMMAND} {}",
        bench.workspace.bench_program().display(),
        gate.display()
    );

    let run = place
        .siding_command(["run", "--json", "--budget", "2s", "--", &build_command])
        .stdout(Stdio::piped())
        .output()?;
    ensure!(
        run.status.code() == Some(EXIT_STILL_RUNNING),
        "`siding run` ended with {}",
        run.status
    );
    let run_report = String::from_utf8(run.stdout)?;
    let task: Value = serde_json::from_str(&run_report)?;
    let id = task["task_id"].as_str().context("the task has no id")?;

    let polled = simulate_polls(&place, id, &gate)?;
    place.wait_until_idle()?;
    let notice = siding_stdout(&place, ["notices", "--xml"])?;
    ensure!(notice.contains(id), "the task is missing in the notice: {notice}");
    let errors = siding_stdout(&place, ["output", id, "--errors"])?;

    let mut notified = TokenCount::default();
    for text in [
        &format_tool_call("Bash", "command", &format!("siding run --json -- '{TYPED_COMMAND}'")),
        &run_report,
        &notice,
        &format_tool_call("Bash", "command", &format!("siding output {id} --errors")),
        &errors,
    ] {
        notified += TokenCount::from_text(text);
    }
    let against = format!("{POLL_COUNT} polls of the same output, 30,000 characters each at most");
    let figures = [
        ("read to follow a build: tokens", Unit::Count, notified.tokens, polled.tokens),
        ("read to follow a build: bytes", Unit::Count, notified.bytes, polled.bytes),
    ];
    for (what, unit, ours, theirs) in figures {
        table.add(
            TableLine::new(ROW_NAME, what, unit, ours as f64)
                .with_reference(&against, theirs as f64)
                .with_target(Target::RatioAtMost(0.1)),
        );
    }
    table.add_note(
        ROW_NAME,
        format!(
            "ten minutes are compressed: a real process under siding writes {BUILD_LINES} lines, and a \
             poll follows each of {POLL_COUNT} equal parts, as every 30 s; tokens are those of o200k_base"
        ),
    );
    Ok(())
}

/// Lets the build write one part after the other, and reads the new output after each part as a
/// poll does.
fn simulate_polls(place: &RowDir, id: &str, gate: &Path) -> Result<TokenCount> {
    let output = place.state.join("tasks").join(id).join("output");
    let mut polled = TokenCount::from_text(&format_tool_call("Bash", "command", TYPED_COMMAND));
    polled += TokenCount::from_text("Command running in background with ID: bash_1");
    let mut gate: File = OpenOptions::new().write(true).open(gate)?;
    let mut seen = 0;
    for part in 1..=POLL_COUNT {
        gate.write_all(b"\n")?;
        let expected = build_lines(0..part * BUILD_LINES / POLL_COUNT).len();
        let text = wait_for_output(&output, expected)?;
        let status = if part == POLL_COUNT { "failed" } else { "running" };
        polled += TokenCount::from_text(&format_tool_call("BashOutput", "bash_id", "bash_1"));
        polled += TokenCount::from_text(&format_poll_answer(&text[seen..], status));
        seen = expected;
    }
    Ok(polled)
}

/// Waits until the output has the expected length, and returns the output.
fn wait_for_output(output: &Path, expected: usize) -> Result<String> {
    let until = Instant::now() + OUTPUT_TIMEOUT;
    loop {
        let text = fs::read_to_string(output)?;
        if text.len() >= expected {
            ensure!(text.len() == expected, "the output is longer than what was written");
            return Ok(text);
        }
        ensure!(Instant::now() < until, "{} of {expected} bytes arrived", text.len());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn siding_stdout<const N: usize>(place: &RowDir, words: [&str; N]) -> Result<String> {
    let output = place.siding_command(words).stdout(Stdio::piped()).output()?;
    ensure!(output.status.success(), "`siding {}` failed: {}", words.join(" "), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Simulates the build: writes the lines that appear within the budget, and then one part for each
/// byte that it reads from the gate.
pub(in crate::bench) fn run_build(gate: &Path) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(build_lines(0..LINES_AT_BUDGET).as_bytes())?;
    stdout.flush()?;
    let mut gate = File::open(gate)?;
    let mut written = LINES_AT_BUDGET;
    for part in 1..=POLL_COUNT {
        std::io::Read::read_exact(&mut gate, &mut [0])?;
        let next = part * BUILD_LINES / POLL_COUNT;
        stdout.write_all(build_lines(written..next).as_bytes())?;
        stdout.flush()?;
        written = next;
    }
    // `make` exits with code 2 after an error.
    std::process::exit(2)
}
