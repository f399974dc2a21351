//! The duration of a command that does nothing, from its start until the waiting process detects
//! its end.

use std::process::{Command, Stdio};

use anyhow::Result;

use super::Row;
use crate::bench::Bench;
use crate::bench::client::shell_command;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "true";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "start of `true` until its end is known, as a library and as a program",
    measure,
};

/// Returns `bash -c true` with `/dev/null` as all standard streams.
pub(super) fn bash_true() -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", "true"]);
    with_null_stdio(command)
}

fn with_null_stdio(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    measure_library(bench, table)?;
    measure_program(bench, table)
}

fn measure_library(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir("true-library")?;
    let client = place.client()?;
    let in_memory =
        bench.workspace.row_dir_in_tmpfs(ROW_NAME)?.map(|place| place.client()).transpose()?;
    let mut turns: Vec<Contender<'_>> = vec![
        Box::new(|| Ok(client.run(shell_command("true"))?.until_end_known)),
        Box::new(|| time_command(&mut bash_true())),
    ];
    if let Some(client) = &in_memory {
        turns.push(Box::new(|| Ok(client.run(shell_command("true"))?.until_end_known)));
    }
    let rounds = InterleavedRounds { warm_up: 10, counted: bench.mode.pick(200, 1000) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    drop(turns);
    let line = |what: &str, name: &str, ours: f64, theirs: f64| {
        TableLine::new(ROW_NAME, what, Unit::Ms, ours).with_reference(name, theirs)
    };
    let bash = "`bash -c true`, spawned and waited for by the same process";
    table.add(
        line("library: bash text, median", bash, times[0].median(), times[1].median())
            .with_target(Target::RatioAtMost(1.5)),
    );
    if let Some(ours) = times.get(2) {
        let what = "library: bash text, state in tmpfs";
        table.add(line(what, bash, ours.median(), times[1].median()));
    }
    place.wait_until_idle()
}

fn measure_program(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir("true-program")?;
    let mut turns: [Contender<'_>; 3] = [
        Box::new(|| {
            let took = time_command(&mut place.siding_command(["run", "true"]))?;
            place.wait_until_idle()?;
            Ok(took)
        }),
        Box::new(|| time_command(&mut bash_true())),
        Box::new(|| {
            let mut nohup = Command::new("nohup");
            nohup.args(["bash", "-c", "true"]);
            time_command(&mut with_null_stdio(nohup))
        }),
    ];
    let rounds = InterleavedRounds { warm_up: 10, counted: bench.mode.pick(100, 500) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    let line = |what: &str, name: &str, theirs: f64| {
        TableLine::new(ROW_NAME, what, Unit::Ms, times[0].median()).with_reference(name, theirs)
    };
    table.add(
        line("`siding run true`, median", "`bash -c true`", times[1].median())
            .with_target(Target::RatioAtMost(2.5)),
    );
    table.add(line("`siding run true`, median", "`nohup bash -c true`", times[2].median()));
    Ok(())
}
