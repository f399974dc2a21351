//! Prints output as the task writes it, until the task ends. The output file is not polled, because
//! the shim reports its growth.

use std::io::{self, IsTerminal as _};

use siding_core::output::{self, ColorHandling, LineRedraw, TailFollower};
use siding_core::store::StateDir;
use siding_core::sys::poll;
use siding_core::task::view::queue_text;
use siding_core::task::watch::TaskWatch;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::text::{decode_colors, one_line};

use super::Args;
use super::footer::STATUS_COLUMNS;
use super::marker_symbols::MarkerSymbols;
use crate::context::{SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::render::{ended_line, out};
use crate::{stderr, terminal};

/// Silence in milliseconds after which an incomplete line, which may be a prompt, is printed unless
/// it can be erased.
const PARTIAL_LINE_DELAY_MS: u64 = 300;

/// Follows a task. Returns the offset after the printed output, or `None` if the reader of standard
/// output has closed it.
pub(super) fn run(
    args: &Args,
    root: &StateDir,
    task: &Task,
    from: u64,
) -> Result<Option<u64>, Failure> {
    let choose = args.line_filter();
    let printer = if args.prints_exact_bytes(task) {
        Printer::Raw { next: from }
    } else {
        let colors = args.color_handling();
        let redraw = line_redraw(args);
        let mut symbols = MarkerSymbols::for_stdout();
        let is_terminal = io::stdout().is_terminal() && io::stderr().is_terminal();
        let print = move |text: &str| {
            let text = symbols.convert(text);
            if is_terminal {
                stderr::note_terminal_output(text.as_bytes());
            }
            match colors {
                ColorHandling::Removed => out::write(text.as_bytes()),
                ColorHandling::Encoded => out::write(decode_colors(&text).as_bytes()),
            }
        };
        let lines = Box::new(TailFollower::new(from, &choose, colors, redraw, print));
        Printer::Text { lines, redraw }
    };
    follow_task(printer, root, task)
}

/// Returns the way in which standard output shows a line that the task rewrites. A filter needs
/// whole lines.
fn line_redraw(args: &Args) -> LineRedraw {
    let is_filtered = !args.includes_end();
    if !is_filtered && io::stdout().is_terminal() && terminal::understands_sequences() {
        LineRedraw::InPlace
    } else {
        LineRedraw::NextLine
    }
}

/// Prints output as exact bytes or as readable text.
enum Printer<'c, F> {
    Raw { next: u64 },
    Text { lines: Box<TailFollower<'c, F>>, redraw: LineRedraw },
}

impl<F: FnMut(&str) -> io::Result<()>> Printer<'_, F> {
    fn print_more(&mut self, task: &Task) -> io::Result<()> {
        match self {
            Self::Raw { next } => {
                *next = output::copy(&task.dir, *next, out::write)?.next;
                Ok(())
            }
            Self::Text { lines, redraw } => {
                lines.emit_new(&task.dir)?;
                match redraw {
                    LineRedraw::InPlace => lines.show_partial_line(),
                    LineRedraw::NextLine => Ok(()),
                }
            }
        }
    }

    fn show_partial_line(&mut self) -> io::Result<()> {
        match self {
            Self::Raw { .. } => Ok(()),
            Self::Text { lines, .. } => lines.show_partial_line(),
        }
    }

    fn finish(self) -> io::Result<u64> {
        match self {
            Self::Raw { next } => Ok(next),
            Self::Text { lines, .. } => lines.finish(),
        }
    }
}

fn follow_task<F: FnMut(&str) -> io::Result<()>>(
    mut printer: Printer<'_, F>,
    root: &StateDir,
    task: &Task,
) -> Result<Option<u64>, Failure> {
    if let Some(status) = queue_text(&task.state) {
        errln!("siding: {} {}", task.dir.id(), one_line(&status, STATUS_COLUMNS));
    }
    let mut watch = TaskWatch::open(root, SHIM_PROGRAM, task.dir.id())?;
    watch.send(&ShimRequest::Subscribe { follow: true, shown: None })?;
    if out::map_broken_pipe(printer.print_more(task))?.is_none() {
        return Ok(None);
    }
    let mut settled = false;
    while let Some(source) = watch.source() {
        let timeout = (!settled).then_some(PARTIAL_LINE_DELAY_MS);
        let ready = poll::wait_readable(&[source], timeout)
            .map_err(|error| Failure::new(format!("could not wait: {error}")))?;
        let printed = if ready == [true] {
            settled = false;
            recv_messages(&mut watch)?;
            printer.print_more(task)
        } else {
            settled = true;
            printer.show_partial_line()
        };
        if out::map_broken_pipe(printed)?.is_none() {
            return Ok(None);
        }
    }
    let finished = printer.print_more(task).and_then(|()| printer.finish());
    let Some(next) = out::map_broken_pipe(finished)? else { return Ok(None) };
    let ended = Task::read(root, task.dir.id())?;
    errln!("siding: {}", ended_line(&ended.view(root, siding_core::task::view::ViewDetail::Brief)));
    Ok(Some(next))
}

/// Processes the shim's messages. After a growth message, requests the next one: the answer to that
/// request also reports output that was written in between.
fn recv_messages(watch: &mut TaskWatch<'_>) -> Result<(), Failure> {
    let renewed = watch.reconnects();
    let mut again = false;
    while let Some(message) = watch.try_recv()? {
        match message {
            ShimMessage::Output { .. } => again = true,

            ShimMessage::Done
            | ShimMessage::Record { .. }
            | ShimMessage::Refused { .. }
            | ShimMessage::Why { .. }
            | ShimMessage::Usage { .. }
            | ShimMessage::Terminal { .. }
            | ShimMessage::TerminalWritten { .. }
            | ShimMessage::KeysRefused { .. }
            | ShimMessage::OutputDiffers { .. }
            | ShimMessage::WriteUnconfirmed { .. }
            | ShimMessage::ResizeRefused { .. }
            | ShimMessage::CannotStart { .. } => {}
        }
    }
    // After a reconnection the shim may be a new one, which has not received the previous request.
    if again || watch.reconnects() != renewed {
        watch.send(&ShimRequest::Subscribe { follow: true, shown: None })?;
    }
    Ok(())
}
