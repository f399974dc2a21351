//! What watchdogs tell of tasks without limits, and what healthy look-alikes may do untold.

use siding_model::limits::{
    Breach, Connection, Ledger, Limits, OnLimit, ProcessUse, Thresholds, Usage, Watchdog,
};
use siding_model::outcome::Limit;
use siding_model::process::{Mono, ProcRef};
use siding_model::settings::Settings;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// A task as it is at one moment, in milliseconds after the start of the watch.
type Task<'t> = &'t dyn Fn(u64) -> Usage;

fn process(pid: i32) -> ProcessUse {
    let process = ProcRef { pid, start_ticks: 7 };
    ProcessUse { process, resident_bytes: 1 << 20, cpu_ms: 0, runnable_ms: 0, fds: 4 }
}

fn of(processes: Vec<ProcessUse>) -> Usage {
    Usage { processes, ..Usage::default() }
}

/// A process that has used so much processor time.
fn used(cpu_ms: u64) -> Usage {
    of(vec![ProcessUse { cpu_ms, ..process(9) }])
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

/// What a row of looks came to.
#[derive(Debug, Default)]
struct Watched {
    looks: Vec<u64>,
    thorough: usize,
    told: Vec<(u64, Breach)>,
}

/// Watches a task for so long, as its shim would that nothing else wakes.
fn watch(settings: &Settings, told: &[Breach], for_ms: u64, task: Task<'_>) -> Watched {
    let mut watchdog = Watchdog::new(settings.thresholds(), Mono(0), told);
    let (mut ledger, mut watched) = (Ledger::default(), Watched::default());
    while watchdog.due().0 <= for_ms {
        let now = watchdog.due();
        let mut usage = Usage { at: now, ..task(now.0) };
        let is_thorough = watchdog.is_thorough_look_due(now, usage.cpu_ms());
        watched.thorough += usize::from(is_thorough);
        usage.connections = usage.connections.filter(|_| is_thorough);
        if is_thorough && usage.connections.is_none() {
            usage.connections = Some(Vec::new());
        }
        if !watchdog.suspects_spin(now, usage.cpu_ms(), usage.output_bytes) {
            usage.written_bytes = None;
        }
        if !watchdog.wants_runnable() {
            usage.processes.iter_mut().for_each(|one| one.runnable_ms = 0);
        }
        if let Some(connections) = &usage.connections {
            ledger.take(now, connections);
        }
        let breaches = watchdog.read(&usage, &ledger, &|pid| format!("p{pid}"));
        watched.told.extend(breaches.into_iter().map(|breach| (now.0, breach)));
        watched.looks.push(now.0);
        assert!(watchdog.due() > now, "it spins");
    }
    watched
}

/// Watches a task with the built-in settings until the hard cap.
fn default_watch(task: Task<'_>) -> Watched {
    watch(&Settings::default(), &[], 4 * HOUR, task)
}

#[track_caller]
fn assert_untold(task: Task<'_>) {
    let watched = default_watch(task);
    assert!(watched.told.is_empty(), "{:?}", watched.told);
}

/// Returns the only breach and when it was told.
#[track_caller]
fn only(watched: Watched) -> (u64, Breach) {
    let [told] = <[_; 1]>::try_from(watched.told).expect("told once");
    assert!(told.1.watchdog);
    told
}

/// SPEC §3.1b, busy loop: nine tenths of a core without output for five minutes.
#[test]
fn a_busy_loop_is_told_after_five_minutes() {
    let (at, breach) = only(default_watch(&|at| used(at * 95 / 100)));
    assert!((5 * MINUTE..=8 * MINUTE).contains(&at), "{at}");
    assert_eq!((breach.which, breach.limit), (Limit::CpuSpin, 5 * MINUTE));
    assert!(breach.detail.starts_with("watch_cpu_spin: "), "{}", breach.detail);
    let end = " of computing without output, told from 5m on; by pid 9 (p9)";
    assert!(breach.detail.ends_with(end), "{}", breach.detail);
}

/// On a busy machine a loop gets a third of a core, and waits for a processor the rest of the time.
#[test]
fn a_busy_loop_on_a_busy_machine_is_told() {
    let loops = |at: u64| of(vec![ProcessUse { cpu_ms: at / 3, runnable_ms: at, ..process(9) }]);
    let (at, _) = only(default_watch(&loops));
    assert!(at <= 9 * MINUTE, "{at}");
}

/// A compiler computes as much, and now and then it writes: a line, a log, or what it makes.
#[test]
fn a_compiler_is_no_busy_loop() {
    let lines = |at: u64| Usage { output_bytes: at / (4 * MINUTE), ..used(at) };
    assert_untold(&lines);
    let files = |at: u64| Usage { written_bytes: Some(at / (2 * MINUTE)), ..used(at) };
    assert_untold(&files);
    // Bursts of all cores at once, and little between them.
    assert_untold(&|at| used(at / (5 * MINUTE) * 2 * MINUTE));
    assert_untold(&|at| used(at / 2));
    // One that writes nothing is told; a loop that writes nothing has the same look.
    let silent = |at: u64| Usage { written_bytes: Some(4_096), ..used(at) };
    assert_eq!(only(default_watch(&silent)).1.which, Limit::CpuSpin);
}

/// What computed while its caller waited counts from when it is watched.
#[test]
fn what_was_computed_before_the_watch_is_no_loop_of_now() {
    assert_untold(&|_| used(HOUR));
}

/// SPEC §3.1b, descriptor leak: 4,096 in the tree.
#[test]
fn a_descriptor_leak_is_told() {
    let leak = |at: u64| of(vec![ProcessUse { fds: at / 1_000, cpu_ms: at / 100, ..process(9) }]);
    let (at, breach) = only(default_watch(&leak));
    assert!((4_096_000..4_400_000).contains(&at), "{at}");
    assert!(breach.detail.starts_with("watch_fds: 4,"), "{}", breach.detail);
    assert!(
        breach.detail.contains(" open descriptors, told from 4,096 on; 4,"),
        "{}",
        breach.detail
    );
    let five = |_| of((1..=5).map(|pid| ProcessUse { fds: 900, ..process(pid) }).collect());
    assert_eq!(only(default_watch(&five)).0, MINUTE, "at the first look");
}

/// A browser test has dozens of processes with a hundred descriptors each, and leaks none.
#[test]
fn a_browser_test_with_thousands_of_descriptors_is_no_leak() {
    let browser = |at: u64| {
        let renderers = (2..=80).map(|pid| ProcessUse { fds: 120, cpu_ms: at, ..process(pid) });
        let main = ProcessUse { fds: 700, cpu_ms: at, ..process(1) };
        let output_bytes = at;
        Usage { output_bytes, ..of(std::iter::once(main).chain(renderers).collect()) }
    };
    assert!(browser(0).fds() > 10_000);
    assert_untold(&browser);
}

fn with_connection(at: u64, connection: Connection) -> Usage {
    Usage { connections: Some(vec![connection]), ..used(at / 100) }
}

/// SPEC §3.1b, a long transfer: a connection older than thirty minutes that still sends.
#[test]
fn a_long_upload_is_told() {
    let (at, breach) = only(default_watch(&|at| with_connection(at, connection(at * 10, at / 10))));
    assert!((30 * MINUTE..=33 * MINUTE).contains(&at), "{at}");
    assert_eq!((breach.which, breach.remote.as_deref()), (Limit::ConnectionAge, Some("192.0.2.7")));
    let text = " of sending over one connection to 192.0.2.7, told from 30m on; by pid 9 (p9)";
    assert!(breach.detail.ends_with(text), "{}", breach.detail);
}

/// A database has old connections too: idle with signs of life, busy with queries, or accepted.
#[test]
fn a_database_is_no_long_upload() {
    assert_untold(&|at| with_connection(at, connection(at / 100, at / 100)));
    assert_untold(&|at| with_connection(at, connection(at / 50, 0)));
    assert_untold(&|at| with_connection(at, connection(at * 20, at * 100)));
    let server = |at: u64| Connection { is_accepted: true, ..connection(at * 50, at) };
    assert_untold(&|at| with_connection(at, server(at)));
    let inside = |at: u64| Connection { is_internal: true, ..connection(at * 1_000, 0) };
    assert_untold(&|at| with_connection(at, inside(at)));
}

/// SPEC §3.1b, exfiltration: 1 GiB sent to one remote. It is looked at sooner the faster it goes.
#[test]
fn a_gibibyte_sent_to_one_remote_is_told() {
    let sends = |at: u64| Connection { received: at * 90_000, ..connection(at * 3_000, 0) };
    let (at, breach) = only(default_watch(&|at| with_connection(at, sends(at))));
    let passed = (1 << 30) / 3_000;
    assert!((passed..=passed + MINUTE).contains(&at), "{at} instead of {passed}");
    assert_eq!((breach.which, breach.limit), (Limit::Sent, 1 << 30));
    assert!(breach.detail.contains(" sent to 192.0.2.7, told from 1GiB on; "), "{}", breach.detail);
}

/// A package download receives gigabytes and sends little.
#[test]
fn a_package_download_is_no_exfiltration() {
    assert_untold(&|at| with_connection(at, connection(at / 10, at * 10_000)));
}

/// SPEC §10: a task that does nothing is hardly looked at, and never at its connections.
#[test]
fn an_idle_task_is_looked_at_ever_more_rarely() {
    let idle = default_watch(&|_| Usage { connections: Some(vec![connection(0, 0)]), ..used(0) });
    let gaps: Vec<u64> = idle.looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.is_sorted() && gaps.last() == Some(&(4 * MINUTE)), "{gaps:?}");
    assert!(idle.looks.len() <= 64, "{} looks in four hours", idle.looks.len());
    assert_eq!((idle.thorough, idle.told.len()), (0, 0));
    // One that ticks is looked at as rarely, and its connections when it has used any time.
    let ticks = default_watch(&|at| used(at / (5 * MINUTE) * 10));
    assert!(ticks.looks.len() <= 64 && ticks.thorough <= 48, "{ticks:?}");
}

#[test]
fn what_is_on_record_is_not_told_again() {
    let settings = Settings::default();
    let leak: Task<'_> = &|_| of(vec![ProcessUse { fds: 5_000, ..process(9) }]);
    let (_, fds) = only(default_watch(leak));
    assert!(watch(&settings, &[fds], HOUR, leak).told.is_empty());
    let upload: Task<'_> = &|at| with_connection(at, connection(at * 10, 0));
    let (_, age) = only(default_watch(upload));
    assert!(watch(&settings, &[age], HOUR, upload).told.is_empty());
}

/// A limit of somebody's own says when they want to be told, and `stop` is for limits alone.
#[test]
fn a_limit_takes_the_place_of_the_watchdog() {
    let built_in = Settings::default().thresholds();
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
