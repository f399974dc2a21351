use super::*;

const SIZE: (usize, usize) = (20, 4);

/// An output in memory.
#[derive(Default)]
struct Memory {
    bytes: Vec<u8>,
    gap: Option<OutputGap>,
}

impl ByteSource for Memory {
    fn written_bytes(&mut self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_chunk(
        &mut self,
        from: u64,
        to: u64,
        chunk: &mut Vec<u8>,
    ) -> io::Result<Option<OutputGap>> {
        chunk.clear();
        if let Some(gap) = self.gap {
            if (gap.from..gap.to).contains(&from) {
                return Ok(Some(OutputGap { from, to: gap.to.min(to) }));
            }
            if from < gap.from {
                let end = usize::try_from(to.min(gap.from)).unwrap();
                chunk.extend_from_slice(&self.bytes[usize::try_from(from).unwrap()..end]);
                return Ok(None);
            }
        }
        let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(to).unwrap());
        chunk.extend_from_slice(&self.bytes[from..to.min(self.bytes.len()).min(from + 65_536)]);
        Ok(None)
    }

    fn gap_around(&mut self, offset: u64) -> io::Result<Option<OutputGap>> {
        Ok(self.gap.filter(|gap| (gap.from..gap.to).contains(&offset)))
    }
}

fn numbered(lines: usize) -> Memory {
    let text: String = (0..lines).map(|number| format!("line {number}\n")).collect();
    Memory { bytes: text.into_bytes(), gap: None }
}

fn shown(pane: &OutputPane) -> Vec<String> {
    let text = |row: VisibleRow| row.spans.into_iter().map(|(text, _)| text).collect();
    pane.visible_rows(SIZE.0, SIZE.1).into_iter().map(text).collect()
}

fn opened(source: &mut Memory) -> OutputPane {
    let mut pane = OutputPane::new();
    pane.refresh(source).unwrap();
    pane
}

#[test]
fn the_end_is_followed() {
    let mut source = numbered(10);
    let mut pane = opened(&mut source);
    assert_eq!(shown(&pane), ["line 6", "line 7", "line 8", "line 9"]);
    source.bytes.extend_from_slice(b"50%\r100%");
    assert!(pane.refresh(&mut source).unwrap());
    assert_eq!(shown(&pane), ["line 7", "line 8", "line 9", "100%"]);
    assert!(!pane.refresh(&mut source).unwrap());
}

#[test]
fn scrolling_back_pauses_and_the_end_follows_again() {
    let mut source = numbered(10);
    let mut pane = opened(&mut source);
    pane.scroll(Direction::Backward, 2, SIZE, &mut source).unwrap();
    assert_eq!(shown(&pane), ["line 4", "line 5", "line 6", "line 7"]);
    source.bytes.extend_from_slice(b"new\n");
    pane.refresh(&mut source).unwrap();
    assert_eq!(shown(&pane), ["line 4", "line 5", "line 6", "line 7"]);
    assert!(!pane.is_following());
    pane.scroll(Direction::Forward, 100, SIZE, &mut source).unwrap();
    assert!(pane.is_following());
    assert_eq!(shown(&pane).last().unwrap(), "new");
}

#[test]
fn the_bytes_below_are_those_after_the_visible_rows() {
    let mut source = numbered(10);
    let mut pane = opened(&mut source);
    let below = |pane: &OutputPane| pane.bytes_below(SIZE.0, SIZE.1);
    assert_eq!(below(&pane), 0);
    pane.scroll(Direction::Backward, 2, SIZE, &mut source).unwrap();
    assert_eq!(below(&pane), 14, "two lines of seven bytes are loaded, but not visible");
    source.bytes.extend_from_slice(b"new");
    pane.refresh(&mut source).unwrap();
    assert_eq!(below(&pane), 17, "what was written since is not loaded");
    pane.go_to_end(&mut source).unwrap();
    assert_eq!(below(&pane), 0);
    let mut source = Memory { bytes: format!("{}\n", "x".repeat(99)).into_bytes(), gap: None };
    let mut pane = opened(&mut source);
    pane.go_to_start(&mut source).unwrap();
    assert_eq!(below(&pane), 100, "the end of the wrapped line is not visible");
    pane.scroll(Direction::Forward, 1, SIZE, &mut source).unwrap();
    assert_eq!(below(&pane), 0);
}

#[test]
fn a_long_line_is_wrapped_and_scrolled_by_rows() {
    let mut source = Memory { bytes: "x".repeat(20 * 9 + 1).into_bytes(), gap: None };
    let mut pane = opened(&mut source);
    assert_eq!(shown(&pane).last().unwrap(), "x");
    pane.scroll(Direction::Backward, 1, SIZE, &mut source).unwrap();
    assert_eq!(shown(&pane).last().unwrap().len(), 20);
    pane.go_to_start(&mut source).unwrap();
    assert_eq!(shown(&pane).len(), 4);
}

#[test]
fn a_long_output_is_read_in_parts() {
    let mut source = numbered(400_000);
    let mut pane = opened(&mut source);
    assert_eq!(shown(&pane).last().unwrap(), "line 399999");
    assert!(pane.lines.len() < 20_000, "only the end is loaded");
    pane.scroll(Direction::Backward, 120_000, SIZE, &mut source).unwrap();
    assert_eq!(shown(&pane)[0], "line 279996");
    assert!(pane.memory <= load::MAX_LINES_MEMORY, "{} bytes", pane.memory);
    pane.scroll(Direction::Forward, 120_000, SIZE, &mut source).unwrap();
    assert_eq!(shown(&pane)[3], "line 399999");
    pane.go_to_start(&mut source).unwrap();
    assert_eq!(shown(&pane)[0], "line 0");
    pane.go_to_end(&mut source).unwrap();
    assert_eq!(shown(&pane)[3], "line 399999");
}

/// Completes a search, as its thread does. Returns whether it has found a line, which is shown.
fn complete(pane: &mut OutputPane, step: SearchStep, source: &mut Memory) -> bool {
    match step {
        SearchStep::Found => true,
        SearchStep::NoText => false,
        SearchStep::Scan(scan) => match scan.run(source, &|| false).unwrap() {
            Some(offset) => {
                pane.show_match(offset, SIZE, source).unwrap();
                true
            }
            None => false,
        },
    }
}

fn search(
    pane: &mut OutputPane,
    needle: &str,
    direction: Direction,
    source: &mut Memory,
) -> Option<String> {
    let step = pane.search(needle, direction, SIZE);
    complete(pane, step, source).then(|| shown(pane).pop().unwrap())
}

fn search_first_error(pane: &mut OutputPane, source: &mut Memory) -> bool {
    let step = SearchStep::Scan(pane.first_error_scan());
    complete(pane, step, source)
}

#[test]
fn a_search_finds_text_outside_of_the_loaded_part() {
    let mut source = numbered(400_000);
    let mut pane = opened(&mut source);
    let mut search = |needle, direction| search(&mut pane, needle, direction, &mut source);
    let found = |line: &str| Some(line.to_owned());
    assert_eq!(search("", Direction::Forward), None, "no text was entered");
    assert_eq!(search("LINE 12345", Direction::Backward), found("line 123459"));
    assert_eq!(search("", Direction::Backward), found("line 123458"));
    assert_eq!(search("line 399998", Direction::Forward), found("line 399998"));
    assert_eq!(search("absent", Direction::Forward), None);
    assert_eq!(search("line 5", Direction::Backward), found("line 59999"));
}

#[test]
fn a_search_forward_starts_at_the_first_visible_line() {
    let mut source = numbered(30);
    let mut pane = opened(&mut source);
    let found = search(&mut pane, "line 1", Direction::Forward, &mut source);
    assert_eq!(found, None, "the lines above are not searched");
    assert!(pane.is_following());
    assert_eq!(pane.search("", Direction::Backward, SIZE), SearchStep::Found);
    assert_eq!(pane.hit, Some(19));
    pane.go_to_end(&mut source).unwrap();
    assert_eq!(pane.search("line", Direction::Forward, SIZE), SearchStep::Found);
    assert_eq!(pane.hit, Some(26));
}

#[test]
fn a_search_starts_at_the_visible_lines_after_its_hit_was_left() {
    let mut source = numbered(30);
    let mut pane = opened(&mut source);
    pane.go_to_start(&mut source).unwrap();
    assert_eq!(pane.search("line 2", Direction::Forward, SIZE), SearchStep::Found);
    assert_eq!(pane.hit, Some(2));
    pane.go_to_end(&mut source).unwrap();
    source.bytes.extend_from_slice(b"line 30\n");
    pane.refresh(&mut source).unwrap();
    assert_eq!(pane.search("", Direction::Forward, SIZE), SearchStep::Found);
    assert_eq!(pane.hit, Some(27), "the first visible line that matches");
    pane.go_to_start(&mut source).unwrap();
    assert_eq!(pane.search("", Direction::Backward, SIZE), SearchStep::Found);
    assert_eq!(pane.hit, Some(2), "the last visible line that matches");
}

#[test]
fn a_hit_is_visible_below_long_lines_and_on_a_small_screen() {
    let long = format!("{}\n", "x".repeat(70)).repeat(3);
    let text = format!("{long}target 1\n{long}target 2\n");
    let mut source = Memory { bytes: text.into_bytes(), gap: None };
    let mut pane = opened(&mut source);
    for size in [SIZE, (20, 1), (5, 2)] {
        pane.go_to_start(&mut source).unwrap();
        for (needle, expected) in [("target", 3), ("", 7)] {
            assert_eq!(pane.search(needle, Direction::Forward, size), SearchStep::Found);
            assert_eq!(pane.hit, Some(expected));
            assert!(pane.visible_lines(size.0, size.1).contains(&expected), "{size:?}");
        }
    }
}

#[test]
fn a_line_without_a_newline_is_found() {
    let mut source = Memory { bytes: b"one\ntwo\nContinue?".to_vec(), gap: None };
    let mut pane = opened(&mut source);
    assert!(search(&mut pane, "continue", Direction::Forward, &mut source).is_some());
    let rows = pane.visible_rows(SIZE.0, SIZE.1);
    let hits: Vec<&str> =
        rows.iter().filter(|row| row.is_hit).map(|row| row.spans[0].0.as_str()).collect();
    assert_eq!(hits, ["Continue?"]);
    assert_eq!(search(&mut pane, "", Direction::Forward, &mut source), None, "it is the last");
    assert_eq!(pane.search("o", Direction::Backward, SIZE), SearchStep::Found);
    assert_eq!(pane.hit, Some(1));
}

#[test]
fn a_canceled_search_reads_no_further_block() {
    let mut source = numbered(400_000);
    let mut pane = opened(&mut source);
    pane.go_to_start(&mut source).unwrap();
    for (needle, direction) in
        [("line 399999", Direction::Forward), ("line 0", Direction::Backward)]
    {
        let SearchStep::Scan(scan) = pane.search(needle, direction, SIZE) else {
            panic!("{needle} is not loaded")
        };
        let checks = std::cell::Cell::new(0);
        let is_canceled = || checks.replace(checks.get() + 1) == 2;
        assert_eq!(scan.run(&mut source, &is_canceled).unwrap(), None);
        assert_eq!(checks.get(), 3);
        assert!(scan.run(&mut source, &|| false).unwrap().is_some());
        pane.go_to_end(&mut source).unwrap();
    }
}

#[test]
fn the_first_error_is_shown() {
    let mut source = numbered(400_000);
    let mut pane = opened(&mut source);
    assert!(!search_first_error(&mut pane, &mut source));
    assert!(pane.is_following());
    assert_eq!(shown(&pane).pop().unwrap(), "line 399999");
    pane.scroll(Direction::Backward, 200_000, SIZE, &mut source).unwrap();
    let before = shown(&pane);
    assert!(!search_first_error(&mut pane, &mut source));
    assert_eq!(shown(&pane), before, "the visible part is the same");
    source.bytes.splice(1_000_003..1_000_003, *b"\nerror: first\n");
    source.bytes.extend_from_slice(b"error: second\n");
    let mut pane = opened(&mut source);
    assert!(search_first_error(&mut pane, &mut source));
    assert!(shown(&pane).contains(&"error: first".to_owned()), "{:?}", shown(&pane));
}

#[test]
fn a_gap_is_named() {
    let mut source = numbered(10);
    source.gap = Some(OutputGap { from: 7, to: 21 });
    let mut pane = opened(&mut source);
    pane.go_to_start(&mut source).unwrap();
    let rows = pane.visible_rows(80, 4);
    assert_eq!(rows[1].spans[0].0, "… 14 bytes were released to save disk space …");
    assert_eq!(rows[2].spans[0].0, "line 3");
}

#[test]
fn lines_around_a_long_gap_are_found_and_scrolled() {
    let mut source = numbered(400_000);
    source.gap = Some(OutputGap { from: 1_000_000, to: 4_000_000 });
    let mut pane = opened(&mut source);
    let found = |line: &str| Some(line.to_owned());
    let last_before = "line 91918";
    assert_eq!(
        search(&mut pane, last_before, Direction::Backward, &mut source),
        found(last_before)
    );
    let after = "line 342600";
    assert_eq!(search(&mut pane, after, Direction::Forward, &mut source), found(after));
    assert_eq!(
        search(&mut pane, last_before, Direction::Backward, &mut source),
        found(last_before)
    );
    pane.scroll(Direction::Forward, 3, SIZE, &mut source).unwrap();
    let rows = shown(&pane);
    assert_eq!(rows[..2], [last_before, "l"]);
    assert!(rows[2].starts_with("… 2.8 MiB"), "{rows:?}");
    // The gap has three rows, and the rest of the line that it cuts has one.
    pane.scroll(Direction::Forward, 6, SIZE, &mut source).unwrap();
    assert_eq!(shown(&pane)[0], "line 342593", "the gap is one line");
    pane.scroll(Direction::Backward, 6, SIZE, &mut source).unwrap();
    assert_eq!(shown(&pane)[0], last_before, "the lines above the gap remain loaded");
}

/// Scrolls by one row at a time until the position remains the same. Returns the text of the rows
/// in the order in which they were shown.
fn scroll_to_the_end(
    pane: &mut OutputPane,
    direction: Direction,
    source: &mut Memory,
) -> Vec<String> {
    let (columns, height) = (100, 1);
    let text = |pane: &OutputPane| -> String {
        let rows = pane.visible_rows(columns, height).into_iter();
        rows.flat_map(|row| row.spans).map(|(text, _)| text).collect()
    };
    pane.settle(columns, height);
    let mut rows = vec![text(pane)];
    loop {
        let before = (pane.line_offset(pane.top), pane.top_row);
        pane.scroll(direction, 1, (columns, height), source).unwrap();
        if (pane.line_offset(pane.top), pane.top_row) == before {
            return rows;
        }
        rows.push(text(pane));
    }
}

fn progress_bar(steps: std::ops::Range<usize>) -> String {
    steps.map(|step| format!("\r{step:>6} [{:<60}]", "#".repeat(step % 60))).collect()
}

#[test]
fn each_row_is_shown_once_in_both_directions() {
    let lines = |range: std::ops::Range<usize>| -> String {
        range.map(|number| format!("line {number}\n")).collect()
    };
    let long: String = (0..50_000).map(|number| format!("{number:05} ")).collect();
    let colored: String = (0..6_000).map(|n| format!("\x1b[38;2;1;2;{}mx", n % 256)).collect();
    let bar = progress_bar(0..6_000);
    let last_state = bar.rsplit('\r').next().unwrap().to_owned();
    let plain = |text: &str| text.replace('\n', "");
    let cases = [
        (format!("head\n{long}\ntail\n"), format!("head{long}tail")),
        (format!("head\n{long}é{long}"), format!("head{long}é{long}")),
        (format!("head\n{bar}\ntail\n"), format!("head{last_state}tail")),
        (format!("head\n{bar}"), format!("head{last_state}")),
        (format!("head\n{colored}\n").repeat(3), format!("head{}", "x".repeat(6_000)).repeat(3)),
        (format!("{}x\n", "\r".repeat(300_000)), "x".to_owned()),
        (lines(0..40_000), plain(&lines(0..40_000))),
    ];
    for (output, expected) in cases {
        let mut source = Memory { bytes: output.into_bytes(), gap: None };
        let mut pane = opened(&mut source);
        let mut back = scroll_to_the_end(&mut pane, Direction::Backward, &mut source);
        back.reverse();
        assert!(back.concat() == expected, "backward: {:.40}", expected);
        let forward = scroll_to_the_end(&mut pane, Direction::Forward, &mut source).concat();
        assert!(forward == expected, "forward: {expected:.40}");
        let mut pane = opened(&mut source);
        pane.go_to_start(&mut source).unwrap();
        let forward = scroll_to_the_end(&mut pane, Direction::Forward, &mut source).concat();
        assert!(forward == expected, "from the start: {expected:.40}");
    }
}

#[test]
fn a_long_gap_is_one_line_in_both_directions() {
    let mut source = numbered(150_000);
    let gap = OutputGap { from: 100_003, to: 1_300_003 };
    source.gap = Some(gap);
    let text = |range: std::ops::Range<u64>| {
        let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        String::from_utf8(source.bytes[range].to_vec()).unwrap().replace('\n', "")
    };
    let (head, tail) = (text(0..gap.from), text(gap.to..source.bytes.len() as u64));
    let expected = format!("{head}… 1.1 MiB were released to save disk space …{tail}");
    let mut pane = opened(&mut source);
    let mut back = scroll_to_the_end(&mut pane, Direction::Backward, &mut source);
    back.reverse();
    assert!(back.concat() == expected, "backward");
    let forward = scroll_to_the_end(&mut pane, Direction::Forward, &mut source).concat();
    assert!(forward == expected, "forward");
}

#[test]
fn the_lines_above_a_long_progress_bar_remain_visible() {
    let mut source = numbered(10);
    source.bytes.extend_from_slice(progress_bar(0..6_000).as_bytes());
    let mut pane = opened(&mut source);
    let rows = |pane: &OutputPane| -> Vec<String> {
        let text = |row: VisibleRow| row.spans.into_iter().map(|(text, _)| text).collect();
        pane.visible_rows(80, 3).into_iter().map(text).collect()
    };
    for round in 1..20 {
        assert_eq!(rows(&pane)[..2], ["line 8", "line 9"], "round {round}");
        assert!(pane.memory <= load::MAX_LINES_MEMORY);
        let more = progress_bar(round * 6_000..round * 6_000 + 2_000);
        source.bytes.extend_from_slice(more.as_bytes());
        pane.refresh(&mut source).unwrap();
        let last = (round * 6_000 + 1_999).to_string();
        assert!(rows(&pane)[2].contains(&last), "{:?}", rows(&pane));
    }
    // The size of the output between two refreshes does not change the line either.
    source.bytes.extend_from_slice(progress_bar(0..30_000).as_bytes());
    pane.refresh(&mut source).unwrap();
    assert_eq!(rows(&pane)[..2], ["line 8", "line 9"]);
    assert!(rows(&pane)[2].contains("29999"), "{:?}", rows(&pane));
}

#[test]
fn empty_lines_take_a_bounded_amount_of_memory() {
    let mut source = Memory { bytes: vec![b'\n'; 3 << 20], gap: None };
    let mut pane = opened(&mut source);
    pane.scroll(Direction::Backward, 2_000_000, SIZE, &mut source).unwrap();
    assert!(pane.memory <= load::MAX_LINES_MEMORY, "{} bytes", pane.memory);
    assert!(pane.lines.len() < 200_000, "{} lines", pane.lines.len());
    pane.scroll(Direction::Forward, 2_000_000, SIZE, &mut source).unwrap();
    assert_eq!(pane.bytes_below(SIZE.0, SIZE.1), 0);
}

#[test]
fn a_truncated_output_is_loaded_again() {
    let mut source = numbered(1_000);
    let mut pane = opened(&mut source);
    source.bytes = b"new\n".to_vec();
    pane.refresh(&mut source).unwrap();
    assert_eq!(shown(&pane), ["new"]);
}
