//! The number of tokens that an agent spends on programs in a terminal, with siding's tools and with
//! tmux, and the number of runs that are right.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Row;
use crate::bench::Bench;
use crate::bench::dialog::{self, DIALOGS, Dialog, TerminalAgent};
use crate::bench::engine;
use crate::bench::mcp_agent::{AgentSession, McpAgent};
use crate::bench::samples::Samples;
use crate::bench::ssh_machine::{self, SshMachine, find_program};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::tmux_agent::{self, TmuxAgent};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "terminals";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "tokens and right runs of an agent with programs in a terminal, against tmux",
    measure,
};

/// Maximum tokens relative to tmux.
const MAX_TOKEN_RATIO: f64 = 1.0 / 3.0;
/// Number of runs at the same time. A run with tmux mostly sleeps.
const CONCURRENT_RUNS: usize = 2;

/// What all runs of the row share.
struct TerminalBench {
    place: RowDir,
    /// The variables of both agents.
    variables: Vec<(&'static str, OsString)>,
}

/// A run of one agent.
#[derive(Debug, Default)]
struct AgentRun {
    tokens: usize,
    /// Tokens if the client shows the text of the tools instead of their structured content.
    text_tokens: usize,
    took: Duration,
    is_right: bool,
}

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    if find_program("tmux").is_err() {
        table.add_note(ROW_NAME, "skipped: found no `tmux`");
        return Ok(());
    }
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let machine = start_machine(&place, table)?;
    tmux_agent::write_settings()?;
    let path = machine.as_ref().map(SshMachine::path_variable);
    let mut variables = vec![
        ("EDITOR", "vim".into()),
        // The notice of a new version would be a part of some screens.
        ("NPM_CONFIG_UPDATE_NOTIFIER", "false".into()),
    ];
    variables.extend(path.map(|path| ("PATH", path)));
    let terminal_bench = TerminalBench { place, variables };
    let count = bench.mode.pick(2, 50);
    let (mut ours, mut theirs, mut as_text) = (0.0, 0.0, 0.0);
    for dialog in &DIALOGS {
        if let Some(reason) = missing_reason(dialog, machine.is_some()) {
            table.add_note(ROW_NAME, format!("`{}` left out: {reason}", dialog.command));
            continue;
        }
        eprintln!("  {count} runs of `{}` with each agent", dialog.command);
        let (siding, tmux) = terminal_bench.run_dialog(dialog, count)?;
        ours += median(&siding, |run| run.tokens as f64);
        as_text += median(&siding, |run| run.text_tokens as f64);
        theirs += median(&tmux, |run| run.tokens as f64);
        add_lines(dialog, &siding, &tmux, table);
    }
    if theirs > 0.0 {
        table.add(tokens_line("all: tokens", ours, theirs));
        table.add(
            TableLine::new(ROW_NAME, "all: tokens, text form", Unit::Count, as_text)
                .with_reference(REFERENCE, theirs),
        );
    }
    table.add_note(ROW_NAME, NOTE);
    terminal_bench.place.stop_all()
}

const REFERENCE: &str = "tmux: send-keys, sleep 1, capture-pane -p";
const NOTE: &str = "tokens (o200k_base) of all calls and answers of one dialog, as Claude Code and Codex \
    show them: the structured content of `run`, the text of `keys` and of the shell tool; the descriptions of \
    the tools are not included; medians of the right runs; with siding a person types the passphrase \
    of ssh, with tmux the agent does";

/// Starts the machine for ssh, with a key that asks for a passphrase; `None` if a program is missing.
fn start_machine(place: &RowDir, table: &mut ResultTable) -> Result<Option<SshMachine>> {
    if let Some(reason) = engine::missing_reason(ssh_machine::SCRIPT) {
        table.add_note(ROW_NAME, format!("no machine for ssh: {reason}"));
        return Ok(None);
    }
    let machine = SshMachine::start(place)?;
    machine.protect_key(dialog::PASSPHRASE)?;
    Ok(Some(machine))
}

fn missing_reason(dialog: &Dialog, has_machine: bool) -> Option<String> {
    let missing = dialog.programs.iter().find(|name| find_program(name).is_err());
    let missing = missing.map(|name| format!("found no `{name}`"));
    let no_machine = (dialog.name == "ssh" && !has_machine).then(|| "no machine".to_owned());
    missing.or(no_machine)
}

fn median(runs: &[AgentRun], value: impl Fn(&AgentRun) -> f64) -> f64 {
    runs.iter().filter(|run| run.is_right).map(value).collect::<Samples>().median()
}

fn tokens_line(what: impl Into<String>, ours: f64, theirs: f64) -> TableLine {
    TableLine::new(ROW_NAME, what, Unit::Count, ours)
        .with_reference(REFERENCE, theirs)
        .with_target(Target::RatioAtMost(MAX_TOKEN_RATIO))
}

fn add_lines(dialog: &Dialog, siding: &[AgentRun], tmux: &[AgentRun], table: &mut ResultTable) {
    let name = dialog.name;
    let tokens = |runs: &[AgentRun]| median(runs, |run: &AgentRun| run.tokens as f64);
    table.add(tokens_line(format!("{name}: tokens"), tokens(siding), tokens(tmux)));
    let right = |runs: &[AgentRun]| runs.iter().filter(|run| run.is_right).count() as f64;
    let count = siding.len();
    table.add(
        TableLine::new(
            ROW_NAME,
            format!("{name}: right runs of {count}"),
            Unit::Count,
            right(siding),
        )
        .with_reference("the same", right(tmux))
        .with_target(Target::AtLeast(count as f64)),
    );
    let took = |runs: &[AgentRun]| median(runs, |run: &AgentRun| run.took.as_secs_f64() * 1e3);
    table.add(
        TableLine::new(ROW_NAME, format!("{name}: time of a run"), Unit::Ms, took(siding))
            .with_reference("the same", took(tmux)),
    );
}

impl TerminalBench {
    /// Runs a dialog `count` times with each agent. Returns the runs with siding and with tmux.
    fn run_dialog(&self, dialog: &Dialog, count: usize) -> Result<(Vec<AgentRun>, Vec<AgentRun>)> {
        let run_share = |first: usize| -> Result<Vec<(AgentRun, AgentRun)>> {
            let numbers = (first..count).step_by(CONCURRENT_RUNS);
            numbers
                .map(|number| {
                    Ok((self.run_siding(dialog, number)?, self.run_tmux(dialog, number)?))
                })
                .collect()
        };
        let shares = std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..CONCURRENT_RUNS).map(|first| scope.spawn(move || run_share(first))).collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined.collect::<Result<Vec<_>, _>>()
        });
        let shares = shares.map_err(|_| anyhow::anyhow!("a thread has panicked"))?;
        let mut runs = (Vec::new(), Vec::new());
        for share in shares {
            runs.extend(share?);
        }
        Ok(runs)
    }

    fn run_siding(&self, dialog: &Dialog, number: usize) -> Result<AgentRun> {
        let work = self.create_work(dialog, "siding", number)?;
        let session = AgentSession::open(&self.place, format!("{}-{number}", dialog.name))?;
        let mut command = session.server_command();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut agent = McpAgent::start_server(command, &work, &session.person)?;
        let mut run = lead(dialog, &work, &mut agent);
        run.tokens = agent.tokens.tokens;
        run.text_tokens = agent.text_tokens.tokens;
        Ok(run)
    }

    fn run_tmux(&self, dialog: &Dialog, number: usize) -> Result<AgentRun> {
        let work = self.create_work(dialog, "tmux", number)?;
        let mut agent = TmuxAgent::new(&work, self.variables.clone());
        let mut run = lead(dialog, &work, &mut agent);
        run.tokens = agent.tokens.tokens;
        Ok(run)
    }

    /// Creates the working directory of a run with the files of the dialog.
    fn create_work(&self, dialog: &Dialog, agent: &str, number: usize) -> Result<PathBuf> {
        let work = self.place.work.join(format!("{}-{agent}-{number}", dialog.name));
        fs::create_dir(&work)?;
        (dialog.prepare)(&work).context("could not prepare a run")?;
        Ok(work)
    }
}

/// Leads a dialog, verifies its result, and measures its time. A failed run is not right.
fn lead(dialog: &Dialog, work: &Path, agent: &mut dyn TerminalAgent) -> AgentRun {
    let started = Instant::now();
    let led = dialog::lead_dialog(dialog, agent);
    let took = started.elapsed();
    let verified = led.and_then(|shown| (dialog.verify)(work, &shown));
    if let Err(error) = &verified {
        eprintln!("  not right: {}: {error:#}", work.display());
    }
    AgentRun { took, is_right: verified.is_ok(), ..AgentRun::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_right_runs_count() {
        let run = |tokens, is_right| AgentRun { tokens, is_right, ..AgentRun::default() };
        let runs = [run(10, true), run(900, false), run(30, true), run(20, true)];
        assert_eq!(median(&runs, |run| run.tokens as f64), 20.0);
    }
}
