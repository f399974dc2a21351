//! `cargo xtask picture`: draws the picture in the README from a recorded session, and the example of
//! a timeline from real tasks.

mod recorded_screen;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anstyle_svg::Term;
use anyhow::{Context, Result, bail, ensure};

use crate::sandbox::{DemoSandbox, build_program, format_command_line};
use crate::workspace::Workspace;

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "picture",
    about: "draws docs/session.svg and docs/timeline.svg from real tasks",
    usage: "\
Usage: cargo xtask picture

Builds the program, runs a short session of real commands on a terminal of 80 columns (script(1)), and
writes the recorded screen to docs/session.svg, which README.md shows. Also prints the session. The
session has a home directory of its own, in which ~/project is this checkout, and no variables of an
agent. Then runs the tasks of docs/timeline.svg, which takes half a minute.
",
    run: draw_picture,
};

/// Path of the picture, relative to the root of the repository.
const PICTURE_PATH: &str = "docs/session.svg";
/// Path of the timeline, relative to the root of the repository.
const TIMELINE_PATH: &str = "docs/timeline.svg";
/// The tasks in the timeline: a shell text that calls `siding`.
const TIMELINE_TASKS: &str = include_str!("picture/timeline.sh");
/// The width of the terminal, and therefore of the picture.
const TERMINAL_COLUMNS: usize = 80;
/// The prompt before the typed commands. It names the working directory.
const PROMPT: &str = "~/project$";
/// The directory in which the session seems to run, and its home directory.
const SHOWN_PROJECT: &str = "~/project";
const SHOWN_HOME: &str = "~";
/// The escape sequences that begin and end the bold text of the typed commands.
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

fn draw_picture(arguments: &[String]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        bail!("takes no arguments");
    }
    let workspace = Workspace::open()?;
    let program = build_program(&workspace)?;
    let sandbox = DemoSandbox::create(program.clone(), workspace.root.clone())?;
    let screen = record_session(&sandbox, &workspace.root)?;
    sandbox.remove()?;
    let sandbox = DemoSandbox::create(program, workspace.root.clone())?;
    let timeline = record_timeline(&sandbox)?;
    sandbox.remove()?;
    let svg = Term::new().min_width_px(720).render_svg(&screen);
    let path = workspace.root.join(PICTURE_PATH);
    fs::write(&path, svg).with_context(|| format!("could not write `{PICTURE_PATH}`"))?;
    let path = workspace.root.join(TIMELINE_PATH);
    fs::write(&path, timeline).with_context(|| format!("could not write `{TIMELINE_PATH}`"))?;
    println!("\nwrote {PICTURE_PATH} and {TIMELINE_PATH}");
    Ok(ExitCode::SUCCESS)
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
    let temp_dir = std::env::temp_dir();
    let own_paths = [temp_dir, root.to_owned(), user_home()];
    if let Some(path) = find_own_path(&recording.screen, &own_paths) {
        bail!("the picture would contain `{}`, a path of this machine", path.display());
    }
    Ok(recording.screen)
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
        let mut written = String::from_utf8_lossy(&self.run_on_terminal(call)?.stdout).into_owned();
        for (path, shown) in &self.shown_paths {
            written = written.replace(path.as_str(), shown);
        }
        let printed = recorded_screen::render_terminal(written.as_bytes(), TERMINAL_COLUMNS);
        print!("{printed}");
        ensure!(!printed.is_empty(), "`{call}` printed nothing");
        self.screen.push_str(&format!("{BOLD}{typed}{PLAIN}\n{printed}\n"));
        Ok(())
    }

    /// Runs a call on a new terminal, and returns the bytes that were written to the terminal.
    fn run_on_terminal(&self, call: &str) -> Result<Output> {
        // script(1) opens the terminal. Without a terminal, siding prints no colors.
        let mut script = Command::new("script");
        let line = format!("stty cols {TERMINAL_COLUMNS} rows 24; {call}");
        script.args(["--quiet", "--command", &line, "/dev/null"]);
        self.set_environment(&mut script);
        let mut script = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("could not start script(1), which is part of util-linux")?;
        // At the end of its input, script(1) would type Ctrl-D, about which siding prints a note.
        let keyboard = script.stdin.take();
        let output = script.wait_with_output().context("could not read the terminal")?;
        drop(keyboard);
        Ok(output)
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
