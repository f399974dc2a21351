//! `cargo xtask demo`: demonstrates siding with real commands.
//!
//! The demo runs every command that it shows, except the suggestions at its end, and prints the
//! command's real output. An unexpected result ends the demo with a failure.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::duration::format_duration;
use crate::sandbox::{DemoSandbox, build_program, format_exit_code};
use crate::workspace::Workspace;

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "demo",
    about: "builds the program and shows it on real commands",
    usage: "\
Usage: cargo xtask demo [--open]

  --open  shows the demo's tasks in your browser at the end, until Ctrl-C

Builds the program with little optimization, runs a slow command under a budget, waits for its end,
reads its output, stops a process tree that tries to escape, and runs siding's own agent with a model
from a file. Works as root and as an ordinary user, and leaves only the target directory behind, which
also contains the tasks of the demo until the next one starts.
",
    run: run_demo,
};

/// The budget of the demo's slow command, after which `siding run` returns.
const RUN_BUDGET: Duration = Duration::from_secs(3);
/// Time after the budget within which `siding run` must return, even though the command keeps the
/// machine busy.
const BUDGET_SLACK: Duration = Duration::from_secs(5);
/// Exit code of `siding run` for a command that continues in the background.
const EXIT_STILL_RUNNING: i32 = 75;
/// Maximum time until processes appear in `/proc` or disappear from it.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(10);
/// Name of the directory with the tasks of the last demo, below the target directory.
const STATE_DIR_NAME: &str = "demo-state";

fn run_demo(arguments: &[String]) -> Result<ExitCode> {
    let opens_page = match arguments {
        [] => false,
        [flag] if flag == "--open" => true,
        _ => bail!("takes only `--open`"),
    };
    let started = Instant::now();
    let workspace = Workspace::open()?;
    let program = build_program(&workspace)?;
    let state_dir = workspace.metadata.target_directory.join(STATE_DIR_NAME);
    let stage = DemoSandbox::create(program.clone(), workspace.root.clone())?
        .keep_state_in(state_dir.clone())?;
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
    let typeable_program = typeable_path(&workspace, &program);
    let typeable_state = typeable_path(&workspace, &state_dir);
    println!("  SIDING_STATE_DIR={typeable_state} {typeable_program} web --open");
    println!("                        shows the tasks of this demo in your browser");
    println!("  alias siding={typeable_program}");
    println!("  siding run --budget 5s -- 'sleep 8; echo done'");
    println!("  siding --help");
    println!("  cargo xtask test      runs every test");
    println!("  cargo xtask bench     compares siding with the usual commands");
    println!("  cargo install --locked --path crates/siding-cli");
    println!("                        installs siding, fully optimized");
    if opens_page { serve_page(&program, &state_dir) } else { Ok(ExitCode::SUCCESS) }
}

/// Replaces this process with `siding web --open`, which serves the demo's tasks and opens the page
/// in a browser.
fn serve_page(program: &Path, state_dir: &Path) -> Result<ExitCode> {
    println!();
    let mut server = Command::new(program);
    let error = server.args(["web", "--open"]).env("SIDING_STATE_DIR", state_dir).exec();
    Err(error).context("could not start siding")
}

/// Returns the path in the form in which a user would type it in the current directory.
fn typeable_path(workspace: &Workspace, path: &Path) -> String {
    let here = std::env::current_dir().is_ok_and(|here| here == workspace.root);
    // The target directory may be outside the workspace.
    match path.strip_prefix(&workspace.root) {
        Ok(relative) if here => format!("./{}", relative.display()),
        Ok(_) | Err(_) => path.display().to_string(),
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
    // The build runs one job at a time; otherwise a fast machine would finish it within the budget.
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
        "`siding run` should have ended with {EXIT_STILL_RUNNING}, because the command continues"
    );
    ensure!(
        took >= RUN_BUDGET && took < RUN_BUDGET + BUDGET_SLACK,
        "`siding run` should have returned at its budget of {}",
        format_duration(RUN_BUDGET)
    );

    print_heading("It is the same process; nothing was restarted. The running tasks:");
    let id = stage.running_task_id()?;
    let shown = stage.run_and_show(&["ps"])?;
    ensure!(shown.contains(&id), "the task is not listed");

    print_heading("A wait needs no polling, and returns as soon as the command ends:");
    let waiting = Instant::now();
    let shown = stage.run_and_show(&["wait", &id])?;
    println!("(after {})", format_duration(waiting.elapsed()));
    ensure!(shown.contains(&id), "the notice does not name the task");

    print_heading("All of its output was stored. The end of it:");
    let shown = stage.run_and_show(&["output", &id, "--tail", "4"])?;
    ensure!(shown.contains("Finished"), "the output is incomplete");
    Ok(())
}

/// Shows that a stop ends a whole tree even if some of its processes have left their session,
/// parent and environment.
fn demo_escaping_tree(stage: &DemoSandbox) -> Result<()> {
    print_heading(
        "A command whose processes try to escape: one into a session of its own, another\n\
         one that also has no parent and no environment.",
    );
    // The arguments contain the pid of this process, so that no other process has them.
    let own = std::process::id();
    let sleep_args = [1, 2, 3].map(|number| format!("{number}{own}"));
    let [session, orphan, plain] = &sleep_args;
    let text = format!("setsid sleep {session} & (env -i setsid sleep {orphan} &); sleep {plain}");
    let shown = stage.run_and_show(&["run", "--background", "--", &text])?;
    let id = shown.split_whitespace().next().context("no id was printed")?.to_owned();
    let sleepers = wait_for_sleepers(&sleep_args, 3)?;
    println!();
    println!("The processes in /proc:");
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
    println!("In /proc, {} of {} are left.", remaining.len(), sleepers.len());
    Ok(())
}

/// Shows siding's own agent, which ends its turn while a command runs and is woken when the command
/// ends.
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
    ensure!(
        status.success(),
        "the agent should have succeeded, but ended with {}",
        format_exit_code(status)
    );
    Ok(())
}

/// Returns whether `PATH` contains a program of this name.
fn is_on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

/// Waits until exactly this number of `sleep` processes with these arguments exists, and returns
/// them.
fn wait_for_sleepers(sleep_args: &[String], count: usize) -> Result<Vec<(u32, String)>> {
    let until = Instant::now() + PROCESS_TIMEOUT;
    loop {
        let found = find_sleepers(sleep_args)?;
        if found.len() == count {
            return Ok(found);
        }
        ensure!(
            Instant::now() < until,
            "found {} processes instead of {count}: {found:?}",
            found.len()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the pid and the command line of every `sleep` process with one of these arguments.
fn find_sleepers(sleep_args: &[String]) -> Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("could not list `/proc`")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The file cannot be read or is empty if the process has exited.
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
