//! `cargo xtask picture`: draws the picture in the README from a recorded session, and the examples of
//! a timeline and of `siding top` from real tasks.

mod recorded_screen;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anstyle_svg::Term;
use anyhow::{Context, Result, bail, ensure};

use crate::sandbox::{DemoSandbox, build_program, format_command_line};
use crate::workspace::Workspace;

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "picture",
    about: "draws docs/session.svg, docs/timeline.svg and docs/top.svg from real tasks",
    usage: "\
Usage: cargo xtask picture [RECORDING]

Builds the program, runs a short session of real commands on a terminal of 80 columns (script(1)), and
writes the recorded screen to docs/session.svg, which README.md shows. Also prints the session. The
session has a home directory of its own, in which ~/project is this checkout, and no variables of an
agent. Then runs the tasks of docs/timeline.svg, and those of the screen of `siding top` in
docs/top.svg, which takes a minute.

With a recording of `siding record --cast` (asciicast v3), prints its last screen as SVG instead, and
runs nothing.
",
    run: draw_picture,
};

/// Paths of the pictures, relative to the root of the repository.
const SESSION_PATH: &str = "docs/session.svg";
const TIMELINE_PATH: &str = "docs/timeline.svg";
const TOP_PATH: &str = "docs/top.svg";
/// The tasks in the timeline and on the screen of `siding top`: shell texts that call `siding`.
const TIMELINE_TASKS: &str = include_str!("picture/timeline.sh");
const TOP_TASKS: &str = include_str!("picture/top.sh");
/// The terminal of the session.
const SESSION_TERMINAL: TerminalSize = TerminalSize { columns: 80, rows: 24 };
/// The terminal of `siding top`, which has the width of most columns.
const TOP_TERMINAL: TerminalSize = TerminalSize { columns: 112, rows: 12 };
/// Time after which `siding top` is terminated. It has then measured the tasks twice.
const TOP_DURATION: Duration = Duration::from_secs(7);
/// The escape sequence with which a program leaves the screen that it had for itself.
const LEAVE_SCREEN: &str = "\x1b[?1049l";
/// The prompt before the typed commands. It names the working directory.
const PROMPT: &str = "~/project$";
/// The directory in which the session seems to run, and its home directory.
const SHOWN_PROJECT: &str = "~/project";
const SHOWN_HOME: &str = "~";
/// The escape sequences that begin and end the bold text of the typed commands.
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

fn draw_picture(arguments: &[String]) -> Result<ExitCode> {
    match arguments {
        [] => draw_all(),
        [recording] => print_recording(Path::new(recording)),
        _ => bail!("takes at most one argument: the file of a recording"),
    }
}

/// Prints the last screen of a recording as SVG.
fn print_recording(path: &Path) -> Result<ExitCode> {
    let read = || recorded_screen::render_cast(&fs::read_to_string(path)?);
    let screen = read().with_context(|| format!("could not draw `{}`", path.display()))?;
    std::io::stdout().write_all(&draw_screen(&screen)).context("could not print the picture")?;
    Ok(ExitCode::SUCCESS)
}

fn draw_all() -> Result<ExitCode> {
    let workspace = Workspace::open()?;
    let program = build_program(&workspace)?;
    let draw = |path: &str, record: &dyn Fn(&DemoSandbox, &Path) -> Result<Vec<u8>>| {
        let sandbox = DemoSandbox::create(program.clone(), workspace.root.clone())?;
        let svg = record(&sandbox, &workspace.root)?;
        sandbox.remove()?;
        fs::write(workspace.root.join(path), svg)
            .with_context(|| format!("could not write `{path}`"))?;
        println!("\nwrote {path}");
        anyhow::Ok(())
    };
    draw(SESSION_PATH, &|sandbox, root| Ok(draw_screen(&record_session(sandbox, root)?)))?;
    draw(TIMELINE_PATH, &|sandbox, _| record_timeline(sandbox))?;
    draw(TOP_PATH, &|sandbox, root| Ok(draw_screen(&record_top(sandbox, root)?)))?;
    Ok(ExitCode::SUCCESS)
}

/// Draws text with ANSI escape sequences for colors.
fn draw_screen(text: &str) -> Vec<u8> {
    Term::new().min_width_px(720).render_svg(text).into_bytes()
}

/// Runs the commands of the picture, and returns the screen as text with ANSI escape sequences for
/// colors.
fn record_session(sandbox: &DemoSandbox, root: &Path) -> Result<String> {
    let mut recording = Recording::new(sandbox, root)?;
    // Cargo runs one job at a time; otherwise a fast machine would finish within the budget.
    let check = ["cargo", "check", "-p", "siding-core", "--jobs", "1"];
    recording.run(&[&["run", "--budget", "3s", "--"], &check[..]].concat())?;
    let build = sandbox.running_task_id()?;
    recording.run(&["ps"])?;
    recording.run(&["wait", &build])?;
    let question = r#"printf "Overwrite dist? [y/N] "; read answer"#;
    recording.run(&["run", "--background", "--stdin", "pipe", "--", question])?;
    let asking = sandbox.running_task_id()?;
    recording.run(&["why", &asking])?;
    let escaping = "setsid sleep 600 & (env -i setsid sleep 700 &); sleep 800";
    recording.run(&["run", "--background", "--", escaping])?;
    recording.run(&["stop", "--all"])?;
    ensure_no_own_path(&recording.screen, root)?;
    Ok(recording.screen)
}

/// Runs the tasks of the picture of `siding top`, and returns the screen that it shows.
fn record_top(sandbox: &DemoSandbox, root: &Path) -> Result<String> {
    let recording = Recording::new(sandbox, root)?;
    let mut shell = Command::new("bash");
    recording.set_environment(shell.args(["-c", TOP_TASKS]));
    let status = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.context("could not start bash")?;
    let keys = Some((TOP_DURATION, "q"));
    let written = recording.run_on_terminal("siding top", TOP_TERMINAL, keys)?;
    let (shown, _) = written.rsplit_once(LEAVE_SCREEN).context("`siding top` has shown nothing")?;
    let screen = recorded_screen::render_terminal(shown.as_bytes(), TOP_TERMINAL.columns);
    print!("{screen}");
    ensure_no_own_path(&screen, root)?;
    sandbox.stop_all()?;
    Ok(screen)
}

/// Fails if a picture would contain a path of this machine.
fn ensure_no_own_path(screen: &str, root: &Path) -> Result<()> {
    let own_paths = [std::env::temp_dir(), root.to_owned(), user_home()];
    match find_own_path(screen, &own_paths) {
        Some(path) => {
            bail!("the picture would contain `{}`, a path of this machine", path.display())
        }
        None => Ok(()),
    }
}

/// Returns the home directory of the user; an empty path if it is unknown.
fn user_home() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default()
}

/// Returns the first of these directories whose path is in a text. The root directory and an
/// unknown directory are in no text.
fn find_own_path<'p>(text: &str, paths: &'p [PathBuf]) -> Option<&'p Path> {
    let is_specific = |path: &&PathBuf| path.file_name().is_some();
    let mut paths = paths.iter().filter(is_specific);
    paths.find(|path| text.contains(&*path.to_string_lossy())).map(PathBuf::as_path)
}

/// Runs the tasks of the timeline, and returns the picture of them.
fn record_timeline(sandbox: &DemoSandbox) -> Result<Vec<u8>> {
    let mut shell = Command::new("bash");
    let output = sandbox
        .in_sandbox(shell.args(["-c", TIMELINE_TASKS]))
        .env("TZ", "UTC")
        .stderr(Stdio::inherit())
        .output()
        .context("could not start bash")?;
    ensure!(output.stdout.starts_with(b"<svg"), "`siding timeline` has printed no picture");
    Ok(output.stdout)
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy)]
struct TerminalSize {
    columns: usize,
    rows: usize,
}

/// A terminal session: each typed command with its output.
struct Recording<'a> {
    sandbox: &'a DemoSandbox,
    /// The home directory of the session.
    home: PathBuf,
    /// Paths in the output, and the texts that are shown instead, in the order of replacement.
    shown_paths: [(String, &'static str); 2],
    screen: String,
}

impl<'a> Recording<'a> {
    /// Starts a session in a home directory in which `project` is the checkout.
    fn new(sandbox: &'a DemoSandbox, root: &Path) -> Result<Self> {
        let home = sandbox.home();
        fs::create_dir(&home)
            .and_then(|()| symlink(root, home.join("project")))
            .with_context(|| format!("could not create `{}`", home.display()))?;
        // The kernel resolves the link, so programs print the path of the checkout.
        let shown_paths = [(root, SHOWN_PROJECT), (home.as_path(), SHOWN_HOME)]
            .map(|(path, shown)| (path.to_string_lossy().into_owned(), shown));
        Ok(Self { sandbox, home, shown_paths, screen: String::new() })
    }

    /// Runs `siding` with these words on a new terminal, and appends the command and its output. No
    /// word may contain a single quote.
    fn run(&mut self, words: &[&str]) -> Result<()> {
        let typed = format_command_line(PROMPT, words);
        println!("{typed}");
        let call = typed.strip_prefix(PROMPT).unwrap_or(&typed).trim_start();
        let written = self.run_on_terminal(call, SESSION_TERMINAL, None)?;
        let printed =
            recorded_screen::render_terminal(written.as_bytes(), SESSION_TERMINAL.columns);
        print!("{printed}");
        ensure!(!printed.is_empty(), "`{call}` printed nothing");
        self.screen.push_str(&format!("{BOLD}{typed}{PLAIN}\n{printed}\n"));
        Ok(())
    }

    /// Runs a call on a new terminal, and returns the text that was written to the terminal. Types
    /// the keys, if any, after a time.
    fn run_on_terminal(
        &self,
        call: &str,
        size: TerminalSize,
        keys: Option<(Duration, &str)>,
    ) -> Result<String> {
        // script(1) opens the terminal. Without a terminal, siding prints no colors.
        let mut script = Command::new("script");
        let line = format!("stty cols {} rows {}; {call}", size.columns, size.rows);
        script.args(["--quiet", "--command", &line, "/dev/null"]);
        self.set_environment(&mut script);
        let mut script = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("could not start script(1), which is part of util-linux")?;
        // At the end of its input, script(1) would type Ctrl-D, about which siding prints a note.
        let mut keyboard = script.stdin.take().context("script(1) has no input")?;
        if let Some((after, keys)) = keys {
            std::thread::sleep(after);
            keyboard.write_all(keys.as_bytes()).context("could not type into script(1)")?;
        }
        let output = script.wait_with_output().context("could not read the terminal")?;
        drop(keyboard);
        let mut written = String::from_utf8_lossy(&output.stdout).into_owned();
        for (path, shown) in &self.shown_paths {
            written = written.replace(path.as_str(), shown);
        }
        Ok(written)
    }

    /// Sets an environment without variables of an agent or a terminal program, on which the texts
    /// of siding depend.
    fn set_environment(&self, command: &mut Command) {
        command.env_clear();
        self.sandbox
            .in_sandbox(command)
            .current_dir(self.home.join("project"))
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("CARGO_TERM_COLOR", "always")
            .env("CARGO_TARGET_DIR", self.home.join("target"));
        // Cargo and rustup find their files in the home directory otherwise.
        for (name, directory) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            let value = std::env::var_os(name).map(PathBuf::from);
            command.env(name, value.unwrap_or_else(|| user_home().join(directory)));
        }
        if let Some(toolchain) = std::env::var_os("RUSTUP_TOOLCHAIN") {
            command.env("RUSTUP_TOOLCHAIN", toolchain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_machine_are_found() {
        let paths = ["/", "", "/tmp", "/home/ann"].map(PathBuf::from);
        assert_eq!(find_own_path("~/project/src: 1/2", &paths), None);
        assert_eq!(find_own_path("in /home/ann/x", &paths), Some(Path::new("/home/ann")));
        assert_eq!(find_own_path("(/tmp/a)", &paths), Some(Path::new("/tmp")));
    }
}
