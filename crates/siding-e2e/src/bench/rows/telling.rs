//! How much a model reads to follow a build: polls of its output, against siding's answers.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Row;
use crate::bench::Bench;
use crate::bench::reading::{AT_BUDGET, LINES, POLLS, Reading, call, lines, poll_answer};
use crate::bench::roles::BUILD;
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};

const NAME: &str = "tokens";

pub(super) const ROW: Row =
    Row { name: NAME, about: "what a model reads to follow a build, against polling", measure };

/// How long the output may take to arrive.
const PATIENCE: Duration = Duration::from_secs(30);
/// Exit code of `siding run` for a command that goes on in the background.
const STILL_RUNNING: i32 = 75;
/// What the model types, in place of the program that plays it.
const TYPED: &str = "make -j8 all";

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let gate = place.dir.join("gate");
    let made = Command::new("mkfifo").arg(&gate).status()?;
    ensure!(made.success(), "could not make a FIFO");
    let played = format!("exec {} {BUILD} {}", bench.stage.own().display(), gate.display());

    let run = place
        .siding(["run", "--json", "--budget", "2s", "--", &played])
        .stdout(Stdio::piped())
        .output()?;
    ensure!(run.status.code() == Some(STILL_RUNNING), "`siding run` ended with {}", run.status);
    let handed = String::from_utf8(run.stdout)?;
    let task: Value = serde_json::from_str(&handed)?;
    let id = task["task_id"].as_str().context("a task has an id")?;

    let polled = poll(&place, id, &gate)?;
    place.until_quiet()?;
    let notice = said(&place, ["notices", "--xml"])?;
    ensure!(notice.contains(id), "no notice tells of the task: {notice}");
    let errors = said(&place, ["output", id, "--errors"])?;

    let mut told = Reading::default();
    for text in [
        &call("Bash", "command", &format!("siding run --json -- '{TYPED}'")),
        &handed,
        &notice,
        &call("Bash", "command", &format!("siding output {id} --errors")),
        &errors,
    ] {
        told += Reading::of(text);
    }
    let against = format!("{POLLS} polls of the same output, 30,000 characters each at most");
    let figures = [
        ("read to follow a build: tokens", Unit::Count, told.tokens, polled.tokens),
        ("read to follow a build: bytes", Unit::Count, told.bytes, polled.bytes),
    ];
    for (what, unit, ours, theirs) in figures {
        table.add(
            Line::new(NAME, what, unit, ours as f64)
                .against(&against, theirs as f64)
                .target(Target::RatioAtMost(0.1)),
        );
    }
    table.note(
        NAME,
        format!(
            "ten minutes are compressed: a real process under siding writes {LINES} lines, and a \
             poll follows each of {POLLS} equal parts, as every 30 s; tokens are o200k_base's"
        ),
    );
    Ok(())
}

/// Lets the build go on part by part, and reads what is new after each.
fn poll(place: &Place, id: &str, gate: &Path) -> Result<Reading> {
    let output = place.state.join("tasks").join(id).join("output");
    let mut polled = Reading::of(&call("Bash", "command", TYPED));
    polled += Reading::of("Command running in background with ID: bash_1");
    let mut gate: File = OpenOptions::new().write(true).open(gate)?;
    let mut seen = 0;
    for part in 1..=POLLS {
        gate.write_all(b"\n")?;
        let expected = lines(0..part * LINES / POLLS).len();
        let text = until_written(&output, expected)?;
        let status = if part == POLLS { "failed" } else { "running" };
        polled += Reading::of(&call("BashOutput", "bash_id", "bash_1"));
        polled += Reading::of(&poll_answer(&text[seen..], status));
        seen = expected;
    }
    Ok(polled)
}

/// Waits until the output is so long, and returns it.
fn until_written(output: &Path, expected: usize) -> Result<String> {
    let until = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(output)?;
        if text.len() >= expected {
            ensure!(text.len() == expected, "the output is longer than what was written");
            return Ok(text);
        }
        ensure!(Instant::now() < until, "{} of {expected} bytes came", text.len());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn said<const N: usize>(place: &Place, words: [&str; N]) -> Result<String> {
    let output = place.siding(words).stdout(Stdio::piped()).output()?;
    ensure!(output.status.success(), "`siding {}` failed: {}", words.join(" "), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Is the build: writes what is there at the budget, then one part for each byte of the gate.
pub(in crate::bench) fn build(gate: &Path) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(lines(0..AT_BUDGET).as_bytes())?;
    stdout.flush()?;
    let mut gate = File::open(gate)?;
    let mut written = AT_BUDGET;
    for part in 1..=POLLS {
        std::io::Read::read_exact(&mut gate, &mut [0])?;
        let next = part * LINES / POLLS;
        stdout.write_all(lines(written..next).as_bytes())?;
        stdout.flush()?;
        written = next;
    }
    // As make does after an error.
    std::process::exit(2)
}
