//! Whether commands are judged rightly, and what that costs.

use std::time::Instant;

use anyhow::{Result, ensure};
use siding_e2e::judged::{self, Sample};
use siding_guard::{ExecMode, Rules, judge};

use super::Row;
use crate::bench::Bench;
use crate::bench::samples::Samples;
use crate::bench::table::{Line, Table, Target, Unit};

const NAME: &str = "guard";

pub(super) const ROW: Row =
    Row { name: NAME, about: "verdicts of the guard, and what they cost", measure };

/// Bytes of the text that is timed.
const TEXT: usize = 2 << 10;

fn measure(bench: &Bench, table: &mut Table) -> Result<()> {
    let rules = Rules::builtin();
    verdicts(&rules, table);
    let rounds = bench.pace.of(200, 2000);
    let text = text();
    ensure!(text.len() >= TEXT, "the text has {} bytes", text.len());
    let of = |work: &dyn Fn()| {
        let times = (0..rounds).map(|_| {
            let started = Instant::now();
            work();
            started.elapsed().as_secs_f64() * 1000.0
        });
        times.collect::<Samples>().median()
    };
    let judging = of(&|| {
        std::hint::black_box(judge(std::hint::black_box(&text), &rules, ExecMode::Background));
    });
    let loading = of(&|| {
        std::hint::black_box(Rules::builtin());
    });
    table.add(Line::new(NAME, "a command of 2 kB", Unit::Ms, judging).target(Target::AtMost(2.0)));
    table.add(Line::new(NAME, "reading the built-in rules", Unit::Ms, loading));
    Ok(())
}

fn verdicts(rules: &Rules, table: &mut Table) {
    let stopped = |samples: &[Sample], expected: bool| {
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
    let (dangerous, harmless) = (judged::dangerous(), judged::harmless());
    let (right, wrong) = (stopped(&dangerous, true), stopped(&harmless, false));
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    table.add(Line::new(NAME, "dangerous commands", Unit::Count, dangerous.len() as f64));
    table.add(Line::new(NAME, "harmless commands", Unit::Count, harmless.len() as f64));
    for (what, value, target) in [
        ("precision", percent(right, right + wrong), Target::None),
        ("recall", percent(right, dangerous.len()), Target::AtLeast(100.0)),
        ("false questions", percent(wrong, harmless.len()), Target::AtMost(1.0)),
    ] {
        table.add(Line::new(NAME, what, Unit::Percent, value).target(target));
    }
    table.note(
        NAME,
        "corpus, rules and examples have the same author: take this as a guard against getting \
         worse, not as evidence about commands that nobody thought of",
    );
}

/// Returns a long text as agents write them: everyday commands, one after the other.
fn text() -> String {
    let mut text = String::new();
    let plain = judged::harmless().into_iter().filter(|one| one.how == ExecMode::Foreground);
    for sample in plain.filter(|one| !one.text.contains("<<")) {
        if text.len() >= TEXT {
            break;
        }
        text += &sample.text;
        text.push('\n');
    }
    text
}
