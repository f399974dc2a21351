//! Output a second.

use siding_e2e::eventually;

use crate::support::{
    breaches, puppet, sandbox, shown, start, stop_all, until_breach, until_looked_at,
};

/// SPEC §3, disk: a flood that lasts is told, a burst and a slow writer are not.
#[test]
fn a_flood_is_told_and_a_burst_is_not() {
    let sandbox = sandbox();
    let limit = ["--max-output-rate", "100KiB/s"];
    let burst = puppet(&sandbox, &limit, &["fill", "500k", "--line", "100", "hang"]);
    let slow = start(&sandbox, &limit, "while :; do echo x; sleep .05; done");
    eventually("the burst is over", || {
        shown(&sandbox, &burst)["output"]["bytes"].as_u64() >= Some(512_000)
    });
    let flood = start(&sandbox, &limit, "yes | head -c 40000000; sleep 300");
    let breach = until_breach(&sandbox, &flood, "output_rate");
    let detail = breach["detail"].as_str().expect("a sentence");
    assert!(detail.starts_with("max-output-rate: "), "{detail}");
    assert!(detail.ends_with("/s of output, limit 100KiB/s"), "{detail}");
    until_looked_at(&sandbox, 2);
    assert!(breaches(&sandbox, &burst).is_empty() && breaches(&sandbox, &slow).is_empty());
    stop_all(&sandbox);
}
