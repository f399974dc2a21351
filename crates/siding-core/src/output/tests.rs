//! Tests the readers of output on real files. The holes are punched with fallocate(2), because only
//! the file system distinguishes a hole from written zeros.

use std::os::fd::AsFd;

use proptest::prelude::*;
use regex::Regex;
use siding_model::id::TaskKind;
use siding_model::record::OutputGap;
use siding_model::size::size_in_words;
use siding_model::text::{RenderOptions, RepeatMode, decode_colors, make_visible, render_output};

use super::*;
use crate::store::task_files::OUTPUT_FILE;
use crate::store::{StateDir, TaskDir};
use crate::sys::file;

mod follow;

use follow::follow_whole;

struct OutputFixture {
    dir: TaskDir,
    _root: StateDir,
    _temporary: tempfile::TempDir,
}

impl OutputFixture {
    fn new(output: &[u8]) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let root = StateDir::open(&temporary.path().join("state")).unwrap();
        let dir = root.create_task(root.new_id(TaskKind::LocalBash).unwrap()).unwrap();
        std::fs::write(dir.path().join(OUTPUT_FILE), output).unwrap();
        Self { dir, _root: root, _temporary: temporary }
    }

    fn punch(&self, gap: OutputGap) {
        let fd = file::open_at(&self.dir, OUTPUT_FILE, file::OpenMode::ReadWrite).unwrap();
        file::punch_hole(fd.as_fd(), gap.from, gap.len()).unwrap();
    }

    fn append(&self, bytes: &[u8]) {
        use std::io::Write;
        let path = self.dir.path().join(OUTPUT_FILE);
        std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    fn read(&self, keep_head: u64, query: &OutputQuery) -> (String, ReadSummary) {
        self.read_stream(keep_head, StreamState::Finished, query)
    }

    fn read_stream(
        &self,
        keep_head: u64,
        stream: StreamState,
        query: &OutputQuery,
    ) -> (String, ReadSummary) {
        let mut text = String::new();
        let reading = read(&self.dir, keep_head, stream, query, |part| {
            text.push_str(part);
            Ok(())
        });
        (text, reading.unwrap())
    }
}

const KEEP_HEAD_BYTES: u64 = 8 << 20;

fn whole_output_query() -> OutputQuery {
    OutputQuery {
        from: 0,
        filter: LineFilter::Everything,
        last_lines: None,
        limit: TextLimit::Unlimited,
    }
}

fn query_with_limit(size: TextLimit) -> OutputQuery {
    OutputQuery { limit: size, ..whole_output_query() }
}

fn numbered_lines(lines: std::ops::Range<u32>) -> String {
    lines.map(|line| format!("line {line}\n")).collect()
}

#[test]
fn small_output_is_shown_unchanged() {
    let stage = OutputFixture::new(b"one\ntw\x1b[31mo\x1b[m\n10%\r100%\nlast");
    let excerpt = excerpt(&stage.dir, KEEP_HEAD_BYTES, 1000).unwrap();
    assert_eq!(excerpt, Excerpt { text: "one\ntwo\n100%\nlast".to_owned(), truncated: false });
}

/// Colors are kept only on request, whatever the limit, and the last line is found without them.
#[test]
fn colors_are_kept_for_a_terminal() {
    let raw = b"one\n\x1b[31mtw\x1b[2Ko\x1b[m\r\n\x1b[31mtwo\x1b[m\n\x1b]0;t\x07\n";
    let stage = OutputFixture::new(raw);
    let seen = "one\n\x1b[31mtwo\x1b[m\n\x1b[31mtwo\x1b[m\n\n";
    for limit in [TextLimit::Unlimited, TextLimit::HeadTail(1000), TextLimit::Page(1000)] {
        let (query, mut text) = (query_with_limit(limit), String::new());
        let stream = (KEEP_HEAD_BYTES, StreamState::Finished);
        read_with_colors(&stage.dir, stream, &query, ColorHandling::Encoded, |part| {
            text.push_str(&decode_colors(part));
            Ok(())
        })
        .unwrap();
        assert_eq!(text, seen, "{limit:?}");
    }
    assert_eq!(last_line(&stage.dir).unwrap(), "two");
}

#[test]
fn the_last_line_is_text_of_the_task_without_a_count() {
    let cases: [(&[u8], &str); 5] = [
        (b"one\nwaiting\nwaiting\nwaiting\nwaiting\n", "waiting"),
        (b"one\n\xe2\x80\xaetwo  \n\n \n", "\\u{202e}two"),
        (b"10 %\r20 %", "20 %"),
        (b"\n", ""),
        (b"", ""),
    ];
    for (raw, last) in cases {
        assert_eq!(last_line(&OutputFixture::new(raw).dir).unwrap(), last, "{raw:?}");
    }
    let long = OutputFixture::new("x".repeat(1 << 20).as_bytes());
    assert_eq!(last_line(&long.dir).unwrap().len(), 16 << 10);
}

#[test]
fn a_task_without_output_has_an_empty_text() {
    let stage = OutputFixture::new(b"");
    assert_eq!(excerpt(&stage.dir, KEEP_HEAD_BYTES, 1000).unwrap(), Excerpt::default());
    std::fs::remove_file(stage.dir.path().join(OUTPUT_FILE)).unwrap();
    assert_eq!(excerpt(&stage.dir, KEEP_HEAD_BYTES, 1000).unwrap(), Excerpt::default());
}

#[test]
fn omitted_text_is_named_by_its_offsets() {
    let output = numbered_lines(0..10_000);
    let stage = OutputFixture::new(output.as_bytes());
    let excerpt = excerpt(&stage.dir, KEEP_HEAD_BYTES, 2000).unwrap();
    assert!(excerpt.truncated && excerpt.text.len() <= 2000, "{}", excerpt.text.len());
    let marker = excerpt.text.lines().find(|line| line.starts_with('…')).unwrap();
    let (head, tail) = excerpt.text.split_once(&format!("{marker}\n")).unwrap();
    let (from, to) = (head.len(), output.len() - tail.len());
    assert_eq!(
        marker,
        format!(
            "… {} left out, from offset {from} to {to}; \
             `siding output {} --since {from}` continues from there …",
            size_in_words((to - from) as u64),
            stage.dir.id()
        )
    );
    assert!(output.starts_with(head) && head.ends_with('\n'));
    assert!(output.ends_with(tail) && tail.starts_with("line "));
}

#[test]
fn handover_shows_all_or_puts_the_errors_first() {
    let small = OutputFixture::new(b"one\nerror: two\n\x1b[31mthree\x1b[m\n10%\r20%\r30%\n");
    let shown = handover_excerpt(&small.dir, KEEP_HEAD_BYTES, 4096).unwrap();
    assert_eq!((&*shown.text, shown.truncated), ("one\nerror: two\nthree\n30%\n", false));
    let text = |from: &str| {
        numbered_lines(0..900)
            + from
            + &numbered_lines(900..2000)
            + "error: at the end\n"
            + &numbered_lines(0..3)
    };
    let quiet = OutputFixture::new(text("").as_bytes());
    let shown = handover_excerpt(&quiet.dir, KEEP_HEAD_BYTES, 2000).unwrap();
    assert_eq!(
        shown,
        excerpt(&quiet.dir, KEEP_HEAD_BYTES, 2000).unwrap(),
        "an error that the excerpt already shows is not repeated"
    );
    let errors = "error: early\nsrc/a.c:3: error: x\nerror: early\n";
    let loud = OutputFixture::new(text(errors).as_bytes());
    let shown = handover_excerpt(&loud.dir, KEEP_HEAD_BYTES, 2000).unwrap();
    assert!(shown.truncated && shown.text.len() <= 2000, "{}", shown.text.len());
    let first =
        "error: early\nsrc/a.c:3: error: x\n… these looked like errors; the output follows …\n";
    let rest = shown.text.strip_prefix(first).unwrap_or_else(|| panic!("{}", shown.text));
    assert_eq!(rest, excerpt(&loud.dir, KEEP_HEAD_BYTES, 1500).unwrap().text);
    assert!(rest.contains(" left out, from offset"), "{rest}");
    let many: String = (0..500).map(|n| format!("error: number {n}\n")).collect();
    let many = OutputFixture::new((many + &numbered_lines(0..2000)).as_bytes());
    let shown = handover_excerpt(&many.dir, KEEP_HEAD_BYTES, 1000).unwrap();
    assert!(shown.text.len() <= 1000, "{}", shown.text.len());
    assert!(shown.text.starts_with("error: number "), "{}", shown.text);
}

#[test]
fn the_middle_of_a_large_output_is_not_read() {
    let output = numbered_lines(0..400_000);
    let stage = OutputFixture::new(output.as_bytes());
    let excerpt = excerpt(&stage.dir, KEEP_HEAD_BYTES, 4000).unwrap();
    let marker = excerpt.text.lines().find(|line| line.starts_with('…')).unwrap();
    let (head, tail) = excerpt.text.split_once(&format!("{marker}\n")).unwrap();
    let size = size_in_words((output.len() - head.len() - tail.len()) as u64);
    assert!(marker.starts_with(&format!("… {size} left out, from offset {} ", head.len())));
    assert!(output.ends_with(tail) && tail.starts_with("line "));
}

#[test]
fn a_hole_is_distinguished_from_written_zeros() {
    let mut output = vec![0; 20_000];
    output.extend(numbered_lines(0..2000).bytes());
    let zeros = render_output(&output, RenderOptions::default());
    let stage = OutputFixture::new(&output);
    assert_eq!(stage.read(4096, &whole_output_query()).0, zeros);
    stage.punch(OutputGap { from: 4096, to: 16_384 });
    let (text, reading) = stage.read(4096, &whole_output_query());
    assert_eq!(reading.gap, Some(OutputGap { from: 4096, to: 16_384 }));
    assert!(reading.truncated);
    let marker = "\n… 12 KiB no longer stored, from offset 4096 to 16384 …\n";
    let pictures = |count: usize| "␀".repeat(count);
    let numbers = numbered_lines(0..2000);
    assert_eq!(text, format!("{}{marker}{}{numbers}", pictures(4096), pictures(3616)));
}

#[test]
fn the_gap_is_found_after_a_head_that_is_no_block_multiple() {
    let stage = OutputFixture::new(&vec![b'x'; 40_960]);
    stage.punch(OutputGap { from: 4096, to: 8192 });
    assert_eq!(OutputSize::measure(&stage.dir, 1000).gap, Some(OutputGap { from: 4096, to: 8192 }));
    assert_eq!(OutputSize::measure(&stage.dir, 4096).gap, Some(OutputGap { from: 4096, to: 8192 }));
}

#[test]
fn released_and_omitted_bytes_are_reported_in_one_line() {
    let stage = OutputFixture::new(numbered_lines(0..900_000).as_bytes());
    stage.punch(OutputGap { from: 1 << 20, to: 3 << 20 });
    let excerpt = excerpt(&stage.dir, 1 << 20, 4000).unwrap();
    let markers: Vec<&str> = excerpt.text.lines().filter(|line| line.starts_with('…')).collect();
    assert_eq!(markers.len(), 1, "{markers:?}");
    assert!(markers[0].contains("; 2 MiB of it no longer stored; `siding output"));
}

#[test]
fn a_read_that_starts_in_the_gap_reports_it_first() {
    let stage = OutputFixture::new(numbered_lines(0..10_000).as_bytes());
    stage.punch(OutputGap { from: 4096, to: 8192 });
    let query = OutputQuery { from: 5000, ..query_with_limit(TextLimit::Page(500)) };
    let (text, reading) = stage.read(4096, &query);
    assert!(text.starts_with("… 3.1 KiB no longer stored, from offset 5000 to 8192 …\n"));
    assert!(text.len() <= 500 && reading.truncated);
}

#[test]
fn the_last_lines_are_found_by_scanning_backwards() {
    let query = |last| OutputQuery { last_lines: Some(last), ..whole_output_query() };
    for (output, last, expected) in [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\nc", 9, "a\nb\nc"),
        ("\n\n\n", 1, "\n"),
        ("", 3, ""),
        ("a\nb\n", 0, ""),
    ] {
        let stage = OutputFixture::new(output.as_bytes());
        assert_eq!(stage.read(KEEP_HEAD_BYTES, &query(last)).0, expected, "{output:?}");
    }
    let stage = OutputFixture::new(numbered_lines(0..100_000).as_bytes());
    let (text, reading) = stage.read(KEEP_HEAD_BYTES, &query(40_000));
    assert_eq!(text, numbered_lines(60_000..100_000));
    assert_eq!(reading.next - reading.from, text.len() as u64);
}

#[test]
fn lines_are_matched_against_readable_text() {
    let stage = OutputFixture::new(b"ok\n\x1b[1mbad\x1b[m 1\n10%\rbad 2\nok\nbad");
    let matching = LineFilter::Matching(Regex::new("^bad( |$)").unwrap());
    let query = OutputQuery { filter: matching, ..whole_output_query() };
    assert_eq!(stage.read(KEEP_HEAD_BYTES, &query).0, "bad 1\nbad 2\nbad\n");
    assert_eq!(
        stage.read(KEEP_HEAD_BYTES, &OutputQuery { last_lines: Some(1), ..query }).0,
        "bad\n"
    );
}

#[test]
fn error_lines_come_with_their_context() {
    let mut output = numbered_lines(0..10);
    output.push_str("error: one\n");
    output.push_str(&numbered_lines(10..20));
    output.push_str("error: two\nline x\nerror: three\n");
    output.push_str(&numbered_lines(20..22));
    let stage = OutputFixture::new(output.as_bytes());
    let query = OutputQuery { filter: LineFilter::Errors, ..whole_output_query() };
    assert_eq!(
        stage.read(KEEP_HEAD_BYTES, &query).0,
        "line 8\nline 9\nerror: one\nline 10\nline 11\n--\n\
         line 18\nline 19\nerror: two\nline x\nerror: three\nline 20\nline 21\n"
    );
    let (text, reading) = stage
        .read(KEEP_HEAD_BYTES, &OutputQuery { limit: TextLimit::HeadTail(400), ..query.clone() });
    assert!(!reading.truncated, "{text}");
    let many = "error: of many\nnot\nthis\n".repeat(1000);
    let stage = OutputFixture::new(many.as_bytes());
    let (text, reading) =
        stage.read(KEEP_HEAD_BYTES, &OutputQuery { limit: TextLimit::HeadTail(600), ..query });
    assert!(reading.truncated && text.contains(" lines left out …\n"), "{text}");
}

#[test]
fn repeated_lines_are_counted() {
    let stage = OutputFixture::new("again\n".repeat(50_000).as_bytes());
    assert_eq!(
        stage.read(KEEP_HEAD_BYTES, &whole_output_query()).0,
        "again\n… repeated 49999 times\n"
    );
    let (text, reading) = stage.read(KEEP_HEAD_BYTES, &query_with_limit(TextLimit::Page(100)));
    assert_eq!(text, "again\n… repeated 49999 times\n");
    assert_eq!((reading.next, reading.truncated), (300_000, false));
}

#[test]
fn incomplete_text_is_held_back_while_the_task_runs() {
    let stage = OutputFixture::new(b"Grund: \xc3");
    let (text, reading) =
        stage.read_stream(KEEP_HEAD_BYTES, StreamState::Growing, &whole_output_query());
    assert_eq!((text.as_str(), reading.next), ("Grund: ", 7));
    stage.append(b"\xa4\n");
    let on = OutputQuery { from: reading.next, ..whole_output_query() };
    assert_eq!(stage.read_stream(KEEP_HEAD_BYTES, StreamState::Growing, &on).0, "ä\n");
}

/// Promise P28: invisible characters and bidirectional controls are shown escaped; letters of every
/// script and the raw bytes are unchanged.
#[test]
fn invisible_and_bidi_characters_are_shown_escaped() {
    let text = "a\u{202e}b\u{200b}c\u{2066}d\u{feff}\nüñ 漢字 שלום\ntail\u{ad}";
    let stage = OutputFixture::new(text.as_bytes());
    let seen = "a\\u{202e}b\\u{200b}c\\u{2066}d\\u{feff}\nüñ 漢字 שלום\ntail\\u{ad}";
    assert_eq!(stage.read(KEEP_HEAD_BYTES, &whole_output_query()).0, seen);
    assert_eq!(stage.read(KEEP_HEAD_BYTES, &query_with_limit(TextLimit::HeadTail(1000))).0, seen);
    assert_eq!(stage.read(KEEP_HEAD_BYTES, &query_with_limit(TextLimit::Page(1000))).0, seen);
    let mut followed = String::new();
    let mut following = follow_whole(LineRedraw::NextLine, |part: &str| {
        followed.push_str(part);
        Ok(())
    });
    following.emit_new(&stage.dir).unwrap();
    following.finish().unwrap();
    assert_eq!(followed, seen);
    let mut raw = Vec::new();
    copy(&stage.dir, 0, |bytes| {
        raw.extend_from_slice(bytes);
        Ok(())
    })
    .unwrap();
    assert_eq!(raw, text.as_bytes());
    // A line longer than a page loses nothing, even if its rendered text is much longer than its
    // bytes.
    let stage = OutputFixture::new("\u{34f}".repeat(500).as_bytes());
    let (mut from, mut pages) = (0, String::new());
    while from < 1000 {
        let query = OutputQuery { from, ..query_with_limit(TextLimit::Page(64)) };
        let (text, reading) = stage.read(KEEP_HEAD_BYTES, &query);
        pages.push_str(&text);
        assert!(reading.next > from && text.len() <= 64);
        from = reading.next;
    }
    assert_eq!(pages.matches("\\u{34f}").count(), 500, "{pages}");
}

#[test]
fn a_raw_copy_skips_the_gap() {
    let mut output: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    let stage = OutputFixture::new(&output);
    stage.punch(OutputGap { from: 4096, to: 12_288 });
    let mut bytes = Vec::new();
    let copied = copy(&stage.dir, 100, |part| {
        bytes.extend_from_slice(part);
        Ok(())
    });
    let copied = copied.unwrap();
    assert_eq!((copied.next, copied.released, copied.bytes), (20_000, 8192, 11_708));
    output.drain(4096..12_288);
    assert_eq!(bytes, output[100..]);
}

#[test]
fn each_consumer_has_its_own_read_cursor() {
    let stage = OutputFixture::new(b"");
    let (cli, other) = ("cli".parse().unwrap(), "other.session".parse().unwrap());
    assert_eq!(load_read_cursor(&stage.dir, &cli).unwrap(), 0);
    for offset in [7, 7, 12_345_678_901, 3] {
        advance_read_cursor(&stage.dir, &cli, offset).unwrap();
        assert_eq!(load_read_cursor(&stage.dir, &cli).unwrap(), offset);
    }
    assert_eq!(load_read_cursor(&stage.dir, &other).unwrap(), 0);
    let path = stage.dir.path().join("seen.cli");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n12345678901\n3\n");
    // The state after a crash in the middle of a write: the last line is torn.
    std::fs::write(&path, "7\n12").unwrap();
    assert_eq!(load_read_cursor(&stage.dir, &cli).unwrap(), 7);
    advance_read_cursor(&stage.dir, &cli, 20).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "7\n12\n20\n");
    std::fs::write(&path, "nonsense\n").unwrap();
    assert_eq!(load_read_cursor(&stage.dir, &cli).unwrap(), 0);
}

fn any_output() -> impl Strategy<Value = Vec<u8>> {
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
    // Each case creates a state directory, so there are fewer cases than by default.
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn unlimited_text_equals_the_folded_output_of_the_model(output in any_output()) {
        let stage = OutputFixture::new(&output);
        let (text, reading) = stage.read(KEEP_HEAD_BYTES, &whole_output_query());
        prop_assert_eq!(text, make_visible(&render_output(&output, RenderOptions { repeats: RepeatMode::Count, ..RenderOptions::default() })));
        prop_assert_eq!(reading.next, output.len() as u64);
    }

    #[test]
    fn head_and_tail_stay_within_the_limit_and_report_omissions(output in any_output(), max in 1_usize..3000) {
        let stage = OutputFixture::new(&output);
        let (text, reading) = stage.read(KEEP_HEAD_BYTES, &query_with_limit(TextLimit::HeadTail(max)));
        let all = make_visible(&render_output(&output, RenderOptions { repeats: RepeatMode::Count, ..RenderOptions::default() }));
        prop_assert!(text.len() <= max);
        prop_assert_eq!(!reading.truncated, text == all);
    }

    #[test]
    fn pages_cover_the_output_exactly_once(output in any_output(), max in MIN_PAGE_BYTES..400) {
        let stage = OutputFixture::new(&output);
        let (mut from, mut raw) = (0, Vec::new());
        while from < output.len() as u64 {
            let query = OutputQuery { from, ..query_with_limit(TextLimit::Page(max)) };
            let (text, reading) = stage.read(KEEP_HEAD_BYTES, &query);
            prop_assert!(text.len() <= max && reading.next > from, "{} of {max} bytes, {from} to {}: {text:?}", text.len(), reading.next);
            let part = &output[usize::try_from(from).unwrap()..usize::try_from(reading.next).unwrap()];
            let part_text = render_output(part, RenderOptions { repeats: RepeatMode::Count, ..RenderOptions::default() });
            prop_assert_eq!(&text, &make_visible(&part_text));
            raw.extend_from_slice(part);
            from = reading.next;
        }
        prop_assert_eq!(raw, output);
    }
}

#[test]
fn a_gap_is_found_from_each_of_its_bytes() {
    let stage = OutputFixture::new(&vec![b'x'; 65_536]);
    let gaps =
        [OutputGap { from: 8192, to: 12_288 }, OutputGap { from: 20_480, to: 40_960 }].map(|gap| {
            stage.punch(gap);
            gap
        });
    let chunks = RawChunks::open(&stage.dir).unwrap().unwrap();
    for offset in (0..65_540).step_by(1_024) {
        let expected = gaps.into_iter().find(|gap| (gap.from..gap.to).contains(&offset));
        assert_eq!(chunks.gap_around(offset).unwrap(), expected, "{offset}");
    }
    let measured = chunks.measure(5_000).unwrap();
    assert_eq!(measured, OutputSize { bytes: 65_536, gap: Some(gaps[0]) });
    assert_eq!(measured, OutputSize::measure(&stage.dir, 5_000));
}
