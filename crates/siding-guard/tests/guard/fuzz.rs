//! Tests with random texts. They use proptest, because cargo-fuzz needs a nightly compiler. A
//! failure prints its seed, and `PROPTEST_CASES` sets the number of cases.

use proptest::prelude::*;
use siding_guard::{ExecMode, GuardVerdict, Rules, judge};

/// The fragments from which the random texts are composed.
const SHELL_FRAGMENTS: &[&str] = &[
    "rm -rf /",
    "ls",
    " ",
    "\n",
    ";",
    "&",
    "&&",
    "||",
    "|",
    "(",
    ")",
    "{ ",
    "; }",
    "$(",
    "`",
    "'",
    "\"",
    "\\",
    "${x",
    "}",
    "${x:-",
    "$x",
    "x=1 ",
    "x=$x$x;",
    "<<E\n",
    "\nE\n",
    "<<< ",
    ">",
    "<(",
    "if ",
    "; then ",
    "; fi",
    "for i in a b; do ",
    "; done",
    "while ",
    "case x in x) ",
    ";; esac",
    "f() { ",
    "[[ ",
    " ]]",
    "((",
    "))",
    "$((",
    "sudo ",
    "bash -c ",
    "eval ",
    "xargs ",
    "env -S ",
    "find . -exec ",
    " {} \\;",
    "ssh h ",
    "echo ",
    "cat ",
    "base64 -d",
    "é",
    "\u{E000}",
    "\0",
    "#",
    "!",
    "*",
    "{a,b}",
    "trap ",
    "- ",
    "-- ",
    "timeout 5 ",
    "time ",
    "~",
    "\r",
    "\t",
];

fn shell_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(SHELL_FRAGMENTS).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// The guard returns without a panic, and all spans are within the text.
    #[test]
    fn any_text_gets_a_consistent_report(text in shell_text()) {
        let judgement = judge(&text, builtin_rules(), ExecMode::Background);
        for finding in &judgement.findings {
            prop_assert!(finding.span.start <= finding.span.end, "{finding:?}");
            prop_assert!(finding.span.end <= text.len(), "{finding:?}");
            prop_assert!(text.contains(&finding.text), "{finding:?}");
            prop_assert_ne!(finding.verdict, GuardVerdict::Allow);
        }
        let strictest = judgement.findings.iter().map(|finding| finding.verdict).max();
        prop_assert_eq!(judgement.verdict, strictest.unwrap_or_default());
    }

    /// An attacker must not be able to change a verdict with harmless lines before or after a
    /// command.
    #[test]
    fn a_denied_command_stays_denied_among_harmless_lines(before in harmless_lines(), after in harmless_lines()) {
        let text = format!("{before}\nrm -rf /\n{after}");
        prop_assert_eq!(judge(&text, builtin_rules(), ExecMode::Foreground).verdict, GuardVerdict::Deny, "{}", text);
    }
}

fn harmless_lines() -> impl Strategy<Value = String> {
    let line = prop::sample::select(
        &[
            "ls -la",
            "x=1",
            "for i in 1 2; do echo $i; done",
            "cat <<'E'\n'\nE",
            "f() { ls; }",
            "# x",
            "cd src",
            "if true; then ls; fi",
            "echo \"$(date)\" 'a'\\''b'",
            "(ls; pwd)",
            "y=$(pwd)",
            "make -j2 2>&1 | tail",
            "exit 1",
            "[[ -f x ]] && ls",
            "(( 1 < 2 ))",
            "export A=b",
            "",
        ][..],
    );
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

fn builtin_rules() -> &'static Rules {
    static RULES: std::sync::OnceLock<Rules> = std::sync::OnceLock::new();
    RULES.get_or_init(Rules::builtin)
}
