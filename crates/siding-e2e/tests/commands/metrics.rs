//! The metrics of real tasks, read by a parser of the Prometheus text format.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::PermissionsExt as _;

use prometheus_parse::{Scrape, Value};
use siding_e2e::{Sandbox, eventually};

use crate::support::{
    HANG_COMMAND, make_file, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all,
    until_file_exists, write,
};

/// The samples of one scrape, by name and labels.
struct Metrics {
    text: String,
    samples: BTreeMap<String, f64>,
}

impl Metrics {
    /// Reads the metrics, and checks the text by the rules that every text must follow.
    #[track_caller]
    fn read(sandbox: &Sandbox) -> Self {
        Self::parse(run_ok(sandbox, &["metrics"]).stdout_text())
    }

    #[track_caller]
    fn parse(text: String) -> Self {
        check_conventions(&text);
        let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).expect("a text");
        let mut samples = BTreeMap::new();
        for sample in scrape.samples {
            let mut labels: Vec<String> =
                sample.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            labels.sort();
            let name = format!("{} {}", sample.metric, labels.join(" "));
            let value = match sample.value {
                Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
                Value::Histogram(buckets) => {
                    let counts: Vec<f64> = buckets.iter().map(|bucket| bucket.count).collect();
                    assert!(counts.is_sorted(), "{name}: {counts:?}");
                    assert_eq!(buckets.last().map(|last| last.less_than), Some(f64::INFINITY));
                    counts.last().copied().unwrap_or(0.0)
                }
                Value::Summary(_) => panic!("{name} is a summary"),
            };
            assert!(samples.insert(name.trim_end().to_owned(), value).is_none(), "{name} twice");
        }
        Self { text, samples }
    }

    #[track_caller]
    fn get(&self, name: &str) -> f64 {
        let value = self.samples.get(name);
        *value.unwrap_or_else(|| panic!("no `{name}` in\n{}", self.text))
    }

    /// Returns the values of all counters, including those of histograms.
    fn counters(&self) -> BTreeMap<&str, f64> {
        let is_counter = |name: &str| {
            name.contains("_total") || name.starts_with("siding_task_duration_seconds")
        };
        self.samples
            .iter()
            .filter(|(name, _)| is_counter(name))
            .map(|(name, value)| (name.as_str(), *value))
            .collect()
    }
}

/// Checks what `promtool check metrics` checks: each metric has a help and a type before its
/// samples and appears once, exactly the counters end in `_total`, and units are base units.
#[track_caller]
fn check_conventions(text: &str) {
    assert!(text.ends_with('\n'), "{text}");
    let mut types: HashMap<&str, &str> = HashMap::new();
    let mut helps: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            assert!(help.ends_with('.') && !helps.contains(&name), "{line}");
            helps.push(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of_type) = rest.split_once(' ').expect("a type");
            assert_eq!(helps.last(), Some(&name), "{line}");
            assert_eq!(name.ends_with("_total"), of_type == "counter", "{line}");
            assert!(name.starts_with("siding_") && !name.contains("_ms"), "{line}");
            assert!(types.insert(name, of_type).is_none(), "{line}");
        } else {
            let name = line.split(['{', ' ']).next().expect("a name");
            let current = *helps.last().expect("a help before the first sample");
            let belongs = name == current
                || types[current] == "histogram"
                    && ["_bucket", "_sum", "_count"]
                        .iter()
                        .any(|suffix| name.strip_suffix(suffix) == Some(current));
            assert!(belongs, "{line} below {current}");
        }
    }
    assert_eq!(helps.len(), types.len());
}

#[test]
fn metrics_without_a_task_are_zero_and_complete() {
    let sandbox = sandbox();
    let metrics = Metrics::read(&sandbox);
    assert!(metrics.counters().values().all(|value| *value == 0.0), "{}", metrics.text);
    assert_eq!(metrics.get("siding_tasks outcome=succeeded state=ended"), 0.0);
    assert_eq!(metrics.get("siding_notices_pending kind=ended"), 0.0);
}

/// The metrics count running and ended tasks, and no label contains text of a task.
#[test]
fn metrics_count_real_tasks() {
    let sandbox = sandbox();
    let mut ids = vec![run_to_end(&sandbox, "echo fine"), run_to_end(&sandbox, "seq 5000; exit 7")];
    let late = ["run", "--timeout", "200ms", "--grace", "0s", "--", "sleep 61"];
    let _late = sandbox.siding(&late).run().expect_code(124);
    let _handed_over = sandbox
        .siding(&["run", "--budget", "100ms", "--name", "secret_name", "--", HANG_COMMAND])
        .run()
        .expect_code(75);
    let running = Metrics::read(&sandbox);
    assert_eq!(running.get("siding_tasks state=running"), 1.0);
    assert_eq!(running.get("siding_tasks_started_total kind=local_bash"), 4.0);
    assert_eq!(running.get("siding_task_handovers_total reason=budget"), 1.0);
    stop_all(&sandbox);
    // The task ends after the call has returned, so that its end is a pending notice.
    ids.push(start_task(&sandbox, &[], &until_file_exists("go")));
    make_file(&sandbox, "go");
    eventually("the last task has ended", || {
        Metrics::read(&sandbox).get("siding_tasks outcome=succeeded state=ended") == 2.0
    });

    let metrics = Metrics::read(&sandbox);
    for (outcome, count) in
        [("succeeded", 2.0), ("failed", 1.0), ("deadline", 1.0), ("stopped", 1.0)]
    {
        assert_eq!(metrics.get(&format!("siding_tasks outcome={outcome} state=ended")), count);
        assert_eq!(metrics.get(&format!("siding_tasks_ended_total outcome={outcome}")), count);
        let durations = format!("siding_task_duration_seconds outcome={outcome}");
        assert_eq!(metrics.get(&durations), count, "{outcome}");
    }
    for (cause, count) in [("deadline", 1.0), ("user", 1.0), ("session", 0.0)] {
        assert_eq!(metrics.get(&format!("siding_tasks_stopped_total cause={cause}")), count);
    }
    assert!(metrics.get("siding_task_duration_seconds_sum outcome=deadline") >= 0.2);
    assert!(metrics.get("siding_stopped_processes_total") >= 2.0);
    assert!(metrics.get("siding_task_output_bytes_total") > 23_000.0);
    assert!(metrics.get("siding_state_directory_bytes part=tasks") > 23_000.0);
    assert!(metrics.get("siding_state_directory_bytes part=history") > 0.0);
    assert!(metrics.get("siding_notices_pending kind=ended") >= 1.0, "{}", metrics.text);
    assert!(metrics.get("siding_notices_delivered consumer=caller") >= 2.0, "{}", metrics.text);
    let fell = running.counters().into_iter().find(|(name, before)| metrics.get(name) < *before);
    assert_eq!(fell, None);
    for text in ids.iter().map(String::as_str).chain(["secret_name", "sleep", "seq"]) {
        assert!(!metrics.text.contains(text), "{text} in\n{}", metrics.text);
    }
}

/// The stall and the breach of a limit are counted while their tasks run. When a task continues, its
/// stall is no longer in the gauge.
#[test]
fn stalls_and_breaches_of_running_tasks_are_counted() {
    let sandbox = sandbox();
    let text = "printf 'Continue? [y/N] '; read answer; sleep 300";
    let asks = start_task(&sandbox, &["--stdin", "pipe"], text);
    let _many = start_task(&sandbox, &["--max-processes", "1"], "sleep 301 & sleep 302");
    let stalled = "siding_tasks_stalled verdict=input_wait";
    let stalls = "siding_task_stalls_total verdict=input_wait";
    let breaches = "siding_task_limit_breaches_total limit=processes";
    eventually("both are recorded", || {
        let metrics = Metrics::read(&sandbox);
        [stalled, stalls, breaches].iter().all(|name| metrics.get(name) == 1.0)
    });
    let metrics = Metrics::read(&sandbox);
    assert_eq!(metrics.get("siding_notices_pending kind=limit"), 1.0, "{}", metrics.text);
    assert_eq!(metrics.get("siding_notices_pending kind=stalled"), 1.0, "{}", metrics.text);
    let _answered = run_ok(&sandbox, &["input", &asks, "y"]);
    eventually("the stall is over", || Metrics::read(&sandbox).get(stalled) == 0.0);
    assert_eq!(Metrics::read(&sandbox).get(stalls), 1.0);
    stop_all(&sandbox);
}

/// promtool reports no problem with the metrics. The test is skipped if promtool is not installed.
#[test]
fn promtool_accepts_the_metrics() {
    let sandbox = sandbox();
    if sandbox.host("sh", &["-c", "command -v promtool"]).run().code != Some(0) {
        eprintln!("skipped: promtool is not installed");
        return;
    }
    let _id = run_to_end(&sandbox, "exit 3");
    let text = run_ok(&sandbox, &["metrics"]).stdout_text();
    let checked = sandbox.host("promtool", &["check", "metrics"]).stdin(text).run().expect_code(0);
    assert_eq!(checked.stderr_text(), "");
}

/// Retention removes tasks from the gauges, and no counter falls.
#[test]
fn counters_include_removed_tasks() {
    let sandbox = sandbox();
    for command in ["echo one", "exit 3", "seq 3000"] {
        let _id = run_to_end(&sandbox, command);
    }
    let before = Metrics::read(&sandbox);
    let _reaped = sandbox.siding(&["reap"]).env("SIDING_RETENTION_TASKS", "0").run().expect_code(0);
    let after = Metrics::read(&sandbox);
    assert_eq!(after.get("siding_tasks outcome=succeeded state=ended"), 0.0, "{}", after.text);
    assert_eq!(after.counters(), before.counters());
    let _id = run_to_end(&sandbox, "echo two");
    let later = Metrics::read(&sandbox);
    assert_eq!(later.get("siding_tasks_ended_total outcome=succeeded"), 3.0);
}

/// A concurrent reader of the file sees a complete text at any time.
#[test]
fn the_text_file_is_replaced_atomically() {
    let sandbox = sandbox();
    let _id = run_to_end(&sandbox, "echo fine");
    write(&sandbox, "node/siding.prom", "old");
    let path = sandbox.path("node/siding.prom");
    let kept_open = std::fs::File::open(&path).expect("the file exists");
    let done = run_ok(&sandbox, &["metrics", "--textfile", path.to_str().expect("UTF-8")]);
    assert_eq!(done.stdout_text(), "");
    let text = std::fs::read_to_string(&path).expect("the file exists");
    assert_eq!(Metrics::parse(text).get("siding_tasks_ended_total outcome=succeeded"), 1.0);
    let old = std::io::read_to_string(kept_open).expect("readable");
    assert_eq!(old, "old", "the old file is unchanged");
    let mode = std::fs::metadata(&path).expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o400, 0o400);
    let names = std::fs::read_dir(sandbox.path("node")).expect("the directory exists");
    assert_eq!(names.count(), 1, "no temporary file is left");
    let missing = sandbox.path("absent/siding.prom");
    let refused =
        run_refused(&sandbox, &["metrics", "--textfile", missing.to_str().expect("UTF-8")]);
    assert!(refused.contains("absent") && refused.contains("hint:"), "{refused}");
}
