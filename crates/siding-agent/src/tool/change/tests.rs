//! What a change must keep, and what it must refuse.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn changed(content: &str, old: &str, new: &str) -> String {
    let changed = change(content.as_bytes(), old, new, Scope::One).expect("fits");
    assert_eq!(changed.places, 1);
    String::from_utf8(changed.content).expect("is text")
}

#[track_caller]
fn refused(content: &str, old: &str, parts: &[&str]) {
    let why = change(content.as_bytes(), old, "something new", Scope::One).expect_err("is refused");
    let why = why.to_string();
    for part in parts {
        assert!(why.contains(part), "no {part:?} in {why}");
    }
}

#[test]
fn one_text_takes_the_place_of_another() {
    assert_eq!(changed("one\ntwo\nthree\n", "two", "2"), "one\n2\nthree\n");
    assert_eq!(changed("one\ntwo\nthree\n", "two\n", ""), "one\nthree\n");
    assert_eq!(changed("one\ntwo", "two", "2"), "one\n2", "still without a newline");
    assert_eq!(changed("one\ntwo", "one", "1\n"), "1\n\ntwo");
}

#[test]
fn line_endings_stay() {
    assert_eq!(changed("a\r\nb\r\nc", "a\nb", "x\ny\nz"), "x\r\ny\r\nz\r\nc");
    assert_eq!(changed("a\r\nb\r\n", "b", "x\ny"), "a\r\nx\r\ny\r\n");
    assert_eq!(changed("a\r\nb\r\n", "a\r\n", "x\r\n"), "x\r\nb\r\n");
    assert_eq!(changed("a\nb\n", "a\r\nb", "x\r\ny"), "x\ny\n");
    assert_eq!(changed("a\nb\r\nc\r\n", "b\nc", "x\ny"), "a\nx\r\ny\r\n");
    assert_eq!(changed("a\nb\r\n", "a\n", "x\n"), "x\nb\r\n");
    assert_eq!(changed("ab", "a", "x\r\n"), "x\r\nb");
    let same = change(b"a\r\n", "a\n", "a\r\n", Scope::One);
    assert_eq!(same, Err(Unfit::Same));
}

#[test]
fn more_than_one_place_is_refused_with_the_lines() {
    let content = "let a = 1;\nlet b = a;\nlet a = 2;\n";
    refused(content, "let a", &["2 times", "1\tlet a = 1;\n", "3\tlet a = 2;\n", "replace_all"]);
    refused("aaa", "aa", &["2 times"]);
    let many = "x\n".repeat(30);
    refused(&many, "x", &["30 times", "10\tx\n", "and 20 more"]);
    let all = change(content.as_bytes(), "a", "bb", Scope::All).expect("fits");
    assert_eq!(all.places, 3);
    assert_eq!(all.content, b"let bb = 1;\nlet b = bb;\nlet bb = 2;\n");
    assert_eq!(change(b"aaa", "aa", "b", Scope::All).expect("fits").content, b"ba");
}

#[test]
fn what_is_not_there_is_refused_with_what_may_be_meant() {
    let content = "fn main() {\n\tlet a = 1;\n\tlet b = 2;\n}\n";
    refused(
        content,
        "    let a = 1;\n    let b = 2;\n",
        &["white space", "2\t\tlet a = 1;\n3\t\tlet b"],
    );
    refused(content, "1\tfn main() {\n2\t\tlet a = 1;", &["numbers that read_file shows"]);
    refused(content, "nothing like it", &["read the file again"]);
    refused("one\ntwo", "two\n", &["ends in a newline"]);
    refused(content, "", &["empty", "write_file"]);
    refused("a\0b", "a", &["zero bytes"]);
    assert_eq!(change(b"a", "a", "a", Scope::One), Err(Unfit::Same));
}

#[test]
fn what_is_no_text_around_it_stays() {
    let content = b"caf\xe9 one\n\xff\xfe two\n";
    let changed = change(content, "two", "2", Scope::One).expect("fits");
    assert_eq!(changed.content, b"caf\xe9 one\n\xff\xfe 2\n");
    // Part of a character is not the character.
    assert!(change("é".as_bytes(), "Ã", "x", Scope::One).is_err());
}

#[test]
fn a_hard_search_is_done_at_once() {
    let content = "a".repeat(4 << 20);
    let old = "a".repeat(100_000) + "b";
    let begun = std::time::Instant::now();
    assert!(change(content.as_bytes(), &old, "x", Scope::One).is_err());
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

/// Pieces of which many are alike, so that much is found.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![Just("a"), Just("b"), Just("\n"), Just("\r\n"), Just("é"), Just("ab")];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_but_the_place_is_touched(before in text(), old in text(), new in text(), after in text()) {
        let content = format!("{before}{old}{after}");
        if let Ok(changed) = change(content.as_bytes(), &old, &new, Scope::One) {
            let changed = String::from_utf8(changed.content).expect("is text");
            // The place is the one where it was put, as the only one.
            prop_assert!(changed.starts_with(&before) && changed.ends_with(&after), "{:?}", changed);
        }
    }

    #[test]
    fn line_endings_that_are_alike_stay_alike(content in text(), old in text(), new in text()) {
        for ending in ["\n", "\r\n"] {
            let content = lf(&content).replace('\n', ending);
            let Ok(changed) = change(content.as_bytes(), &old, &new, Scope::All) else { continue };
            let wanted = Endings::of(content.as_bytes());
            // Where there were none any will do.
            if wanted != Endings::None {
                let found = Endings::of(&changed.content);
                prop_assert!([wanted, Endings::None].contains(&found), "{:?}", changed);
            }
        }
    }

    #[test]
    fn all_places_are_those_of_the_standard_library(content in text(), old in text(), new in text()) {
        let content = lf(&content).into_owned();
        let (old, new) = (lf(&old).into_owned(), lf(&new).into_owned());
        if let Ok(changed) = change(content.as_bytes(), &old, &new, Scope::All) {
            prop_assert_eq!(changed.content, content.replace(&old, &new).into_bytes());
        }
    }
}
