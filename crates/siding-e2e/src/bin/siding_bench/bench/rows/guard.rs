//! Counts the correct and the wrong verdicts of the guard, and measures the time of a verdict.

use std::time::Instant;

use anyhow::{Result, ensure};
use siding_e2e::guard_corpus::{self, GuardSample};
use siding_guard::{ExecMode, Rules, judge};

use super::Row;
use crate::bench::Bench;
use crate::bench::samples::Samples;
use crate::bench::table::{ResultTable, TableLine, Target, Unit};

const ROW_NAME: &str = "guard";

pub(super) const ROW: Row =
    Row { name: ROW_NAME, about: "verdicts of the guard, and their cost", measure };

/// Size in bytes that the timed text must reach.
const MIN_TEXT_BYTES: usize = 2 << 10;

fn measure(bench: &Bench, table: &mut ResultTable) -> Result<()> {
    let rules = Rules::builtin();
    measure_verdicts(&rules, table);
    let rounds = bench.mode.pick(200, 2000);
    let text = long_command_text();
    ensure!(text.len() >= MIN_TEXT_BYTES, "the text has {} bytes", text.len());
    let median_ms = |work: &dyn Fn()| {
        let times = (0..rounds).map(|_| {
            let started = Instant::now();
            work();
            started.elapsed().as_secs_f64() * 1000.0
        });
        times.collect::<Samples>().median()
    };
    let judging = median_ms(&|| {
        std::hint::black_box(judge(std::hint::black_box(&text), &rules, ExecMode::Background));
    });
    table.add(
        TableLine::new(ROW_NAME, "a command of 2 kB", Unit::Ms, judging)
            .with_target(Target::AtMost(2.0)),
    );
    Ok(())
}

fn measure_verdicts(rules: &Rules, table: &mut ResultTable) {
    let stopped = |samples: &[GuardSample], expected: bool| {
        let mut count = 0;
        for sample in samples {
            let is_stopped = sample.is_stopped(rules);
            count += usize::from(is_stopped);
            if is_stopped != expected {
                eprintln!("  {:?}: stopped: {is_stopped}", sample.text);
            }
        }
        count
    };
    let (dangerous, harmless) =
        (guard_corpus::dangerous_commands(), guard_corpus::harmless_commands());
    let (right, wrong) = (stopped(&dangerous, true), stopped(&harmless, false));
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    table.add(TableLine::new(ROW_NAME, "dangerous commands", Unit::Count, dangerous.len() as f64));
    table.add(TableLine::new(ROW_NAME, "harmless commands", Unit::Count, harmless.len() as f64));
    for (what, value, target) in [
        ("precision", percent(right, right + wrong), Target::None),
        ("recall", percent(right, dangerous.len()), Target::AtLeast(100.0)),
        ("false questions", percent(wrong, harmless.len()), Target::AtMost(1.0)),
    ] {
        table.add(TableLine::new(ROW_NAME, what, Unit::Percent, value).with_target(target));
    }
    table.add_note(
        ROW_NAME,
        "corpus, rules and examples have the same author: take this as a guard against getting \
         worse, not as evidence about commands that nobody thought of",
    );
}

/// Returns everyday commands of the corpus, joined into one text of at least [`MIN_TEXT_BYTES`].
/// Agents write commands of this length.
fn long_command_text() -> String {
    let mut text = String::new();
    let plain = guard_corpus::harmless_commands()
        .into_iter()
        .filter(|one| one.mode == ExecMode::Foreground);
    for sample in plain.filter(|one| !one.text.contains("<<")) {
        if text.len() >= MIN_TEXT_BYTES {
            break;
        }
        text += &sample.text;
        text.push('\n');
    }
    text
}
