//! Where a finding stands.

use crate::judged;

#[test]
fn a_span_is_the_very_command() {
    for (text, expected) in [
        ("ls && rm -rf / ; ls", "rm -rf /"),
        ("bash -c 'ls; rm -rf /; ls'", "rm -rf /"),
        ("ssh host \"ls && rm -rf /\"", "rm -rf /"),
        ("sh <<'E'\nls\nrm -rf /\nE\n", "rm -rf /"),
        ("echo \"é $(rm -rf /)\"", "rm -rf /"),
        // It was put together: the whole word is shown.
        ("bash -c \"rm -rf \\\"/\\\"\"", "\"rm -rf \\\"/\\\"\""),
        ("sudo rm -rf /", "rm -rf /"),
    ] {
        let judgement = judged(text);
        let finding = judgement.findings.iter().find(|found| found.rule == "rm-root");
        let finding = finding.unwrap_or_else(|| panic!("{text}: {judgement:?}"));
        assert_eq!(finding.text, expected, "{text}");
        assert_eq!(&text[finding.span.start..finding.span.end], expected);
    }
}

#[test]
fn a_rule_speaks_once_for_each_place() {
    let judgement = judged("for d in a b c; do rm -rf / $d; done");
    assert_eq!(judgement.findings.len(), 1, "{judgement:?}");
    assert_eq!(judged("rm -rf /; rm -rf /").findings.len(), 2);
}
