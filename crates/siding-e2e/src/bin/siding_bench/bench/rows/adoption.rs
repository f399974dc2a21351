//! The time that adoption adds to an agent's shell. siding adopts the shell before the first
//! command of the shell runs.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::Row;
use crate::bench::Bench;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "adopt";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "`bash -c true` with and without the line that adopts it",
    measure,
};

/// Longest time that a shell waits for its adoption, in seconds. The value is long, because a wait
/// that ends by the timeout would not measure the adoption.
const ADOPT_WAIT_SECONDS: &str = "5";

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let line = place.siding_command(["shell-init", "bash"]).stdout(Stdio::piped()).output()?;
    ensure!(line.status.success(), "`siding shell-init bash` ended with {}", line.status);
    let file = place.dir.join("bash-env");
    std::fs::write(&file, line.stdout)?;
    let adopting = |text: &str| {
        let mut command = bash_command(text);
        command.env("BASH_ENV", &file).env("SIDING_ADOPT_WAIT", ADOPT_WAIT_SECONDS);
        command.env("SIDING_STATE_DIR", &place.state).current_dir(&place.work);
        command
    };
    let limit = adopting("ulimit -R").stdout(Stdio::piped()).output()?.stdout;
    ensure!(limit.trim_ascii().iter().all(u8::is_ascii_digit), "the shell was not adopted");
    let mut turns: [Contender<'_>; 2] = [
        Box::new(|| time_command(&mut adopting("true"))),
        Box::new(|| time_command(&mut bash_command("true"))),
    ];
    let rounds = InterleavedRounds { warm_up: 10, counted: bench.mode.pick(200, 1000) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    let plain = times[1].median();
    let adopted = times[0].median();
    table.add(
        TableLine::new(ROW_NAME, "`bash -c true`, adopted", Unit::Ms, adopted)
            .with_reference("`bash -c true` without the line", plain),
    );
    table.add(
        TableLine::new(ROW_NAME, "added to a call", Unit::Ms, adopted - plain)
            .with_target(Target::AtMost(3.0)),
    );
    Ok(())
}

fn bash_command(text: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
