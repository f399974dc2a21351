//! What a row of looks at a tree proves, and what it does not.

use proptest::prelude::*;
use siding_model::limits::{
    Breach, Connection, Gauges, Ledger, Limits, OnLimit, ProcessUse, Reading, Usage,
};
use siding_model::outcome::Limit;
use siding_model::process::{Mono, ProcRef};

/// One process, as most of these tests have it.
fn process(pid: i32) -> ProcessUse {
    let process = ProcRef { pid, start_ticks: 7 };
    ProcessUse { process, resident_bytes: 1 << 20, cpu_ms: 0, runnable_ms: 0, fds: 4 }
}

fn usage(at: u64, processes: Vec<ProcessUse>) -> Usage {
    Usage { at: Mono(at), processes, ..Usage::default() }
}

/// Gauges and their ledger, looked at in turn.
struct Watched(Gauges, Ledger);

impl Watched {
    fn new(limits: Limits) -> Self {
        Self(Gauges::new(limits, Mono(0), 0, &[]), Ledger::default())
    }

    fn read(&mut self, usage: Usage) -> Reading {
        self.1.take(usage.at, usage.connections.as_deref().unwrap_or_default());
        self.0.read(usage, &self.1, &|pid| format!("p{pid}"))
    }

    fn details(&mut self, usage: Usage) -> Vec<String> {
        self.read(usage).breaches.into_iter().map(|breach| breach.detail).collect()
    }
}

/// A breach is told once, and again only after the value has really come back.
#[test]
fn each_episode_is_told_once() {
    let mut watched = Watched::new(Limits { fds: 100, ..Limits::default() });
    let mut told = Vec::new();
    for (second, fds) in [(1, 100), (2, 101), (3, 150), (4, 95), (5, 120), (6, 89), (7, 101)] {
        let found = watched.details(usage(second * 1_000, vec![ProcessUse { fds, ..process(9) }]));
        told.extend(found.into_iter().map(|detail| (second, detail)));
    }
    let text = "max-fds: 101 open descriptors, limit 100; 101 of them in pid 9 (p9)";
    assert_eq!(told, [(2, text.to_owned()), (7, text.to_owned())]);
}

/// PAINS G11: ten forks of a process of 50 MB are not 500 MB.
#[test]
fn memory_that_is_shared_counts_once() {
    let limits = Limits { memory: 200 << 20, ..Limits::default() };
    let forks = || (0..10).map(|pid| ProcessUse { resident_bytes: 50 << 20, ..process(pid) });
    let shared = Some(55 << 20);
    let mut watched = Watched::new(limits);
    let forked = Usage { shared_once_bytes: shared, ..usage(1_000, forks().collect()) };
    assert!(watched.read(forked).breaches.is_empty());
    let grown = watched.details(usage(2_000, forks().collect()));
    assert_eq!(grown, ["max-memory: 500MiB of memory, limit 200MiB; 50MiB of it in pid 9 (p9)"]);
}

/// PAINS G9: healthy tasks beside a large one are not blamed, and neither is a machine that only
/// keeps files in its memory.
#[test]
fn a_machine_that_is_short_is_told_to_whoever_could_make_up_for_it() {
    let limits = Limits { min_available: 1 << 30, ..Limits::default() };
    let look = |second: u64, available: u64, used: u64| Usage {
        available_bytes: Some(available << 20),
        ..usage(second * 1_000, vec![ProcessUse { resident_bytes: used << 20, ..process(9) }])
    };
    let mut large = Watched::new(limits);
    let mut small = Watched::new(limits);
    let mut told = Vec::new();
    for (second, available) in [(1, 2_000), (2, 900), (3, 500), (4, 1_030), (5, 900), (6, 1_200)] {
        told.extend(large.details(look(second, available, 700)));
        assert_eq!(small.details(look(second, available, 100)), [""; 0]);
    }
    let text = "min-available: 900MiB of memory left on the machine, limit 1GiB; 700MiB, most of \
                it pid 9 (p9), would make up for it";
    assert_eq!(told, [text], "once, since it has not really come back");
    assert_eq!(large.details(look(7, 800, 700)).len(), 1, "it had");
    assert!(Watched::new(limits).details(usage(1_000, vec![process(9)])).is_empty());

    let breaches = Watched::new(limits).read(look(1, 900, 700)).breaches;
    assert_eq!((breaches[0].which, breaches[0].value), (Limit::Memory, 900 << 20));
    let on_record = |limits| Watched(Gauges::new(limits, Mono(0), 0, &breaches), Ledger::default());
    assert!(on_record(limits).details(look(2, 900, 700)).is_empty(), "told before a rescue");
    let own = Limits { memory: 600 << 20, ..limits };
    assert_eq!(on_record(own).details(look(2, 900, 700)).len(), 1, "another one");
}

/// A shim that was killed between the record of the limit and that of the stop has not stopped the
/// task: the next one does.
#[test]
fn a_stop_that_was_not_begun_is_begun_after_a_rescue() {
    let fds = |limits, told: &[Breach]| {
        let mut gauges = Watched(Gauges::new(limits, Mono(0), 0, told), Ledger::default());
        gauges.read(usage(1_000, vec![ProcessUse { fds: 150, ..process(9) }])).breaches
    };
    let notice = Limits { fds: 100, ..Limits::default() };
    let stop = Limits { on_limit: OnLimit::Stop, ..notice };
    let told = fds(stop, &[]);
    assert_eq!((told.len(), fds(notice, &told).len(), fds(stop, &told).len()), (1, 0, 1));
    let short = |limits, told: &[Breach]| {
        let mut gauges = Watched(Gauges::new(limits, Mono(0), 0, told), Ledger::default());
        let large = ProcessUse { resident_bytes: 1 << 30, ..process(9) };
        let look = Usage { available_bytes: Some(900 << 20), ..usage(1_000, vec![large]) };
        gauges.read(look).breaches
    };
    let stop = Limits { min_available: 1 << 30, on_limit: OnLimit::Stop, ..Limits::default() };
    let told = short(stop, &[]);
    assert_eq!((told.len(), short(stop, &told).len()), (1, 1));
}

/// Sixteen cores use up what a quiet task has in 16 s within one: nobody saw it compute for longer.
#[test]
fn what_was_not_looked_at_was_not_computed() {
    let limits = Limits { cpu_spin_ms: 10_000, ..Limits::default() };
    let mut watched = Watched::new(limits);
    let look = |at: u64, cpu_ms: u64| usage(at, vec![ProcessUse { cpu_ms, ..process(3) }]);
    assert!(watched.read(look(1_000, 0)).breaches.is_empty());
    assert!(watched.read(look(17_000, 16_000)).breaches.is_empty(), "a burst");
    for second in 18..=27 {
        assert!(watched.read(look(second * 1_000, second * 1_000)).breaches.is_empty(), "{second}");
    }
    let told = watched.read(look(28_000, 28_000)).breaches;
    assert_eq!(told.first().map(|breach| breach.value), Some(11_000));
}

/// Returns what a second of this much CPU time and output comes to, for `seconds` in a row.
fn spin(cpu_ms: u64, runnable_ms: u64, written: u64, seconds: u64) -> Vec<Breach> {
    let mut watched = Watched::new(Limits { cpu_spin_ms: 5_000, ..Limits::default() });
    let mut breaches = Vec::new();
    for second in 1..=seconds {
        let one =
            ProcessUse { cpu_ms: second * cpu_ms, runnable_ms: second * runnable_ms, ..process(3) };
        let output_bytes = second * written;
        let look = Usage { output_bytes, ..usage(second * 1_000, vec![one]) };
        breaches.extend(watched.read(look).breaches);
    }
    breaches
}

#[test]
fn a_busy_loop_is_told_and_a_compiler_that_writes_is_not() {
    let told = spin(1_000, 1_000, 0, 20);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].at, told[0].value), (Mono(6_000), 6_000));
    assert!(spin(1_000, 1_000, 1, 20).is_empty(), "it writes");
    assert!(spin(800, 800, 0, 20).is_empty(), "not nine tenths of a core");
    assert_eq!(spin(300, 990, 0, 20).len(), 1, "others took the processor");
    assert_eq!(spin(4_000, 1_000, 0, 20).len(), 1, "several threads");
}

/// CPU time goes from a process that ends to its parent, and to the shim. None of it counts twice,
/// and a row of short-lived processes computes as one long one does.
#[test]
fn a_loop_that_starts_the_next_process_is_a_loop_too() {
    let mut watched = Watched::new(Limits { cpu_spin_ms: 5_000, ..Limits::default() });
    let mut told = 0;
    for second in 1..=8_u64 {
        let pid = i32::try_from(second).expect("small");
        let ended_cpu_ms = second * 950;
        told += watched
            .details(Usage { ended_cpu_ms, ..usage(second * 1_000, vec![process(pid)]) })
            .len();
    }
    assert_eq!(told, 1);
}

/// A second of a flood fits into the bucket, ten of them do not.
#[test]
fn a_burst_is_no_flood() {
    let run = |seconds: &[u64]| {
        let mut watched = Watched::new(Limits { output_rate: 1_000, ..Limits::default() });
        let mut output_bytes = 0;
        let mut told = Vec::new();
        for (second, written) in (1..).zip(seconds) {
            output_bytes += written;
            let look = Usage { output_bytes, ..usage(second * 1_000, vec![process(1)]) };
            told.extend(watched.details(look).into_iter().map(|detail| (second, detail)));
        }
        told
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
fn bytes_count_for_each_remote_and_over_all_its_connections() {
    let mut watched = Watched::new(Limits { sent: 1_000, ..Limits::default() });
    let mut look = |second: u64, connections: Vec<Connection>| {
        let connections = Some(connections);
        watched.details(Usage { connections, ..usage(second * 1_000, vec![process(5)]) })
    };
    let a = "192.0.2.1";
    let b = "192.0.2.2";
    assert!(look(1, vec![connection(1, a, 600), connection(2, b, 600)]).is_empty());
    // The first has ended; what it sent still counts.
    assert_eq!(
        look(2, vec![connection(3, a, 500), connection(2, b, 700)]),
        ["max-sent: 1KiB sent to 192.0.2.1, limit 1000B; by pid 5 (p5)"]
    );
    assert!(look(3, vec![connection(3, a, 900), connection(2, b, 900)]).is_empty());
    assert_eq!(look(4, vec![connection(2, b, 2_000)]).len(), 1, "another remote is another breach");
    assert!(look(5, vec![connection(2, b, 3_000)]).is_empty());
}

#[test]
fn only_one_long_connection_is_an_old_one() {
    let limits = Limits { connection_age_ms: 5_000, ..Limits::default() };
    let look = |watched: &mut Watched, second: u64, cookie: u64| {
        let connections = Some(vec![connection(cookie, "192.0.2.1", 0)]);
        watched.details(Usage { connections, ..usage(second * 1_000, vec![process(5)]) })
    };
    let mut short = Watched::new(limits);
    let told: Vec<_> = (1..30).flat_map(|second| look(&mut short, second, second / 3)).collect();
    assert!(told.is_empty(), "{told:?}");
    let mut long = Watched::new(limits);
    let told: Vec<_> = (1..30).flat_map(|second| look(&mut long, second, 1)).collect();
    let text = "max-connection-age: 6s of a connection with 192.0.2.1, limit 5s; by pid 5 (p5)";
    assert_eq!(told, [text]);
}

/// A shim that takes over knows what was told.
#[test]
fn what_is_on_record_is_not_told_again() {
    let limits = Limits { fds: 10, sent: 10, ..Limits::default() };
    let mut first = Watched::new(limits);
    let over = |at| Usage {
        connections: Some(vec![connection(1, "192.0.2.1", 99)]),
        ..usage(at, vec![ProcessUse { fds: 99, ..process(5) }])
    };
    let told = first.read(over(1_000)).breaches;
    assert_eq!(told.len(), 2);
    let gauges = Gauges::new(limits, Mono(2_000), 0, &told);
    let mut second = Watched(gauges, Ledger::default());
    assert!(second.read(over(3_000)).breaches.is_empty());
}

proptest! {
    /// Whatever the numbers: nothing is told at or under its limit, nothing that was not limited,
    /// never twice without coming back, and a value around its limit does not fill the journal.
    #[test]
    fn nothing_is_told_that_is_not_so(
        limit in 1_u64..200,
        which in prop::sample::select(vec![Limit::Fds, Limit::Processes, Limit::Memory]),
        values in prop::collection::vec(0_u64..300, 1..120),
    ) {
        let of = |one| if which == one { limit } else { 0 };
        let limits = Limits {
            fds: of(Limit::Fds),
            memory: of(Limit::Memory),
            processes: of(Limit::Processes),
            ..Limits::default()
        };
        let mut watched = Watched::new(limits);
        let (mut is_over, mut count) = (false, 0);
        for (second, value) in (1..).zip(values) {
            let processes = if which == Limit::Processes {
                (0..value).map(|pid| process(i32::try_from(pid).expect("small"))).collect()
            } else {
                vec![ProcessUse { fds: value, resident_bytes: value, ..process(1) }]
            };
            let breaches = watched.read(usage(second * 1_000, processes)).breaches;
            prop_assert!(breaches.len() <= 1);
            if let Some(breach) = breaches.first() {
                prop_assert_eq!((breach.which, breach.limit), (which, limit));
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
