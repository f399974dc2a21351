//! The small commands that the bench runs by starting this program again. Most of them are the
//! commands under measurement.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use siding_model::terminal::TerminalSize;

use super::idle_tasks;
use super::rows;
use super::syscalls::{self, SharedTimestamp};

/// Waits, stores the time in a file and exits immediately: `__stamp FILE MILLISECONDS`.
pub(super) const STAMP_COMMAND: &str = "__stamp";
/// Waits, stores the time in a file, writes a line, waits again and exits: `__line FILE
/// MILLISECONDS`.
pub(super) const LINE_COMMAND: &str = "__line";
/// Writes `BYTES` bytes in writes of `CHUNK` bytes: `__write BYTES CHUNK`.
pub(super) const WRITE_COMMAND: &str = "__write";
/// Waits until a process has opened the FIFO for writing, and exits when no process holds it open
/// for writing: `__until FIFO`.
pub(super) const WAIT_FIFO_COMMAND: &str = "__until";
/// Enters a memory cgroup by writing to its file `DOOR`, and starts `COUNT` idle commands there:
/// `__populate DOOR COUNT [PLACE SIDING [terminal]]`. The commands are tasks of siding if `PLACE`
/// is present, with a terminal if the last word is, and plain processes otherwise.
pub(super) const POPULATE_COMMAND: &str = "__populate";
/// The last argument of [`POPULATE_COMMAND`] for tasks with a terminal.
pub(super) const TERMINAL_WORD: &str = "terminal";
/// Starts `TASKS` tasks and `WAITS` waits for them as the user of this process: `__crowd PLACE
/// SIDING TASKS WAITS`.
pub(super) const CROWD_COMMAND: &str = "__crowd";

/// Writes the output of a simulated build, one part for each byte read from the FIFO: `__build
/// FIFO`.
pub(super) const BUILD_COMMAND: &str = "__build";

/// Runs the helper command that the arguments name; `None` if they name none.
pub(super) fn run_helper(words: &[String]) -> Option<ExitCode> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [STAMP_COMMAND, file, ms] => run_stamp(Path::new(file), ms),
        [LINE_COMMAND, file, ms] => run_line(Path::new(file), ms),
        [WRITE_COMMAND, bytes, chunk] => run_write(bytes, chunk),
        [WAIT_FIFO_COMMAND, fifo] => run_wait_fifo(Path::new(fifo)),
        [POPULATE_COMMAND, door, count, place @ ..] => run_populate(door, count, place),
        [CROWD_COMMAND, place, siding, tasks, waits] => run_crowd(place, siding, tasks, waits),
        [BUILD_COMMAND, gate] => rows::token_usage::run_build(Path::new(gate)),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("siding-bench {}: {error:#}", words.join(" "));
            ExitCode::FAILURE
        }
    })
}

fn run_stamp(file: &Path, ms: &str) -> Result<()> {
    let stamp = SharedTimestamp::open(file)?;
    // The pause lets every waiter fall asleep, so the machine is idle when the process ends, as it
    // is at the end of a real slow command.
    std::thread::sleep(Duration::from_millis(ms.parse()?));
    stamp.set();
    syscalls::exit(0)
}

fn run_line(file: &Path, ms: &str) -> Result<()> {
    let stamp = SharedTimestamp::open(file)?;
    let pause = Duration::from_millis(ms.parse()?);
    std::thread::sleep(pause);
    stamp.set();
    std::io::stdout().write_all(b"ready\n")?;
    // The process continues to run for a while after the line, so that the line wakes the waiter
    // and not the end of the process.
    std::thread::sleep(pause);
    Ok(())
}

fn run_write(bytes: &str, chunk: &str) -> Result<()> {
    let (bytes, chunk): (u64, usize) = (bytes.parse()?, chunk.parse()?);
    let mut line = vec![b'x'; chunk];
    if let Some(last) = line.last_mut() {
        *last = b'\n';
    }
    // Each chunk must be one write call, but Rust's own stdout buffers lines. This code therefore
    // writes to a duplicate of the descriptor.
    let mut stdout = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    for _ in 0..bytes / chunk as u64 {
        stdout.write_all(&line)?;
    }
    Ok(())
}

fn run_wait_fifo(fifo: &Path) -> Result<()> {
    let mut end = std::fs::File::open(fifo)?;
    std::io::copy(&mut end, &mut std::io::sink())?;
    Ok(())
}

fn run_populate(door: &str, count: &str, place: &[&str]) -> Result<()> {
    std::fs::write(door, std::process::id().to_string()).context("could not enter the group")?;
    let count = count.parse()?;
    match place {
        [] => idle_tasks::start_plain_commands(count, |pid| println!("{pid}")),
        [place, siding, terminal @ ..] if matches!(terminal, [] | [TERMINAL_WORD]) => {
            let place =
                super::workspace::RowDir::create(PathBuf::from(place), PathBuf::from(siding))?;
            let mut client = place.client()?;
            client.terminal = terminal.first().map(|_| TerminalSize::DEFAULT);
            for _ in 0..count {
                idle_tasks::start_idle_task(&client)?;
            }
            Ok(())
        }
        _ => {
            anyhow::bail!("expected a directory and a program, or neither, and perhaps `terminal`")
        }
    }
}

fn run_crowd(place: &str, siding: &str, tasks: &str, waits: &str) -> Result<()> {
    let place = super::workspace::RowDir::create(PathBuf::from(place), PathBuf::from(siding))?;
    let found = rows::many_tasks::run_host(&place, tasks.parse()?, waits.parse()?)?;
    println!("{found}");
    Ok(())
}
