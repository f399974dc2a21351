use proptest::prelude::*;

use super::*;

/// Queries of each kind, and the input with which siding answers them at 100x30; `None` for those
/// that siding does not answer.
const QUERIES: [(&[u8], Option<&str>); 27] = [
    (b"\x1b[c", Some("\x1b[?62;22c")),
    (b"\x1b[0c", Some("\x1b[?62;22c")),
    (b"\x1b[>c", Some("\x1b[>1;10;0c")),
    (b"\x1b[>0c", Some("\x1b[>1;10;0c")),
    (b"\x1b[=c", Some("\x1bP!|00000000\x1b\\")),
    (b"\x1b[5n", Some("\x1b[0n")),
    (b"\x1b[6n", Some("\x1b[8;5R")),
    (b"\x1b[?6n", Some("\x1b[?8;5R")),
    (b"\x1b[>q", Some(concat!("\x1bP>|siding ", env!("CARGO_PKG_VERSION"), "\x1b\\"))),
    (b"\x1b[>0q", Some(concat!("\x1bP>|siding ", env!("CARGO_PKG_VERSION"), "\x1b\\"))),
    (b"\x1b[?2026$p", Some("\x1b[?2026;0$y")),
    (b"\x1b[4$p", Some("\x1b[4;0$y")),
    (b"\x1b[?u", None),
    (b"\x1b[14t", None),
    (b"\x1b[16t", None),
    (b"\x1b[18t", Some("\x1b[8;30;100t")),
    (b"\x1b]10;?\x07", Some("\x1b]10;rgb:c0c0/c0c0/c0c0\x07")),
    (b"\x1b]11;?\x1b\\", Some("\x1b]11;rgb:0000/0000/0000\x1b\\")),
    (b"\x1b]12;?\x07", Some("\x1b]12;rgb:c0c0/c0c0/c0c0\x07")),
    (b"\x1b]10;?;?\x07", Some("\x1b]10;rgb:c0c0/c0c0/c0c0\x07\x1b]11;rgb:0000/0000/0000\x07")),
    (b"\x1b]4;1;?\x07", Some("\x1b]4;1;rgb:cdcd/0000/0000\x07")),
    (
        b"\x1b]4;0;?;15;?\x1b\\",
        Some("\x1b]4;0;rgb:0000/0000/0000\x1b\\\x1b]4;15;rgb:ffff/ffff/ffff\x1b\\"),
    ),
    (b"\x1bP+q544e\x1b\\", Some("\x1bP0+r\x1b\\")),
    (
        b"\x1bP+q544e;436f;524742;6b65\x3b544e;436f;524742;6b6579;544e;436f;524742;6b6579\x1b\\",
        Some("\x1bP0+r\x1b\\"),
    ),
    (b"\x1bP$q q\x1b\\", Some("\x1bP0$r\x1b\\")),
    (b"\x1bP$qm\x1b\\", Some("\x1bP0$r\x1b\\")),
    // A canceled sequence before a query.
    (b"\x1b[1\x1b[5n", Some("\x1b[0n")),
];

/// Output that resembles queries.
const OTHER_OUTPUT: [&[u8]; 31] = [
    b"text 6n [6n ]11;?\n",
    "äöü 你".as_bytes(),
    b"\xff\x9b6n \xc2\x9b6n \x9d11;?\x07 \x90+q\x9c",
    b"\x1b[1;31mred\x1b[0m",
    b"\x1b[?1049h\x1b[?25l\x1b[?2004h",
    b"\x1b[?1c",
    b"\x1b[1c",
    b"\x1b[>4;1m",
    b"\x1b[>1u",
    b"\x1b[<u",
    b"\x1b[u",
    b"\x1b[1 q",
    b"\x1b[!p",
    b"\x1b[$p",
    b"\x1b[?62;22c",
    b"\x1b[8;30;100t",
    b"\x1b[22;0t",
    b"\x1b[?7n",
    b"\x1b[99999999999999999999999n",
    b"\x1b[6\x18n",
    b"\x1b[6\nn",
    b"\x1b]0;title\x07",
    b"\x1b]2;title ?\x1b\\",
    b"\x1b]8;;https://example.org/\x1b\\link\x1b]8;;\x1b\\",
    b"\x1b]4;1;rgb:00/00/00\x07",
    b"\x1b]4;1;?;2;rgb:00/00/00\x07",
    b"\x1b]11;#000000\x07",
    b"\x1b]110\x07",
    b"\x1bPq#0;2;0;0;0#0~~@@vv@@~~@@~~$-#0!120?!70~$-#0!120?!70~$-#0!120?!70~$\x1b\\",
    b"\x1b(B\x1b=\x1b>\x1bc\x1b7\x1b8",
    b"\x1b_Gi=1;AAAA\x1b\\",
];

/// Returns the queries in `output`, which arrives in pieces of these lengths.
fn scan_pieces(output: &[u8], cuts: &[usize]) -> Vec<(TerminalQuery, u64)> {
    let mut scanner = QueryScanner::default();
    let mut found = Vec::new();
    let mut offset = 0;
    for piece in pieces(output, cuts) {
        scanner.scan(piece, offset, &mut |query, end| found.push((query, end)));
        offset += piece.len() as u64;
    }
    found
}

/// Returns `output` without queries, from pieces of these lengths.
fn filter_pieces(output: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut filter = QueryFilter::default();
    let mut copied = Vec::new();
    for piece in pieces(output, cuts) {
        filter.filter(piece, &mut copied);
    }
    filter.finish(&mut copied);
    copied
}

fn pieces<'o>(output: &'o [u8], cuts: &[usize]) -> Vec<&'o [u8]> {
    let mut pieces = Vec::new();
    let mut rest = output;
    for cut in cuts {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Returns the answers to all queries in `output`, with the cursor in column 4 of row 7. `None` if
/// there are no answers.
fn answers_to(output: &[u8]) -> Option<String> {
    let size = TerminalSize { columns: 100, rows: 30 };
    let mut answers = Vec::new();
    for (query, _) in scan_pieces(output, &[]) {
        match query.reply(size) {
            QueryReply::Bytes(bytes) => answers.extend(bytes),
            QueryReply::CursorPosition { private } => {
                answers.extend(format_cursor_position(4, 7, private));
            }
            QueryReply::None => {}
        }
    }
    let text = String::from_utf8(answers).expect("answers are text");
    (!text.is_empty()).then_some(text)
}

#[test]
fn each_query_is_found_and_answered() {
    for (query, answer) in QUERIES {
        let shown = String::from_utf8_lossy(query);
        assert_eq!(answers_to(query).as_deref(), answer, "{shown:?}");
        let output = [&b"before "[..], query, b" after"].concat();
        let found = scan_pieces(&output, &[]);
        assert!(!found.is_empty(), "{shown:?}");
        let end = (b"before ".len() + query.len()) as u64;
        assert!(found.iter().all(|(_, offset)| *offset == end), "{shown:?}: {found:?}");
    }
}

#[test]
fn other_output_contains_no_query() {
    for output in OTHER_OUTPUT {
        let found = scan_pieces(output, &[]);
        assert!(found.is_empty(), "{:?}: {found:?}", String::from_utf8_lossy(output));
    }
}

#[test]
fn offsets_count_from_the_offset_of_the_first_byte() {
    let mut scanner = QueryScanner::default();
    let mut ends = Vec::new();
    scanner.scan(b"\x1b[5n\x1b[", 1000, &mut |_, end| ends.push(end));
    scanner.scan(b"5n", 1006, &mut |_, end| ends.push(end));
    assert_eq!(ends, [1004, 1008]);
}

/// Returns whether the alternate screen is shown after `output`, which arrives in pieces of these
/// lengths.
fn shows_alternate_screen(output: &[u8], cuts: &[usize]) -> bool {
    let mut scanner = QueryScanner::default();
    for piece in pieces(output, cuts) {
        scanner.scan(piece, 0, &mut |_, _| {});
    }
    scanner.is_alternate_screen()
}

#[test]
fn the_last_switch_determines_the_screen() {
    for (output, is_alternate) in [
        (&b""[..], false),
        (b"text", false),
        (b"\x1b[?1049h", true),
        (b"\x1b[?1047h", true),
        (b"\x1b[?47h", true),
        (b"\x1b[?1049h\x1b[?1049l", false),
        // The three modes are names of the same screen.
        (b"\x1b[?1049h\x1b[?47l", false),
        (b"\x1b[?47h\x1b[?1049h\x1b[?1047l", false),
        (b"\x1b[?25;1049;2004h", true),
        (b"\x1b[?1049:1h", true),
        (b"\x1b[?1049h\x1bc", false),
        // A soft reset keeps the screen.
        (b"\x1b[?1049h\x1b[!p", true),
        (b"\x1b[?1049h\x1b(c\x1b[c", true),
        // Sequences that only resemble a switch.
        (b"\x1b[1049h", false),
        (b"[?1049h", false),
        (b"\x1b[?1048h", false),
        (b"\x1b[?66585h", false),
        (b"\x1b[>1049h", false),
        (b"\x1b[?1049$p", false),
        (b"\x1b[?1049 h", false),
        (b"\x1b[?1049;?47h", false),
        (b"\x1b[?10\x1849h", false),
        (b"\x1b[?1049\x1b[?25h", false),
        (b"\x1b]0;[?1049h\x07", false),
    ] {
        let shown = String::from_utf8_lossy(output);
        assert_eq!(shows_alternate_screen(output, &[]), is_alternate, "{shown:?}");
        let bytes = vec![1; output.len()];
        assert_eq!(shows_alternate_screen(output, &bytes), is_alternate, "{shown:?} in bytes");
    }
}

#[test]
fn a_scanner_is_small() {
    assert!(size_of::<QueryScanner>() <= 64, "{}", size_of::<QueryScanner>());
}

#[test]
fn queries_are_removed_from_output_for_a_person() {
    for (query, _) in QUERIES {
        let copied = filter_pieces(&[&b"before "[..], query, b" after"].concat(), &[]);
        let is_canceled = query.starts_with(b"\x1b[1\x1b");
        let expected: &[u8] =
            if is_canceled { b"before \x1b[1\x18 after" } else { b"before  after" };
        assert_eq!(copied, expected, "{:?}", String::from_utf8_lossy(query));
    }
}

#[test]
fn an_incomplete_sequence_is_held_back_until_it_is_no_query() {
    let mut filter = QueryFilter::default();
    let mut copied = Vec::new();
    filter.filter(b"a\x1b[", &mut copied);
    assert_eq!(copied, b"a");
    filter.filter(b"1m", &mut copied);
    assert_eq!(copied, b"a\x1b[1m");
    filter.filter(b"\x1b]0;", &mut copied);
    filter.filter(&[b't'; 100], &mut copied);
    assert!(copied.ends_with(&[b't'; 40]), "a long title is not held back");
    filter.filter(b"\x1b", &mut copied);
    filter.filter(b"[6n", &mut copied);
    filter.filter(b"b", &mut copied);
    let title = [&b"\x1b]0;"[..], &[b't'; 100], b"\x18b"].concat();
    assert!(copied.ends_with(&title), "{:?}", String::from_utf8_lossy(&copied));
}

#[test]
fn text_around_a_removed_query_forms_no_query() {
    for output in [&b"\x1b[\x1b[5n6n"[..], b"\x1b]11;\x1b[6n?\x07", b"\x1b\x1b[c[6n"] {
        let copied = filter_pieces(output, &[]);
        assert!(scan_pieces(&copied, &[]).is_empty(), "{:?}", String::from_utf8_lossy(&copied));
    }
}

fn any_output() -> impl Strategy<Value = Vec<u8>> {
    let known: Vec<&[u8]> = QUERIES.iter().map(|(query, _)| *query).chain(OTHER_OUTPUT).collect();
    let part = prop_oneof![
        4 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
        2 => prop::sample::select(b"\x1b\x1b[]P?;06nc>q$\x07\x18\\".to_vec())
            .prop_map(|byte| vec![byte]),
        1 => prop::collection::vec(any::<u8>(), 0..90),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn any_cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0_usize..9, 0..60)
}

proptest! {
    #[test]
    fn the_split_of_the_output_changes_neither_queries_nor_copies(
        output in any_output(),
        cuts in any_cuts(),
    ) {
        prop_assert_eq!(scan_pieces(&output, &cuts), scan_pieces(&output, &[]));
        prop_assert_eq!(filter_pieces(&output, &cuts), filter_pieces(&output, &[]));
        let whole = shows_alternate_screen(&output, &[]);
        prop_assert_eq!(shows_alternate_screen(&output, &cuts), whole);
    }

    #[test]
    fn filtered_output_contains_no_query(output in any_output()) {
        let copied = filter_pieces(&output, &[]);
        prop_assert!(scan_pieces(&copied, &[]).is_empty(), "{:?}", copied);
    }

    #[test]
    fn output_without_queries_is_copied_unchanged(
        parts in prop::collection::vec(prop::sample::select(OTHER_OUTPUT.to_vec()), 0..12),
        cuts in any_cuts(),
    ) {
        let output = parts.concat();
        let (mut filter, mut copied, mut passed) = (QueryFilter::default(), Vec::new(), 0);
        for piece in pieces(&output, &cuts) {
            filter.filter(piece, &mut copied);
            passed += piece.len();
            prop_assert!(passed - copied.len() <= 64, "held back: {}", passed - copied.len());
        }
        filter.finish(&mut copied);
        prop_assert_eq!(copied, output);
    }

    /// The bytes are too few for a long string that is recognized as a query before it ends.
    #[test]
    fn any_bytes_without_a_query_are_copied_unchanged(
        output in prop::collection::vec(prop_oneof![
            prop::sample::select(b"\x1b[]P?;06nc+$q\x07\x18\\".to_vec()),
            any::<u8>(),
        ], 0..60),
        cuts in any_cuts(),
    ) {
        if scan_pieces(&output, &[]).is_empty() {
            prop_assert_eq!(filter_pieces(&output, &cuts), output);
        }
    }
}
