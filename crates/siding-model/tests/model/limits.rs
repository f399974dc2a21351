//! Tests of the limits: which series of samples is a breach, and how often it is reported.

use proptest::prelude::*;
use siding_model::limits::{
    Breach, Connection, ConnectionLog, LimitReading, LimitTracker, Limits, OnLimit, PeakUsage,
    ProcessUsage, Usage,
};
use siding_model::outcome::LimitKind;
use siding_model::process::{MonotonicMs, ProcRef};

/// Returns a small process that uses no processor time.
fn process(pid: i32) -> ProcessUsage {
    let process = ProcRef { pid, start_ticks: 7 };
    ProcessUsage { process, resident_bytes: 1 << 20, cpu_ms: 0, runnable_ms: 0, fds: 4 }
}

fn usage(at: u64, processes: Vec<ProcessUsage>) -> Usage {
    Usage { at: MonotonicMs(at), processes, ..Usage::default() }
}

/// A tracker and its connection log, which receive the same samples as in a shim.
struct TrackedTask(LimitTracker, ConnectionLog);

impl TrackedTask {
    fn new(limits: Limits) -> Self {
        Self(LimitTracker::new(limits, MonotonicMs(0), 0, &[]), ConnectionLog::default())
    }

    fn record_usage(&mut self, usage: Usage) -> LimitReading {
        self.1.record_sample(usage.at, usage.connections.as_deref().unwrap_or_default());
        self.0.record_usage(usage, &self.1, &|pid| format!("p{pid}"))
    }

    fn breach_details(&mut self, usage: Usage) -> Vec<String> {
        self.record_usage(usage).breaches.into_iter().map(|breach| breach.detail).collect()
    }
}

/// Without a limit on descriptors they are not counted, so their peak is unknown and not zero.
#[test]
fn descriptors_that_were_not_counted_have_no_peak() {
    let mut peaks = PeakUsage::default();
    peaks.record_usage(&usage(1_000, vec![ProcessUsage { fds: 0, ..process(9) }]));
    assert_eq!((peaks.fds, peaks.processes), (None, Some(1)));
    peaks.record_usage(&usage(2_000, vec![ProcessUsage { fds: 5, ..process(9) }]));
    peaks.record_usage(&usage(3_000, vec![ProcessUsage { fds: 3, ..process(9) }]));
    assert_eq!(peaks.fds, Some(5));
}

/// A breach is reported once, and again only after the value has fallen below nine tenths of the
/// limit.
#[test]
fn each_breach_episode_is_reported_once() {
    let mut watched = TrackedTask::new(Limits { fds: 100, ..Limits::default() });
    let mut reported = Vec::new();
    for (second, fds) in [(1, 100), (2, 101), (3, 150), (4, 95), (5, 120), (6, 89), (7, 101)] {
        let found =
            watched.breach_details(usage(second * 1_000, vec![ProcessUsage { fds, ..process(9) }]));
        reported.extend(found.into_iter().map(|detail| (second, detail)));
    }
    let text = "max-fds: 101 open descriptors, limit 100; 101 of them in pid 9 (p9)";
    assert_eq!(reported, [(2, text.to_owned()), (7, text.to_owned())]);
}

/// Failure F57: the sum of resident sizes counts shared pages repeatedly, so ten forks of a process
/// of 50 MB seem to use 500 MB.
#[test]
fn shared_memory_counts_once() {
    let limits = Limits { memory: 200 << 20, ..Limits::default() };
    let forks = || (0..10).map(|pid| ProcessUsage { resident_bytes: 50 << 20, ..process(pid) });
    let shared = Some(55 << 20);
    let mut watched = TrackedTask::new(limits);
    let forked = Usage { shared_once_bytes: shared, ..usage(1_000, forks().collect()) };
    assert!(watched.record_usage(forked).breaches.is_empty());
    let grown = watched.breach_details(usage(2_000, forks().collect()));
    assert_eq!(grown, ["max-memory: 500MiB of memory, limit 200MiB; 50MiB of it in pid 9 (p9)"]);
}

/// Failure F55: low memory is reported only for the large task, not for healthy tasks next to it,
/// and not when the file cache fills the memory.
#[test]
fn low_system_memory_is_reported_for_tasks_large_enough_to_fix_it() {
    let limits = Limits { min_available: 1 << 30, ..Limits::default() };
    let sample = |second: u64, available: u64, used: u64| Usage {
        available_bytes: Some(available << 20),
        ..usage(second * 1_000, vec![ProcessUsage { resident_bytes: used << 20, ..process(9) }])
    };
    let mut large = TrackedTask::new(limits);
    let mut small = TrackedTask::new(limits);
    let mut reported = Vec::new();
    for (second, available) in [(1, 2_000), (2, 900), (3, 500), (4, 1_030), (5, 900), (6, 1_200)] {
        reported.extend(large.breach_details(sample(second, available, 700)));
        assert_eq!(small.breach_details(sample(second, available, 100)), [""; 0]);
    }
    let text = "min-available: 900MiB of memory left on the machine, limit 1GiB; stopping this task \
                would free 700MiB, most of it in pid 9 (p9)";
    assert_eq!(reported, [text], "once, because the memory did not recover by the margin");
    assert_eq!(large.breach_details(sample(7, 800, 700)).len(), 1, "the memory had recovered");
    assert!(TrackedTask::new(limits).breach_details(usage(1_000, vec![process(9)])).is_empty());

    let breaches = TrackedTask::new(limits).record_usage(sample(1, 900, 700)).breaches;
    assert_eq!((breaches[0].limit_kind, breaches[0].value), (LimitKind::Memory, 900 << 20));
    let on_record = |limits| {
        TrackedTask(
            LimitTracker::new(limits, MonotonicMs(0), 0, &breaches),
            ConnectionLog::default(),
        )
    };
    assert!(
        on_record(limits).breach_details(sample(2, 900, 700)).is_empty(),
        "reported before the takeover"
    );
    let own = Limits { memory: 600 << 20, ..limits };
    assert_eq!(on_record(own).breach_details(sample(2, 900, 700)).len(), 1, "another limit");
}

/// A shim that is killed between the record of a breach and the record of the stop has not stopped
/// the task. The next shim stops the task.
#[test]
fn a_missed_limit_stop_is_started_after_a_takeover() {
    let fds = |limits, earlier: &[Breach]| {
        let mut gauges = TrackedTask(
            LimitTracker::new(limits, MonotonicMs(0), 0, earlier),
            ConnectionLog::default(),
        );
        gauges.record_usage(usage(1_000, vec![ProcessUsage { fds: 150, ..process(9) }])).breaches
    };
    let notice = Limits { fds: 100, ..Limits::default() };
    let stop = Limits { on_limit: OnLimit::Stop, ..notice };
    let recorded = fds(stop, &[]);
    assert_eq!(
        (recorded.len(), fds(notice, &recorded).len(), fds(stop, &recorded).len()),
        (1, 0, 1)
    );
    let short = |limits, earlier: &[Breach]| {
        let mut gauges = TrackedTask(
            LimitTracker::new(limits, MonotonicMs(0), 0, earlier),
            ConnectionLog::default(),
        );
        let large = ProcessUsage { resident_bytes: 1 << 30, ..process(9) };
        let sample = Usage { available_bytes: Some(900 << 20), ..usage(1_000, vec![large]) };
        gauges.record_usage(sample).breaches
    };
    let stop = Limits { min_available: 1 << 30, on_limit: OnLimit::Stop, ..Limits::default() };
    let recorded = short(stop, &[]);
    assert_eq!((recorded.len(), short(stop, &recorded).len()), (1, 1));
}

/// Sixteen cores use 16 s of processor time within one second, so the processor time after a long
/// gap does not show how long the task computed.
#[test]
fn unsampled_time_does_not_count_as_computing() {
    let limits = Limits { cpu_spin_ms: 10_000, ..Limits::default() };
    let mut watched = TrackedTask::new(limits);
    let sample = |at: u64, cpu_ms: u64| usage(at, vec![ProcessUsage { cpu_ms, ..process(3) }]);
    assert!(watched.record_usage(sample(1_000, 0)).breaches.is_empty());
    assert!(watched.record_usage(sample(17_000, 16_000)).breaches.is_empty(), "a burst");
    for second in 18..=27 {
        assert!(
            watched.record_usage(sample(second * 1_000, second * 1_000)).breaches.is_empty(),
            "{second}"
        );
    }
    let breaches = watched.record_usage(sample(28_000, 28_000)).breaches;
    assert_eq!(breaches.first().map(|breach| breach.value), Some(11_000));
}

/// Returns the breaches of a task that runs for `seconds` seconds with these amounts of CPU time,
/// runnable time and output in each second.
fn run_cpu_load(cpu_ms: u64, runnable_ms: u64, written: u64, seconds: u64) -> Vec<Breach> {
    let mut watched = TrackedTask::new(Limits { cpu_spin_ms: 5_000, ..Limits::default() });
    let mut breaches = Vec::new();
    for second in 1..=seconds {
        let one = ProcessUsage {
            cpu_ms: second * cpu_ms,
            runnable_ms: second * runnable_ms,
            ..process(3)
        };
        let output_bytes = second * written;
        let sample = Usage { output_bytes, ..usage(second * 1_000, vec![one]) };
        breaches.extend(watched.record_usage(sample).breaches);
    }
    breaches
}

#[test]
fn a_busy_loop_is_reported_and_a_writing_compiler_is_not() {
    let breaches = run_cpu_load(1_000, 1_000, 0, 20);
    assert_eq!(breaches.len(), 1);
    assert_eq!((breaches[0].at, breaches[0].value), (MonotonicMs(6_000), 6_000));
    assert!(run_cpu_load(1_000, 1_000, 1, 20).is_empty(), "it writes");
    assert!(run_cpu_load(800, 800, 0, 20).is_empty(), "not nine tenths of a core");
    assert_eq!(run_cpu_load(300, 990, 0, 20).len(), 1, "other processes used the processor");
    assert_eq!(run_cpu_load(4_000, 1_000, 0, 20).len(), 1, "several threads");
}

/// The kernel adds the CPU time of an ended process to its parent, so the time must not be counted
/// twice. A series of short processes is a busy loop, as one long process is.
#[test]
fn a_loop_of_short_processes_is_a_busy_loop() {
    let mut watched = TrackedTask::new(Limits { cpu_spin_ms: 5_000, ..Limits::default() });
    let mut breach_count = 0;
    for second in 1..=8_u64 {
        let pid = i32::try_from(second).expect("a small number");
        let ended_cpu_ms = second * 950;
        breach_count += watched
            .breach_details(Usage { ended_cpu_ms, ..usage(second * 1_000, vec![process(pid)]) })
            .len();
    }
    assert_eq!(breach_count, 1);
}

/// A burst of one second at nine times the rate is allowed; permanent output at three times the
/// rate is not.
#[test]
fn a_burst_does_not_exceed_the_output_rate() {
    let run = |seconds: &[u64]| {
        let mut watched = TrackedTask::new(Limits { output_rate: 1_000, ..Limits::default() });
        let mut output_bytes = 0;
        let mut reported = Vec::new();
        for (second, written) in (1..).zip(seconds) {
            output_bytes += written;
            let sample = Usage { output_bytes, ..usage(second * 1_000, vec![process(1)]) };
            reported
                .extend(watched.breach_details(sample).into_iter().map(|detail| (second, detail)));
        }
        reported
    };
    assert!(run(&[9_000, 0, 0, 1_000, 2_000, 0, 900]).is_empty(), "a burst");
    assert!(run(&[1_000; 60]).is_empty(), "just at the limit");
    let flood = run(&[3_000; 60]);
    assert_eq!(flood.len(), 1, "{flood:?}");
    assert_eq!(flood[0].0, 6);
    assert_eq!(flood[0].1, "max-output-rate: 2.9KiB/s of output, limit 1000B/s");
}

fn connection(cookie: u64, remote: &str, sent: u64) -> Connection {
    Connection { cookie, remote: remote.to_owned(), sent, pid: 5, ..Connection::default() }
}

#[test]
fn sent_bytes_are_summed_per_remote_over_all_connections() {
    let mut watched = TrackedTask::new(Limits { sent: 1_000, ..Limits::default() });
    let mut sample = |second: u64, connections: Vec<Connection>| {
        let connections = Some(connections);
        watched.breach_details(Usage { connections, ..usage(second * 1_000, vec![process(5)]) })
    };
    let a = "192.0.2.1";
    let b = "192.0.2.2";
    assert!(sample(1, vec![connection(1, a, 600), connection(2, b, 600)]).is_empty());
    // The first connection has closed; its bytes are still part of the sum.
    assert_eq!(
        sample(2, vec![connection(3, a, 500), connection(2, b, 700)]),
        ["max-sent: 1KiB sent to 192.0.2.1, limit 1000B; by pid 5 (p5)"]
    );
    assert!(sample(3, vec![connection(3, a, 900), connection(2, b, 900)]).is_empty());
    assert_eq!(
        sample(4, vec![connection(2, b, 2_000)]).len(),
        1,
        "another remote is another breach"
    );
    assert!(sample(5, vec![connection(2, b, 3_000)]).is_empty());
}

#[test]
fn only_a_single_long_connection_exceeds_the_age_limit() {
    let limits = Limits { connection_age_ms: 5_000, ..Limits::default() };
    let sample = |watched: &mut TrackedTask, second: u64, cookie: u64| {
        let connections = Some(vec![connection(cookie, "192.0.2.1", 0)]);
        watched.breach_details(Usage { connections, ..usage(second * 1_000, vec![process(5)]) })
    };
    let mut short = TrackedTask::new(limits);
    let reported: Vec<_> =
        (1..30).flat_map(|second| sample(&mut short, second, second / 3)).collect();
    assert!(reported.is_empty(), "{reported:?}");
    let mut long = TrackedTask::new(limits);
    let reported: Vec<_> = (1..30).flat_map(|second| sample(&mut long, second, 1)).collect();
    let text = "max-connection-age: 6s of a connection with 192.0.2.1, limit 5s; by pid 5 (p5)";
    assert_eq!(reported, [text]);
}

/// After a takeover, the new shim reads the reported breaches from the journal.
#[test]
fn recorded_breaches_are_not_reported_again() {
    let limits = Limits { fds: 10, sent: 10, ..Limits::default() };
    let mut first = TrackedTask::new(limits);
    let over = |at| Usage {
        connections: Some(vec![connection(1, "192.0.2.1", 99)]),
        ..usage(at, vec![ProcessUsage { fds: 99, ..process(5) }])
    };
    let recorded = first.record_usage(over(1_000)).breaches;
    assert_eq!(recorded.len(), 2);
    let gauges = LimitTracker::new(limits, MonotonicMs(2_000), 0, &recorded);
    let mut second = TrackedTask(gauges, ConnectionLog::default());
    assert!(second.record_usage(over(3_000)).breaches.is_empty());
}

proptest! {
    /// For any values, a breach is reported only above the limit, and a second breach only after a
    /// recovery. A value that oscillates around its limit does not fill the journal.
    #[test]
    fn only_real_breaches_are_reported(
        limit in 1_u64..200,
        limit_kind in prop::sample::select(vec![LimitKind::Fds, LimitKind::Processes, LimitKind::Memory]),
        values in prop::collection::vec(0_u64..300, 1..120),
    ) {
        let of = |one| if limit_kind == one { limit } else { 0 };
        let limits = Limits {
            fds: of(LimitKind::Fds),
            memory: of(LimitKind::Memory),
            processes: of(LimitKind::Processes),
            ..Limits::default()
        };
        let mut watched = TrackedTask::new(limits);
        let (mut is_over, mut count) = (false, 0);
        for (second, value) in (1..).zip(values) {
            let processes = if limit_kind == LimitKind::Processes {
                (0..value).map(|pid| process(i32::try_from(pid).expect("small"))).collect()
            } else {
                vec![ProcessUsage { fds: value, resident_bytes: value, ..process(1) }]
            };
            let breaches = watched.record_usage(usage(second * 1_000, processes)).breaches;
            prop_assert!(breaches.len() <= 1);
            if let Some(breach) = breaches.first() {
                prop_assert_eq!((breach.limit_kind, breach.limit), (limit_kind, limit));
                prop_assert!(breach.value > limit && !is_over);
                count += 1;
                is_over = true;
            } else if value * 100 < limit * 90 {
                is_over = false;
            }
        }
        prop_assert!(count <= 16);
    }
}
