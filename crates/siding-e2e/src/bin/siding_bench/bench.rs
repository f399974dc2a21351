//! Measures siding and the tools that people use today in the same run, and prints one table.
//!
//! This module decides what is measured and how. `cargo xtask bench` builds the program. A missed
//! target is a result, not a failure. A value that cannot be measured correctly is an error, never
//! a number.
//!
//! Every ratio compares two contenders that took turns in the same run. A time ends when the
//! waiting process knows the result, not when a record of it was written. Afterwards the shim still
//! syncs the record and exits; the bench waits for this before the next contender runs, so that the
//! work of one contender does not slow another.
//!
//! The program starts itself again: as the measuring process, so that the first process can clean
//! up even if the measuring process is killed, and as the small commands under measurement
//! ([`helper_commands`]).

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
mod task_spooler;
mod token_count;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use bench_options::BenchOptions;
use table::ResultTable;
use workspace::Workspace;

/// The context of every row.
#[derive(Debug)]
struct Bench {
    workspace: Workspace,
    mode: BenchMode,
}

/// How many repetitions the bench runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BenchMode {
    /// Runs all rows in less than a minute.
    Quick,
    /// Runs as many repetitions as meaningful percentiles need.
    Full,
}

impl BenchMode {
    /// Returns `quick` or `full`, depending on the mode.
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

/// Creates the workspace, runs the measuring process in it, and cleans up.
fn supervise(words: &[String]) -> Result<ExitCode> {
    if bench_options::is_help(words) {
        print!("{}", bench_options::usage());
        return Ok(ExitCode::SUCCESS);
    }
    let request = BenchOptions::parse(words)?;
    // Checked only here, because the measuring process uses a copy of the program.
    request.ensure_program_exists()?;
    let stage = Workspace::create(&request.siding)?;
    // An interrupt at the terminal ends the measuring process; this process must survive it to
    // clean up.
    syscalls::survive_interrupts();
    let measured = stage.run_measuring_process(words).context("could not start measuring");
    let cleared = stage.clean_up();
    let code = measured?;
    cleared?;
    Ok(code)
}

/// Measures the rows and prints the table.
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
