//! The cost of the agent's loop without its model: time per turn, and memory. A script simulates
//! the model and answers immediately. A turn lasts from one request to the next request in the
//! transcript of the measured session, so no turn contains the start or the end of the program.

use std::cell::RefCell;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Row;
use crate::bench::Bench;
use crate::bench::interleaved_runs::{self, Contender, InterleavedRounds, time_command};
use crate::bench::process_usage;
use crate::bench::samples::Samples;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;

const ROW_NAME: &str = "agent";

pub(super) const ROW: Row = Row {
    name: ROW_NAME,
    about: "a turn of the agent's loop without its model, and its memory",
    measure,
};

/// Number of turns of a long and of a short conversation, whose peak memory is compared.
const LONG_CONVERSATION_TURNS: usize = 1_000;
const SHORT_CONVERSATION_TURNS: usize = 100;
/// Number of turns in the conversation in which each turn starts a task.
const COMMAND_TURNS: usize = 100;
/// Number of tasks that run in the background during one of the conversations.
const BACKGROUND_TASKS: usize = 100;
/// Maximum cost of the loop per turn, in milliseconds.
const MAX_TURN_MS: f64 = 5.0;
/// Maximum cost of an activity label per turn, in milliseconds. A smaller difference is not
/// noticeable and disappears in the noise of the machine.
const MAX_LABEL_MS: f64 = 0.2;
/// Maximum ratio at which the cost still counts as constant. A ratio up to this value can result
/// from noise; a higher ratio means that the cost grows.
const MAX_GROWTH_RATIO: f64 = 1.25;
/// Number of runs of `bash -c true` in one measurement.
const SHELL_RUNS: u32 = 50;

/// A tool call that reads the empty to-do list of the project, and so does almost no work.
const LIST_TASKS_CALL: &str = "tool = \"list_tasks\"\ninput = {}\n";
const BASH_CALL: &str = "tool = \"bash\"\ninput = { command = \"true\" }\n";

/// Exit codes of an agent at whose exit no task runs, and of an agent at whose exit tasks still
/// run.
const EXIT_NO_TASKS_LEFT: i32 = 0;
const EXIT_TASKS_LEFT: i32 = 124;

/// Times per turn, one sample per run: `bash -c true` (`shell`), a plain conversation, one whose
/// activity labels never arrive (`labelled`), one next to background tasks (`crowded`), and one in
/// which each turn runs a command (`with_task`).
struct TurnTimes {
    shell: Samples,
    plain: Samples,
    labelled: Samples,
    crowded: Samples,
    with_task: Samples,
}

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let place = bench.workspace.row_dir(ROW_NAME)?;
    let (times, conversations) = measure_conversations(bench, &place)?;
    add_turn_lines(table, &times);
    add_growth_lines(table, &place, &conversations)?;
    place.wait_until_idle()
}

/// Measures the contenders in turns. Also returns the plain conversations.
fn measure_conversations(bench: &Bench, place: &RowDir) -> Result<(TurnTimes, Vec<Conversation>)> {
    let labels = place.dir.join("labels.toml");
    fs::write(
        &labels,
        "[[answer]]\ndelay_ms = 600000\ntext = \"never\"\n".repeat(LONG_CONVERSATION_TURNS),
    )?;
    let labelled = ["--small-model".to_owned(), format!("script:{}", labels.display())];
    let (list_call, run) = (
        repeat_call(LIST_TASKS_CALL, LONG_CONVERSATION_TURNS),
        repeat_call(BASH_CALL, COMMAND_TURNS),
    );
    let crowded = start_tasks_answer(bench) + &list_call;

    let conversations = RefCell::new(Vec::new());
    let mut turns: [Contender<'_>; 5] = [
        Box::new(time_bash),
        Box::new(|| {
            let talk = run_conversation(place, &list_call, &[], EXIT_NO_TASKS_LEFT)?;
            let took = talk.time_per_turn(0..LONG_CONVERSATION_TURNS);
            conversations.borrow_mut().push(talk);
            Ok(took)
        }),
        Box::new(|| {
            Ok(run_conversation(place, &list_call, &labelled, EXIT_NO_TASKS_LEFT)?
                .time_per_turn(0..LONG_CONVERSATION_TURNS))
        }),
        // The first turn starts the background tasks, so the measurement begins with the second
        // turn.
        Box::new(|| {
            Ok(run_conversation(place, &crowded, &[], EXIT_TASKS_LEFT)?
                .time_per_turn(1..LONG_CONVERSATION_TURNS + 1))
        }),
        Box::new(|| {
            Ok(run_conversation(place, &run, &[], EXIT_NO_TASKS_LEFT)?
                .time_per_turn(0..COMMAND_TURNS))
        }),
    ];
    let rounds = InterleavedRounds { warm_up: 0, counted: bench.mode.pick(1, 7) };
    let times = interleaved_runs::run_rounds(rounds, &mut turns)?;
    drop(turns);
    let [shell, plain, labelled, crowded, with_task] = <[Samples; 5]>::try_from(times)
        .map_err(|_| anyhow::anyhow!("expected times of five contenders"))?;
    let times = TurnTimes { shell, plain, labelled, crowded, with_task };
    Ok((times, conversations.into_inner()))
}

fn add_turn_lines(table: &mut ResultTable, times: &TurnTimes) {
    let a_turn = |what: &str, time: &Samples| {
        let line = TableLine::new(ROW_NAME, what, Unit::Ms, time.median());
        line.with_reference("`bash -c true`", times.shell.median())
    };
    let most = Target::AtMost(MAX_TURN_MS);
    table.add(a_turn("a turn, 1,000 of them", &times.plain).with_target(most));
    table.add(a_turn("the same next to 100 tasks", &times.crowded).with_target(most));
    table.add(a_turn("a turn that runs `true`", &times.with_task));
    let (labelled, plain) = (times.labelled.median(), times.plain.median());
    table.add(
        TableLine::new(ROW_NAME, "a turn whose label never arrives", Unit::Ms, labelled)
            .with_reference("a turn without labels", plain),
    );
    table.add(
        TableLine::new(ROW_NAME, "added by the missing label", Unit::Ms, labelled - plain)
            .with_target(Target::AtMost(MAX_LABEL_MS)),
    );
}

/// Compares the last turns of long conversations with their first turns, and their peak memory with
/// that of a short conversation.
fn add_growth_lines(
    table: &mut ResultTable,
    place: &RowDir,
    conversations: &[Conversation],
) -> Result<()> {
    let median = |value: &dyn Fn(&Conversation) -> f64| {
        conversations.iter().map(value).collect::<Samples>().median()
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    table.add(
        TableLine::new(
            ROW_NAME,
            "a turn, the last 100 of 1,000",
            Unit::Ms,
            median(&|talk| {
                ms(talk.time_per_turn(
                    LONG_CONVERSATION_TURNS - SHORT_CONVERSATION_TURNS..LONG_CONVERSATION_TURNS,
                ))
            }),
        )
        .with_reference(
            "the first 100",
            median(&|talk| ms(talk.time_per_turn(0..SHORT_CONVERSATION_TURNS))),
        )
        .with_target(Target::RatioAtMost(MAX_GROWTH_RATIO)),
    );
    let short = run_conversation(
        place,
        &repeat_call(LIST_TASKS_CALL, SHORT_CONVERSATION_TURNS),
        &[],
        EXIT_NO_TASKS_LEFT,
    )?;
    table.add(
        TableLine::new(
            ROW_NAME,
            "peak memory, 1,000 turns",
            Unit::KiB,
            median(&|talk| talk.peak_kib),
        )
        .with_reference("100 turns", short.peak_kib)
        .with_target(Target::RatioAtMost(MAX_GROWTH_RATIO)),
    );
    Ok(())
}

/// Returns a script of `turns` answers that all make the same call.
fn repeat_call(call: &str, turns: usize) -> String {
    format!("[[answer]]\n[[answer.call]]\n{call}").repeat(turns)
}

/// Returns an answer whose shell command starts all background tasks in the session of the agent.
fn start_tasks_answer(bench: &Bench) -> String {
    let siding = bench.workspace.siding_program();
    let start = format!(
        "for n in $(seq {BACKGROUND_TASKS}); do {} run --background -- sleep $((3600 + n)) & done >/dev/null; wait",
        siding.display()
    );
    let call = format!("tool = \"bash\"\ninput = {{ command = '{start}', budget = 120 }}\n");
    repeat_call(&call, 1)
}

/// The request times and the peak memory of a finished conversation.
#[derive(Debug)]
struct Conversation {
    /// The time of each request, in milliseconds of the wall clock.
    request_times_ms: Vec<i64>,
    /// Peak resident memory of the agent, in KiB.
    peak_kib: f64,
}

impl Conversation {
    /// Returns the mean duration of the turns in the range.
    fn time_per_turn(&self, turns: std::ops::Range<usize>) -> Duration {
        let took = self.request_times_ms[turns.end] - self.request_times_ms[turns.start];
        let count = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        Duration::from_millis(u64::try_from(took).unwrap_or(0)) / count
    }
}

/// Runs the agent with the script `answers` until the agent exits, and checks the exit code.
fn run_conversation(
    place: &RowDir,
    answers: &str,
    more: &[String],
    code: i32,
) -> Result<Conversation> {
    let turns = answers.matches("[[answer]]").count();
    let script = place.dir.join("script.toml");
    // The last answer arrives after a delay, so that this process can read the memory of the agent
    // before the agent exits.
    fs::write(&script, format!("{answers}[[answer]]\ndelay_ms = 200\ntext = \"over\"\n"))?;
    let model = format!("script:{}", script.display());
    let most = format!("--max-turns={}", turns + 1);
    let report = place.dir.join("report.json");
    let mut command =
        place.siding_command(["agent", "-p", "go", "--json", "--drain-timeout=1ms", &most]);
    command.args(["--model", &model, "--yes-to=ask"]).args(more).stdout(File::create(&report)?);
    let mut child = command.stderr(Stdio::inherit()).spawn()?;
    let pid = i32::try_from(child.id())?;
    let mut peak = None;
    let status = loop {
        peak = process_usage::peak_resident(pid).or(peak);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    ensure!(status.code() == Some(code), "`siding agent` ended with {status}");
    place.wait_until_idle()?;
    let report: Value = serde_json::from_slice(&fs::read(report)?)?;
    let ended = report["ended"].as_array().map_or(0, Vec::len);
    let expected = if code == EXIT_TASKS_LEFT { BACKGROUND_TASKS } else { 0 };
    ensure!(ended == expected, "{ended} tasks were running at the agent's exit, not {expected}");
    let session = report["session_id"].as_str().context("the report has no session")?;
    let asked = read_request_times(place, session)?;
    ensure!(asked.len() == turns + 1, "the model was asked {} times", asked.len());
    Ok(Conversation {
        request_times_ms: asked,
        peak_kib: peak.context("the agent exited before its memory could be read")?,
    })
}

/// Returns the times of the model requests in a session's transcript.
fn read_request_times(place: &RowDir, session: &str) -> Result<Vec<i64>> {
    let path = place.state.join("sessions").join(session).join("transcript.jsonl");
    let mut asked = Vec::new();
    for line in fs::read_to_string(path)?.lines() {
        let line: Value = serde_json::from_str(line)?;
        if line["entry"] == "request_sent" {
            asked.push(line["wall"].as_i64().context("the entry has no time")?);
        }
    }
    Ok(asked)
}

fn time_bash() -> Result<Duration> {
    let mut took = Duration::ZERO;
    for _ in 0..SHELL_RUNS {
        took += time_command(Command::new("bash").args(["-c", "true"]).stdin(Stdio::null()))?;
    }
    Ok(took / SHELL_RUNS)
}
