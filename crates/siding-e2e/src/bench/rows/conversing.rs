//! What the agent's loop costs beside its model: the time of a turn, and memory.
//!
//! The model is a script, which answers at once. A turn is from one request to the next, by the
//! transcript that is measured: start and end of the program are in none.

use std::cell::RefCell;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Row;
use crate::bench::Bench;
use crate::bench::memory;
use crate::bench::samples::Samples;
use crate::bench::stage::Place;
use crate::bench::table::{Line, Table, Target, Unit};
use crate::bench::turns::{self, Rounds, Turn, timed};

const NAME: &str = "agent";

pub(super) const ROW: Row = Row {
    name: NAME,
    about: "a turn of the agent's loop beside its model, and its memory",
    measure,
};

/// Turns of a long conversation, and of a short one.
const MANY: usize = 1_000;
const FEW: usize = 100;
/// Turns that begin a task each.
const COMMANDS: usize = 100;
/// Tasks that run meanwhile.
const TASKS: usize = 100;
/// Issue: what the loop may cost a turn.
const MOST_MS: f64 = 5.0;
/// Issue: a label adds nothing. Less than this nobody notices, and the machine's own speed varies more.
const NOTHING_MS: f64 = 0.2;
/// More than this is growth. A bit more or less is chance.
const FLAT: f64 = 1.25;
/// `bash -c true` so many times is one measurement.
const SHELLS: u32 = 50;

/// Reads the project's to-do list, which is empty.
const LOOK: &str = "tool = \"list_tasks\"\ninput = {}\n";
const RUN: &str = "tool = \"bash\"\ninput = { command = \"true\" }\n";

/// How the agent ends when nothing, and when something, is left to run.
const DONE: i32 = 0;
const ENDED_FOR_IT: i32 = 124;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let place = bench.stage.place(NAME)?;
    let labels = place.dir.join("labels.toml");
    fs::write(&labels, "[[answer]]\ndelay_ms = 600000\ntext = \"never\"\n".repeat(MANY))?;
    let labelled = ["--small-model".to_owned(), format!("script:{}", labels.display())];
    let (look, run) = (of(LOOK, MANY), of(RUN, COMMANDS));
    let crowded = crowd(bench) + &look;

    let seen = RefCell::new(Vec::new());
    let mut turns: [Turn<'_>; 5] = [
        Box::new(shell),
        Box::new(|| {
            let talk = talk(&place, &look, &[], DONE)?;
            let took = talk.turns(0..MANY);
            seen.borrow_mut().push(talk);
            Ok(took)
        }),
        Box::new(|| Ok(talk(&place, &look, &labelled, DONE)?.turns(0..MANY))),
        // Its first turn starts them.
        Box::new(|| Ok(talk(&place, &crowded, &[], ENDED_FOR_IT)?.turns(1..MANY + 1))),
        Box::new(|| Ok(talk(&place, &run, &[], DONE)?.turns(0..COMMANDS))),
    ];
    let rounds = Rounds { warm_up: 0, counted: bench.pace.of(1, 7) };
    let times = turns::take(rounds, &mut turns)?;
    drop(turns);
    let [shell, plain, labelled, crowded, run] = &times[..] else {
        anyhow::bail!("five contenders have five times");
    };
    let a_turn = |what: &str, time: &Samples| {
        let line = Line::new(NAME, what, Unit::Ms, time.median());
        line.against("`bash -c true`", shell.median())
    };
    let most = Target::AtMost(MOST_MS);
    table.add(a_turn("a turn, 1,000 of them", plain).target(most));
    table.add(a_turn("the same beside 100 tasks", crowded).target(most));
    table.add(a_turn("a turn that runs `true`", run));
    table.add(
        Line::new(NAME, "a turn, its label never comes", Unit::Ms, labelled.median())
            .against("a turn without labels", plain.median()),
    );
    table.add(
        Line::new(NAME, "added by that", Unit::Ms, labelled.median() - plain.median())
            .target(Target::AtMost(NOTHING_MS)),
    );

    let median = |value: &dyn Fn(&Talk) -> f64| {
        seen.borrow().iter().map(value).collect::<Samples>().median()
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    table.add(
        Line::new(
            NAME,
            "a turn, the last 100 of 1,000",
            Unit::Ms,
            median(&|talk| ms(talk.turns(MANY - FEW..MANY))),
        )
        .against("the first 100", median(&|talk| ms(talk.turns(0..FEW))))
        .target(Target::RatioAtMost(FLAT)),
    );
    let short = talk(&place, &of(LOOK, FEW), &[], DONE)?;
    table.add(
        Line::new(NAME, "peak memory, 1,000 turns", Unit::KiB, median(&|talk| talk.peak))
            .against("100 turns", short.peak)
            .target(Target::RatioAtMost(FLAT)),
    );
    place.until_quiet()
}

/// Returns the answers of so many turns that make the same call.
fn of(call: &str, turns: usize) -> String {
    format!("[[answer]]\n[[answer.call]]\n{call}").repeat(turns)
}

/// Returns an answer that has many tasks started in the agent's session.
fn crowd(bench: &Bench) -> String {
    let siding = bench.stage.siding();
    let start = format!(
        "for n in $(seq {TASKS}); do {} run --background -- sleep $((3600 + n)) & done >/dev/null; wait",
        siding.display()
    );
    let call = format!("tool = \"bash\"\ninput = {{ command = '{start}', budget = 120 }}\n");
    of(&call, 1)
}

/// What a conversation has shown.
#[derive(Debug)]
struct Talk {
    /// When each request was made, in milliseconds of the wall clock.
    asked: Vec<i64>,
    /// KiB.
    peak: f64,
}

impl Talk {
    /// Returns what each of these turns took.
    fn turns(&self, turns: std::ops::Range<usize>) -> Duration {
        let took = self.asked[turns.end] - self.asked[turns.start];
        let count = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        Duration::from_millis(u64::try_from(took).unwrap_or(0)) / count
    }
}

/// Has the agent play a script to its end.
fn talk(place: &Place, answers: &str, more: &[String], code: i32) -> Result<Talk> {
    let turns = answers.matches("[[answer]]").count();
    let script = place.dir.join("script.toml");
    // There is time to look at the agent before it ends.
    fs::write(&script, format!("{answers}[[answer]]\ndelay_ms = 200\ntext = \"over\"\n"))?;
    let model = format!("script:{}", script.display());
    let most = format!("--max-turns={}", turns + 1);
    let report = place.dir.join("report.json");
    let mut command = place.siding(["agent", "-p", "go", "--json", "--wait-bound=1ms", &most]);
    command.args(["--model", &model, "--yes-to=ask"]).args(more).stdout(File::create(&report)?);
    let mut child = command.stderr(Stdio::inherit()).spawn()?;
    let pid = i32::try_from(child.id())?;
    let mut peak = None;
    let status = loop {
        peak = memory::peak_resident(pid).or(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.code() == Some(code), "`siding agent` ended with {status}");
    place.until_quiet()?;
    let report: Value = serde_json::from_slice(&fs::read(report)?)?;
    let ended = report["ended"].as_array().map_or(0, Vec::len);
    let expected = if code == ENDED_FOR_IT { TASKS } else { 0 };
    ensure!(ended == expected, "{ended} tasks ran in the end, not {expected}");
    let session = report["session_id"].as_str().context("a report names its session")?;
    let asked = asked(place, session)?;
    ensure!(asked.len() == turns + 1, "the model was asked {} times", asked.len());
    Ok(Talk { asked, peak: peak.context("the agent was gone before it could be looked at")? })
}

/// Returns when the model was asked, by the transcript of a session.
fn asked(place: &Place, session: &str) -> Result<Vec<i64>> {
    let path = place.state.join("sessions").join(session).join("transcript.jsonl");
    let mut asked = Vec::new();
    for line in fs::read_to_string(path)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        if line["entry"] == "asked" {
            asked.push(line["wall"].as_i64().context("an entry has its time")?);
        }
    }
    Ok(asked)
}

fn shell() -> Result<Duration> {
    let mut took = Duration::ZERO;
    for _ in 0..SHELLS {
        took += timed(Command::new("bash").args(["-c", "true"]).stdin(Stdio::null()))?;
    }
    Ok(took / SHELLS)
}
