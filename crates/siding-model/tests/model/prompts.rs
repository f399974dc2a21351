//! What is read from the end of an output. The corpus of prompts and look-alikes is tested with the
//! real programs, in `siding-e2e`.

use siding_model::evidence::prompt::{Prompt, TAIL_BYTES, Tail};

fn found(text: &str) -> Option<Prompt> {
    Tail::read(text.as_bytes()).prompt
}

#[test]
fn kinds_are_told_apart() {
    for (text, kind) in [
        ("Password: ", Prompt::Password),
        ("[sudo] password for jane: ", Prompt::Password),
        ("Ok? (y/n) ", Prompt::Question),
        ("Press any key to continue", Prompt::Key),
        ("(gdb) ", Prompt::Command),
        ("? Pick\n❯ a\n  b\n", Prompt::Menu),
    ] {
        assert_eq!(found(text), Some(kind), "{text:?}");
    }
}

#[test]
fn the_last_line_is_told_and_nothing_of_it_can_move_the_cursor() {
    let tail = Tail::read(b"one\n10%\r20%\x1b[31m red\x1b[0m \xff");
    assert_eq!(tail.line, "20% red \u{fffd}");
    assert!(tail.is_open() && !Tail::read(b"one\n").is_open() && !Tail::read(b"").is_open());
    let long = Tail::read(&[b'x'; 5 * TAIL_BYTES]);
    assert!(long.line.chars().count() <= 200 && long.prompt.is_none());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
        let tail = Tail::read(&bytes);
        proptest::prop_assert!(!tail.line.contains(['\n', '\r', '\x1b']));
    }
}
