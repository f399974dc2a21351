//! Tests of the detection of prompts at the end of output. `siding-e2e` tests the same detection
//! with a corpus of prompts of real programs and of lines that resemble prompts.

use siding_model::evidence::prompt::{MAX_TAIL_BYTES, OutputTail, Prompt};

fn detect(text: &str) -> Option<Prompt> {
    OutputTail::from_bytes(text.as_bytes()).prompt
}

#[test]
fn prompt_kinds_are_distinguished() {
    for (text, kind) in [
        ("Password: ", Prompt::Password),
        ("[sudo] password for jane: ", Prompt::Password),
        ("Ok? (y/n) ", Prompt::Question),
        ("Press any key to continue", Prompt::Key),
        ("(gdb) ", Prompt::Command),
        ("? Pick\n❯ a\n  b\n", Prompt::Menu),
    ] {
        assert_eq!(detect(text), Some(kind), "{text:?}");
    }
}

#[test]
fn the_last_line_is_reported_without_control_sequences() {
    let tail = OutputTail::from_bytes(b"one\n10%\r20%\x1b[31m red\x1b[0m \xff");
    assert_eq!(tail.line, "20% red \u{fffd}");
    assert!(
        tail.is_unterminated()
            && !OutputTail::from_bytes(b"one\n").is_unterminated()
            && !OutputTail::from_bytes(b"").is_unterminated()
    );
    let long = OutputTail::from_bytes(&[b'x'; 5 * MAX_TAIL_BYTES]);
    assert!(long.line.chars().count() <= 200 && long.prompt.is_none());
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_are_accepted(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
        let tail = OutputTail::from_bytes(&bytes);
        proptest::prop_assert!(!tail.line.contains(['\n', '\r', '\x1b']));
    }
}
