//! The output of a terminal is stored byte for byte as the line discipline delivers it.

use siding_e2e::eventually;

use crate::support::{TerminalTask, sandbox, start_call};

#[test]
fn output_bytes_are_stored_as_the_terminal_sends_them() {
    let sandbox = sandbox();
    let text = r"printf 'a\nb\tc\033[31mred\033[m\377\n'; stty -opost; printf 'raw\n\000end\n'";
    let task = TerminalTask::start(&sandbox, text);
    assert_eq!(task.wait_outcome()["code"], 0);
    let expected = b"a\r\nb\tc\x1b[31mred\x1b[m\xff\r\nraw\n\0end\n";
    assert_eq!(task.output_bytes(), expected, "{:?}", task.output());
    task.expect_closed();
}

/// The lines of a full-screen program are not readable, even after it has left its screen. In their
/// place, the screen of the terminal is shown.
#[test]
fn show_has_the_screen_of_a_full_screen_program() {
    let sandbox = sandbox();
    let text = "printf 'before\\n\\033[?1049h\\033[2J\\033[3;5Hdrawn\\033[1;1H'; read -r _; \
                printf '\\033[?1049lafter\\n'";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for("input");
    assert_eq!(task.show()["output"]["text"], "\n\n    drawn\n");
    task.type_keys(&["Enter"]);
    assert_eq!(task.wait_outcome()["code"], 0);
    assert_eq!(task.show()["output"]["text"], "before\nafter\n");
}

/// Standard output and standard error are one terminal, so their order is that of the writes.
#[test]
fn both_streams_are_stored_in_the_order_of_the_writes() {
    let sandbox = sandbox();
    let text = "for i in {1..200}; do echo out-$i; echo err-$i >&2; done";
    let task = TerminalTask::start(&sandbox, text);
    assert_eq!(task.wait_outcome()["code"], 0);
    let expected: String = (1..=200).map(|i| format!("out-{i}\r\nerr-{i}\r\n")).collect();
    assert_eq!(task.output(), expected);
}

/// A terminal delivers at most 4 KiB per read, and no part of a long output is lost.
#[test]
fn twenty_megabytes_are_stored_completely() {
    const LINES: usize = 2_500_000;
    let sandbox = sandbox();
    let command = format!("seq -f %.0f {LINES}");
    let call = start_call(&sandbox, &[], &command);
    let started = call.env("SIDING_OUTPUT_KEEP_HEAD", "4GiB").run().expect_code(0);
    let task = TerminalTask::from_view(&sandbox, &started.json());
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 0}));
    let output = task.output_bytes();
    assert!(output.len() > 20_000_000, "{} bytes", output.len());
    let mut rest = output.as_slice();
    for number in 1..=LINES {
        let line = format!("{number}\r\n");
        let tail = rest.strip_prefix(line.as_bytes());
        rest = tail.unwrap_or_else(|| panic!("line {number} is missing: {:?}", rest.get(..40)));
    }
    assert_eq!(rest, b"");
    let journal = task.journal();
    assert!(journal.contains(&format!(r#""bytes":{}"#, output.len())), "{journal}");
}

/// The shim searches the output, which has many escape sequences here, for queries, and keeps none
/// of it in its memory. The holder shares this memory.
#[test]
fn the_memory_of_the_shim_does_not_grow_with_the_output() {
    let sandbox = sandbox();
    let peak_kib = |bytes: u64| {
        let line = r"\033[31mred\033[m \033[1;38;5;200mbold\033[m \033[?25l\033[?25h";
        let text = format!(
            "yes \"$(printf '{line}')\" | head -c {bytes}; touch written-{bytes}; read -r _"
        );
        let task = TerminalTask::start(&sandbox, &text);
        let shim = task.shim();
        let is_written = || sandbox.path(&format!("written-{bytes}")).exists();
        eventually(&format!("{bytes} bytes are written"), is_written);
        let output = task.dir().join("output");
        eventually(&format!("{bytes} bytes are stored"), || {
            output.metadata().is_ok_and(|found| found.len() >= bytes)
        });
        let status = std::fs::read_to_string(format!("/proc/{}/status", shim.pid));
        let status = status.expect("the shim is alive");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        task.stop(&["--grace", "0s"]);
        task.expect_closed();
        peak.expect("proc_pid_status(5) has the peak")
    };
    let (small, large) = (peak_kib(4_000_000), peak_kib(200_000_000));
    assert!(large * 4 <= small * 5, "{small} KiB after 4 MB, {large} KiB after 200 MB");
}
