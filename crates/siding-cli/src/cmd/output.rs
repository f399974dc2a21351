//! `siding output`: prints the output of a task.

mod follow;
mod footer;
mod marker_symbols;
pub(super) mod view;

use std::io::{self, IsTerminal as _};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use regex::Regex;
use siding_core::output::{
    self, ColorHandling, LineFilter, MIN_MARKED_TEXT_BYTES, OutputQuery, ReadSummary, StreamState,
    TextLimit,
};
use siding_core::store::StateDir;
use siding_model::id::SessionId;
use siding_model::notice::Coverage;
use siding_model::size::{Bytes, size_in_words};
use siding_model::text::decode_colors;

use super::remote_call::RemoteCall;
use crate::caller;
use crate::context::{self, LAST_TASK, Task};
use crate::failure::Failure;
use crate::pager::{PagedOutput, pager_for_person};
use crate::render::color::ColorMode;
use crate::render::{self, out};
use crate::stderr;

use self::footer::{Printed, ReadMode, format_footer};
use self::marker_symbols::MarkerSymbols;
use self::view::OutputView;

/// Number of lines that a person who follows a task sees at least.
const MIN_FOLLOWED_LINES: usize = 10;

/// Prints the output of a task: all of it for a person at a terminal, otherwise what is new since
/// the last call.
///
/// The text is made readable: progress bars show their last state, colors are removed, repeated
/// lines are counted, and invalid UTF-8 is marked. At most `output_max_bytes` are printed, from the
/// beginning and the end. Only --raw prints the exact bytes without a limit; for a person, so do
/// --all and a call without options whose output goes to a pipe or file.
///
/// At the terminal of a person the text has no limit and keeps its colors, and a text that is longer
/// than the screen is shown in a pager: $SIDING_PAGER, otherwise $PAGER, otherwise less.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding output                       the output of the last task
  siding output b-4k7q                for a program: what is new
  siding output b-4k7q --all          everything (an agent: its readable text)
  siding output b-4k7q --since 8192   one page, and where the next starts
  siding output b-4k7q --tail 20      the last lines
  siding output b-4k7q --errors       likely errors with surrounding lines
  siding output b-4k7q --grep 'FAIL|panic'
  siding output b-4k7q --raw > log    the exact bytes
  siding output b-4k7q --follow       until the task ends

Each session ($SIDING_SESSION) has its own position. Calls with --tail, --grep,
--errors or --raw do not advance it. --follow starts at this position, and
shows a person at least the last 10 lines.")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID", default_value = LAST_TASK)]
    id: String,
    /// Start at this offset in bytes; if there is too much text, cut its end instead of its middle
    #[arg(long, value_name = "OFFSET", conflicts_with = "all")]
    since: Option<u64>,
    /// Start at the beginning. At a terminal without an agent, print everything that is kept, as
    /// the exact bytes unless the task has a terminal; otherwise readable text, cut in the middle
    /// if it is long
    #[arg(long)]
    all: bool,
    /// Print only this many lines from the end
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_line_count)]
    tail: Option<NonZeroUsize>,
    /// Print only lines that match this regular expression
    #[arg(long, value_name = "RE", conflicts_with = "errors")]
    grep: Option<Regex>,
    /// Print only lines that look like errors, each with two lines before and after it
    #[arg(long)]
    errors: bool,
    /// Maximum size of the text (`32KiB`, `none`; default: output_max_bytes)
    #[arg(long, value_name = "N", value_parser = parse_max_bytes)]
    max_bytes: Option<MaxBytes>,
    /// Print the exact bytes that are kept
    #[arg(long, conflicts_with_all = ["grep", "errors", "max_bytes", "json"])]
    raw: bool,
    /// Continue printing until the task ends
    #[arg(short, long, conflicts_with_all = ["max_bytes", "json"])]
    follow: bool,
    /// Print to the terminal, without a pager
    #[arg(long)]
    no_pager: bool,
    #[command(flatten)]
    remote: RemoteCall,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The value of `--max-bytes`; `None` means no limit.
#[derive(Debug, Clone, Copy)]
enum MaxBytes {
    Some(Bytes),
    None,
}

fn parse_line_count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "give a number of lines, at least 1".to_owned())
}

fn parse_max_bytes(text: &str) -> Result<MaxBytes, String> {
    if text == "none" {
        return Ok(MaxBytes::None);
    }
    match text.parse::<Bytes>() {
        Ok(Bytes(0)) => Err("0 would print nothing; use `none` for no limit".to_owned()),
        Ok(bytes) => Ok(MaxBytes::Some(bytes)),
        Err(error) => Err(error.to_string()),
    }
}

/// The offset at which this call starts to read, and the consumer's read cursor before the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ReadStart {
    from: u64,
    /// Offset up to which the consumer has read the output.
    cursor: u64,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(code) = self.remote.run()? {
            return Ok(code);
        }
        let root = context::open_state_dir()?;
        let task = Task::find(&root, &self.id, self.json)?;
        let consumer = context::current_session();
        let begin = self.read_start(&task, &consumer)?;
        let next = if self.follow {
            follow::run(&self, &root, &task, self.follow_offset(&task, begin.from)?)?
        } else if self.json {
            self.print_json(&task, &self.query(begin, None))?
        } else {
            self.print_kept(&task, begin)?
        };
        // The cursor advances only if the text is unfiltered and starts at or before the cursor.
        let counts = self.is_unfiltered() && begin.from <= begin.cursor;
        if let Some(next) = next.filter(|_| counts) {
            context::advance_read_cursor(&task.dir, &consumer, next);
        }
        if let Some(next) = next
            && self.includes_end()
        {
            // A followed task has ended since its state was read, so the state is read again.
            let task = if self.follow { Task::read(&root, task.dir.id())? } else { task };
            mark_end_consumed(&root, &task, next);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn read_start(&self, task: &Task, consumer: &SessionId) -> Result<ReadStart, Failure> {
        let cursor = output::load_read_cursor(&task.dir, consumer)
            .map_err(|error| read_failure(task, &error))?;
        let from = match self.since {
            Some(since) => since,
            None if self.all || !self.is_unfiltered() => 0,
            // A person expects the whole text at every call, as from docker and journalctl.
            None if !self.json && !self.follow && caller::is_person_by_settings() => 0,
            None => cursor,
        };
        Ok(ReadStart { from, cursor })
    }

    /// Returns the offset at which the lines requested by `--tail` start, or `from` without
    /// `--tail`.
    fn tail_offset(&self, task: &Task, from: u64) -> Result<u64, Failure> {
        let Some(last) = self.tail else { return Ok(from) };
        output::last_lines_offset(&task.dir, task.state.spec.keep_head, from, last.get())
            .map_err(|error| read_failure(task, &error))
    }

    /// Returns the offset at which `--follow` starts to print.
    fn follow_offset(&self, task: &Task, from: u64) -> Result<u64, Failure> {
        if self.since.is_some() || !self.is_unfiltered() || !caller::is_person_at_stdout() {
            return self.tail_offset(task, from);
        }
        let keep_head = task.state.spec.keep_head;
        let last = output::last_lines_offset(&task.dir, keep_head, 0, MIN_FOLLOWED_LINES)
            .map_err(|error| read_failure(task, &error))?;
        Ok(from.min(last))
    }

    /// Returns whether the call prints all text from its start offset, unfiltered and not as raw
    /// bytes.
    const fn is_unfiltered(&self) -> bool {
        self.tail.is_none() && self.grep.is_none() && !self.errors && !self.raw
    }

    /// Returns whether the call prints the exact bytes. This is the case with `--raw`. For a
    /// person, it is also the case with `--all` and in a pipe or file, unless another option
    /// selects lines, a size or JSON. The exact bytes of a task with a terminal are excluded at a
    /// terminal, which would execute their control sequences.
    fn prints_exact_bytes(&self, task: &Task) -> bool {
        let is_terminal = io::stdout().is_terminal();
        let is_whole = self.is_unfiltered() && self.max_bytes.is_none() && !self.json;
        let is_piped = self.since.is_none() && !self.follow && !is_terminal;
        let is_all = self.all && !(is_terminal && task.state.spec.terminal.is_some());
        self.raw || (is_whole && (is_all || is_piped) && caller::is_person_by_settings())
    }

    /// Returns whether the text keeps its colors: at the terminal of a person, unless a filter reads
    /// the text.
    fn color_handling(&self) -> ColorHandling {
        let is_filtered = self.grep.is_some() || self.errors;
        let keeps_colors = !self.json
            && !is_filtered
            && ColorMode::for_stdout() == ColorMode::On
            && caller::is_person_at_stdout();
        if keeps_colors { ColorHandling::Encoded } else { ColorHandling::Removed }
    }

    /// Returns the pager for a text that is longer than the screen; `None` if the text is printed
    /// without a pager in any case.
    fn pager(&self) -> Option<String> {
        let is_used = !self.no_pager && !self.raw;
        is_used.then(pager_for_person).flatten()
    }

    /// Returns whether no filter can omit the end of the output.
    const fn includes_end(&self) -> bool {
        self.grep.is_none() && !self.errors
    }

    fn line_filter(&self) -> LineFilter {
        match &self.grep {
            Some(regex) => LineFilter::Matching(regex.clone()),
            None if self.errors => LineFilter::Errors,
            None => LineFilter::Everything,
        }
    }

    fn size_limit(&self, pager: Option<&str>) -> TextLimit {
        let max = match self.max_bytes {
            Some(MaxBytes::None) => return TextLimit::Unlimited,
            Some(MaxBytes::Some(bytes)) => bytes,
            // A person can leave a pager at any time, so its text needs no limit.
            None if pager.is_some() => return TextLimit::Unlimited,
            None => {
                let settings = context::load_valid_settings();
                // A program to which a person pipes the output must not miss lines in the middle.
                let is_unlimited = self.all || (!self.json && !io::stdout().is_terminal());
                if is_unlimited && caller::is_person(settings.assistant_mode) {
                    return TextLimit::Unlimited;
                }
                settings.output_max_bytes
            }
        };
        let max = max.to_usize();
        // A caller that gives an offset and no filter reads page by page. Otherwise, the
        // beginning and the end are shown.
        let pages = self.since.is_some() && self.is_unfiltered();
        if pages { TextLimit::Page(max) } else { TextLimit::HeadTail(max) }
    }

    fn query(&self, begin: ReadStart, pager: Option<&str>) -> OutputQuery {
        OutputQuery {
            from: begin.from,
            filter: self.line_filter(),
            last_lines: self.tail.map(NonZeroUsize::get),
            limit: self.size_limit(pager),
        }
    }

    /// Prints the output that is kept, in a pager if there is one. Returns the offset after the
    /// output, or `None` if the reader of standard output has closed it.
    fn print_kept(&self, task: &Task, begin: ReadStart) -> Result<Option<u64>, Failure> {
        let pager = self.pager();
        if self.prints_exact_bytes(task) {
            return self.print_bytes(task, self.tail_offset(task, begin.from)?, pager);
        }
        let query = self.query(begin, pager.as_deref());
        let mut screen = pager.map_or_else(PagedOutput::direct, PagedOutput::with_pager);
        self.print_text(task, &query, &mut screen)
    }

    /// Prints readable text. Returns the offset after the text, or `None` if the reader has closed
    /// the output.
    fn print_text(
        &self,
        task: &Task,
        query: &OutputQuery,
        screen: &mut PagedOutput,
    ) -> Result<Option<u64>, Failure> {
        let colors = self.color_handling();
        let (mut printed, mut ends_line) = (Printed::Nothing, true);
        let mut failed = None;
        let mut symbols = MarkerSymbols::for_stdout();
        let reading = read_output(task, query, colors, |text| {
            if !text.is_empty() {
                (printed, ends_line) = (Printed::Something, text.ends_with('\n'));
            }
            let text = symbols.convert(text);
            let result = match colors {
                ColorHandling::Removed => screen.write(text.as_bytes()),
                ColorHandling::Encoded => screen.write(decode_colors(&text).as_bytes()),
            };
            result.inspect_err(|error| failed = Some(error.kind()))
        });
        let newline = if ends_line { "" } else { "\n" };
        let finished = screen.write(newline.as_bytes()).and(screen.finish());
        let reading = match reading {
            Err(error) if failed.is_none() => return Err(read_failure(task, &error)),
            result => out::map_broken_pipe(result)?,
        };
        let Some(reading) = reading else { return Ok(None) };
        if out::map_broken_pipe(finished)?.is_none() {
            return Ok(None);
        }
        let mode = if self.is_unfiltered() && self.since.is_some() {
            ReadMode::Page
        } else if self.is_unfiltered() {
            ReadMode::Unfiltered
        } else {
            ReadMode::Filtered
        };
        if let Some(max) = unreported_truncation(query, &reading) {
            let size = size_in_words(max as u64);
            errln!("siding: cut to the last {size}; a larger --max-bytes, or `none`, shows more");
        }
        if let Some(remark) = format_footer(task, mode, printed, &reading) {
            errln!("siding: {remark}");
        }
        Ok(Some(reading.next))
    }

    fn print_json(&self, task: &Task, query: &OutputQuery) -> Result<Option<u64>, Failure> {
        let mut text = String::new();
        let reading = read_output(task, query, ColorHandling::Removed, |part| {
            text.push_str(part);
            Ok(())
        })
        .map_err(|error| read_failure(task, &error))?;
        let ReadSummary { from, next, bytes, gap, truncated } = reading;
        let reader = render::json::print_to_reader(&OutputView {
            task_id: task.dir.id(),
            from,
            next,
            bytes,
            gap,
            text,
            truncated,
            phase: task.state.lifecycle.phase().into(),
            outcome: task.state.lifecycle.outcome().cloned(),
        })?;
        Ok((reader == out::ReaderState::Connected).then_some(next))
    }

    /// Prints the exact bytes that are kept. Returns the offset after them, or `None` if the reader
    /// of standard output has closed it.
    fn print_bytes(
        &self,
        task: &Task,
        from: u64,
        pager: Option<String>,
    ) -> Result<Option<u64>, Failure> {
        let is_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        let mut screen = pager.map_or_else(PagedOutput::direct, PagedOutput::with_pager);
        let print = |bytes: &[u8]| {
            if is_terminal {
                stderr::note_terminal_output(bytes);
            }
            screen.write(bytes)
        };
        let copied = output::copy(&task.dir, from, print);
        let finished = screen.finish();
        let copied = out::map_broken_pipe(copied.and_then(|copied| finished.map(|()| copied)))?;
        let Some(copied) = copied else { return Ok(None) };
        if copied.released > 0 {
            errln!(
                "siding: {} in the middle of the output is no longer stored; `siding show {}` shows the offsets",
                size_in_words(copied.released),
                task.dir.id()
            );
        }
        if !self.raw {
            let printed = if copied.bytes > 0 { Printed::Something } else { Printed::Nothing };
            let (next, bytes) = (copied.next, copied.next);
            let reading = ReadSummary { from, next, bytes, gap: None, truncated: false };
            if let Some(remark) = format_footer(task, ReadMode::Unfiltered, printed, &reading) {
                errln!("siding: {remark}");
            }
        }
        Ok(Some(copied.next))
    }
}

/// Returns the size limit if the text was truncated and the limit is too small for an omission line
/// in the text.
fn unreported_truncation(query: &OutputQuery, reading: &ReadSummary) -> Option<usize> {
    match query.limit {
        TextLimit::HeadTail(max) if reading.truncated && max < MIN_MARKED_TEXT_BYTES => Some(max),
        TextLimit::HeadTail(_) | TextLimit::Page(_) | TextLimit::Unlimited => None,
    }
}

/// Acknowledges the notice of the task's end if the task has ended and the call printed the output
/// up to its last byte. If no record gives the size of the output, the output counts as printed.
fn mark_end_consumed(root: &StateDir, task: &Task, next: u64) {
    let is_all = task.state.closed.as_ref().is_none_or(|closed| next >= closed.output.bytes);
    if !task.state.is_live() && is_all {
        context::mark_consumed(root, &task.state, Coverage::Output);
    }
}

fn read_output(
    task: &Task,
    query: &OutputQuery,
    colors: ColorHandling,
    out: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<ReadSummary> {
    // The state was read before the output: if the state says that the task has ended, all output
    // had been written by then.
    let stream = if task.state.is_live() { StreamState::Growing } else { StreamState::Finished };
    let keep_head = task.state.spec.keep_head;
    output::read_with_colors(&task.dir, (keep_head, stream), query, colors, out)
}

fn read_failure(task: &Task, error: &io::Error) -> Failure {
    Failure::new(format!("task {}: could not read its output: {error}", task.dir.id()))
}
