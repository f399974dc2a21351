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

mod cgroup;
mod client;
mod kernel;
mod machine;
mod memory;
mod population;
mod reading;
mod recorded;
mod request;
mod roles;
mod rows;
mod samples;
mod stage;
mod table;
mod turns;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use request::Request;
use stage::Stage;
use table::Table;

/// What every row gets.
#[derive(Debug)]
struct Bench {
    stage: Stage,
    pace: Pace,
}

/// How thorough to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// All rows in less than a minute.
    Quick,
    /// As many repetitions as the figures deserve.
    Full,
}

impl Pace {
    /// Returns the first number when quick, else the second.
    const fn of(self, quick: usize, full: usize) -> usize {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Runs the program.
pub(super) fn main(words: Vec<String>) -> ExitCode {
    if let Some(code) = roles::play(&words) {
        return code;
    }
    let done = match words.split_first() {
        Some((word, rest)) if word == stage::MEASURE => measure(rest),
        _ => supervise(&words),
    };
    done.unwrap_or_else(|error| {
        eprintln!("siding-bench: {error:#}");
        ExitCode::FAILURE
    })
}

/// Prepares the stage, lets another process measure on it, and clears it.
fn supervise(words: &[String]) -> Result<ExitCode> {
    if request::is_help(words) {
        print!("{}", request::usage());
        return Ok(ExitCode::SUCCESS);
    }
    let request = Request::parse(words)?;
    // Only here: whoever measures works elsewhere, with a copy.
    request.check()?;
    let stage = Stage::build(&request.siding)?;
    // An interrupt reaches the measuring process too, and ends it; this one stays to clear up.
    kernel::survive_interrupts();
    let measured = stage.measure(words).context("could not start measuring");
    let cleared = stage.clear();
    let code = measured?;
    cleared?;
    Ok(code)
}

/// Measures, and prints the table.
fn measure(words: &[String]) -> Result<ExitCode> {
    let (stage, words) = Stage::entered(words)?;
    let request = Request::parse(words)?;
    let bench = Bench { stage, pace: request.pace };
    let machine = machine::Machine::look(bench.stage.path())?;
    let mut table = Table::default();
    for row in rows::chosen(&request.rows) {
        eprintln!("measuring {}: {}", row.name, row.about);
        let started = std::time::Instant::now();
        if let Err(error) = (row.measure)(&bench, &mut table) {
            table.fail(row.name, &error);
        }
        eprintln!("  took {:.1} s", started.elapsed().as_secs_f64());
    }
    if request.json {
        println!("{}", table.json(&machine, bench.pace));
    } else {
        print!("{}", table.text(&machine, bench.pace));
    }
    Ok(if table.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
