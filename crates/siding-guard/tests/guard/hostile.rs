//! Texts that nest without end, and texts that grow.

use std::time::{Duration, Instant};

use siding_guard::{How, Parse, Rules, TEXT_MAX, Verdict, judge};

/// No text may take longer, in a build without optimisation on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

#[expect(clippy::disallowed_methods, reason = "the guard has no clock; its tests may")]
fn timed(text: &str, rules: &Rules) -> (Verdict, Parse, Duration) {
    let started = Instant::now();
    let judgement = judge(text, rules, How::Background);
    (judgement.verdict, judgement.parse, started.elapsed())
}

/// Threads of tests have 2 MiB of stack: an overflow aborts all of them.
#[test]
fn nesting_bombs_are_survived() {
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
            let (verdict, _, took) = timed(&text, &rules);
            assert!(took < BOUND, "{open} {depth} times took {took:?}");
            // Whatever it is, it is not waved through.
            let is_inert = matches!(
                open,
                "{a," | "(("
                    | "a["
                    | "a=("
                    | "<("
                    | "cat <<E\n"
                    | "x=$x$x; "
                    | "[[ a && "
                    // A program whose name has backticks.
                    | "\\`"
            );
            assert!(verdict != Verdict::Allow || is_inert, "{open} {depth}");
        }
    }
}

#[test]
fn values_that_double_do_not_fill_the_memory() {
    let rules = Rules::builtin();
    let doubling = "x=aaaaaaaa; ".to_owned() + &"x=$x$x; ".repeat(500) + "echo $x";
    assert!(timed(&doubling, &rules).2 < BOUND);
    let braces = format!("rm -rf {}", "{a,b}".repeat(60));
    assert!(timed(&braces, &rules).2 < BOUND);
    let printf = "x=aa; ".to_owned() + &"x=$(printf '%s%s' \"$x\" \"$x\"); ".repeat(300);
    assert!(timed(&printf, &rules).2 < BOUND);
    let many = (0..3000).map(|n| format!("v{n}=a; f{n}() {{ f{}; f{}; }}; ", n + 1, n + 1));
    let (verdict, _, took) = timed(&(many.collect::<String>() + "f0"), &rules);
    assert!(took < BOUND, "{took:?}");
    assert_ne!(verdict, Verdict::Allow);
}

#[test]
fn a_text_that_is_too_long_is_not_read_and_asked_about() {
    let (verdict, parse, _) = timed(&"a ".repeat(TEXT_MAX), &Rules::builtin());
    assert_eq!((verdict, parse), (Verdict::Ask, Parse::Partial));
    let long = "echo x; ".repeat(TEXT_MAX / 8 - 1);
    let (verdict, parse, took) = timed(&long, &Rules::builtin());
    assert!(took < BOUND, "{took:?}");
    assert_eq!((verdict, parse), (Verdict::Allow, Parse::Clean));
}
