//! Commands that are about to run where nobody waits, and where nobody can be asked.

use siding_guard::{How, Layer, Rules, Source, Verdict, judge};

fn verdict(text: &str, how: How) -> Verdict {
    judge(text, &Rules::builtin(), how).verdict
}

#[test]
fn what_hangs_is_denied_where_nobody_answers() {
    for text in [
        "tail -f log",
        "npm run dev",
        "git commit",
        "until curl -s x; do sleep 1; done",
        "nohup make &",
        "npx create-react-app x",
    ] {
        assert_eq!(verdict(text, How::Foreground), Verdict::Allow, "{text}");
        assert_eq!(verdict(text, How::Background), Verdict::Ask, "{text}");
        assert_eq!(verdict(text, How::Unattended), Verdict::Deny, "{text}");
        let judgement = judge(text, &Rules::builtin(), How::Unattended);
        assert!(judgement.findings.iter().all(|finding| finding.instead.is_some()), "{text}");
    }
    // What is asked about wherever it runs stays a question: the host decides whom it asks.
    assert_eq!(verdict("sudo ls", How::Unattended), Verdict::Ask);
    assert_eq!(verdict("mywrap tail -f log", How::Unattended), Verdict::Ask, "it is a guess");
    assert_eq!(verdict("timeout 60 tail -f log", How::Unattended), Verdict::Allow);
}

#[test]
fn a_rule_of_ones_own_allows_servers() {
    let mut rules = Rules::builtin();
    let source = Source { layer: Layer::User, path: None };
    rules.lay("[verdicts]\nbackground-server = \"allow\"\n", source).expect("a rule file");
    assert_eq!(judge("npm run dev", &rules, How::Unattended).verdict, Verdict::Allow);
    assert_eq!(judge("tail -f log", &rules, How::Unattended).verdict, Verdict::Deny);
}

#[test]
fn a_loop_that_counts_ends_and_one_that_only_looks_does_not() {
    for text in [
        "while ! nc -z localhost 1; do :; done",
        "until [ -f x ]; do sleep 1; done",
        "for ((;;)); do make; done",
        "until false; do make; done",
        "while true; do date; sleep 9; done",
        "while true; do curl -s x && break; sleep 1; done",
        "select x in a b; do echo $x; done",
    ] {
        assert_eq!(verdict(text, How::Background), Verdict::Ask, "{text}");
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
        "timeout 60 bash -c 'while true; do sleep 1; done'",
    ] {
        assert_eq!(verdict(text, How::Background), Verdict::Allow, "{text}");
    }
}

#[test]
fn a_pipe_that_nobody_writes_is_waited_for() {
    assert_eq!(verdict("mkfifo p; cat < p", How::Background), Verdict::Ask);
    assert_eq!(verdict("mkfifo p; make > p & cat p; wait", How::Background), Verdict::Allow);
}

/// Whatever its name: a fault is told with the shape, not joined to a rule afterwards.
#[test]
fn a_rule_of_ones_own_about_what_is_not_understood_says_what_that_is() {
    let mut rules = Rules::builtin();
    let source = Source { layer: Layer::User, path: None };
    let file = "[verdicts]\nunparsable = \"allow\"\n[[rule]]\nname = \"mine\"\nverdict = \"deny\"\n\
                why = \"close it\"\nwhen = [{ shape = \"unparsable\" }]\n";
    rules.lay(file, source).expect("a rule file");
    let judgement = judge("ls; echo ${x", &rules, How::Foreground);
    let [finding] = judgement.findings.as_slice() else { panic!("{judgement:?}") };
    assert_eq!(finding.rule, "mine");
    assert!(finding.why.starts_with("close it: ") && finding.why.contains("closed"), "{finding:?}");
}
