//! Shows a long text in the pager of a person, as git does.

use std::env;
use std::io::{self, ErrorKind, Write as _};
use std::process::{Command, Stdio};

use siding_core::sys::signals::ForegroundProgram;
use siding_core::sys::tty;
use siding_model::text::{RenderOptions, display_width, render_output};

use crate::caller;
use crate::render::out;

/// The variables that name the pager, the most specific one first.
const PAGER_VARIABLES: [&str; 2] = ["SIDING_PAGER", "PAGER"];
/// The pager if no variable is set.
const DEFAULT_PAGER: &str = "less";
/// The options of less(1) if `LESS` is not set: quit if the text fits the screen, pass on colors,
/// leave the text on the screen.
const LESS_OPTIONS: &str = "FRX";

/// Returns the shell text that starts the pager; `None` if the person wants none, or if no variable
/// is set and less(1) is not installed.
fn choose_pager(
    variable: impl Fn(&str) -> Option<String>,
    has_default: impl Fn() -> bool,
) -> Option<String> {
    let chosen = PAGER_VARIABLES.into_iter().find_map(variable);
    let is_default = chosen.is_none();
    let pager = chosen.unwrap_or_else(|| DEFAULT_PAGER.to_owned());
    let is_pager = !matches!(pager.trim(), "" | "cat");
    (is_pager && (!is_default || has_default())).then_some(pager)
}

/// Returns the pager of this process's environment.
pub(crate) fn pager_from_environment() -> Option<String> {
    choose_pager(|name| env::var(name).ok(), || is_installed(DEFAULT_PAGER))
}

/// Returns the pager of this process's environment if a person reads standard output at a terminal.
pub(crate) fn pager_for_person() -> Option<String> {
    caller::is_person_at_stdout().then(pager_from_environment).flatten()
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Standard output, or a pager as soon as the text is longer than the screen.
#[derive(Debug)]
pub(crate) struct PagedOutput {
    state: OutputState,
}

#[derive(Debug)]
enum OutputState {
    /// Everything goes to standard output.
    Direct,
    /// The text so far fits the screen.
    Held { pager: String, text: Vec<u8> },
    /// Ctrl-C reaches only the pager: if it also ended this process, the shell and the pager would
    /// both read the keys.
    Paged(ForegroundProgram),
}

impl PagedOutput {
    /// Returns an output that never starts a pager.
    pub(crate) const fn direct() -> Self {
        Self { state: OutputState::Direct }
    }

    /// Returns an output that starts the pager once the text is longer than the screen.
    pub(crate) const fn with_pager(pager: String) -> Self {
        Self { state: OutputState::Held { pager, text: Vec::new() } }
    }

    /// Writes bytes. A closed pager is reported as `BrokenPipe`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let OutputState::Held { text, .. } = &mut self.state {
            text.extend_from_slice(bytes);
            let (columns, rows) = tty::size(io::stdout()).unwrap_or((80, 24));
            // One row is for the prompt of the shell.
            if !exceeds_rows(text, columns.into(), usize::from(rows).saturating_sub(1)) {
                return Ok(());
            }
            return self.start_pager();
        }
        match &mut self.state {
            OutputState::Paged(program) => match program.stdin() {
                Some(stdin) => stdin.write_all(bytes),
                None => Err(ErrorKind::BrokenPipe.into()),
            },
            OutputState::Direct | OutputState::Held { .. } => out::write(bytes),
        }
    }

    fn start_pager(&mut self) -> io::Result<()> {
        let OutputState::Held { pager, text } =
            std::mem::replace(&mut self.state, OutputState::Direct)
        else {
            return Ok(());
        };
        let mut command = Command::new("sh");
        // Ctrl-C is for the pager. A shell without a trap would end before the pager.
        command.arg("-c").arg(format!("trap : INT QUIT; {pager}")).stdin(Stdio::piped());
        if env::var_os("LESS").is_none() {
            command.env("LESS", LESS_OPTIONS);
        }
        if env::var_os("LV").is_none() {
            // Makes lv(1) pass on colors.
            command.env("LV", "-c");
        }
        let Ok(program) = ForegroundProgram::start(&mut command) else { return out::write(&text) };
        self.state = OutputState::Paged(program);
        self.write(&text)
    }

    /// Writes the text that is held, or waits until the person closes the pager.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, OutputState::Direct) {
            OutputState::Direct => Ok(()),
            OutputState::Held { text, .. } => out::write(&text),
            OutputState::Paged(program) => program.wait().map(drop),
        }
    }
}

/// Returns whether a text takes more than `rows` rows of a screen.
fn exceeds_rows(text: &[u8], columns: usize, rows: usize) -> bool {
    let mut used = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let width = if line.is_ascii() && !line.contains(&0x1b) {
            line.len().saturating_sub(1)
        } else {
            display_width(render_output(line, RenderOptions::default()).trim_end_matches('\n'))
        };
        used += width.div_ceil(columns.max(1)).max(1);
        if used > rows {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pager_is_chosen_as_by_git() {
        let choose = |set: &'static [(&str, &str)], is_installed: bool| {
            let value = |name: &str| {
                let found = set.iter().find(|(other, _)| *other == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            choose_pager(value, || is_installed)
        };
        assert_eq!(choose(&[], true).as_deref(), Some("less"));
        assert_eq!(choose(&[], false), None);
        assert_eq!(choose(&[("PAGER", "more -d")], false).as_deref(), Some("more -d"));
        assert_eq!(
            choose(&[("PAGER", "more"), ("SIDING_PAGER", "bat")], true).as_deref(),
            Some("bat")
        );
        for none in ["", "cat", " "] {
            let value: &'static str = none;
            let set: &'static [(&str, &str)] = Box::leak(Box::new([("SIDING_PAGER", value)]));
            assert_eq!(choose(set, true), None, "{none:?}");
        }
    }

    #[test]
    fn rows_are_counted_as_a_terminal_shows_them() {
        assert!(!exceeds_rows(b"", 80, 0));
        assert!(!exceeds_rows(b"a\nb\n", 80, 2));
        assert!(exceeds_rows(b"a\nb\nc", 80, 2));
        assert!(exceeds_rows(b"abcdef\n", 3, 1));
        assert!(!exceeds_rows(b"\x1b[31mabc\x1b[m\n", 3, 1));
        assert!(exceeds_rows("你好\n".as_bytes(), 3, 1));
        assert!(exceeds_rows(b"\n\n\n", 80, 2));
    }
}
