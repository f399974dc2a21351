//! `cargo xtask picture`: draws the picture in the README from a recorded session, and the example of
//! a timeline from real tasks.

use std::fs;
use std::process::{Command, ExitCode, Stdio};

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
writes the recorded screen to docs/session.svg, which README.md shows. Also prints the session. Then runs
the tasks of docs/timeline.svg, which takes half a minute.
",
    run: draw_picture,
};

/// Path of the picture, relative to the root of the repository.
const PICTURE_PATH: &str = "docs/session.svg";
/// Path of the timeline, relative to the root of the repository.
const TIMELINE_PATH: &str = "docs/timeline.svg";
/// The tasks in the timeline: a shell text that calls `siding`.
const TIMELINE_TASKS: &str = include_str!("picture/timeline.sh");
/// The command that sets the terminal's size. The width of the terminal is the width of the
/// picture.
const SET_TERMINAL_SIZE: &str = "stty cols 80 rows 24";
/// The usual state directory, which replaces the temporary one in the picture.
const SHOWN_STATE_DIR: &str = "~/.local/state/siding";
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
    let screen = record_session(&sandbox)?;
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
fn record_session(sandbox: &DemoSandbox) -> Result<String> {
    let mut recording = Recording { sandbox, screen: String::new() };
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
    Ok(recording.screen)
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
    screen: String,
}

impl Recording<'_> {
    /// Runs `siding` with these words on a new terminal, and appends the command and its output. No
    /// word may contain a single quote.
    fn run(&mut self, words: &[&str]) -> Result<()> {
        let typed = format_command_line(words);
        println!("{typed}");
        let call = typed.trim_start_matches("$ ");
        // script(1) opens the terminal. Without a terminal, siding prints no colors.
        let mut script = Command::new("script");
        script.args(["--quiet", "--command"]).arg(format!("{SET_TERMINAL_SIZE}; {call}"));
        let output = self
            .sandbox
            .in_sandbox(&mut script)
            .arg("/dev/null")
            .env("TERM", "xterm-256color")
            .env("CARGO_TERM_COLOR", "always")
            .env("CARGO_TARGET_DIR", self.sandbox.temp_dir.join("target"))
            .stderr(Stdio::inherit())
            .output()
            .context("could not start script(1), which is part of util-linux")?;
        let printed = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
        print!("{printed}");
        let state_dir = self.sandbox.state_dir();
        let printed = printed.replace(&*state_dir.to_string_lossy(), SHOWN_STATE_DIR);
        ensure!(!printed.is_empty(), "`{call}` printed nothing");
        self.screen.push_str(&format!("{BOLD}{typed}{PLAIN}\n{printed}\n"));
        Ok(())
    }
}
