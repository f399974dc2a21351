//! Records the terminal of a task as an asciicast file, version 3
//! (<https://docs.asciinema.org/manual/asciicast/v3/>).
//!
//! The output file contains the bytes, `output.times` their times ([`OutputTime`]), and the journal
//! the changes of size and the end. Input is never recorded: siding does not store it.
//!
//! [`OutputTime`]: siding_core::output::OutputTime

mod schedule;
mod writer;

use std::io::{self, Write};
use std::time::Duration;

use siding_core::output::{RawChunks, read_output_times};
use siding_core::store::TaskDir;
use siding_model::journal::TaskState;
use siding_model::outcome::LeaderEnd;
use siding_model::process::MonotonicMs;
use siding_model::terminal::{TerminalResize, TerminalState};

use crate::replay::find_terminal_end;
use schedule::{Schedule, TimedPart};
use writer::{CastHeader, CastWriter};

/// Added by shells to the number of the signal that terminated a command, to form its exit status.
const SIGNAL_STATUS_BASE: i32 = 128;

/// A task whose terminal is recorded.
#[derive(Debug)]
pub struct CastSource<'a> {
    /// The directory of the task.
    pub dir: &'a TaskDir,
    /// The state of the task.
    pub state: &'a TaskState,
    /// The terminal of the task.
    pub terminal: &'a TerminalState,
    /// Time from the start of the task to its end, or to now if it still runs, in milliseconds.
    pub elapsed_ms: u64,
    /// Maximum pause that a player shows; the recorded times do not change.
    pub idle_limit: Option<Duration>,
}

/// The parts of the output that a recording lacks or could not date exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CastSummary {
    /// Number of bytes of output whose times are estimated.
    pub estimated_bytes: u64,
    /// Number of bytes of output that are no longer stored.
    pub released_bytes: u64,
}

/// Writes the recording of a task: everything up to its end, or up to now while it runs.
///
/// # Errors
///
/// The I/O error of reading the output, or of `out`.
pub fn write_cast(source: &CastSource<'_>, out: impl Write) -> io::Result<CastSummary> {
    let CastSource { dir, state, terminal, elapsed_ms, idle_limit } = *source;
    let command = state.spec.command_text();
    let header = CastHeader {
        size: terminal.initial_size,
        timestamp: state.started_wall.0.div_euclid(1_000),
        command: &command,
        title: state.spec.name.as_deref(),
        idle_limit,
    };
    let mut recorder = Recorder {
        writer: CastWriter::new(out, &header)?,
        started: state.started,
        resizes: &terminal.resizes,
        piece: Vec::new(),
        gap_bytes: 0,
        released_bytes: 0,
    };
    let mut estimated_bytes = 0;
    if let Some(mut chunks) = RawChunks::open(dir)? {
        // The length is read before the times, so that the times of all these bytes are known.
        let mut end = chunks.written_bytes()?;
        if !state.is_live() {
            end = find_terminal_end(&mut chunks, end)?;
        }
        let schedule = Schedule::new(&read_output_times(dir), state.started, end, elapsed_ms);
        estimated_bytes = schedule.estimated_bytes;
        recorder.record_output(&mut chunks, &schedule)?;
    }
    let exit_status = state.leader_end.as_ref().filter(|_| !state.is_live()).and_then(exit_status);
    let released_bytes = recorder.finish(elapsed_ms, exit_status)?;
    Ok(CastSummary { estimated_bytes, released_bytes })
}

/// Returns the exit status of a leader as shells report it; `None` if it is unknown.
fn exit_status(end: &LeaderEnd) -> Option<i32> {
    match end {
        LeaderEnd::Exited { code } => Some(i32::from(*code)),
        LeaderEnd::Signaled { signal, .. } => Some(SIGNAL_STATUS_BASE + signal.number()),
        LeaderEnd::Unknown { .. } => None,
    }
}

/// Passes the output and the changes of size to the writer in order.
#[derive(Debug)]
struct Recorder<'a, W> {
    writer: CastWriter<W>,
    started: MonotonicMs,
    /// Changes of size that have not been written yet.
    resizes: &'a [TerminalResize],
    /// The piece of output that was read last.
    piece: Vec<u8>,
    /// Length of the released output directly before the next byte.
    gap_bytes: u64,
    released_bytes: u64,
}

impl<W: Write> Recorder<'_, W> {
    fn record_output(&mut self, chunks: &mut RawChunks, schedule: &Schedule) -> io::Result<()> {
        let estimated = schedule.estimated_bytes;
        if estimated > 0 {
            let text = format!("the times of the first {estimated} bytes of output are estimated");
            self.writer.marker(0, &text)?;
        }
        schedule.parts.iter().try_for_each(|part| self.record_part(chunks, *part))
    }

    fn record_part(&mut self, chunks: &mut RawChunks, part: TimedPart) -> io::Result<()> {
        let TimedPart { mut from, to, at_ms } = part;
        while from < to {
            self.record_resizes(from)?;
            let until = self.resizes.first().map_or(to, |resize| resize.offset.min(to));
            match chunks.read_chunk(from, until, &mut self.piece)? {
                Some(gap) => {
                    let gap_end = gap.to.clamp(from, until);
                    self.gap_bytes += gap_end - from;
                    from = gap_end;
                }
                None if self.piece.is_empty() => return Ok(()),
                None => {
                    self.report_gap(at_ms)?;
                    self.writer.output(at_ms, &self.piece)?;
                    from += self.piece.len() as u64;
                }
            }
        }
        Ok(())
    }

    /// Writes the changes of size that take effect at or before an offset.
    fn record_resizes(&mut self, offset: u64) -> io::Result<()> {
        while let Some((resize, later)) = self.resizes.split_first()
            && resize.offset <= offset
        {
            self.writer.resize(resize.at.ms_since(self.started), resize.size)?;
            self.resizes = later;
        }
        Ok(())
    }

    /// Reports released output before the output that follows it.
    fn report_gap(&mut self, at_ms: u64) -> io::Result<()> {
        let bytes = std::mem::take(&mut self.gap_bytes);
        if bytes == 0 {
            return Ok(());
        }
        self.released_bytes += bytes;
        let text = format!("{bytes} bytes of output are no longer stored");
        self.writer.missing_output(at_ms, &text)
    }

    /// Ends the recording. Returns the number of bytes that are no longer stored.
    fn finish(mut self, elapsed_ms: u64, exit_status: Option<i32>) -> io::Result<u64> {
        self.report_gap(elapsed_ms)?;
        self.record_resizes(u64::MAX)?;
        self.writer.finish(elapsed_ms, exit_status)?;
        Ok(self.released_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use siding_core::output::OutputTime;
    use siding_core::store::StateDir;
    use siding_core::store::task_files::OUTPUT_FILE;
    use siding_core::sys::file;
    use siding_model::id::TaskKind;
    use siding_model::terminal::TerminalSize;

    use super::*;

    const STARTED: MonotonicMs = MonotonicMs(1_000);

    /// Returns the events of a recording of this output, after the bytes between two offsets were
    /// released.
    fn record(
        output: &[u8],
        released: Option<(u64, u64)>,
        times: &[OutputTime],
        resizes: &[TerminalResize],
    ) -> Vec<(f64, String, String)> {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let dir = root.create_task(root.new_id(TaskKind::LocalBash).unwrap()).unwrap();
        std::fs::write(dir.path().join(OUTPUT_FILE), output).unwrap();
        if let Some((from, to)) = released {
            let fd = file::open_at(&dir, OUTPUT_FILE, file::OpenMode::ReadWrite).unwrap();
            file::punch_hole(fd.as_fd(), from, to - from).unwrap();
        }
        let mut chunks = RawChunks::open(&dir).unwrap().unwrap();
        let size = TerminalSize::DEFAULT;
        let header =
            CastHeader { size, timestamp: 0, command: "true", title: None, idle_limit: None };
        let mut cast = Vec::new();
        let mut recorder = Recorder {
            writer: CastWriter::new(&mut cast, &header).unwrap(),
            started: STARTED,
            resizes,
            piece: Vec::new(),
            gap_bytes: 0,
            released_bytes: 0,
        };
        let schedule = Schedule::new(times, STARTED, output.len() as u64, 1_000);
        recorder.record_output(&mut chunks, &schedule).unwrap();
        let missing = recorder.finish(1_000, Some(0)).unwrap();
        assert_eq!(missing, released.map_or(0, |(from, to)| to - from));
        let text = String::from_utf8(cast).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn time(offset: u64, at: u64) -> OutputTime {
        OutputTime { offset, at: MonotonicMs(at) }
    }

    fn resize(offset: u64, at: u64, columns: u16) -> TerminalResize {
        let size = TerminalSize { columns, rows: 24 };
        TerminalResize { at: MonotonicMs(at), offset, size }
    }

    fn event(interval: f64, code: &str, data: &str) -> (f64, String, String) {
        (interval, code.to_owned(), data.to_owned())
    }

    #[test]
    fn a_change_of_the_size_is_between_the_bytes_before_and_after_it() {
        let resizes = [resize(0, 1_010, 70), resize(5, 1_300, 60), resize(9, 1_900, 50)];
        let events = record(b"one, two.", None, &[time(0, 1_250), time(4, 1_280)], &resizes);
        let expected = [
            event(0.010, "r", "70x24"),
            event(0.240, "o", "one,"),
            event(0.030, "o", " "),
            event(0.020, "r", "60x24"),
            event(0.0, "o", "two."),
            event(0.600, "r", "50x24"),
            event(0.100, "x", "0"),
        ];
        assert_eq!(events, expected);
    }

    /// The gap spans several parts and contains a change of size, but causes only one marker.
    #[test]
    fn released_output_is_a_marker_and_a_reset() {
        let mut output = vec![b'.'; 12 << 10];
        output[(4 << 10) - 1] = 0xe2;
        let times = [time(0, 1_100), time(5_000, 1_200), time(6_000, 1_300), time(9_000, 1_400)];
        let resizes = [resize(5_500, 1_250, 70)];
        let events = record(&output, Some((4 << 10, 8 << 10)), &times, &resizes);
        let expected = [
            event(0.100, "o", &".".repeat((4 << 10) - 1)),
            event(0.150, "r", "70x24"),
            event(0.050, "o", "\u{fffd}"),
            event(0.0, "m", "4096 bytes of output are no longer stored"),
            event(0.0, "o", "\x1bc"),
            event(0.0, "o", &".".repeat(9_000 - (8 << 10))),
            event(0.100, "o", &".".repeat((12 << 10) - 9_000)),
            event(0.600, "x", "0"),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn output_without_times_begins_with_a_marker() {
        let events = record(&[b'.'; 128], None, &[], &[]);
        let said = "the times of the first 128 bytes of output are estimated";
        assert_eq!(events[0], event(0.0, "m", said));
        assert_eq!(events[1..3], [(); 2].map(|()| event(0.500, "o", &".".repeat(64))));
        assert_eq!(events[3], event(0.0, "x", "0"));
    }
}
