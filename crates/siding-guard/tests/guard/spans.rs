//! Tests that the span of a finding covers exactly the matching command.

use crate::judge_foreground;

#[test]
fn a_span_covers_exactly_the_command() {
    for (text, expected) in [
        ("ls && rm -rf / ; ls", "rm -rf /"),
        ("bash -c 'ls; rm -rf /; ls'", "rm -rf /"),
        ("ssh host \"ls && rm -rf /\"", "rm -rf /"),
        ("sh <<'E'\nls\nrm -rf /\nE\n", "rm -rf /"),
        ("echo \"é $(rm -rf /)\"", "rm -rf /"),
        // The nested text is unescaped and has no verbatim position, so the span covers the whole
        // word.
        ("bash -c \"rm -rf \\\"/\\\"\"", "\"rm -rf \\\"/\\\"\""),
        ("sudo rm -rf /", "rm -rf /"),
    ] {
        let judgement = judge_foreground(text);
        let finding = judgement.findings.iter().find(|found| found.rule == "rm-root");
        let finding = finding.unwrap_or_else(|| panic!("{text}: {judgement:?}"));
        assert_eq!(finding.text, expected, "{text}");
        assert_eq!(&text[finding.span.start..finding.span.end], expected);
    }
}

#[test]
fn a_rule_reports_each_span_once() {
    let judgement = judge_foreground("for d in a b c; do rm -rf / $d; done");
    assert_eq!(judgement.findings.len(), 1, "{judgement:?}");
    assert_eq!(judge_foreground("rm -rf /; rm -rf /").findings.len(), 2);
}
