//! The list of keys.

/// The lines of the help: a key and its meaning, or an empty string and a heading.
pub(crate) const HELP_LINES: [(&str, &str); 38] = [
    ("", "Move"),
    ("j k, arrows", "next and previous task or line"),
    ("g G", "first and last"),
    ("PgUp PgDn", "one page, as Ctrl-B and Ctrl-F; Ctrl-U and Ctrl-D half a page"),
    ("mouse", "click selects and opens, and sorts by a heading; the wheel scrolls"),
    ("", "List"),
    ("Enter, l", "open the selected task"),
    ("/", "filter by words; Esc shows all tasks"),
    ("s S", "next and previous order: by each column, by bytes of output"),
    ("t", "group by session, kind or state"),
    ("a", "hide or show ended tasks"),
    ("q, Ctrl-C", "quit; the tasks continue"),
    ("", "Page of a task"),
    ("q, Esc, h", "back to the list"),
    ("Tab, 1 to 6", "output, processes, limits, events, notices, facts"),
    ("f, Space", "pause and follow the output"),
    ("/ n N", "search, next and previous hit"),
    ("E", "first line that looks like an error"),
    ("", "Act on a task"),
    ("w", "why: what each process waits for; on tab 3, what was used most"),
    ("x", "stop it with everything that it started"),
    ("e", "extend its deadline"),
    ("i", "write a line to its standard input"),
    ("r", "release an adopted process"),
    ("o", "open its output in $PAGER"),
    ("y Y p", "copy the id, the command, the path of the output"),
    ("", "Symbols"),
    ("!", "needs you: waits for input, near its deadline, over a limit, failed unseen"),
    ("●", "runs"),
    ("■", "is being stopped"),
    ("◌", "its command has ended, processes are left"),
    ("✗ ✓", "failed, ended"),
    ("▓▓░", "elapsed time against the usual time; + is longer than usual"),
    ("", "Screen"),
    ("?", "list the keys"),
    ("Ctrl-L", "draw again"),
    ("Ctrl-Z", "suspend; fg continues"),
    ("Ctrl-U, Ctrl-W", "in an input line: delete the line, or its last word"),
];

#[cfg(test)]
mod tests {
    use super::*;

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
