//! Counts the correct and the wrong verdicts on quiet tasks, and measures the cost of the
//! detection.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use siding_core::processes::probe::{self, KnownFds, UsageFields};
use siding_core::sys::file;
use siding_e2e::prompt_corpus::{self, PromptSample};
use siding_e2e::stall_cases::{self, STALL_CASES, StallCase};
use siding_model::evidence;
use siding_model::evidence::prompt::OutputTail;
use siding_model::process::ProcRef;

use super::Row;
use crate::bench::idle_tasks;
use crate::bench::process_usage;
use crate::bench::samples::Samples;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};
use crate::bench::workspace::RowDir;
use crate::bench::{Bench, BenchMode};

const ROW_NAME: &str = "stall";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "verdicts on quiet tasks, and the cost of sampling", measure };

/// Time after which the last verdict of `siding why` counts, even if it is not the expected one.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of silent tasks in full mode, and the pause after the last start, in which the stall of
/// every task is recorded. Until then, the shim samples a task more often than afterwards.
const TASK_COUNT: usize = 1000;
const SILENCE_TIME: Duration = Duration::from_secs(46);
/// Number of sleeping processes that one probe samples.
const SAMPLED_PROCESSES: usize = 100;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    measure_prompts(table);
    let place = bench.workspace.row_dir(ROW_NAME)?;
    measure_programs(&place, table)?;
    place.stop_all()?;
    measure_probe(&place, table)?;
    measure_silence(&place, bench.mode, table)?;
    place.stop_all()
}

/// Counts of right and wrong verdicts, from which precision and recall are computed.
#[derive(Debug, Default)]
struct Tally {
    true_positives: usize,
    false_positives: usize,
    false_negatives: usize,
}

impl Tally {
    fn count(&mut self, is_positive: bool, is_called: bool) {
        match (is_positive, is_called) {
            (true, true) => self.true_positives += 1,
            (true, false) => self.false_negatives += 1,
            (false, true) => self.false_positives += 1,
            (false, false) => {}
        }
    }

    fn add_lines(&self, what: &str, table: &mut ResultTable) {
        let share = |of: usize| {
            100.0 * self.true_positives as f64 / (self.true_positives + of).max(1) as f64
        };
        for (name, value) in
            [("precision", share(self.false_positives)), ("recall", share(self.false_negatives))]
        {
            let line = TableLine::new(ROW_NAME, format!("{what}: {name}"), Unit::Percent, value);
            table.add(line.with_target(Target::AtLeast(95.0)));
        }
    }
}

/// Counts the verdicts of the strict prompt patterns on the texts of the corpus. These verdicts use
/// no other evidence.
fn measure_prompts(table: &mut ResultTable) {
    let is_prompt =
        |sample: &PromptSample| OutputTail::from_bytes(sample.text.as_bytes()).prompt.is_some();
    let mut tally = Tally::default();
    for (samples, asks) in [(prompt_corpus::prompts(), true), (prompt_corpus::non_prompts(), false)]
    {
        for sample in &samples {
            let called = is_prompt(sample);
            if called != asks {
                eprintln!("  {}: {:?}: a prompt: {called}", sample.source, sample.text);
            }
            tally.count(asks, called);
        }
    }
    tally.add_lines("prompts of the corpus", table);
}

/// Starts the real programs of all cases and repeats `siding why` on each until the verdict is the
/// expected one or [`SETTLE_TIMEOUT`] has passed.
fn measure_programs(place: &RowDir, table: &mut ResultTable) -> Result<()> {
    let mut open = vec![];
    for (number, case) in STALL_CASES.iter().enumerate() {
        match case.missing_program() {
            Some(program) => eprintln!("  left out: {}: there is no {program}", case.name),
            None => open.push((case, start_case(place, number, case)?)),
        }
    }
    let until = Instant::now() + SETTLE_TIMEOUT;
    let mut done: Vec<(&StallCase, Value)> = vec![];
    while !open.is_empty() {
        let is_over = Instant::now() >= until;
        for (case, id) in std::mem::take(&mut open) {
            let why = place.siding_json(["why", "--json", &id])?;
            if case.expected.accepts(&why) || is_over {
                done.push((case, why));
            } else {
                open.push((case, id));
            }
        }
    }
    let (mut tally, mut exact) = (Tally::default(), 0);
    for (case, why) in &done {
        tally.count(case.expected.expects_input_wait(), stall_cases::reports_input_wait(why));
        exact += usize::from(case.expected.accepts(why));
        if !case.expected.accepts(why) {
            eprintln!("  {}: not {:?} but {why}", case.name, case.expected);
        }
    }
    tally.add_lines("real programs that wait for input", table);
    let share = 100.0 * exact as f64 / done.len().max(1) as f64;
    table.add(
        TableLine::new(ROW_NAME, "real programs: verdict as expected", Unit::Percent, share)
            .with_target(Target::AtLeast(95.0)),
    );
    Ok(())
}

fn start_case(place: &RowDir, number: usize, case: &StallCase) -> Result<String> {
    let dir = place.dir.join(format!("case-{number}"));
    std::fs::create_dir(&dir)?;
    let stdin = if case.stdin == stall_cases::StdinSource::Pipe { "pipe" } else { "null" };
    let dir = dir.to_str().context("the workspace path is not UTF-8")?;
    let words = ["run", "--background", "--json", "--stdin", stdin, "--cwd", dir, "--", case.text];
    let task = place.siding_json(words)?;
    Ok(task["task_id"].as_str().context("the task has no id")?.to_owned())
}

/// Measures the time per process of a first sample, of a second one that finds no process changed,
/// and of a sample of a task with limits.
fn measure_probe(place: &RowDir, table: &mut ResultTable) -> Result<()> {
    let sleepers = SleepingChildren::start(SAMPLED_PROCESSES)?;
    let given = KnownFds::from_endpoint_dir(file::open_directory(Path::new(&place.dir))?);
    let own = i32::try_from(std::process::id()).context("the pid does not fit an i32")?;
    let mut times = (vec![], vec![]);
    for _ in 0..50 {
        let ms_each = |began: Instant, sample: &evidence::TaskSample| {
            began.elapsed().as_secs_f64() * 1000.0 / sample.processes.len().max(1) as f64
        };
        let began = Instant::now();
        let sample = probe::sample_descendants(&given, own, |_, _| false);
        times.0.push(ms_each(began, &sample));
        let began = Instant::now();
        // In the first rounds, some processes may not sleep yet. Then the call returns `None`, and
        // the round adds no time.
        times.1.extend(probe::reuse_if_unchanged(&sample).map(|again| ms_each(began, &again)));
    }
    ensure!(
        times.1.len() > 10,
        "the sleepers still run: only {} of 50 rounds were quiet",
        times.1.len()
    );
    for (what, times) in
        [("one sample, per process", times.0), ("the next, if nothing has run", times.1)]
    {
        let median = times.into_iter().collect::<Samples>().median();
        table.add(
            TableLine::new(ROW_NAME, what, Unit::Ms, median).with_target(Target::AtMost(0.030)),
        );
    }
    measure_limit_probe(own, table);
    drop(sleepers);
    Ok(())
}

/// Measures the time per process of one sample of a task with limits.
fn measure_limit_probe(own: i32, table: &mut ResultTable) {
    let (mut uses, mut shared, mut connections) = (vec![], vec![], vec![]);
    for _ in 0..50 {
        let mut began = Instant::now();
        let mut lap = |into: &mut Vec<f64>, by: usize| {
            into.push(began.elapsed().as_secs_f64() * 1000.0 / by.max(1) as f64);
            began = Instant::now();
        };
        let found =
            probe::usage_of_descendants(own, UsageFields { runnable: true, fds: true }, |_, _| {
                false
            });
        lap(&mut uses, found.len());
        let _bytes = probe::proportional_memory(&found);
        lap(&mut shared, found.len());
        let _those_of_this_machine = probe::connections(&found, |_| false);
        lap(&mut connections, found.len());
    }
    for (what, times) in [
        ("limits: one sample, per process", uses),
        ("limits: shared memory, per process", shared),
        ("limits: connections, per process", connections),
    ] {
        let median = times.into_iter().collect::<Samples>().median();
        table.add(TableLine::new(ROW_NAME, what, Unit::Ms, median));
    }
}

/// Measures the processor time of silent tasks' shims until every stall is recorded, scaled to a
/// thousand tasks.
fn measure_silence(place: &RowDir, pace: BenchMode, table: &mut ResultTable) -> Result<()> {
    let mut client = place.client()?;
    client.is_background = true;
    let tasks = pace.pick(TASK_COUNT / 5, TASK_COUNT);
    let mut shims: Vec<(ProcRef, u64)> = vec![];
    let started = Instant::now();
    for _ in 0..tasks {
        let shim = client.shim_process(idle_tasks::start_idle_task(&client)?)?;
        // When this task runs, the start of the previous one is complete. The processor time that
        // the previous task's shim has used until now belongs to that start and is not part of the
        // result.
        if let Some((last, before)) = shims.last_mut() {
            *before = cpu_ns(*last)?;
        }
        shims.push((shim, cpu_ns(shim)?));
    }
    std::thread::sleep(SILENCE_TIME);
    let took = started.elapsed().as_secs_f64();
    let mut used = 0;
    for (shim, before) in shims {
        used += cpu_ns(shim)?.saturating_sub(before);
    }
    let percent = used as f64 / 1e9 / took * 100.0 * TASK_COUNT as f64 / tasks as f64;
    table.add(
        TableLine::new(ROW_NAME, "1,000 silent tasks: of one core", Unit::Percent, percent)
            .with_target(Target::AtMost(1.0)),
    );
    Ok(())
}

fn cpu_ns(shim: ProcRef) -> Result<u64> {
    Ok(process_usage::cpu_usage(shim.pid).context("the shim of a silent task has exited")?.cpu_ns)
}

/// Child processes that sleep for an hour; dropping this value kills them.
struct SleepingChildren(Vec<Child>);

impl SleepingChildren {
    fn start(count: usize) -> Result<Self> {
        let mut sleepers = Self(vec![]);
        for _ in 0..count {
            let mut sleep = Command::new("sleep");
            sleep.arg("3600").stdin(Stdio::null()).stdout(Stdio::null());
            sleepers.0.push(sleep.spawn()?);
        }
        Ok(sleepers)
    }
}

impl Drop for SleepingChildren {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _already_ended = child.kill();
            let _already_ended = child.wait();
        }
    }
}
