//! Tests of the verdicts on background commands, and on commands for which no person can answer a
//! question.

use siding_guard::{ExecMode, GuardVerdict, Layer, RuleSource, Rules, judge};

fn verdict(text: &str, mode: ExecMode) -> GuardVerdict {
    judge(text, &Rules::builtin(), mode).verdict
}

#[test]
fn commands_that_hang_are_denied_when_unattended() {
    for text in [
        "tail -f log",
        "npm run dev",
        "git commit",
        "until curl -s x; do sleep 1; done",
        "nohup make &",
        "npx create-react-app x",
    ] {
        assert_eq!(verdict(text, ExecMode::Foreground), GuardVerdict::Allow, "{text}");
        assert_eq!(verdict(text, ExecMode::Background), GuardVerdict::Ask, "{text}");
        assert_eq!(verdict(text, ExecMode::Unattended), GuardVerdict::Deny, "{text}");
        let judgement = judge(text, &Rules::builtin(), ExecMode::Unattended);
        assert!(judgement.findings.iter().all(|finding| finding.instead.is_some()), "{text}");
    }
    // A rule that asks in every mode keeps its verdict `ask`; the host decides who answers the
    // question.
    assert_eq!(verdict("sudo ls", ExecMode::Unattended), GuardVerdict::Ask);
    assert_eq!(
        verdict("mywrap tail -f log", ExecMode::Unattended),
        GuardVerdict::Ask,
        "it is a guess"
    );
    assert_eq!(verdict("timeout 60 tail -f log", ExecMode::Unattended), GuardVerdict::Allow);
}

#[test]
fn a_user_rule_can_allow_servers() {
    let mut rules = Rules::builtin();
    let source = RuleSource { layer: Layer::User, path: None };
    rules.add_layer("[verdicts]\nbackground-server = \"allow\"\n", source).expect("a rule file");
    assert_eq!(judge("npm run dev", &rules, ExecMode::Unattended).verdict, GuardVerdict::Allow);
    assert_eq!(judge("tail -f log", &rules, ExecMode::Unattended).verdict, GuardVerdict::Deny);
}

#[test]
fn polling_loops_need_a_count_or_a_clock_to_be_allowed() {
    for text in [
        "while ! nc -z localhost 1; do :; done",
        "until [ -f x ]; do sleep 1; done",
        "for ((;;)); do make; done",
        "until false; do make; done",
        "while true; do date; sleep 9; done",
        "while true; do make && continue; make clean; done",
        "while true; do curl -s x && break; sleep 1; done",
        "select x in a b; do echo $x; done",
    ] {
        assert_eq!(verdict(text, ExecMode::Background), GuardVerdict::Ask, "{text}");
    }
    for text in [
        "for i in {1..9}; do sleep 1; done",
        "for ((i = 0; i < 9; i++)); do sleep 1; done",
        "until curl -s x || (( n++ > 9 )); do sleep 1; done",
        "while [ $SECONDS -lt 60 ]; do sleep 1; done",
        "i=0; while curl -s x; do i=$((i + 1)); [ $i -gt 9 ] && break; sleep 1; done",
        "end=$(( $(date +%s) + 60 )); while [ $(date +%s) -lt $end ]; do sleep 1; done",
        "while read -r x; do sleep 1; done < f",
        "while shift; do echo $1; done",
        "while false; do sleep 1; done",
        "until true; do make; done",
        "timeout 60 bash -c 'while true; do sleep 1; done'",
    ] {
        assert_eq!(verdict(text, ExecMode::Background), GuardVerdict::Allow, "{text}");
    }
}

#[test]
fn reading_an_unwritten_fifo_is_reported() {
    assert_eq!(verdict("mkfifo p; cat < p", ExecMode::Background), GuardVerdict::Ask);
    assert_eq!(
        verdict("mkfifo p; make > p & cat p; wait", ExecMode::Background),
        GuardVerdict::Allow
    );
}

/// The parse error is part of the observation, so every rule about unparsable texts reports this
/// error.
#[test]
fn a_user_rule_for_unparsable_text_includes_the_parse_error() {
    let mut rules = Rules::builtin();
    let source = RuleSource { layer: Layer::User, path: None };
    let file = "[verdicts]\nunparsable = \"allow\"\n[[rule]]\nname = \"mine\"\nverdict = \"deny\"\n\
                reason = \"close it\"\nwhen = [{ shape = \"unparsable\" }]\n";
    rules.add_layer(file, source).expect("a rule file");
    let judgement = judge("ls; echo ${x", &rules, ExecMode::Foreground);
    let [finding] = judgement.findings.as_slice() else { panic!("{judgement:?}") };
    assert_eq!(finding.rule, "mine");
    assert!(finding.why.starts_with("close it: ") && finding.why.contains("closed"), "{finding:?}");
}
