use proptest::prelude::*;

use super::*;
use crate::size::size_in_words;

const COUNT_REPEATS: RenderOptions =
    RenderOptions { repeats: RepeatMode::Count, keeps_colors: false };

fn render_plain(bytes: impl AsRef<[u8]>) -> String {
    render_output(bytes.as_ref(), RenderOptions::default())
}

fn render_counted(text: &str) -> String {
    render_output(text.as_bytes(), COUNT_REPEATS)
}

#[test]
fn progress_output_shows_its_last_state() {
    for (raw, text) in [
        ("10%\r20%\r100%\n", "100%\n"),
        ("10%\r20%\r100%", "100%"),
        ("10%\r\n", "10%\n"),
        ("10%\r\r\n", "10%\n"),
        ("10%\r", "10%"),
        ("downloading 10%\rdone\n", "done\n"),
        ("\rdone\n", "done\n"),
        ("a\rb\r\nc\rd\r\n", "b\nd\n"),
        ("a\r\tb\n", "\tb\n"),
        ("a\n\rb\n", "a\nb\n"),
        ("", ""),
        ("\r", ""),
        ("\n\n", "\n\n"),
    ] {
        assert_eq!(render_plain(raw), text, "{raw:?}");
    }
}

#[test]
fn lines_redrawn_by_escape_sequences_show_their_last_state() {
    for (raw, text) in [
        ("10%\r\x1b[K20%\r\x1b[Kdone\n", "done\n"),
        ("10%\x1b[2K\r20%\n", "20%\n"),
        ("10%\x1b[2K\x1b[1G20%\x1b[2K\x1b[1G", "20%"),
        ("10%\x1b[1G\x1b[0K20%\n", "20%\n"),
        ("10%\x1b[G\x1b[J20%\n", "20%\n"),
        ("10%\r\x1b[K\n", "\n"),
        // One of these sequences alone does not redraw a line.
        ("a\x1b[1Gb", "ab"),
        ("a\x1b[2Kb", "ab"),
        ("a\x1b[Kb", "ab"),
    ] {
        assert_eq!(render_plain(raw), text, "{raw:?}");
    }
}

#[test]
fn backspace_removes_the_last_character() {
    for (raw, text) in [
        ("a\x08b", "b"),
        ("ab\x08\x08cd\n", "cd\n"),
        ("\x08\x08a", "a"),
        ("a\n\x08b", "a\nb"),
        ("/\x08-\x08\\\x08|\x08done\n", "done\n"),
        ("ab\x08 \x08c\n", "ac\n"),
        ("ä\x08o", "o"),
        ("abc\r\x08\n", "abc\n"),
    ] {
        assert_eq!(render_plain(raw), text, "{raw:?}");
    }
}

#[test]
fn control_characters_are_shown_as_pictures() {
    assert_eq!(render_plain("a\x00\x07\x0b\x0c\x1f\x7fb\tc"), "a␀␇␋␌␟␡b\tc");
    assert_eq!(render_plain("a\x18\x1ab"), "a␘␚b");
}

#[test]
fn invalid_utf8_is_shown_as_replacement_characters() {
    assert_eq!(render_plain(b"a\xffb\xc3\n"), "a\u{fffd}b\u{fffd}\n");
    assert_eq!(render_plain(b"\xe2\x82"), "\u{fffd}");
    // A lone byte 0x9B is invalid UTF-8 and introduces no sequence, so the text after it is kept.
    assert_eq!(render_plain(b"\x9b31m"), "\u{fffd}31m");
}

#[test]
fn color_sequences_are_removed_and_text_is_kept() {
    assert_eq!(render_plain("\x1b[1;31merror\x1b[0m: ä «ok» \x1b(B\x1b[m\n"), "error: ä «ok» \n");
    assert_eq!(render_plain("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "link");
    assert_eq!(render_plain("cut short\x1b[3"), "cut short");
}

#[test]
fn repeated_lines_are_counted() {
    assert_eq!(render_counted(&"tick\n".repeat(43)), "tick\n… repeated 42 times\n");
    assert_eq!(render_counted("a\nb\nb\nb\na\n"), "a\nb\n… repeated 2 times\na\n");
    // A single repetition, a few blank lines, and a last line that may still grow are kept.
    assert_eq!(render_counted("a\na\nb\n"), "a\na\nb\n");
    assert_eq!(render_counted("a\n\n\n\nb"), "a\n\n\n\nb");
    assert_eq!(render_counted(&format!("a{}", "\n".repeat(40))), "a\n\n… repeated 38 times\n");
    assert_eq!(render_counted("a\na\na\na"), "a\n… repeated 2 times\na");
    // The rendered text is compared, not the raw bytes.
    assert_eq!(render_counted("\x1b[31ma\x1b[0m\n1\ra\nb\x08a\n"), "a\n… repeated 2 times\n");
    assert_eq!(render_plain("a\n".repeat(5)), "a\n".repeat(5));
}

#[test]
fn an_overlong_line_is_kept_whole_in_constant_memory() {
    let mut folder = OutputRenderer::new(COUNT_REPEATS);
    let (mut text, mut bytes) = (String::new(), 0);
    let block = "x".repeat(100_000);
    for _ in 0..160 {
        folder.push(block.as_bytes(), &mut text);
        assert!(folder.held_bytes() <= 4 * MAX_HELD_LINE_BYTES);
        assert!(text.bytes().all(|byte| byte == b'x'));
        bytes += text.len();
        text.clear();
    }
    folder.push(b"\n", &mut text);
    folder.finish(&mut text);
    assert!(text.ends_with("x\n"));
    assert_eq!(bytes + text.len(), 16_000_001);
}

#[test]
fn endless_progress_output_yields_only_its_last_state() {
    let mut folder = OutputRenderer::new(RenderOptions::default());
    let mut text = String::new();
    for step in 0..200_000 {
        folder.push(format!("\rstep {step}").as_bytes(), &mut text);
        assert!(text.is_empty());
    }
    assert!(folder.held_bytes() < 100);
    folder.finish(&mut text);
    assert_eq!(text, "step 199999");
}

#[test]
fn a_rewrite_of_an_overlong_line_starts_a_new_line() {
    let long = "x".repeat(MAX_HELD_LINE_BYTES);
    assert_eq!(render_plain(format!("{long}yz\rdone\n")), format!("{long}\ndone\n"));
    assert_eq!(render_plain(format!("{long}\rdone\n")), "done\n");
    assert_eq!(render_plain(format!("{long}yz\r\nnext")), format!("{long}yz\nnext"));
}

#[test]
fn cuts_are_made_between_characters() {
    assert_eq!(["", "", "ä", "ä", "äö"], [0, 1, 2, 3, 4].map(|max| cut_head("äö", max)));
    assert_eq!(["", "", "ö", "ö", "äö"], [0, 1, 2, 3, 9].map(|max| cut_tail("äö", max)));
}

#[test]
fn head_and_tail_state_the_omitted_bytes() {
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let text = head_and_tail(&lines, 400);
    assert_eq!(
        text.lines().filter(|line| !line.starts_with("line ")).collect::<Vec<_>>(),
        ["… 8.3 KiB left out …"]
    );
    assert!(text.starts_with("line 0\n") && text.ends_with("line 999\n") && text.len() <= 400);
    assert_eq!(head_and_tail("short", 5), "short");
    assert_eq!(head_and_tail("not even the marker", 6), "marker");
    // Without newlines the cut is inside the line, and the marker gets a line of its own.
    let text = head_and_tail(&"x".repeat(500), 200).into_owned();
    assert!(text.contains("x\n… ") && text.contains(" left out …\nx"), "{text}");
}

#[test]
fn one_line_is_safe_to_print() {
    for (text, shown) in [
        ("cargo test", "cargo test"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x1b[31mred\x07", "\\e[31mred\\x07"),
        ("rm \u{202e}txt.exe", "rm \\u{202e}txt.exe"),
        ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
        ("\u{9b}31m\u{7f}", "\\u{9b}31m\\x7f"),
        ("\u{2028}\u{e0041}", "\\u{2028}\\u{e0041}"),
        ("ä e\u{301} 日本", "ä e\u{301} 日本"),
        ("back\\slash", "back\\slash"),
    ] {
        assert_eq!(one_line(text, 80), shown);
    }
}

#[test]
fn one_line_respects_its_width() {
    assert_eq!(one_line("abcdef", 6), "abcdef");
    assert_eq!(one_line("abcdefg", 6), "abcde…");
    assert_eq!(one_line("日本語", 6), "日本語");
    assert_eq!(one_line("日本語", 5), "日本…");
    assert_eq!(one_line("日本語", 4), "日…");
    // A cut does not split an escape.
    assert_eq!(one_line("abc\n\n", 6), "abc\\n…");
    assert_eq!(one_line("abc\u{202e}", 8), "abc…");
    assert_eq!(one_line("abc", 1), "…");
    assert_eq!(one_line("abc", 0), "");
    assert_eq!(one_line("", 0), "");
    // At most three combining marks stack up.
    let tower = format!("z{}", "\u{301}".repeat(5));
    assert_eq!(one_line(&tower, 80).matches("\\u{301}").count(), 2);
}

/// Generates raw output in which control characters and sequences are common.
fn any_raw_output() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        4 => "[a-c ]{1,6}".prop_map(String::into_bytes),
        2 => Just(b"\n".to_vec()),
        2 => Just(b"same\n".to_vec()),
        1 => Just(b"\r\n".to_vec()),
        2 => Just(b"\r".to_vec()),
        1 => Just(b"\x08".to_vec()),
        1 => Just(b"\t".to_vec()),
        2 => prop::sample::select(vec![
            "\x1b[31m", "\x1b[K", "\x1b[2K", "\x1b[1G", "\x1b]0;t\x07", "\x1b]0;t\x1b\\",
            "\x1bPq", "\x1b(B", "\x1b", "\x1b[", "\u{9b}1m", "\u{9d}", "\u{9c}", "\u{85}",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec!["ä", "€", "\u{1f682}", "«", "\u{202e}"])
            .prop_map(|text| text.as_bytes().to_vec()),
        2 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

fn any_options() -> impl Strategy<Value = RenderOptions> {
    prop::sample::select(vec![RenderOptions::default(), COUNT_REPEATS])
}

proptest! {
    #[test]
    fn splitting_the_input_does_not_change_the_text(
        bytes in any_raw_output(),
        options in any_options(),
        sizes in prop::collection::vec(0_usize..7, 1..20),
    ) {
        let mut folder = OutputRenderer::new(options);
        let (mut text, mut rest) = (String::new(), &bytes[..]);
        for size in sizes.iter().cycle() {
            let (piece, later) = rest.split_at((*size).min(rest.len()));
            folder.push(piece, &mut text);
            rest = later;
            if rest.is_empty() || sizes.iter().all(|size| *size == 0) {
                break;
            }
        }
        folder.push(rest, &mut text);
        folder.finish(&mut text);
        prop_assert_eq!(text, render_output(&bytes, options));
    }

    #[test]
    fn text_is_free_of_control_characters(bytes in any_raw_output(), options in any_options()) {
        let text = render_output(&bytes, options);
        let bad = |c: &char| c.is_control() && *c != '\n' && *c != '\t';
        prop_assert_eq!(text.chars().find(bad), None, "{:?}", text);
    }

    #[test]
    fn rendering_is_idempotent(bytes in any_raw_output()) {
        let text = render_plain(&bytes);
        prop_assert_eq!(render_plain(&text), text);
    }

    #[test]
    fn plain_text_is_unchanged(text in "([a-zäö€\u{1f682} \t]|\n)*") {
        prop_assert_eq!(render_plain(&text), text);
    }

    #[test]
    fn no_line_is_lost(bytes in any_raw_output()) {
        let newlines = bytes.iter().filter(|byte| **byte == b'\n').count();
        prop_assert_eq!(render_plain(&bytes).matches('\n').count(), newlines);
    }

    #[test]
    fn repeat_counts_match_the_lines_they_replace(lines in prop::collection::vec("[ab]?", 0..60)) {
        let raw: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut unfolded: Vec<String> = Vec::new();
        for line in render_counted(&raw).lines() {
            let count = line.strip_prefix("… repeated ").and_then(|rest| rest.strip_suffix(" times"));
            match count {
                Some(count) => {
                    let last = unfolded.last().expect("a count follows a line").clone();
                    let count: usize = count.parse().expect("a number");
                    unfolded.extend(std::iter::repeat_n(last, count));
                }
                None => unfolded.push(line.to_owned()),
            }
        }
        prop_assert_eq!(unfolded, lines);
    }

    #[test]
    fn cuts_are_the_longest_that_fit(text in "[aä€\u{1f682}\n]*", max in 0_usize..40) {
        let (head, tail) = (cut_head(&text, max), cut_tail(&text, max));
        prop_assert!(text.starts_with(head) && text.ends_with(tail));
        for cut in [head, tail] {
            prop_assert!(cut.len() <= max && (cut.len() + 4 > max || cut == text));
        }
    }

    #[test]
    fn head_and_tail_fit_and_report_the_omitted_bytes(text in "[aä€\n]{0,400}", max in 0_usize..300) {
        let short = head_and_tail(&text, max);
        prop_assert!(short.len() <= max);
        if text.len() <= max {
            prop_assert_eq!(&*short, &*text);
        } else if let Some((head, rest)) = short.split_once("… ") {
            let (size, tail) = rest.split_once(" left out …\n").expect("the whole marker");
            let added = usize::from(!text.starts_with(head));
            prop_assert!(text.starts_with(&head[..head.len() - added]) && text.ends_with(tail));
            let omitted = text.len() - (head.len() - added + tail.len());
            // The newline before the marker counts as shown if the text continues with a newline.
            let possible = [omitted, omitted + 1].map(|bytes| size_in_words(bytes as u64));
            prop_assert!(possible.iter().any(|possible| possible == size), "{} of {}", size, omitted);
        } else {
            prop_assert!(text.ends_with(&*short));
        }
    }

    #[test]
    fn streamed_head_and_tail_equal_those_of_the_whole(
        pieces in prop::collection::vec("[aä€\n]{0,60}", 0..20),
        max in 0_usize..300,
    ) {
        let mut stream = HeadAndTail::new(max);
        for piece in &pieces {
            stream.push(piece);
            prop_assert!(stream.head.len() + stream.tail.len() <= 3 * max);
        }
        let whole = pieces.concat();
        prop_assert_eq!(stream.total(), whole.len() as u64);
        prop_assert_eq!(stream.is_cut(), whole.len() > max);
        prop_assert_eq!(stream.finish(), head_and_tail(&whole, max));
    }

    #[test]
    fn one_line_fits_and_hides_nothing(text in any::<String>(), columns in 0_usize..60) {
        use unicode_width::UnicodeWidthChar as _;
        let line = one_line(&text, columns);
        let width = |c: char| c.width().expect("no control characters");
        prop_assert!(line.chars().map(width).sum::<usize>() <= columns);
        let hidden = ['\n', '\u{200b}', '\u{202e}', '\u{feff}'];
        prop_assert!(!line.contains(hidden));
        if text.chars().all(|c| c.is_ascii_graphic()) && text.len() <= columns {
            prop_assert_eq!(line, text);
        }
    }
}
