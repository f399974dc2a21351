//! Limits on a process tree: memory, processes, descriptors, processor time.

use siding_e2e::eventually;

use crate::support::{
    limit_breaches, sandbox, show_task, start_puppet, start_task, stop_all, wait_for_breach,
    wait_for_limit_checks,
};

/// Promise P97: a descriptor leak exceeds `max_fds` and is reported once; a server with fewer
/// descriptors is not reported.
#[test]
fn max_fds_is_breached_once_by_a_leak_and_not_below_the_limit() {
    let sandbox = sandbox();
    let server = start_puppet(&sandbox, &["--max-fds", "400"], &["hold-fds", "200", "hang"]);
    let leak = start_puppet(&sandbox, &["--max-fds", "400"], &["hold-fds", "600", "hang"]);
    let breach = wait_for_breach(&sandbox, &leak, "fds");
    // The process may still have been opening descriptors when the sample was taken, so the exact
    // value is unknown.
    assert!(breach["value"].as_u64().is_some_and(|value| value > 400), "{breach:#}");
    assert_eq!(breach["limit"], 400);
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.starts_with("max-fds: "), "{detail}");
    assert!(detail.contains(" open descriptors, limit 400; "), "{detail}");
    wait_for_limit_checks(&sandbox, 2);
    assert!(limit_breaches(&sandbox, &server).is_empty());
    assert_eq!(limit_breaches(&sandbox, &leak).len(), 1, "expected exactly once");
    let view = show_task(&sandbox, &leak);
    assert_eq!(view["phase"], "running", "a notice must not end the task");
    assert_eq!(view["breaches"][0]["detail"], detail);
    assert!(view["usage"]["fds"].as_u64().is_some_and(|fds| fds > 600), "{view:#}");
    stop_all(&sandbox);
}

/// Promise P96, failure F57: memory pages that forked processes share count once toward
/// `max_memory`.
#[test]
fn max_memory_counts_pages_shared_by_forks_once() {
    let sandbox = sandbox();
    let limit = ["--max-memory", "200MiB"];
    let mut verbs = vec!["grow", "50M"];
    for _ in 0..9 {
        verbs.extend(["fork", "hang", "--"]);
    }
    verbs.push("hang");
    let forks = start_puppet(&sandbox, &limit, &verbs);
    eventually("all have been forked", || {
        show_task(&sandbox, &forks)["processes"].as_array().is_some_and(|all| all.len() == 10)
    });
    let large = start_puppet(&sandbox, &limit, &["grow", "300M", "hang"]);
    let breach = wait_for_breach(&sandbox, &large, "memory");
    // The process may still have been growing when the sample was taken, so the exact value is
    // unknown.
    assert!(breach["value"].as_u64().is_some_and(|value| value > 200 << 20), "{breach:#}");
    wait_for_limit_checks(&sandbox, 2);
    let view = show_task(&sandbox, &forks);
    assert!(limit_breaches(&sandbox, &forks).is_empty(), "{view:#}");
    assert_eq!(view["usage"]["processes"], 10, "the processes were not sampled");
    stop_all(&sandbox);
}

fn available_kib() -> u64 {
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo can be read");
    let left = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let left = left.and_then(|left| left.trim().strip_suffix(" kB")?.parse().ok());
    left.expect("a size in kB")
}

/// Failures F55 and F57: stopping twenty forks that share 100 MB cannot free a GiB, so the forks
/// are not stopped. The shim reads the proportional set size (PSS) only near a limit. `max_memory`
/// is too high for that, so only `min_available` can cause this read.
#[test]
fn min_available_does_not_stop_forks_that_share_their_memory() {
    let sandbox = sandbox();
    let wanted = available_kib() + (1 << 20);
    let limit = ["--min-available", &format!("{wanted}KiB"), "--max-memory", "100GiB"];
    let mut verbs = vec!["grow", "100M"];
    for _ in 0..19 {
        verbs.extend(["fork", "hang", "--"]);
    }
    verbs.push("hang");
    let flags = [&limit[..], &["--on-limit", "stop"]].concat();
    let forks = start_puppet(&sandbox, &flags, &verbs);
    eventually("all have been forked", || {
        show_task(&sandbox, &forks)["processes"].as_array().is_some_and(|all| all.len() == 20)
    });
    wait_for_limit_checks(&sandbox, 2);
    let view = show_task(&sandbox, &forks);
    assert_eq!((&view["phase"], &view["usage"]["processes"]), (&"running".into(), &20.into()));
    assert!(limit_breaches(&sandbox, &forks).is_empty(), "{view:#}");
    stop_all(&sandbox);
}

/// Promise P96, failure F55: when the machine's memory runs low, siding stops the large task and
/// not a small one.
#[test]
fn min_available_stops_the_large_task_and_not_the_small_one() {
    let sandbox = sandbox();
    // The large task grows by 1 GiB, so that the available memory is about 512 MiB less than
    // `wanted`.
    let wanted = available_kib().saturating_sub(512 << 10);
    let limit = ["--min-available", &format!("{wanted}KiB"), "--on-limit", "stop"];
    let small = start_puppet(&sandbox, &limit, &["grow", "1M", "hang"]);
    let large = start_puppet(&sandbox, &limit, &["grow", "1024M", "hang"]);
    let breach = wait_for_breach(&sandbox, &large, "memory");
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.starts_with("min-available: "), "{detail}");
    assert!(detail.contains("of memory left on the machine, limit "), "{detail}");
    eventually("it was stopped", || show_task(&sandbox, &large)["phase"] == "ended");
    let outcome = &show_task(&sandbox, &large)["outcome"];
    assert_eq!(outcome["which"], "memory", "{outcome}");
    wait_for_limit_checks(&sandbox, 2);
    assert_eq!(show_task(&sandbox, &small)["phase"], "running");
    stop_all(&sandbox);
}

/// Promise P97, failure F56: a task with more processes than `max_processes` is reported; one with
/// fewer is not.
#[test]
fn max_processes_is_breached_only_above_the_limit() {
    let sandbox = sandbox();
    let limit = ["--max-processes", "8"];
    let few = start_task(&sandbox, &limit, "for i in 1 2 3 4 5; do sleep 300 & done; wait");
    let many = start_task(&sandbox, &limit, "for i in {1..20}; do sleep 300 & done; wait");
    let breach = wait_for_breach(&sandbox, &many, "processes");
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.starts_with("max-processes: "), "{detail}");
    assert!(detail.ends_with(" processes, limit 8"), "{detail}");
    wait_for_limit_checks(&sandbox, 2);
    assert!(limit_breaches(&sandbox, &few).is_empty());
    assert_eq!(show_task(&sandbox, &few)["usage"]["processes"], 6);
    stop_all(&sandbox);
}

/// Promise P97: all processes of a tree are counted, however many they are, although the samples
/// that explain a silence have at most 512.
#[test]
fn max_processes_above_the_size_of_a_sample_is_breached() {
    let sandbox = sandbox();
    let text = "for i in {1..620}; do sleep 300 & done; wait";
    let many = start_task(&sandbox, &["--max-processes", "600"], text);
    let breach = wait_for_breach(&sandbox, &many, "processes");
    assert!(breach["value"].as_u64().is_some_and(|value| value > 600), "{breach:#}");
    eventually("all processes are counted", || {
        show_task(&sandbox, &many)["usage"]["processes"] == 621
    });
    stop_all(&sandbox);
}

/// Promise P97: a busy loop without output is reported; a task that computes as much and writes
/// output, like a compiler, is not.
#[test]
fn max_cpu_spin_is_breached_only_by_a_silent_busy_loop() {
    let sandbox = sandbox();
    let limit = ["--max-cpu-spin", "2s"];
    let compiler = start_task(
        &sandbox,
        &limit,
        "while :; do for ((i = 0; i < 5000; i++)); do :; done; echo compiled; done",
    );
    let spins = start_puppet(&sandbox, &limit, &["say", "begins", "burn"]);
    let sleeps = start_task(&sandbox, &limit, "sleep 300");
    let breach = wait_for_breach(&sandbox, &spins, "cpu_spin");
    assert!(breach["value"].as_u64().is_some_and(|value| value > 2_000), "{breach:#}");
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.contains("of computing without output, limit 2s; by pid"), "{detail}");
    for healthy in [&compiler, &sleeps] {
        assert!(limit_breaches(&sandbox, healthy).is_empty(), "{healthy}");
    }
    eventually("its processor time is shown", || {
        show_task(&sandbox, &spins)["usage"]["cpu_ms"].as_u64().is_some_and(|ms| ms > 500)
    });
    stop_all(&sandbox);
}
