//! The benchmark: measures siding and the tools that people use today, and prints one table.
//!
//! This module decides which quantities are measured and how. It does not build the programs
//! (`cargo xtask bench` does), and it judges only the targets in the table. A missed target is a
//! result, not an error. If a value cannot be measured correctly, the row reports an error instead
//! of a number.
//!
//! Times and rates of different programs are compared only if the programs took turns in the same
//! run. A measured time ends when the waiting process knows the result, not when siding has written
//! the record of the result. After that moment the shim still makes the record durable and exits.
//! Except in the row `adopt`, the bench waits for the end of this work before the next contender
//! runs. Otherwise the work of one contender would add to the time of another.
//!
//! The program starts itself again: once as the measuring process, and many times as the small
//! commands under measurement ([`helper_commands`]). The measuring process is separate so that the
//! first process can clean up even if the measuring process crashes.

mod bench_options;
mod cgroup;
mod client;
mod dialog;
mod engine;
mod executor_client;
mod helper_commands;
mod idle_tasks;
mod interleaved_runs;
mod mcp_agent;
mod process_usage;
mod recorded_tasks;
mod rows;
mod samples;
mod slurm_cluster;
mod ssh_machine;
mod syscalls;
mod system_info;
mod table;
mod task_spooler;
mod tmux_agent;
mod token_count;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use bench_options::BenchOptions;
use table::ResultTable;
use workspace::Workspace;

/// The context that the measuring function of each row receives.
#[derive(Debug)]
struct Bench {
    workspace: Workspace,
    mode: BenchMode,
}

/// The number of repetitions of each measurement, which determines the precision of the
/// percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BenchMode {
    /// Runs few repetitions, so that all rows together take at most about two minutes.
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

/// Runs a helper command, the measuring process or the supervising process, depending on `words`.
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
    // Only this process checks the path, because the measuring process uses a copy of the program.
    request.ensure_program_exists()?;
    let stage = Workspace::create(&request.siding)?;
    // An interrupt from the terminal reaches both processes. It ends the measuring process; this
    // process survives so that it can clean up.
    syscalls::survive_interrupts();
    let measured = stage.run_measuring_process(words).context("could not start measuring");
    let cleared = stage.clean_up();
    let code = measured?;
    cleared?;
    Ok(code)
}

/// Measures the selected rows and prints the table. The exit code is 1 if a row could not be
/// measured.
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
