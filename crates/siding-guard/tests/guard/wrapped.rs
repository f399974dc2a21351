//! What stands in other things is seen, and what is data is not.

use siding_guard::Verdict;

use crate::{expect, found, judged};

/// PAINS H1: a rule missed in a later segment, or behind a wrapper.
#[test]
fn no_segment_and_no_wrapper_hides_a_command() {
    for text in [
        "git fetch && rm -rf ~",
        "ls; ls | cat; rm -rf ~ &",
        "sudo -u me env -i A=1 nice -n 5 timeout -k 3 9 nohup setsid stdbuf -oL rm -rf ~",
        "command -p rm -rf ~",
        "exec -a x rm -rf ~",
        "busybox rm -rf ~",
        "docker compose exec -T web rm -rf /etc",
        "kubectl -n web exec -it pod-0 -c app -- rm -rf /etc",
        "aws-vault exec prod -- rm -rf ~",
        "direnv exec . rm -rf ~",
        "find . -type f -execdir rm -rf ~ +",
        "xargs -n 1 -P 4 rm -rf ~ < list",
    ] {
        expect(text, Verdict::Deny, "rm-root");
    }
    expect("mywrap git clean -fd", Verdict::Ask, "git-discard");
    expect("./tool --then rm -rf /", Verdict::Ask, "rm-root");
}

/// PAINS H2: `bash -c`, base64, eval, a heredoc for a shell.
#[test]
fn texts_in_texts_are_read() {
    for text in [
        "bash -euo pipefail -c 'rm -rf ~'",
        "echo \"a \\` b `rm -rf ~` \\` c\"",
        "cat <<E\na \\` b `rm -rf ~` \\` c\nE",
        "sh -c 'eval \"rm -rf ~\"'",
        "sh -s <<'E'\nrm -rf ~\nE",
        "ssh -t host -- bash -c \"'rm -rf ~'\"",
        "su -c 'rm -rf ~' root",
        "X='rm -rf ~'; bash -c \"$X\"",
        "T=~ bash -c 'rm -rf $T'",
        "set -- ~; rm -rf ~",
        "f() { sudo rm -rf \"$1\"; }; f ~",
        "printf 'rm %s ~' -rf | sh",
        "cat <<< 'rm -rf ~' | bash",
        "base64 -d <<< cm0gLXJmIH4= | sh",
        "cd ~/x/.. && rm -rf ./*",
        "eval \"$(echo rm) -rf ~\"",
        "echo `echo \\`rm -rf ~\\``",
        "echo ${ rm -rf ~; }",
        "echo ${| rm -rf ~; }",
        "(( x = $(rm -rf ~) ))",
        "for ((i = $(rm -rf ~); i < 2; i++)); do :; done",
        "a[$(rm -rf ~)]=1",
        "echo ${x/$(rm -rf ~)/b}",
        "case x in $(rm -rf ~)) ;; esac",
    ] {
        expect(text, Verdict::Deny, "rm-root");
    }
}

/// PAINS H3: an inert heredoc, a commit message.
#[test]
fn data_is_no_command() {
    for text in [
        "cat <<'E' > f\nrm -rf / <(\nE",
        "git commit -m 'rm -rf / && sudo reboot'",
        "git commit -F - <<'E'\nit's `rm -rf ~`\nE",
        "echo 'curl x | sh' >> README.md",
        "grep -rn 'eval \"$X\"' .",
        "ls # rm -rf /",
        "python3 - <<'E'\nprint('rm -rf /')\nE",
        "gh pr create --body 'kubectl delete ns prod'",
        "alias",
        "echo \"rm -rf /\" | wc -c",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

#[test]
fn what_is_not_known_before_it_runs_is_asked_about() {
    expect("$TOOL x", Verdict::Ask, "dynamic-name");
    expect("eval \"$X\"", Verdict::Ask, "dynamic-name");
    expect("bash -c \"$(cat x)\"", Verdict::Ask, "dynamic-name");
    expect("curl x | tee log | sh", Verdict::Ask, "pipe-to-shell");
    for text in
        ["T=ls; $T", "for t in ls pwd; do $t; done", "\"$HOME/bin/tool\" x", "f() { ls; }; f"]
    {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

#[test]
fn a_branch_does_not_hide_what_it_sets() {
    expect("D=x; if test -f y; then D=/; fi; rm -rf $D", Verdict::Deny, "rm-root");
    expect("D=/; D=x; rm -rf $D; D=/; rm -rf $D", Verdict::Deny, "rm-root");
    assert_eq!(found("D=/; D=x; rm -rf $D"), [""; 0]);
    assert_eq!(found("(cd /; ls); rm -rf build/*"), [""; 0]);
    assert_eq!(found("(D=/; ls $D); D=${D:-x}; echo $D"), [""; 0]);
}

#[test]
fn a_text_that_does_not_parse_is_asked_about_and_read_as_far_as_it_goes() {
    let judgement = judged("rm -rf ~; echo 'never closed");
    assert_eq!(judgement.parse, siding_guard::Parse::Partial);
    assert!(judgement.findings.iter().any(|finding| finding.rule == "unparsable"));
    assert_ne!(judgement.verdict, Verdict::Allow);
}

/// What the parser lets pass and bash does not take.
#[test]
fn what_is_never_closed_is_not_understood() {
    for text in ["a=(b", "echo ${x", "echo 'x"] {
        assert_eq!(judged(text).parse, siding_guard::Parse::Partial, "{text}");
    }
    for text in ["a=(b c)", "a+=(b)", "declare -A m=([a]=1)", "echo ${x}"] {
        assert_eq!(judged(text).parse, siding_guard::Parse::Clean, "{text}");
    }
    expect("! ! rm -rf ~", Verdict::Deny, "rm-root");
}
