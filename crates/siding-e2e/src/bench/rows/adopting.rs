//! What it costs an agent's shell to have itself adopted, as its first act.

use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::Row;
use crate::bench::Bench;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn, timed};

const NAME: &str = "adopt";

pub(super) const ROW: Row =
    Row { name: NAME, about: "`bash -c true` with and without the line that adopts it", measure };

/// What a shell may wait for siding here, in seconds: a wait that is cut off says nothing.
const WAIT: &str = "5";

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let line = place.siding(["shell-init", "bash"]).stdout(Stdio::piped()).output()?;
    ensure!(line.status.success(), "`siding shell-init bash` ended with {}", line.status);
    let file = place.dir.join("bash-env");
    std::fs::write(&file, line.stdout)?;
    let adopting = |text: &str| {
        let mut command = shell(text);
        command.env("BASH_ENV", &file).env("SIDING_ADOPT_WAIT", WAIT);
        command.env("SIDING_STATE_DIR", &place.state).current_dir(&place.work);
        command
    };
    let limit = adopting("ulimit -R").stdout(Stdio::piped()).output()?.stdout;
    ensure!(limit.trim_ascii().iter().all(u8::is_ascii_digit), "the shell was not adopted");
    let nested = || {
        let mut command = adopting("true");
        // As the first of many below a shell that is kept.
        command.env_remove("SIDING_STATE_DIR").env("SIDING_ADOPT_FAILED", "1");
        command
    };
    let mut turns: Vec<Turn<'_>> = vec![
        Box::new(|| timed(&mut adopting("true"))),
        Box::new(|| timed(&mut shell("true"))),
        Box::new(|| timed(&mut nested())),
    ];
    let rounds = Rounds { warm_up: 10, counted: bench.pace.of(200, 1000) };
    let times = turns::take(rounds, &mut turns)?;
    let plain = times[1].median();
    let of = |what: &str, ours: f64| {
        Line::new(NAME, what, Unit::Ms, ours).against("`bash -c true` without the line", plain)
    };
    table.add(of("`bash -c true`, adopted", times[0].median()));
    table.add(
        Line::new(NAME, "added to a call", Unit::Ms, times[0].median() - plain)
            .target(Target::AtMost(3.0)),
    );
    table.add(of("`bash -c true`, adoption has failed above", times[2].median()));
    Ok(())
}

fn shell(text: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}
