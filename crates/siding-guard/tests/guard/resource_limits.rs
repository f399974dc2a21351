//! Tests that hostile texts (deep nesting, growing values, great length) are judged with bounded
//! time and memory.

use std::time::{Duration, Instant};

use siding_guard::{ExecMode, GuardVerdict, MAX_SCRIPT_BYTES, ParseCompleteness, Rules, judge};

/// Time within which any text must be judged, even in a debug build on a busy machine.
const MAX_DURATION: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "the guard has no clock; its tests may")]
fn judge_timed(text: &str, rules: &Rules) -> (GuardVerdict, ParseCompleteness, Duration) {
    let started = Instant::now();
    let judgement = judge(text, rules, ExecMode::Background);
    (judgement.verdict, judgement.parse, started.elapsed())
}

/// The thread of a test has a stack of 2 MiB, so a recursion that is too deep would abort the whole
/// test program.
#[test]
fn deep_nesting_is_judged_in_bounded_time() {
    let rules = Rules::builtin();
    let opens = [
        ("( ", ")"),
        ("$(", ")"),
        ("{ ", "; }"),
        ("`", "`"),
        ("if ", ""),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("${ ", "; }"),
        ("$((", "))"),
        ("<(", ")"),
        ("[[ ( ", " ) ]]"),
        ("! ", ""),
        ("while ", ""),
        ("case x in x) ", ";; esac"),
        ("f() { ", "; }"),
        ("time ", ""),
        ("((", "))"),
        ("a[", "]=1"),
        ("sudo ", ""),
        ("eval ", ""),
        ("bash -c '", "'"),
        ("{a,", "}"),
        ("\\`", ""),
        ("x=$x$x; ", ""),
        ("rm && ", ""),
        ("rm | ", ""),
        ("[[ a && ", ""),
        ("cat <<E\n", "\nE\n"),
        ("env -S ", ""),
        ("xargs ", ""),
        ("timeout 1 ", ""),
        ("find . -exec ", " ;"),
        ("a=(", ")"),
    ];
    for (open, close) in opens {
        for depth in [10, 99, 101, 1_000] {
            let text = format!("{}rm -rf /{}", open.repeat(depth), close.repeat(depth));
            let (verdict, _, took) = judge_timed(&text, &rules);
            assert!(took < MAX_DURATION, "{open} {depth} times took {took:?}");
            // A text that exceeds the limits must not be allowed, unless it runs nothing.
            let is_inert = matches!(
                open,
                "{a," | "(("
                    | "a["
                    | "a=("
                    | "<("
                    | "cat <<E\n"
                    | "x=$x$x; "
                    | "[[ a && "
                    // Escaped backticks are part of a program's name.
                    | "\\`"
            );
            assert!(verdict != GuardVerdict::Allow || is_inert, "{open} {depth}");
        }
    }
}

#[test]
fn values_that_double_stay_within_bounds() {
    let rules = Rules::builtin();
    let doubling = "x=aaaaaaaa; ".to_owned() + &"x=$x$x; ".repeat(500) + "echo $x";
    assert!(judge_timed(&doubling, &rules).2 < MAX_DURATION);
    for braces in ["{a,b}".repeat(60), "{,/}".repeat(60), "{a..z}".repeat(10)] {
        let (verdict, _, took) = judge_timed(&format!("rm -rf {braces}"), &rules);
        assert!(took < MAX_DURATION && verdict != GuardVerdict::Allow, "{braces}: {took:?}");
    }
    for braces in ["{1..1000000000}".to_owned(), "{1..99}".repeat(200)] {
        let (verdict, _, took) = judge_timed(&format!("echo {braces}"), &rules);
        assert_eq!(verdict, GuardVerdict::Allow, "numbers are harmless arguments");
        assert!(took < MAX_DURATION, "{braces}: {took:?}");
    }
    let printf = "x=aa; ".to_owned() + &"x=$(printf '%s%s' \"$x\" \"$x\"); ".repeat(300);
    assert!(judge_timed(&printf, &rules).2 < MAX_DURATION);
    let many = (0..3000).map(|n| format!("v{n}=a; f{n}() {{ f{}; f{}; }}; ", n + 1, n + 1));
    let (verdict, _, took) = judge_timed(&(many.collect::<String>() + "f0"), &rules);
    assert!(took < MAX_DURATION, "{took:?}");
    assert_ne!(verdict, GuardVerdict::Allow);
}

#[test]
fn an_oversized_text_is_asked_about_unread() {
    let (verdict, parse, _) = judge_timed(&"a ".repeat(MAX_SCRIPT_BYTES), &Rules::builtin());
    assert_eq!((verdict, parse), (GuardVerdict::Ask, ParseCompleteness::Partial));
    let long = "echo x; ".repeat(MAX_SCRIPT_BYTES / 8 - 1);
    let (verdict, parse, took) = judge_timed(&long, &Rules::builtin());
    assert!(took < MAX_DURATION, "{took:?}");
    assert_eq!((verdict, parse), (GuardVerdict::Allow, ParseCompleteness::Clean));
}
