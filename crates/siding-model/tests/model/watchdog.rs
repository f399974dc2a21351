//! Tests of the watchdogs: which failures they report, and which healthy tasks with similar usage
//! they must not report.

use siding_model::limits::{
    Breach, Connection, ConnectionLog, Limits, OnLimit, ProcessUsage, Thresholds, Usage, Watchdog,
};
use siding_model::outcome::LimitKind;
use siding_model::process::{MonotonicMs, ProcRef};
use siding_model::settings::Settings;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// A function from the time since the start of the watch, in milliseconds, to the usage of a task.
type UsageAt<'t> = &'t dyn Fn(u64) -> Usage;

fn process(pid: i32) -> ProcessUsage {
    let process = ProcRef { pid, start_ticks: 7 };
    ProcessUsage { process, resident_bytes: 1 << 20, cpu_ms: 0, runnable_ms: 0, fds: 4 }
}

fn usage_with(processes: Vec<ProcessUsage>) -> Usage {
    Usage { processes, ..Usage::default() }
}

fn cpu_usage(cpu_ms: u64) -> Usage {
    usage_with(vec![ProcessUsage { cpu_ms, ..process(9) }])
}

fn connection(sent: u64, received: u64) -> Connection {
    Connection {
        cookie: 1,
        remote: "192.0.2.7".to_owned(),
        sent,
        pid: 9,
        received,
        ..Connection::default()
    }
}

/// The samples that the watchdog requested, and the breaches that it reported, with their times in
/// milliseconds.
#[derive(Debug, Default)]
struct WatchResult {
    samples: Vec<u64>,
    thorough_samples: usize,
    breaches: Vec<(u64, Breach)>,
}

/// Samples a task for `for_ms` milliseconds, at the times that the watchdog requests. `earlier` are
/// the breaches that an earlier shim recorded.
fn run_watchdog(
    settings: &Settings,
    earlier: &[Breach],
    for_ms: u64,
    task: UsageAt<'_>,
) -> WatchResult {
    let mut watchdog = Watchdog::new(settings.watchdog_thresholds(), MonotonicMs(0), earlier);
    let (mut ledger, mut watched) = (ConnectionLog::default(), WatchResult::default());
    while watchdog.next_sample_at().0 <= for_ms {
        let now = watchdog.next_sample_at();
        let mut usage = Usage { at: now, ..task(now.0) };
        let is_thorough = watchdog.is_thorough_sample_due(now, usage.cpu_ms());
        watched.thorough_samples += usize::from(is_thorough);
        usage.connections = usage.connections.filter(|_| is_thorough);
        if is_thorough && usage.connections.is_none() {
            usage.connections = Some(Vec::new());
        }
        if !watchdog.suspects_spin(now, usage.cpu_ms(), usage.output_bytes) {
            usage.written_bytes = None;
        }
        if !watchdog.wants_runnable_time() {
            usage.processes.iter_mut().for_each(|one| one.runnable_ms = 0);
        }
        if let Some(connections) = &usage.connections {
            ledger.record_sample(now, connections);
        }
        let breaches = watchdog.record_usage(&usage, &ledger, &|pid| format!("p{pid}"));
        watched.breaches.extend(breaches.into_iter().map(|breach| (now.0, breach)));
        watched.samples.push(now.0);
        assert!(watchdog.next_sample_at() > now, "the next sample must be later");
    }
    watched
}

/// Samples a task with the built-in settings until the built-in hard cap.
fn run_default_watchdog(task: UsageAt<'_>) -> WatchResult {
    run_watchdog(&Settings::default(), &[], 4 * HOUR_MS, task)
}

#[track_caller]
fn assert_no_breach(task: UsageAt<'_>) {
    let watched = run_default_watchdog(task);
    assert!(watched.breaches.is_empty(), "{:?}", watched.breaches);
}

/// Returns the only breach and the time in milliseconds at which it was reported.
#[track_caller]
fn single_breach(watched: WatchResult) -> (u64, Breach) {
    let [earlier] = <[_; 1]>::try_from(watched.breaches).expect("a single breach");
    assert!(earlier.1.watchdog);
    earlier
}

/// Promise P95, busy loop: a task that uses nine tenths of a core without output for five minutes
/// is reported.
#[test]
fn a_busy_loop_is_reported_after_five_minutes() {
    let (at, breach) = single_breach(run_default_watchdog(&|at| cpu_usage(at * 95 / 100)));
    assert!((5 * MINUTE_MS..=8 * MINUTE_MS).contains(&at), "{at}");
    assert_eq!((breach.limit_kind, breach.limit), (LimitKind::CpuSpin, 5 * MINUTE_MS));
    assert!(breach.detail.starts_with("watch_cpu_spin: "), "{}", breach.detail);
    let end = " of computing without output, threshold 5m; by pid 9 (p9)";
    assert!(breach.detail.ends_with(end), "{}", breach.detail);
}

/// On a busy machine, a loop may receive only a third of a core and wait for a processor in the
/// remaining time.
#[test]
fn a_busy_loop_on_a_busy_system_is_reported() {
    let loops =
        |at: u64| usage_with(vec![ProcessUsage { cpu_ms: at / 3, runnable_ms: at, ..process(9) }]);
    let (at, _) = single_breach(run_default_watchdog(&loops));
    assert!(at <= 9 * MINUTE_MS, "{at}");
}

/// A compiler uses as much processor time as a busy loop, but it writes a line or a file from time
/// to time.
#[test]
fn a_compiler_is_not_a_busy_loop() {
    let lines = |at: u64| Usage { output_bytes: at / (4 * MINUTE_MS), ..cpu_usage(at) };
    assert_no_breach(&lines);
    let files = |at: u64| Usage { written_bytes: Some(at / (2 * MINUTE_MS)), ..cpu_usage(at) };
    assert_no_breach(&files);
    // A build in bursts on all cores, with little activity between the bursts.
    assert_no_breach(&|at| cpu_usage(at / (5 * MINUTE_MS) * 2 * MINUTE_MS));
    assert_no_breach(&|at| cpu_usage(at / 2));
    // A compiler that writes nothing is reported, because it cannot be distinguished from a busy
    // loop.
    let silent = |at: u64| Usage { written_bytes: Some(4_096), ..cpu_usage(at) };
    assert_eq!(single_breach(run_default_watchdog(&silent)).1.limit_kind, LimitKind::CpuSpin);
}

/// Processor time that was used before the start of the watch is ignored.
#[test]
fn cpu_time_before_the_watch_does_not_count() {
    assert_no_breach(&|_| cpu_usage(HOUR_MS));
}

/// Promise P95, descriptor leak: a tree with more than 4,096 open descriptors is reported.
#[test]
fn a_descriptor_leak_is_reported() {
    let leak = |at: u64| {
        usage_with(vec![ProcessUsage { fds: at / 1_000, cpu_ms: at / 100, ..process(9) }])
    };
    let (at, breach) = single_breach(run_default_watchdog(&leak));
    assert!((4_096_000..4_400_000).contains(&at), "{at}");
    assert!(breach.detail.starts_with("watch_fds: 4,"), "{}", breach.detail);
    assert!(breach.detail.contains(" open descriptors, threshold 4,096; 4,"), "{}", breach.detail);
    let five =
        |_| usage_with((1..=5).map(|pid| ProcessUsage { fds: 900, ..process(pid) }).collect());
    assert_eq!(single_breach(run_default_watchdog(&five)).0, MINUTE_MS, "at the first sample");
}

/// A browser test has dozens of processes with a hundred descriptors each, without a leak.
#[test]
fn a_browser_with_thousands_of_descriptors_is_not_a_leak() {
    let browser = |at: u64| {
        let renderers = (2..=80).map(|pid| ProcessUsage { fds: 120, cpu_ms: at, ..process(pid) });
        let main = ProcessUsage { fds: 700, cpu_ms: at, ..process(1) };
        let output_bytes = at;
        Usage { output_bytes, ..usage_with(std::iter::once(main).chain(renderers).collect()) }
    };
    assert!(browser(0).fds() > 10_000);
    assert_no_breach(&browser);
}

fn with_connection(at: u64, connection: Connection) -> Usage {
    Usage { connections: Some(vec![connection]), ..cpu_usage(at / 100) }
}

/// Promise P95, long transfer: a connection that still sends after thirty minutes is reported.
#[test]
fn a_long_upload_is_reported() {
    let (at, breach) = single_breach(run_default_watchdog(&|at| {
        with_connection(at, connection(at * 10, at / 10))
    }));
    assert!((30 * MINUTE_MS..=33 * MINUTE_MS).contains(&at), "{at}");
    assert_eq!(
        (breach.limit_kind, breach.remote.as_deref()),
        (LimitKind::ConnectionAge, Some("192.0.2.7"))
    );
    let text = " of sending over one connection to 192.0.2.7, threshold 30m; by pid 9 (p9)";
    assert!(breach.detail.ends_with(text), "{}", breach.detail);
}

/// Database connections may be old without an upload: idle with keepalives, busy with queries, or
/// accepted.
#[test]
fn a_database_connection_is_not_a_long_upload() {
    assert_no_breach(&|at| with_connection(at, connection(at / 100, at / 100)));
    assert_no_breach(&|at| with_connection(at, connection(at / 50, 0)));
    assert_no_breach(&|at| with_connection(at, connection(at * 20, at * 100)));
    let server = |at: u64| Connection { is_accepted: true, ..connection(at * 50, at) };
    assert_no_breach(&|at| with_connection(at, server(at)));
    let inside = |at: u64| Connection { is_internal: true, ..connection(at * 1_000, 0) };
    assert_no_breach(&|at| with_connection(at, inside(at)));
}

/// Promise P95, exfiltration: 1 GiB sent to one remote is reported. A fast transfer is sampled more
/// often, so that the report follows soon after the threshold is exceeded.
#[test]
fn a_gibibyte_sent_to_one_remote_is_reported() {
    let sends = |at: u64| Connection { received: at * 90_000, ..connection(at * 3_000, 0) };
    let (at, breach) = single_breach(run_default_watchdog(&|at| with_connection(at, sends(at))));
    let passed = (1 << 30) / 3_000;
    assert!((passed..=passed + MINUTE_MS).contains(&at), "{at} instead of {passed}");
    assert_eq!((breach.limit_kind, breach.limit), (LimitKind::Sent, 1 << 30));
    assert!(breach.detail.contains(" sent to 192.0.2.7, threshold 1GiB; "), "{}", breach.detail);
}

/// A package download receives gigabytes and sends little.
#[test]
fn a_package_download_is_not_exfiltration() {
    assert_no_breach(&|at| with_connection(at, connection(at / 10, at * 10_000)));
}

/// Promise P101: an idle task is sampled rarely, and its connections are not sampled.
#[test]
fn an_idle_task_is_sampled_at_growing_intervals() {
    let idle = run_default_watchdog(&|_| Usage {
        connections: Some(vec![connection(0, 0)]),
        ..cpu_usage(0)
    });
    let gaps: Vec<u64> = idle.samples.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted() && gaps.last() == Some(&(4 * MINUTE_MS)), "{gaps:?}");
    assert!(idle.samples.len() <= 64, "{} samples in four hours", idle.samples.len());
    assert_eq!((idle.thorough_samples, idle.breaches.len()), (0, 0));
    // A task with a periodic timer is sampled equally rarely, and its connections are sampled only
    // if the task has used processor time.
    let ticks = run_default_watchdog(&|at| cpu_usage(at / (5 * MINUTE_MS) * 10));
    assert!(ticks.samples.len() <= 64 && ticks.thorough_samples <= 48, "{ticks:?}");
}

#[test]
fn recorded_breaches_are_not_reported_again() {
    let settings = Settings::default();
    let leak: UsageAt<'_> = &|_| usage_with(vec![ProcessUsage { fds: 5_000, ..process(9) }]);
    let (_, fds) = single_breach(run_default_watchdog(leak));
    assert!(run_watchdog(&settings, &[fds], HOUR_MS, leak).breaches.is_empty());
    let upload: UsageAt<'_> = &|at| with_connection(at, connection(at * 10, 0));
    let (_, age) = single_breach(run_default_watchdog(upload));
    assert!(run_watchdog(&settings, &[age], HOUR_MS, upload).breaches.is_empty());
}

/// A limit that the user has set replaces the watchdog's threshold for the same resource.
#[test]
fn a_limit_replaces_the_watchdog() {
    let built_in = Settings::default().watchdog_thresholds();
    let all = Thresholds {
        cpu_spin_ms: 300_000,
        fds: 4_096,
        connection_age_ms: 1_800_000,
        sent: 1 << 30,
    };
    assert_eq!(built_in, all);
    let limits = Limits { fds: 100_000, sent: 7, on_limit: OnLimit::Stop, ..Limits::default() };
    let left = Thresholds { fds: 0, sent: 0, ..all };
    assert_eq!(all.without_limited(&limits), left);
    assert!(Thresholds::default().is_none() && !left.is_none());
}
