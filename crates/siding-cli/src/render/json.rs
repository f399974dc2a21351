//! JSON on standard output.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::out::{self, Reader};
use crate::failure::Failure;

/// Bytes written at once.
const BLOCK: usize = 64 << 10;
/// Values of a long list that one thread puts into words at once, about half a megabyte of tasks,
/// and threads that do.
const SHARE: usize = 1000;
const THREADS: usize = 4;

/// Prints a value as one line.
pub(crate) fn print(value: &impl Serialize) -> Result<(), Failure> {
    print_to_reader(value).map(drop)
}

/// Prints a value as one line, and tells whether somebody read it.
pub(crate) fn print_to_reader(value: &impl Serialize) -> Result<Reader, Failure> {
    let written = write(value);
    Ok(if out::result(written)?.is_some() { Reader::There } else { Reader::Gone })
}

/// Prints a list as one line. One of ten thousand tasks takes megabytes, so it is never there as a
/// whole, and several threads put it into words.
pub(crate) fn print_list(values: &[impl Serialize + Sync]) -> Result<(), Failure> {
    out::result(write_list(values)).map(drop)
}

fn write_list(values: &[impl Serialize + Sync]) -> io::Result<()> {
    if values.len() <= SHARE {
        return write(&values);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let mut out = io::stdout().lock();
    let mut before = "[";
    for round in values.chunks(SHARE * threads) {
        let texts = std::thread::scope(|scope| {
            let workers: Vec<_> =
                round.chunks(SHARE).map(|share| scope.spawn(|| elements(share))).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
                Ok(text) => text,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            workers.into_iter().map(join).collect::<io::Result<Vec<_>>>()
        })?;
        for text in texts {
            out.write_all(before.as_bytes())?;
            out.write_all(&text)?;
            before = ",";
        }
    }
    out.write_all(b"]\n")?;
    out.flush()
}

/// Returns values as they stand in a list, with commas between them.
fn elements(values: &[impl Serialize]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for value in values {
        if !text.is_empty() {
            text.push(b',');
        }
        serde_json::to_writer(&mut text, value)?;
    }
    Ok(text)
}

fn write(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BLOCK, io::stdout().lock());
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
