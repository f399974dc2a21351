//! `cargo xtask demo`: shows the program on real commands.
//!
//! Nothing is staged: the demo runs every command that it shows, and prints its real output. An
//! unexpected result ends the demo with a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::duration::format_duration;
use crate::workspace::Workspace;

/// The command.
pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "demo",
    about: "builds the program and shows it on real commands",
    usage: "\
Usage: cargo xtask demo

Builds the program with little optimization, runs a slow command under a budget, waits for its end,
reads its output, stops a process tree that tries to escape, and runs siding's own agent with a model
from a file. Works as root and as an ordinary user, and leaves only the target directory behind.
",
    run: run_demo,
};

/// The profile of the build: a release build takes about twice as long.
const CARGO_PROFILE: &str = "demo";
/// The budget, after which `siding run` returns.
const RUN_BUDGET: Duration = Duration::from_secs(3);
/// Additional time on a machine that is busy with the very command that runs.
const BUDGET_SLACK: Duration = Duration::from_secs(5);
/// Exit code of `siding run` for a command that continues in the background.
const EXIT_STILL_RUNNING: i32 = 75;
/// How long processes may take to appear in `/proc`, or to disappear from it.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(10);

fn run_demo(arguments: &[String]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        bail!("takes no arguments");
    }
    let started = Instant::now();
    let workspace = Workspace::open()?;
    println!("Builds siding. The first time takes about five minutes on two cores.");
    let building = Instant::now();
    workspace
        .cargo(&["build", "--profile", CARGO_PROFILE, "--locked", "-p", "siding-cli"])
        .run()?;
    println!("  built in {}", format_duration(building.elapsed()));
    let program = workspace.metadata.target_directory.join(CARGO_PROFILE).join("siding");
    let stage = DemoSandbox::create(program.clone(), workspace.root.clone())?;
    demo_slow_command(&stage)?;
    demo_escaping_tree(&stage)?;
    demo_agent(&stage)?;
    stage.remove()?;
    println!();
    println!(
        "The demo is complete, in {}. Commands to try next:",
        format_duration(started.elapsed())
    );
    println!();
    println!("  alias siding={}", typeable_path(&workspace, &program));
    println!("  siding run --budget 5s -- 'sleep 8; echo done'");
    println!("  siding --help");
    println!("  cargo xtask test      runs every test");
    println!("  cargo xtask bench     compares siding with the usual commands");
    println!("  cargo install --locked --path crates/siding-cli");
    println!("                        installs it, fully optimized");
    Ok(ExitCode::SUCCESS)
}

/// Returns the path as a user would type it in the current directory.
fn typeable_path(workspace: &Workspace, path: &Path) -> String {
    let here = std::env::current_dir().is_ok_and(|here| here == workspace.root);
    if here {
        format!("./{}", workspace.relative(path).display())
    } else {
        path.display().to_string()
    }
}

/// Shows a slow command that moves to the background at its budget, and waits for its end.
fn demo_slow_command(stage: &DemoSandbox) -> Result<()> {
    print_heading(
        "A slow command: siding waits 3 seconds for it, then leaves it running in the background.",
    );
    let target = stage.temp_dir.join("target");
    let target = target.to_string_lossy();
    let started = Instant::now();
    // One job at a time, otherwise a fast machine finishes before the budget has passed.
    let check = [
        "run",
        "--budget",
        "3s",
        "--",
        "cargo",
        "check",
        "-p",
        "siding-core",
        "--offline",
        "--locked",
        "--jobs",
        "1",
        "--target-dir",
        &target,
    ];
    let status = stage.run_streaming(&check)?;
    let took = started.elapsed();
    println!("(exit code {}, after {})", format_exit_code(status), format_duration(took));
    ensure!(
        status.code() == Some(EXIT_STILL_RUNNING),
        "it should have ended with {EXIT_STILL_RUNNING}: the command continues"
    );
    ensure!(
        took >= RUN_BUDGET && took < RUN_BUDGET + BUDGET_SLACK,
        "it should have returned at its budget of {}",
        format_duration(RUN_BUDGET)
    );

    print_heading("It is the same process; nothing was restarted. The running tasks:");
    let listed = stage.run_captured(&["ps", "--running", "--json"])?;
    let listed: Value = serde_json::from_str(&listed).context("unreadable list of tasks")?;
    let id = listed[0]["task_id"].as_str().context("no task is listed")?.to_owned();
    let shown = stage.run_and_show(&["ps"])?;
    ensure!(shown.contains(&id), "the task is not listed");

    print_heading("Waiting needs no polling, and returns as soon as it ends:");
    let waiting = Instant::now();
    let shown = stage.run_and_show(&["wait", &id])?;
    println!("(after {})", format_duration(waiting.elapsed()));
    ensure!(shown.contains(&id), "the notice does not name the task");

    print_heading("All of its output was stored. The end of it:");
    let shown = stage.run_and_show(&["output", &id, "--tail", "4"])?;
    ensure!(shown.contains("Finished"), "the output is incomplete");
    Ok(())
}

/// Shows that a tree ends although its processes left their session, parent and environment.
fn demo_escaping_tree(stage: &DemoSandbox) -> Result<()> {
    print_heading(
        "A command whose processes try to escape: one into a session of its own, another\n\
         one that also has no parent and no environment.",
    );
    // Durations that no other process uses, so that the processes can be identified.
    let own = std::process::id();
    let sleep_args = [1, 2, 3].map(|number| format!("{number}{own}"));
    let [session, orphan, plain] = &sleep_args;
    let text = format!("setsid sleep {session} & (env -i setsid sleep {orphan} &); sleep {plain}");
    let shown = stage.run_and_show(&["run", "--background", "--", &text])?;
    let id = shown.split_whitespace().next().context("no id was printed")?.to_owned();
    let sleepers = wait_for_sleepers(&sleep_args, 3)?;
    println!();
    println!("What /proc says:");
    for (pid, text) in &sleepers {
        println!("  {pid:>7}  {text}");
    }

    print_heading("One command stops all of them, and proves it:");
    let report = stage.run_and_show(&["stop", &id])?;
    for (pid, text) in &sleepers {
        ensure!(report.contains(&pid.to_string()), "the report does not name {pid} ({text})");
    }
    let remaining = wait_for_sleepers(&sleep_args, 0)?;
    println!();
    println!("What /proc says: {} of {} are left.", remaining.len(), sleepers.len());
    Ok(())
}

/// Shows siding's own agent, which ends its turn while a command runs and is woken by the command's
/// end.
fn demo_agent(stage: &DemoSandbox) -> Result<()> {
    print_heading(
        "siding's own agent. Its model is a file, so it needs no key; everything else is real.",
    );
    let (script, prompt) = match is_on_path("pip") {
        true => (
            "script:docs/agent/pip.toml",
            "Run pip list in the background and find all Python files in this directory",
        ),
        false => (
            "script:docs/agent/packages.toml",
            "List the installed packages, and find TOML files meanwhile",
        ),
    };
    let status = stage.run_streaming(&["agent", "--model", script, "-p", prompt])?;
    ensure!(status.success(), "it should be done, and ended with {}", format_exit_code(status));
    Ok(())
}

/// Whether `PATH` contains a program of this name.
fn is_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// Waits until this number of `sleep` processes with these arguments runs, and returns them.
fn wait_for_sleepers(sleep_args: &[String], count: usize) -> Result<Vec<(u32, String)>> {
    let until = Instant::now() + PROCESS_TIMEOUT;
    loop {
        let found = find_sleepers(sleep_args)?;
        if found.len() == count {
            return Ok(found);
        }
        ensure!(
            Instant::now() < until,
            "{} processes are there instead of {count}: {found:?}",
            found.len()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns every `sleep` process with one of these arguments.
fn find_sleepers(sleep_args: &[String]) -> Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("could not list `/proc`")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The process has exited, or is a zombie, which has no command line.
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = words.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
        if let [program, argument, ..] = words.as_slice()
            && program.ends_with("sleep")
            && sleep_args.iter().any(|mark| mark == argument)
        {
            found.push((pid, format!("{program} {argument}")));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn print_heading(text: &str) {
    println!("\n{text}\n");
}

fn format_exit_code(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| code.to_string())
}

/// A temporary state directory, and the program. Dropping it stops everything that was started.
struct DemoSandbox {
    program: PathBuf,
    temp_dir: PathBuf,
    /// The working directory of commands.
    root: PathBuf,
}

impl DemoSandbox {
    fn create(siding: PathBuf, root: PathBuf) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("siding-demo-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("could not create `{}`", dir.display()))?;
        Ok(Self { program: siding, temp_dir: dir, root })
    }

    /// Returns a call of the program.
    fn siding_command(&self, words: &[&str]) -> Command {
        let mut call = Command::new(&self.program);
        call.args(words)
            .current_dir(&self.root)
            .env("SIDING_STATE_DIR", self.temp_dir.join("state"))
            .stdin(Stdio::null())
            // Cargo's progress bar is for terminals.
            .env("CARGO_TERM_PROGRESS_WHEN", "never");
        call
    }

    /// Prints a call and runs it with its output passed through.
    fn run_streaming(&self, words: &[&str]) -> Result<ExitStatus> {
        println!("{}", format_command_line(words));
        // Both to one stream, so that they also stay in order in a file.
        self.siding_command(words)
            .stdout(std::io::stdout())
            .stderr(std::io::stdout())
            .status()
            .context("could not start siding")
    }

    /// Prints a call and its output, and returns the output. The call must succeed.
    fn run_and_show(&self, words: &[&str]) -> Result<String> {
        println!("{}", format_command_line(words));
        let printed = self.run_captured(words)?;
        print!("{printed}");
        Ok(printed)
    }

    /// Returns the output of a call, which must succeed.
    fn run_captured(&self, words: &[&str]) -> Result<String> {
        let output = self.siding_command(words).output().context("could not start siding")?;
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!(
                "`siding {}` ended with {}: {printed}",
                words.join(" "),
                format_exit_code(output.status)
            );
        }
        Ok(printed)
    }

    /// Checks that no task runs any more, and removes the directory.
    fn remove(self) -> Result<()> {
        let listed = self.run_captured(&["ps", "--running", "--json"])?;
        ensure!(listed.trim() == "[]", "tasks are left: {listed}");
        fs::remove_dir_all(&self.temp_dir)
            .with_context(|| format!("could not remove `{}`", self.temp_dir.display()))
    }
}

impl Drop for DemoSandbox {
    fn drop(&mut self) {
        if self.temp_dir.exists() {
            let _best_effort = self.run_captured(&["stop", "--all", "--grace", "0s"]);
            let _best_effort = fs::remove_dir_all(&self.temp_dir);
        }
    }
}

/// Formats the call as a user would type it, in lines of at most 80 columns where words allow.
fn format_command_line(words: &[&str]) -> String {
    const MAX_LINE_COLUMNS: usize = 78;
    let mut text = String::from("$ siding");
    let mut column = text.len();
    for word in words {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
        let word = if word.chars().all(plain) { (*word).to_owned() } else { format!("'{word}'") };
        if column + 1 + word.len() > MAX_LINE_COLUMNS {
            text.push_str(" \\\n   ");
            column = 3;
        }
        text.push(' ');
        text.push_str(&word);
        column += 1 + word.len();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_line_wraps_between_words() {
        let long = "x".repeat(60);
        assert_eq!(
            format_command_line(&["run", "--budget", "3s", &long]),
            format!("$ siding run --budget 3s \\\n    {long}")
        );
        assert_eq!(format_command_line(&["run", "a b"]), "$ siding run 'a b'");
    }
}
