//! Measures siding beside what people use today, and prints one table.
//!
//! Owns what is measured and how; builds nothing (`cargo xtask bench` does) and judges nothing but
//! the targets in the table. A missed target is a result. What cannot be measured correctly is an
//! error, and never a number.
//!
//! Every ratio compares two things of the same run that took turns. Times end when the waiting
//! process knows, not when something was written somewhere. What siding still does after that (its
//! shim makes the record durable and leaves) is waited for before the next turn, so that nobody's
//! turn pays for another's.
//!
//! The program starts itself again: once as the process that measures, so that the first one can
//! clear up after it whatever happens, and as the small commands that are measured ([`roles`]).

mod bench_options;
mod cgroup;
mod client;
mod helper_commands;
mod idle_tasks;
mod interleaved_runs;
mod process_usage;
mod recorded_tasks;
mod rows;
mod samples;
mod syscalls;
mod system_info;
mod table;
mod token_count;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use bench_options::BenchOptions;
use table::ResultTable;
use workspace::Workspace;

/// What every row gets.
#[derive(Debug)]
struct Bench {
    workspace: Workspace,
    mode: BenchMode,
}

/// How thorough to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BenchMode {
    /// All rows in less than a minute.
    Quick,
    /// As many repetitions as the figures deserve.
    Full,
}

impl BenchMode {
    /// Returns the first number when quick, else the second.
    const fn pick(self, quick: usize, full: usize) -> usize {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Runs the program.
pub(super) fn main(words: Vec<String>) -> ExitCode {
    if let Some(code) = helper_commands::run_helper(&words) {
        return code;
    }
    let done = match words.split_first() {
        Some((word, rest)) if word == workspace::MEASURE_COMMAND => run_measurements(rest),
        _ => supervise(&words),
    };
    done.unwrap_or_else(|error| {
        eprintln!("siding-bench: {error:#}");
        ExitCode::FAILURE
    })
}

/// Prepares the stage, lets another process measure on it, and clears it.
fn supervise(words: &[String]) -> Result<ExitCode> {
    if bench_options::is_help(words) {
        print!("{}", bench_options::usage());
        return Ok(ExitCode::SUCCESS);
    }
    let request = BenchOptions::parse(words)?;
    // Only here: whoever measures works elsewhere, with a copy.
    request.ensure_program_exists()?;
    let stage = Workspace::create(&request.siding)?;
    // An interrupt reaches the measuring process too, and ends it; this one stays to clear up.
    syscalls::survive_interrupts();
    let measured = stage.run_measuring_process(words).context("could not start measuring");
    let cleared = stage.clean_up();
    let code = measured?;
    cleared?;
    Ok(code)
}

/// Measures, and prints the table.
fn run_measurements(words: &[String]) -> Result<ExitCode> {
    let (stage, words) = Workspace::from_args(words)?;
    let request = BenchOptions::parse(words)?;
    let bench = Bench { workspace: stage, mode: request.mode };
    let machine = system_info::SystemInfo::collect(bench.workspace.path())?;
    let mut table = ResultTable::default();
    for row in rows::selected_rows(&request.rows) {
        eprintln!("measuring {}: {}", row.name, row.about);
        let started = std::time::Instant::now();
        if let Err(error) = (row.measure)(&bench, &mut table) {
            table.add_failure(row.name, &error);
        }
        eprintln!("  took {:.1} s", started.elapsed().as_secs_f64());
    }
    if request.json {
        println!("{}", table.json(&machine, bench.mode));
    } else {
        print!("{}", table.text(&machine, bench.mode));
    }
    Ok(if table.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
