//! What this program is when it is started by itself: the small commands that are measured.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::kernel::{self, Stamp};
use super::population;
use super::rows;

/// Notes the time in a file and ends: `__stamp FILE MILLISECONDS`.
pub(super) const STAMP: &str = "__stamp";
/// Notes the time in a file, writes a line, and ends a moment later: `__line FILE MILLISECONDS`.
pub(super) const LINE: &str = "__line";
/// Writes so much, in pieces of so much: `__write BYTES CHUNK`.
pub(super) const WRITE: &str = "__write";
/// Ends when nobody holds the FIFO open for writing any more: `__until FIFO`.
pub(super) const UNTIL: &str = "__until";
/// Fills a memory cgroup: `__populate DOOR COUNT PLACE SIDING`.
pub(super) const POPULATE: &str = "__populate";
/// Is many tasks' host as whoever it runs as: `__crowd PLACE SIDING TASKS WAITS`.
pub(super) const CROWD: &str = "__crowd";

/// Writes a build's lines, a part for each byte of the FIFO: `__build FIFO`.
pub(super) const BUILD: &str = "__build";

/// Plays a role, if the arguments name one.
pub(super) fn play(words: &[String]) -> Option<ExitCode> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [STAMP, file, ms] => stamp(Path::new(file), ms),
        [LINE, file, ms] => line(Path::new(file), ms),
        [WRITE, bytes, chunk] => write(bytes, chunk),
        [UNTIL, fifo] => until(Path::new(fifo)),
        [POPULATE, door, count, place @ ..] => populate(door, count, place),
        [CROWD, place, siding, tasks, waits] => crowd(place, siding, tasks, waits),
        [BUILD, gate] => rows::telling::build(Path::new(gate)),
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

fn stamp(file: &Path, ms: &str) -> Result<()> {
    let stamp = Stamp::open(file)?;
    // The machine is to be idle when the end comes.
    std::thread::sleep(Duration::from_millis(ms.parse()?));
    stamp.set();
    kernel::exit(0)
}

fn line(file: &Path, ms: &str) -> Result<()> {
    let stamp = Stamp::open(file)?;
    let pause = Duration::from_millis(ms.parse()?);
    std::thread::sleep(pause);
    stamp.set();
    std::io::stdout().write_all(b"ready\n")?;
    // Its end must not be what wakes whoever waits for the line.
    std::thread::sleep(pause);
    Ok(())
}

fn write(bytes: &str, chunk: &str) -> Result<()> {
    let (bytes, chunk): (u64, usize) = (bytes.parse()?, chunk.parse()?);
    let mut line = vec![b'x'; chunk];
    if let Some(last) = line.last_mut() {
        *last = b'\n';
    }
    // Not Rust's own stdout, which gathers what it is given.
    let mut stdout = std::fs::File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    for _ in 0..bytes / chunk as u64 {
        stdout.write_all(&line)?;
    }
    Ok(())
}

fn until(fifo: &Path) -> Result<()> {
    let mut end = std::fs::File::open(fifo)?;
    std::io::copy(&mut end, &mut std::io::sink())?;
    Ok(())
}

fn populate(door: &str, count: &str, place: &[&str]) -> Result<()> {
    std::fs::write(door, std::process::id().to_string()).context("could not enter the group")?;
    let count = count.parse()?;
    match place {
        [] => population::plain(count, |pid| println!("{pid}")),
        [place, siding] => {
            let place = super::stage::Place::make(PathBuf::from(place), PathBuf::from(siding))?;
            let client = place.client()?;
            for _ in 0..count {
                population::add(&client)?;
            }
            Ok(())
        }
        _ => anyhow::bail!("wants a place and a program, or neither"),
    }
}

fn crowd(place: &str, siding: &str, tasks: &str, waits: &str) -> Result<()> {
    let place = super::stage::Place::make(PathBuf::from(place), PathBuf::from(siding))?;
    let found = rows::crowding::endure(&place, tasks.parse()?, waits.parse()?)?;
    println!("{found}");
    Ok(())
}
