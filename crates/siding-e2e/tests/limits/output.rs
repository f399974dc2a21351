//! The limit on the output rate of a task (`--max-output-rate`).

use siding_e2e::eventually;

use crate::support::{
    limit_breaches, sandbox, show_task, start_puppet, start_task, stop_all, wait_for_breach,
    wait_for_limit_checks,
};

/// Promise P97: a sustained flood is reported; a burst and a slow writer are not.
#[test]
fn max_output_rate_is_breached_by_a_flood_but_not_by_a_burst() {
    let sandbox = sandbox();
    let limit = ["--max-output-rate", "100KiB/s"];
    let burst = start_puppet(&sandbox, &limit, &["fill", "500k", "--line", "100", "hang"]);
    let slow = start_task(&sandbox, &limit, "while :; do echo x; sleep .05; done");
    eventually("the burst is over", || {
        show_task(&sandbox, &burst)["output"]["bytes"].as_u64() >= Some(512_000)
    });
    let flood = start_task(&sandbox, &limit, "yes | head -c 40000000; sleep 300");
    let breach = wait_for_breach(&sandbox, &flood, "output_rate");
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.starts_with("max-output-rate: "), "{detail}");
    assert!(detail.ends_with("/s of output, limit 100KiB/s"), "{detail}");
    wait_for_limit_checks(&sandbox, 2);
    assert!(
        limit_breaches(&sandbox, &burst).is_empty() && limit_breaches(&sandbox, &slow).is_empty()
    );
    stop_all(&sandbox);
}
