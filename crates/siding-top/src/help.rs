//! The list of keys.

use siding_model::text::display_width;

use crate::detail::PaneLine;
use crate::theme::Tone;

/// Width of the keys.
const KEY_COLUMNS: usize = 12;

/// The lines of the help: a key and its meaning, or an empty string and a heading.
const HELP_LINES: [(&str, &str); 40] = [
    ("", "Move"),
    ("j k, arrows", "next and previous task or line"),
    ("g G", "first and last"),
    ("PgUp PgDn", "one page, as Ctrl-B and Ctrl-F; Ctrl-U and Ctrl-D half a page"),
    ("mouse", "click selects and opens, and sorts by a heading; the wheel scrolls"),
    ("", "List"),
    ("Enter, l", "open the selected task"),
    ("/", "filter by words; Esc shows all tasks"),
    ("s S", "next and previous order of the list, which its title names"),
    ("t", "group by session, kind or state"),
    ("a", "hide or show the ended tasks that do not need you"),
    ("q, Ctrl-C", "quit; the tasks continue"),
    ("", "Page of a task"),
    ("q, Esc, h", "back to the list"),
    ("Tab, 1 to 6", "output, processes, limits, events, notices, facts"),
    ("f, Space", "pause and follow the output"),
    ("/ n N", "search, next and previous hit; Esc cancels a long search"),
    ("E", "first line that looks like an error"),
    ("a", "open its terminal, if it has one; Ctrl-\\ twice leaves it"),
    ("", "Act on a task"),
    ("w", "why: what each process waits for; on tab 3, the peak usage"),
    ("x", "stop it with everything that it started"),
    ("e", "extend its deadline: Enter adds 30m, otherwise type a duration such as 5m"),
    ("i", "write a line to its standard input, or type it into its terminal"),
    ("r", "release an adopted process"),
    ("A", "acknowledge its notices, so that a failure counts as seen"),
    ("o", "open its output in $PAGER"),
    ("y Y p", "copy the id, the command, the path of the output"),
    ("", "Symbols"),
    ("!", "needs you: waits for input, near its deadline, over a limit, failed unseen"),
    ("●", "runs"),
    ("■", "is being stopped; dimmed: was stopped or released"),
    ("◌", "its command has ended, processes are left"),
    ("✓ ✗", "exited with code 0; failed, for example at its deadline or a limit"),
    ("▓▓░", "elapsed time against the usual time; + is longer than usual"),
    ("", "Screen"),
    ("?", "list the keys; the keys under Move scroll the list"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend; fg continues"),
    ("Ctrl-U, Ctrl-W", "in an input line: delete the line, or its last word"),
];

/// Returns the lines of the help, as a box shows them.
pub(crate) fn help_lines() -> Vec<PaneLine> {
    HELP_LINES.iter().map(help_line).collect()
}

fn help_line((key, meaning): &(&str, &str)) -> PaneLine {
    if key.is_empty() {
        return PaneLine::new(Tone::Strong, *meaning);
    }
    let blanks = " ".repeat(KEY_COLUMNS.saturating_sub(display_width(key)));
    PaneLine::labeled(format!("  {key}{blanks} "), *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::wrap_lines;

    #[test]
    fn the_help_fits_every_width_and_nothing_is_lost() {
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        let whole: String = HELP_LINES.iter().map(|(key, text)| bare(key) + &bare(text)).collect();
        for columns in [12, 32, 72, 86] {
            let rows = wrap_lines(&help_lines(), columns);
            assert!(rows.iter().all(|(_, row)| display_width(row) <= columns), "{rows:?}");
            assert_eq!(rows.iter().map(|(_, row)| bare(row)).collect::<String>(), whole);
        }
    }

    #[test]
    fn the_page_about_the_screen_lists_every_key() {
        let path = format!("{}/../../docs/top.md", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(path).expect("the page exists");
        let row = |(key, meaning): &(&str, &str)| match *key {
            "" => format!("| **{meaning}** | |\n"),
            key => format!("| {key} | {meaning} |\n"),
        };
        let table: String = HELP_LINES.iter().map(row).collect();
        assert!(page.contains(&table), "docs/top.md lacks this table:\n{table}");
    }
}
