//! Tests which content a replacement preserves, and which replacements are refused.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn replace_once(content: &str, old: &str, new: &str) -> String {
    let changed =
        replace_text(content.as_bytes(), old, new, ReplaceScope::One).expect("the text occurs");
    assert_eq!(changed.replacements, 1);
    String::from_utf8(changed.content).expect("valid UTF-8")
}

#[track_caller]
fn assert_refused(content: &str, old: &str, parts: &[&str]) {
    let why = replace_text(content.as_bytes(), old, "something new", ReplaceScope::One)
        .expect_err("the edit is refused");
    let why = why.to_string();
    for part in parts {
        assert!(why.contains(part), "no {part:?} in {why}");
    }
}

#[test]
fn one_text_is_replaced_by_another() {
    assert_eq!(replace_once("one\ntwo\nthree\n", "two", "2"), "one\n2\nthree\n");
    assert_eq!(replace_once("one\ntwo\nthree\n", "two\n", ""), "one\nthree\n");
    assert_eq!(replace_once("one\ntwo", "two", "2"), "one\n2", "still without a newline");
    assert_eq!(replace_once("one\ntwo", "one", "1\n"), "1\n\ntwo");
}

#[test]
fn line_endings_are_preserved() {
    assert_eq!(replace_once("a\r\nb\r\nc", "a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc");
    assert_eq!(replace_once("a\r\nb\r\n", "b", "x\ny"), "a\r\nx\r\ny\r\n");
    assert_eq!(replace_once("a\r\nb\r\n", "a\r\n", "x\r\n"), "x\r\nb\r\n");
    assert_eq!(replace_once("a\nb\n", "a\r\nb", "x\r\ny"), "x\ny\n");
    assert_eq!(replace_once("a\nb\r\nc\r\n", "b\nc", "x\ny"), "a\nx\r\ny\r\n");
    assert_eq!(replace_once("a\nb\r\n", "a\n", "x\n"), "x\nb\r\n");
    assert_eq!(replace_once("ab", "a", "x\r\n"), "x\r\nb");
    let same = replace_text(b"a\r\n", "a\n", "a\r\n", ReplaceScope::One);
    assert_eq!(same, Err(ReplaceError::Same));
}

#[test]
fn an_ambiguous_match_is_refused_with_its_lines() {
    let content = "let a = 1;\nlet b = a;\nlet a = 2;\n";
    assert_refused(
        content,
        "let a",
        &["2 times", "1\tlet a = 1;\n", "3\tlet a = 2;\n", "replace_all"],
    );
    assert_refused("aaa", "aa", &["2 times"]);
    let many = "x\n".repeat(30);
    assert_refused(&many, "x", &["30 times", "10\tx\n", "and 20 more"]);
    let all =
        replace_text(content.as_bytes(), "a", "bb", ReplaceScope::All).expect("the text occurs");
    assert_eq!(all.replacements, 3);
    assert_eq!(all.content, b"let bb = 1;\nlet b = bb;\nlet bb = 2;\n");
    assert_eq!(
        replace_text(b"aaa", "aa", "b", ReplaceScope::All).expect("the text occurs").content,
        b"ba"
    );
}

#[test]
fn a_missing_text_is_refused_with_a_hint() {
    let content = "fn main() {\n\tlet a = 1;\n\tlet b = 2;\n}\n";
    assert_refused(
        content,
        "    let a = 1;\n    let b = 2;\n",
        &["white space", "2\t\tlet a = 1;\n3\t\tlet b"],
    );
    assert_refused(content, "1\tfn main() {\n2\t\tlet a = 1;", &["numbers that read_file shows"]);
    assert_refused(content, "nothing like it", &["read the file again"]);
    assert_refused("one\ntwo", "two\n", &["ends in a newline"]);
    assert_refused(content, "", &["empty", "write_file"]);
    assert_refused("a\0b", "a", &["NUL bytes"]);
    assert_eq!(replace_text(b"a", "a", "a", ReplaceScope::One), Err(ReplaceError::Same));
}

#[test]
fn invalid_utf8_around_the_match_is_preserved() {
    let content = b"caf\xe9 one\n\xff\xfe two\n";
    let changed = replace_text(content, "two", "2", ReplaceScope::One).expect("the text occurs");
    assert_eq!(changed.content, b"caf\xe9 one\n\xff\xfe 2\n");
    // `Ã` is U+00C3, whose value is the first byte of `é` in UTF-8.
    assert!(replace_text("é".as_bytes(), "Ã", "x", ReplaceScope::One).is_err());
}

#[test]
fn a_pathological_search_finishes_quickly() {
    let content = "a".repeat(4 << 20);
    let old = "a".repeat(100_000) + "b";
    let begun = std::time::Instant::now();
    assert!(replace_text(content.as_bytes(), &old, "x", ReplaceScope::One).is_err());
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

/// Generates texts with many equal segments, so that matches are frequent.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![Just("a"), Just("b"), Just("\n"), Just("\r\n"), Just("é"), Just("ab")];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn only_the_match_is_changed(before in text(), old in text(), new in text(), after in text()) {
        let content = format!("{before}{old}{after}");
        if let Ok(changed) = replace_text(content.as_bytes(), &old, &new, ReplaceScope::One) {
            let changed = String::from_utf8(changed.content).expect("valid UTF-8");
            // A replacement succeeds only if the inserted `old` is the only match.
            prop_assert!(changed.starts_with(&before) && changed.ends_with(&after), "{:?}", changed);
        }
    }

    #[test]
    fn uniform_line_endings_stay_uniform(content in text(), old in text(), new in text()) {
        for ending in ["\n", "\r\n"] {
            let content = to_lf(&content).replace('\n', ending);
            let Ok(changed) = replace_text(content.as_bytes(), &old, &new, ReplaceScope::All) else { continue };
            let wanted = LineEndings::detect(content.as_bytes());
            // If the file has no line ending, `new` may introduce either kind.
            if wanted != LineEndings::None {
                let found = LineEndings::detect(&changed.content);
                prop_assert!([wanted, LineEndings::None].contains(&found), "{:?}", changed);
            }
        }
    }

    #[test]
    fn replace_all_agrees_with_the_standard_library(content in text(), old in text(), new in text()) {
        let content = to_lf(&content).into_owned();
        let (old, new) = (to_lf(&old).into_owned(), to_lf(&new).into_owned());
        if let Ok(changed) = replace_text(content.as_bytes(), &old, &new, ReplaceScope::All) {
            prop_assert_eq!(changed.content, content.replace(&old, &new).into_bytes());
        }
    }
}
