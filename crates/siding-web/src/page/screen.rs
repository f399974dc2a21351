//! The screen of a task's terminal on the page of the task, and the fields for typing into it.

use maud::{Markup, html};
use siding_core::task::terminal;
use siding_live::LiveTask;
use siding_model::id::TaskId;
use siding_model::terminal::PromptEvidence;
use siding_model::text::{CharStyle, display_width, make_visible, one_line};
use siding_terminal::{Screen, StyledRun, TerminalHistory, TerminalReplay};

use crate::context::WebContext;
use crate::output_style::style_classes;

/// Maximum size of a screen as markup, in bytes. A usual screen has less than 10 kB.
const MAX_MARKUP_BYTES: usize = 60_000;

/// Characters of a row with the same style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece<'s> {
    text: &'s str,
    style: CharStyle,
    is_cursor: bool,
}

/// Returns the section with the screen; nothing for a task without a terminal.
pub(super) fn screen_section(context: &WebContext, task: &LiveTask) -> Markup {
    let id = task.view.task_id;
    let Some(screen) = read_screen(context, id) else { return html! {} };
    html! {
        section aria-labelledby="h-screen" {
            h2 #h-screen { "Screen " span.count { (screen.size()) } }
            @if let Some(title) = screen.title() { p.hint { (one_line(title, 200)) } }
            pre.screen tabindex="0" role="region" aria-label="Screen"
                data-input=[accepted_input(context, task)] { (fit_rows(&screen)) }
            @if task.is_live() {
                p.hint { code { "siding attach " (id) } " types into this terminal at yours." }
            }
        }
    }
}

/// Returns the section with the present screen alone, for a script; `None` if there is no such task.
pub(super) fn fragment(context: &WebContext, id: TaskId) -> Option<Markup> {
    let task = context.feed.read_fresh(|view| view.task(id).cloned())?;
    Some(screen_section(context, &task))
}

/// Returns the input that the page sends to the terminal: `secret` while a line that is typed is
/// hidden, and `keys` otherwise. `None` if the page sends none.
fn accepted_input(context: &WebContext, task: &LiveTask) -> Option<&'static str> {
    if !context.control || !task.is_live() {
        return None;
    }
    let dir = context.root.task_dir(task.view.task_id).ok();
    let facts =
        dir.filter(|_| context.is_person).and_then(|dir| terminal::request_facts(&dir).ok());
    let is_secret =
        facts.is_some_and(|facts| facts.input.secret_requested(PromptEvidence::default()));
    Some(if is_secret { "secret" } else { "keys" })
}

/// Returns the fields for typing, which a script shows and reads. They are outside the parts that a
/// script replaces, so that the focus and a half-typed secret are not lost.
pub(super) fn typing_controls(context: &WebContext, task: &LiveTask) -> Markup {
    let id = task.view.task_id;
    html! {
        @if context.control && task.is_live() {
            div.typing role="group" aria-label="Typing" data-typing=(id) {
                noscript { p.hint { "Typing needs JavaScript; " code { "siding attach " (id) } " works without it." } }
                button type="button" data-type-start hidden { "Type into the terminal" }
                div data-type-area hidden {
                    label for="type-here" { "Type here" }
                    textarea #type-here rows="1" autocomplete="off" autocapitalize="off"
                        spellcheck="false" aria-describedby="type-help" {}
                    button type="button" data-type-stop { "Stop typing" }
                    p.hint #type-help { "Every key goes to the terminal, also Tab and Escape. Ctrl+Escape stops typing, and agents can type again." }
                }
                (secret_part(context, id))
                p.hint data-agent-hint hidden { (agent_hint(context, id)) }
                p role="status" data-type-status {}
            }
        }
    }
}

/// Returns what the page shows while a program hides what is typed: a field for the secret, or why
/// there is none.
fn secret_part(context: &WebContext, id: TaskId) -> Markup {
    html! {
        @if context.accepts_secrets() {
            // The field has no name, so that no form can send its value.
            form data-secret autocomplete="off" hidden {
                label for="secret" { "Secret" }
                input #secret type="password" autocomplete="off" aria-describedby="secret-help";
                button type="submit" { "Answer" }
                p.hint #secret-help { "The program hides what is typed. siding neither shows nor stores it." }
            }
        } @else {
            p.hint data-secret hidden {
                "The program hides what is typed. Do not type a secret on this page: the server listens on "
                (context.address.to_string()) ", so the network could read it. "
                code { "siding answer " (id) } " asks for the secret at your terminal."
            }
        }
    }
}

/// Returns why the keys of a page without a page key are an agent's, and the next step.
fn agent_hint(context: &WebContext, id: TaskId) -> Markup {
    html! {
        @if context.is_person {
            "The keys of this browser are an agent's, because it has no page key. To type as a person, sign in again with the last link that "
            code { "siding web" } " printed."
        } @else {
            "The keys of this page are an agent's, because no person has started "
            code { "siding web" } " outside of tasks, with its output at a terminal. "
            code { "siding attach " (id) } " types as a person."
        }
    }
}

/// Computes the screen of a task; `None` without a terminal, or if the output cannot be read.
fn read_screen(context: &WebContext, id: TaskId) -> Option<Screen> {
    let dir = context.root.task_dir(id).ok()?;
    let state = dir.read().ok()?.state;
    let history = TerminalHistory::from(state.terminal.as_ref()?);
    let replay = TerminalReplay::open(&dir, &history, None, !state.is_live()).ok()?;
    Some(replay.screen())
}

/// Returns the markup of the rows: without colors if it is too large with them, and without the
/// first rows if it is still too large.
fn fit_rows(screen: &Screen) -> Markup {
    let rows = |has_colors: bool| -> Vec<Markup> {
        (0..screen.rows().len()).map(|row| row_markup(screen, row, has_colors)).collect()
    };
    let size = |rows: &[Markup]| rows.iter().map(|row| row.0.len()).sum::<usize>();
    let mut shown = rows(true);
    if size(&shown) > MAX_MARKUP_BYTES {
        shown = rows(false);
    }
    let (mut bytes, mut first) = (size(&shown), 0);
    while bytes > MAX_MARKUP_BYTES && first + 1 < shown.len() {
        bytes -= shown[first].0.len();
        first += 1;
    }
    html! { @for row in &shown[first..] { (row) } }
}

fn row_markup(screen: &Screen, row: usize, has_colors: bool) -> Markup {
    let cursor = screen.cursor();
    let is_cursor_row = cursor.visible && usize::from(cursor.row) == row;
    let cursor_column = is_cursor_row.then(|| usize::from(cursor.column));
    let (pieces, end) = split_runs(screen.runs(row), cursor_column);
    let blanks = cursor_column.and_then(|column| column.checked_sub(end));
    html! {
        @for piece in pieces {
            @let style = if has_colors { piece.style } else { CharStyle::default() };
            @let text = make_visible(piece.text);
            @if piece.is_cursor { span.cursor { (text) } }
            @else if style == CharStyle::default() { (text) }
            @else { span class=(style_classes(style)) { (text) } }
        }
        @if let Some(blanks) = blanks { (" ".repeat(blanks)) span.cursor { " " } }
        "\n"
    }
}

/// Splits the runs of a row at the cursor, if it is in this row. Also returns the column after the
/// last run.
fn split_runs(runs: &[StyledRun], cursor: Option<usize>) -> (Vec<Piece<'_>>, usize) {
    let mut pieces = Vec::new();
    let mut end = 0;
    for run in runs {
        let start = usize::from(run.column);
        end = start + display_width(&run.text);
        let in_run = cursor.and_then(|column| column.checked_sub(start));
        let (before, rest) = match in_run {
            Some(column) => split_at_column(&run.text, column),
            None => (run.text.as_str(), ""),
        };
        let (at_cursor, after) = split_at_column(rest, 1);
        for (text, is_cursor) in [(before, false), (at_cursor, true), (after, false)] {
            if !text.is_empty() {
                pieces.push(Piece { text, style: run.style, is_cursor });
            }
        }
    }
    (pieces, end)
}

/// Splits a text in front of the first character at or after a column. A combining mark stays with
/// the character before it.
fn split_at_column(text: &str, column: usize) -> (&str, &str) {
    let mut width = 0;
    for (index, c) in text.char_indices() {
        let char_width = display_width(c.encode_utf8(&mut [0; 4]));
        if width >= column && char_width > 0 {
            return text.split_at(index);
        }
        width += char_width;
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::TerminalSize;
    use siding_terminal::Emulator;

    use super::*;

    fn markup(columns: u16, rows: u16, output: &str) -> String {
        let mut emulator = Emulator::new(TerminalSize { columns, rows });
        emulator.feed(output.as_bytes());
        fit_rows(&emulator.screen()).into_string()
    }

    #[test]
    fn text_is_escaped_and_the_cursor_is_marked() {
        assert_eq!(
            markup(20, 2, "<b>\x1b[31mred\x1b[m&\x1b[1;2H"),
            "&lt;<span class=\"cursor\">b</span>&gt;<span class=\"f1\">red</span>&amp;\n\n"
        );
        assert_eq!(markup(20, 1, "ab\x1b[1;5H"), "ab  <span class=\"cursor\"> </span>\n");
        assert_eq!(markup(20, 1, "a\u{202e}b\x1b[?25l").matches('\u{202e}').count(), 0);
        assert_eq!(
            markup(20, 1, "界e\u{301}x\x1b[1;3H"),
            "界<span class=\"cursor\">e\u{301}</span>x\n"
        );
    }

    #[test]
    fn the_markup_of_a_large_screen_is_limited() {
        let colored: String = (0..100_000).map(|n| format!("\x1b[38;5;{}m&", n % 256)).collect();
        let shown = markup(500, 200, &colored);
        assert!(shown.len() <= MAX_MARKUP_BYTES, "{} bytes", shown.len());
        assert!(shown.contains("&amp;&amp;"), "{shown:.200}");
    }
}
