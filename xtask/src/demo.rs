//! `cargo xtask demo`: the program at its work, on real commands.
//!
//! Nothing in here is staged: every command shown is run, and what it prints is what is shown. A
//! step that does not do what it should ends the demo with a failure.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::clock::readable;
use crate::workspace::Workspace;

/// The command.
pub(crate) const COMMAND: crate::Command = crate::Command {
    name: "demo",
    about: "builds the program and shows it at work on real commands",
    usage: "\
Usage: cargo xtask demo

Builds the program, hardly optimised, runs a slow command under a budget, waits for its end, reads
its output, ends a tree of processes that tries to escape, and lets siding's own agent work with a
model from a file. Works as root and as an ordinary user, and leaves nothing behind but the target
directory.
",
    run: command,
};

/// The profile that is built: a release program takes about twice as long.
const PROFILE: &str = "demo";
/// Time after which `siding run` returns.
const BUDGET: Duration = Duration::from_secs(3);
/// What it may take beyond that on a machine that is busy with the very command it waits for.
const LATE: Duration = Duration::from_secs(5);
/// Exit code of `siding run` for a command that goes on in the background.
const STILL_RUNNING: i32 = 75;
/// How long processes may take to appear, or to be gone from `/proc`.
const PATIENCE: Duration = Duration::from_secs(10);

fn command(arguments: &[String]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        bail!("takes no arguments");
    }
    let started = Instant::now();
    let workspace = Workspace::open()?;
    println!("Builds siding. The first time takes about five minutes on two cores.");
    let building = Instant::now();
    workspace.cargo(&["build", "--profile", PROFILE, "--locked", "-p", "siding-cli"]).run()?;
    println!("  built in {}", readable(building.elapsed()));
    let program = workspace.metadata.target_directory.join(PROFILE).join("siding");
    let stage = Stage::build(program.clone(), workspace.root.clone())?;
    slow_command(&stage)?;
    escaping_tree(&stage)?;
    agent(&stage)?;
    stage.clear()?;
    println!();
    println!("That was all of it, in {}. Type next:", readable(started.elapsed()));
    println!();
    println!("  alias siding={}", short(&workspace, &program));
    println!("  siding run --budget 5s -- 'sleep 8; echo done'");
    println!("  siding --help");
    println!("  cargo xtask test      runs every test");
    println!("  cargo xtask bench     measures siding beside what people use today");
    println!("  cargo install --locked --path crates/siding-cli");
    println!("                        installs it, optimised for use");
    Ok(ExitCode::SUCCESS)
}

/// Returns the path as it can be typed here.
fn short(workspace: &Workspace, path: &Path) -> String {
    let here = std::env::current_dir().is_ok_and(|here| here == workspace.root);
    if here {
        format!("./{}", workspace.relative(path).display())
    } else {
        path.display().to_string()
    }
}

/// A slow command goes on in the background at its budget, and is followed to its end.
fn slow_command(stage: &Stage) -> Result<()> {
    say("A slow command: siding waits 3 seconds for it, then lets it go on by itself.");
    let target = stage.dir.join("target");
    let target = target.to_string_lossy();
    let started = Instant::now();
    // One job at a time, or else a fast machine has done it before the budget is over.
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
    let status = stage.live(&check)?;
    let took = started.elapsed();
    println!("(exit code {}, after {})", code(status), readable(took));
    ensure!(
        status.code() == Some(STILL_RUNNING),
        "it should have ended with {STILL_RUNNING}: the command goes on"
    );
    ensure!(
        took >= BUDGET && took < BUDGET + LATE,
        "it should have returned at its budget of {}",
        readable(BUDGET)
    );

    say("It is the same process; nothing was started again. What runs:");
    let listed = stage.quiet(&["ps", "--running", "--json"])?;
    let listed: Value = serde_json::from_str(&listed).context("unreadable list of tasks")?;
    let id = listed[0]["task_id"].as_str().context("no task is listed")?.to_owned();
    let shown = stage.shown(&["ps"])?;
    ensure!(shown.contains(&id), "the task is not listed");

    say("Waiting costs nothing, and returns the moment it ends:");
    let waiting = Instant::now();
    let shown = stage.shown(&["wait", &id])?;
    println!("(after {})", readable(waiting.elapsed()));
    ensure!(shown.contains(&id), "the notice does not name the task");

    say("Everything it wrote was kept. The end of it:");
    let shown = stage.shown(&["output", &id, "--tail", "4"])?;
    ensure!(shown.contains("Finished"), "the output is not all there");
    Ok(())
}

/// A tree that leaves its session, its parent and its environment is ended all the same.
fn escaping_tree(stage: &Stage) -> Result<()> {
    say("A command whose processes try to get away: one into a session of its own, one\n\
         that has no parent and no environment either.");
    // Seconds that nobody else sleeps, to know the processes by.
    let own = std::process::id();
    let marks = [1, 2, 3].map(|number| format!("{number}{own}"));
    let [session, orphan, plain] = &marks;
    let text = format!("setsid sleep {session} & (env -i setsid sleep {orphan} &); sleep {plain}");
    let shown = stage.shown(&["run", "--background", "--", &text])?;
    let id = shown.split_whitespace().next().context("no id was printed")?.to_owned();
    let sleepers = wait_for_sleepers(&marks, 3)?;
    println!();
    println!("What /proc says:");
    for (pid, text) in &sleepers {
        println!("  {pid:>7}  {text}");
    }

    say("One word ends all of it, and proves it:");
    let report = stage.shown(&["stop", &id])?;
    for (pid, text) in &sleepers {
        ensure!(report.contains(&pid.to_string()), "the report does not name {pid} ({text})");
    }
    let left = wait_for_sleepers(&marks, 0)?;
    println!();
    println!("What /proc says: {} of {} are left.", left.len(), sleepers.len());
    Ok(())
}

/// siding's own agent ends its turn while a command runs, and is woken by its end.
fn agent(stage: &Stage) -> Result<()> {
    say("siding's own agent. Its model is a file, so it needs no key; everything else is real.");
    let (script, prompt) = match find_program("pip") {
        true => (
            "script:docs/agent/pip.toml",
            "Run pip list in the background and find all Python files in this directory",
        ),
        false => (
            "script:docs/agent/packages.toml",
            "List the installed packages, and find TOML files meanwhile",
        ),
    };
    let status = stage.live(&["agent", "--model", script, "-p", prompt])?;
    ensure!(status.success(), "it should be done, and ended with {}", code(status));
    Ok(())
}

/// Whether a program of this name can be executed by it alone.
fn find_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// Waits until so many processes sleep as marked, and returns them.
fn wait_for_sleepers(marks: &[String], count: usize) -> Result<Vec<(u32, String)>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = sleepers(marks)?;
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

/// Returns every process whose command line is `sleep MARK`.
fn sleepers(marks: &[String]) -> Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("could not list `/proc`")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Gone meanwhile, or a zombie, which has no command line.
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = words.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
        if let [program, argument, ..] = words.as_slice()
            && program.ends_with("sleep")
            && marks.iter().any(|mark| mark == argument)
        {
            found.push((pid, format!("{program} {argument}")));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn say(text: &str) {
    println!("\n{text}\n");
}

fn code(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| code.to_string())
}

/// A state directory of our own, and the program. Whatever was started is ended when it is dropped.
struct Stage {
    siding: PathBuf,
    dir: PathBuf,
    /// Where commands run.
    root: PathBuf,
}

impl Stage {
    fn build(siding: PathBuf, root: PathBuf) -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("siding-demo-{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("could not create `{}`", dir.display()))?;
        Ok(Self { siding, dir, root })
    }

    /// Returns a call of the program, after printing it as a person would type it.
    fn call(&self, words: &[&str]) -> Command {
        let mut call = Command::new(&self.siding);
        call.args(words)
            .current_dir(&self.root)
            .env("SIDING_STATE_DIR", self.dir.join("state"))
            .stdin(Stdio::null())
            // Cargo's progress is for terminals.
            .env("CARGO_TERM_PROGRESS_WHEN", "never");
        call
    }

    /// Shows a call and lets what it prints appear as it comes.
    fn live(&self, words: &[&str]) -> Result<ExitStatus> {
        println!("{}", typed(words));
        // Both into one stream, so that a file has them in their order too.
        self.call(words)
            .stdout(std::io::stdout())
            .stderr(std::io::stdout())
            .status()
            .context("could not start siding")
    }

    /// Shows a call, then what it printed, and returns that. It must succeed.
    fn shown(&self, words: &[&str]) -> Result<String> {
        println!("{}", typed(words));
        let printed = self.quiet(words)?;
        print!("{printed}");
        Ok(printed)
    }

    /// Returns what a call printed. It must succeed.
    fn quiet(&self, words: &[&str]) -> Result<String> {
        let output = self.call(words).output().context("could not start siding")?;
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        printed.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("`siding {}` ended with {}: {printed}", words.join(" "), code(output.status));
        }
        Ok(printed)
    }

    /// Makes sure that nothing runs any more, and removes everything.
    fn clear(self) -> Result<()> {
        let listed = self.quiet(&["ps", "--running", "--json"])?;
        ensure!(listed.trim() == "[]", "tasks are left: {listed}");
        fs::remove_dir_all(&self.dir)
            .with_context(|| format!("could not remove `{}`", self.dir.display()))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.dir.exists() {
            let _may_be_what_failed = self.quiet(&["stop", "--all", "--grace", "0s"]);
            let _told_already = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Returns the call as a person would type it, in lines of at most 80 columns where words allow.
fn typed(words: &[&str]) -> String {
    const WIDTH: usize = 78;
    let mut text = String::from("$ siding");
    let mut column = text.len();
    for word in words {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
        let word = if word.chars().all(plain) { (*word).to_owned() } else { format!("'{word}'") };
        if column + 1 + word.len() > WIDTH {
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
    fn a_long_call_is_broken_between_words() {
        let long = "x".repeat(60);
        assert_eq!(
            typed(&["run", "--budget", "3s", &long]),
            format!("$ siding run --budget 3s \\\n    {long}")
        );
        assert_eq!(typed(&["run", "a b"]), "$ siding run 'a b'");
    }
}
