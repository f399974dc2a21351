//! Reading real files, with real holes.

use std::os::fd::AsFd;

use proptest::prelude::*;
use regex::Regex;
use siding_model::id::TaskKind;
use siding_model::record::OutputGap;
use siding_model::text::{RenderOptions, RepeatMode, make_visible, render_output};

use super::*;
use crate::store::{Root, TaskDir};
use crate::sys::file;

struct Stage {
    dir: TaskDir,
    _root: Root,
    _temporary: tempfile::TempDir,
}

impl Stage {
    fn new(output: &[u8]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = Root::open(&temporary.path().join("state")).unwrap();
        let dir = root.create_task(root.new_id(TaskKind::LocalBash).unwrap()).unwrap();
        std::fs::write(dir.path().join(FILE), output).unwrap();
        Self { dir, _root: root, _temporary: temporary }
    }

    fn punch(&self, gap: OutputGap) {
        let fd = file::open_at(&self.dir, FILE, file::Open::ReadWrite).unwrap();
        file::punch_hole(fd.as_fd(), gap.from, gap.len()).unwrap();
    }

    fn append(&self, bytes: &[u8]) {
        use std::io::Write;
        let path = self.dir.path().join(FILE);
        std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    fn read(&self, keep_head: u64, query: &Query) -> (String, Reading) {
        self.look(keep_head, Stream::Finished, query)
    }

    fn look(&self, keep_head: u64, stream: Stream, query: &Query) -> (String, Reading) {
        let mut text = String::new();
        let reading = read(&self.dir, keep_head, stream, query, |part| {
            text.push_str(part);
            Ok(())
        });
        (text, reading.unwrap())
    }
}

const HEAD: u64 = 8 << 20;

fn whole() -> Query {
    Query { from: 0, choose: Choose::Everything, last: None, size: Size::Whole }
}

fn sized(size: Size) -> Query {
    Query { size, ..whole() }
}

fn numbered(lines: std::ops::Range<u32>) -> String {
    lines.map(|line| format!("line {line}\n")).collect()
}

#[test]
fn small_output_is_shown_as_it_is() {
    let stage = Stage::new(b"one\ntw\x1b[31mo\x1b[m\n10%\r100%\nlast");
    let excerpt = excerpt(&stage.dir, HEAD, 1000).unwrap();
    assert_eq!(excerpt, Excerpt { text: "one\ntwo\n100%\nlast".to_owned(), truncated: false });
}

#[test]
fn a_task_without_output_has_an_empty_text() {
    let stage = Stage::new(b"");
    assert_eq!(excerpt(&stage.dir, HEAD, 1000).unwrap(), Excerpt::default());
    std::fs::remove_file(stage.dir.path().join(FILE)).unwrap();
    assert_eq!(excerpt(&stage.dir, HEAD, 1000).unwrap(), Excerpt::default());
}

#[test]
fn what_is_left_out_is_named_by_its_offsets() {
    let output = numbered(0..10_000);
    let stage = Stage::new(output.as_bytes());
    let excerpt = excerpt(&stage.dir, HEAD, 2000).unwrap();
    assert!(excerpt.truncated && excerpt.text.len() <= 2000, "{}", excerpt.text.len());
    let marker = excerpt.text.lines().find(|line| line.starts_with('…')).unwrap();
    let (head, tail) = excerpt.text.split_once(&format!("{marker}\n")).unwrap();
    let (from, to) = (head.len(), output.len() - tail.len());
    assert_eq!(
        marker,
        format!(
            "… {} bytes left out, from offset {from} to {to}; \
             `siding output {} --since {from}` reads on from there …",
            to - from,
            stage.dir.id()
        )
    );
    assert!(output.starts_with(head) && head.ends_with('\n'));
    assert!(output.ends_with(tail) && tail.starts_with("line "));
}

#[test]
fn what_goes_on_is_shown_whole_or_with_its_errors_first() {
    let small = Stage::new(b"one\nerror: two\n\x1b[31mthree\x1b[m\n10%\r20%\r30%\n");
    let shown = so_far(&small.dir, HEAD, 4096).unwrap();
    assert_eq!((&*shown.text, shown.truncated), ("one\nerror: two\nthree\n30%\n", false));
    let text = |from: &str| {
        numbered(0..900) + from + &numbered(900..2000) + "error: at the end\n" + &numbered(0..3)
    };
    let quiet = Stage::new(text("").as_bytes());
    let shown = so_far(&quiet.dir, HEAD, 2000).unwrap();
    assert_eq!(shown, excerpt(&quiet.dir, HEAD, 2000).unwrap(), "its errors are in the end");
    let errors = "error: early\nsrc/a.c:3: error: x\nerror: early\n";
    let loud = Stage::new(text(errors).as_bytes());
    let shown = so_far(&loud.dir, HEAD, 2000).unwrap();
    assert!(shown.truncated && shown.text.len() <= 2000, "{}", shown.text.len());
    let first =
        "error: early\nsrc/a.c:3: error: x\n… these looked like errors; the output follows …\n";
    let rest = shown.text.strip_prefix(first).unwrap_or_else(|| panic!("{}", shown.text));
    assert_eq!(rest, excerpt(&loud.dir, HEAD, 1500).unwrap().text);
    assert!(rest.contains("bytes left out, from offset"), "{rest}");
    let many: String = (0..500).map(|n| format!("error: number {n}\n")).collect();
    let many = Stage::new((many + &numbered(0..2000)).as_bytes());
    let shown = so_far(&many.dir, HEAD, 1000).unwrap();
    assert!(shown.text.len() <= 1000, "{}", shown.text.len());
    assert!(shown.text.starts_with("error: number "), "{}", shown.text);
}

/// SPEC 4.3: what hides or turns the direction of writing is shown as what it is; letters of every
/// script stay, and the raw bytes too.
#[test]
fn nothing_hides_in_what_is_shown() {
    let text = "a\u{202e}b\u{200b}c\u{2066}d\u{feff}\nüñ 漢字 שלום\ntail\u{ad}";
    let stage = Stage::new(text.as_bytes());
    let seen = "a\\u{202e}b\\u{200b}c\\u{2066}d\\u{feff}\nüñ 漢字 שלום\ntail\\u{ad}";
    assert_eq!(stage.read(HEAD, &whole()).0, seen);
    assert_eq!(stage.read(HEAD, &sized(Size::Ends(1000))).0, seen);
    assert_eq!(stage.read(HEAD, &sized(Size::Page(1000))).0, seen);
    let mut followed = String::new();
    let mut following = Following::new(0, &Choose::Everything, |part: &str| {
        followed.push_str(part);
        Ok(())
    });
    following.more(&stage.dir).unwrap();
    following.finish().unwrap();
    assert_eq!(followed, seen);
    let mut raw = Vec::new();
    copy(&stage.dir, 0, |bytes| {
        raw.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    assert_eq!(raw, text.as_bytes());
    // A line longer than a page loses nothing, however much longer its text is than its bytes.
    let stage = Stage::new("\u{34f}".repeat(500).as_bytes());
    let (mut from, mut pages) = (0, String::new());
    while from < 1000 {
        let query = Query { from, ..sized(Size::Page(64)) };
        let (text, reading) = stage.read(HEAD, &query);
        pages.push_str(&text);
        assert!(reading.next > from && text.len() <= 64);
        from = reading.next;
    }
    assert_eq!(pages.matches("\\u{34f}").count(), 500, "{pages}");
}

#[test]
fn the_middle_of_a_large_output_is_not_even_read() {
    let output = numbered(0..400_000);
    let stage = Stage::new(output.as_bytes());
    let excerpt = excerpt(&stage.dir, HEAD, 4000).unwrap();
    let marker = excerpt.text.lines().find(|line| line.starts_with('…')).unwrap();
    let (head, tail) = excerpt.text.split_once(&format!("{marker}\n")).unwrap();
    let bytes = output.len() - head.len() - tail.len();
    assert!(marker.starts_with(&format!("… {bytes} bytes left out, from offset {} ", head.len())));
    assert!(output.ends_with(tail) && tail.starts_with("line "));
}

#[test]
fn a_hole_is_told_apart_from_zeros() {
    let mut output = vec![0; 20_000];
    output.extend(numbered(0..2000).bytes());
    let zeros = render_output(&output, RenderOptions::default());
    let stage = Stage::new(&output);
    assert_eq!(stage.read(4096, &whole()).0, zeros);
    stage.punch(OutputGap { from: 4096, to: 16_384 });
    let (text, reading) = stage.read(4096, &whole());
    assert_eq!(reading.gap, Some(OutputGap { from: 4096, to: 16_384 }));
    assert!(reading.truncated);
    let marker = "\n… 12288 bytes are gone for good, from offset 4096 to 16384 …\n";
    let pictures = |count: usize| "␀".repeat(count);
    let numbers = numbered(0..2000);
    assert_eq!(text, format!("{}{marker}{}{numbers}", pictures(4096), pictures(3616)));
}

#[test]
fn a_head_that_is_no_whole_block_has_its_gap_found() {
    let stage = Stage::new(&vec![b'x'; 40_960]);
    stage.punch(OutputGap { from: 4096, to: 8192 });
    assert_eq!(Extent::measure(&stage.dir, 1000).gap, Some(OutputGap { from: 4096, to: 8192 }));
    assert_eq!(Extent::measure(&stage.dir, 4096).gap, Some(OutputGap { from: 4096, to: 8192 }));
}

#[test]
fn gone_and_left_out_are_told_in_one_line() {
    let stage = Stage::new(numbered(0..900_000).as_bytes());
    stage.punch(OutputGap { from: 1 << 20, to: 3 << 20 });
    let excerpt = excerpt(&stage.dir, 1 << 20, 4000).unwrap();
    let markers: Vec<&str> = excerpt.text.lines().filter(|line| line.starts_with('…')).collect();
    assert_eq!(markers.len(), 1, "{markers:?}");
    assert!(markers[0].contains("; 2097152 of them are gone for good; `siding output"));
}

#[test]
fn a_look_that_begins_in_the_gap_says_so_first() {
    let stage = Stage::new(numbered(0..10_000).as_bytes());
    stage.punch(OutputGap { from: 4096, to: 8192 });
    let query = Query { from: 5000, ..sized(Size::Page(500)) };
    let (text, reading) = stage.read(4096, &query);
    assert!(text.starts_with("… 3192 bytes are gone for good, from offset 5000 to 8192 …\n"));
    assert!(text.len() <= 500 && reading.truncated);
}

#[test]
fn the_last_lines_are_found_from_the_end() {
    let query = |last| Query { last: Some(last), ..whole() };
    for (output, last, expected) in [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc", 9, "a\nb\nc"),
        ("\n\n\n", 1, "\n"),
        ("", 3, ""),
    ] {
        let stage = Stage::new(output.as_bytes());
        assert_eq!(stage.read(HEAD, &query(last)).0, expected, "{output:?}");
    }
    let stage = Stage::new(numbered(0..100_000).as_bytes());
    let (text, reading) = stage.read(HEAD, &query(40_000));
    assert_eq!(text, numbered(60_000..100_000));
    assert_eq!(reading.next - reading.from, text.len() as u64);
}

#[test]
fn lines_are_chosen_from_readable_text() {
    let stage = Stage::new(b"ok\n\x1b[1mbad\x1b[m 1\n10%\rbad 2\nok\nbad");
    let matching = Choose::Matching(Regex::new("^bad( |$)").unwrap());
    let query = Query { choose: matching, ..whole() };
    assert_eq!(stage.read(HEAD, &query).0, "bad 1\nbad 2\nbad\n");
    assert_eq!(stage.read(HEAD, &Query { last: Some(1), ..query }).0, "bad\n");
}

#[test]
fn errors_come_with_the_lines_around_them() {
    let mut output = numbered(0..10);
    output.push_str("error: one\n");
    output.push_str(&numbered(10..20));
    output.push_str("error: two\nline x\nerror: three\n");
    output.push_str(&numbered(20..22));
    let stage = Stage::new(output.as_bytes());
    let query = Query { choose: Choose::Errors, ..whole() };
    assert_eq!(
        stage.read(HEAD, &query).0,
        "line 8\nline 9\nerror: one\nline 10\nline 11\n--\n\
         line 18\nline 19\nerror: two\nline x\nerror: three\nline 20\nline 21\n"
    );
    let (text, reading) = stage.read(HEAD, &Query { size: Size::Ends(400), ..query.clone() });
    assert!(!reading.truncated, "{text}");
    let many = "error: of many\nnot\nthis\n".repeat(1000);
    let stage = Stage::new(many.as_bytes());
    let (text, reading) = stage.read(HEAD, &Query { size: Size::Ends(600), ..query });
    assert!(reading.truncated && text.contains(" lines left out …\n"), "{text}");
}

#[test]
fn repeated_lines_are_counted() {
    let stage = Stage::new("again\n".repeat(50_000).as_bytes());
    assert_eq!(stage.read(HEAD, &whole()).0, "again\n… repeated 49999 times\n");
    let (text, reading) = stage.read(HEAD, &sized(Size::Page(100)));
    assert_eq!(text, "again\n… repeated 49999 times\n");
    assert_eq!((reading.next, reading.truncated), (300_000, false));
}

#[test]
fn what_is_not_complete_waits_while_the_task_runs() {
    let stage = Stage::new(b"Grund: \xc3");
    let (text, reading) = stage.look(HEAD, Stream::Growing, &whole());
    assert_eq!((text.as_str(), reading.next), ("Grund: ", 7));
    stage.append(b"\xa4\n");
    let on = Query { from: reading.next, ..whole() };
    assert_eq!(stage.look(HEAD, Stream::Growing, &on).0, "ä\n");
}

#[test]
fn growing_output_is_followed_by_whole_lines() {
    let stage = Stage::new(b"one\n10%\r");
    let text = std::cell::RefCell::new(String::new());
    let mut following = Following::new(0, &Choose::Everything, |part: &str| {
        text.borrow_mut().push_str(part);
        Ok(())
    });
    following.more(&stage.dir).unwrap();
    assert_eq!(text.take(), "one\n");
    stage.append(b"50%\r100%\nPassword: ");
    following.more(&stage.dir).unwrap();
    assert_eq!(text.take(), "100%\n");
    following.settle().unwrap();
    assert_eq!(text.take(), "Password: ");
    stage.append(b"\nlast");
    following.more(&stage.dir).unwrap();
    let next = following.finish().unwrap();
    assert_eq!((text.take().as_str(), next), ("\nlast", 32));
}

#[test]
fn raw_bytes_are_copied_without_the_gap() {
    let mut output: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    let stage = Stage::new(&output);
    stage.punch(OutputGap { from: 4096, to: 12_288 });
    let mut bytes = Vec::new();
    let copied = copy(&stage.dir, 100, |part| {
        bytes.extend_from_slice(part);
        Ok(())
    });
    let copied = copied.unwrap();
    assert_eq!((copied.next, copied.gone, copied.bytes), (20_000, 8192, 11_708));
    output.drain(4096..12_288);
    assert_eq!(bytes, output[100..]);
}

#[test]
fn each_consumer_has_its_own_place() {
    let stage = Stage::new(b"");
    let (cli, other) = ("cli".parse().unwrap(), "other.session".parse().unwrap());
    assert_eq!(seen(&stage.dir, &cli).unwrap(), 0);
    for offset in [7, 7, 12_345_678_901, 3] {
        mark_seen(&stage.dir, &cli, offset).unwrap();
        assert_eq!(seen(&stage.dir, &cli).unwrap(), offset);
    }
    assert_eq!(seen(&stage.dir, &other).unwrap(), 0);
    let path = stage.dir.path().join("seen.cli");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n12345678901\n3\n");
    // A crash in the middle of a line.
    std::fs::write(&path, "7\n12").unwrap();
    assert_eq!(seen(&stage.dir, &cli).unwrap(), 7);
    mark_seen(&stage.dir, &cli, 20).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n12\n20\n");
    std::fs::write(&path, "nonsense\n").unwrap();
    assert_eq!(seen(&stage.dir, &cli).unwrap(), 0);
}

fn some_output() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,30}\n".prop_map(String::into_bytes),
        2 => "[a-zä€]{0,300}".prop_map(String::into_bytes),
        1 => Just(b"again\n".repeat(9)),
        1 => Just(b"10%\r20%\r".to_vec()),
        1 => Just(b"\x1b[31mred\x1b[m".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    // Each case makes a state directory.
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_whole_is_what_the_model_makes_of_it(output in some_output()) {
        let stage = Stage::new(&output);
        let (text, reading) = stage.read(HEAD, &whole());
        prop_assert_eq!(text, make_visible(&render_output(&output, RenderOptions { repeats: RepeatMode::Count })));
        prop_assert_eq!(reading.next, output.len() as u64);
    }

    #[test]
    fn ends_keep_their_size_and_say_what_they_lack(output in some_output(), max in 1_usize..3000) {
        let stage = Stage::new(&output);
        let (text, reading) = stage.read(HEAD, &sized(Size::Ends(max)));
        let all = make_visible(&render_output(&output, RenderOptions { repeats: RepeatMode::Count }));
        prop_assert!(text.len() <= max);
        prop_assert_eq!(!reading.truncated, text == all);
    }

    #[test]
    fn pages_show_everything_once(output in some_output(), max in PAGE_MIN..400) {
        let stage = Stage::new(&output);
        let (mut from, mut raw) = (0, Vec::new());
        while from < output.len() as u64 {
            let query = Query { from, ..sized(Size::Page(max)) };
            let (text, reading) = stage.read(HEAD, &query);
            prop_assert!(text.len() <= max && reading.next > from, "{} of {max} bytes, {from} to {}: {text:?}", text.len(), reading.next);
            let part = &output[usize::try_from(from).unwrap()..usize::try_from(reading.next).unwrap()];
            let part_text = render_output(part, RenderOptions { repeats: RepeatMode::Count });
            prop_assert_eq!(&text, &make_visible(&part_text));
            raw.extend_from_slice(part);
            from = reading.next;
        }
        prop_assert_eq!(raw, output);
    }
}
