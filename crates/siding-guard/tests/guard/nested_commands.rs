//! Tests that commands nested in other texts are found, and that data that looks like a command is
//! ignored.

use siding_guard::{ExecMode, GuardVerdict, Rules, judge_with_environment};

use crate::{assert_finding, judge_foreground, matched_rules};

/// Failure F60: a rule did not match a later segment of a list, or a command in a wrapper.
#[test]
fn list_segments_and_wrappers_do_not_hide_a_command() {
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
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    assert_finding("mywrap git clean -fd", GuardVerdict::Ask, "git-discard");
    assert_finding("./tool --then rm -rf /", GuardVerdict::Ask, "rm-root");
}

/// The word after an option with a value is not the command.
#[test]
fn options_with_values_do_not_hide_a_command() {
    for text in [
        "sudo -D /tmp rm -rf ~",
        "sudo -Eu root rm -rf ~",
        "sudo -nD /tmp rm -rf ~",
        "sudo --command-timeout 5 rm -rf ~",
        "systemd-run -E A=1 rm -rf ~",
        "systemd-run -tE A=1 rm -rf ~",
        "systemd-run --uid 0 --working-directory /tmp --on-active 5 rm -rf ~",
        "systemd-run -M host --description x rm -rf ~",
        "run0 --user root --chdir /tmp rm -rf ~",
        "docker run -e A=1 alpine rm -rf /etc",
        "docker run -ite A=1 alpine rm -rf /etc",
        "docker run -eA=1 --memory-swap 1g --volumes-from x alpine rm -rf /etc",
        "docker exec -e A=1 web rm -rf /etc",
        "docker -H tcp://host exec -e A=1 web rm -rf /etc",
        "docker --context x compose exec -T web rm -rf /etc",
        "docker container run alpine rm -rf /etc",
        "podman --connection x exec -e A=1 web rm -rf /etc",
        "kubectl -s host exec -itc app pod -- rm -rf /etc",
        "kubectl run x --image alpine -- rm -rf /etc",
        "chroot --userspec 0:0 / rm -rf /etc",
        "strace -fo out rm -rf ~",
        "watch -dn 5 rm -rf ~",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
}

/// Failure F61: a command was hidden in `bash -c`, base64, `eval`, or a heredoc for a shell.
#[test]
fn nested_shell_texts_are_parsed() {
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
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
}

#[test]
fn command_lines_of_siding_are_found_behind_its_options() {
    for text in [
        "siding run --net none 'rm -rf ~'",
        "siding run --net none -- rm -rf ~",
        "siding run --net=none --max-memory 1GiB --on-limit stop -- rm -rf ~",
        "siding run --wait-for port:80 --stall-after 1m --min-available 1GiB rm -rf ~",
        "siding run -bd rm -rf ~",
        "siding run 'X=1 rm -rf ~'",
        "siding run -- 'X=1 rm -rf ~'",
        "siding run --env X=1 'rm -rf ~'",
        "siding monitor --stall-after 1m --match x 'rm -rf ~'",
        "siding monitor-mcp --resource x:y -- 'rm -rf ~'",
        "siding statusline --before 'rm -rf ~'",
        "siding statusline --before='rm -rf ~'",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    for text in
        ["siding run --net none -- ls", "siding run -- ls --no-such", "siding run ls -- --no-such"]
    {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

/// Text that is typed into a terminal is a command if a shell reads it.
#[test]
fn text_that_siding_types_is_judged_as_a_possible_command() {
    for text in [
        "siding keys b-4k7q 'rm -rf ~' Enter",
        "siding keys b-4k7q rm Space -- -rf ' ~' Enter",
        "siding keys --wait-for input -l b-4k7q 'rm -rf ~'",
        "siding keys b-4k7q --if-screen 5f3a 'rm -rf' Right ' ~' Enter",
        "siding keys b-4k7q ls C-c 'rm -rf ~' Enter",
        "siding keys b-4k7q ls Enter 'rm -rf ~' Enter",
        "siding input b-4k7q rm -- -rf '~'",
        "siding input b-4k7q --no-newline 'rm -rf ~'",
    ] {
        assert_finding(text, GuardVerdict::Ask, "rm-root");
    }
    for text in [
        "siding keys b-4k7q y Enter --wait-for input",
        "siding keys b-4k7q 'print(\"x\")' Enter --timeout 5s",
        "siding keys b-4k7q Down Down C-c click:3,4",
        "siding keys 'rm -rf ~'",
        "siding input b-4k7q --file answers.txt --eof",
        "siding screen b-4k7q --at 100",
        "siding attach b-4k7q --detach-keys 'C-a d'",
        "siding answer b-4k7q",
    ] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
    assert_finding("siding run --pty --size 100x30 -- rm -rf ~", GuardVerdict::Deny, "rm-root");
    let monitor = "siding monitor --pty --size 100x30 --match x -- rm -rf ~";
    assert_finding(monitor, GuardVerdict::Deny, "rm-root");
}

#[test]
fn a_nested_text_that_begins_with_an_assignment_is_judged() {
    for text in [
        "bash -c 'A=1; rm -rf ~'",
        "sh -c 'A=1 rm -rf ~'",
        "bash -c 'T=~; rm -rf $T'",
        "timeout 5 bash -lc 'A=1 && rm -rf ~'",
        "sudo A=1 bash -c 'B=1; rm -rf ~'",
        "sudo A=1 -u root rm -rf ~",
        "watch 'A=1; rm -rf ~'",
        "ssh host 'A=1; rm -rf ~'",
        "ssh host A=1 rm -rf ~",
        "adb shell 'A=1; rm -rf ~'",
        "git submodule foreach 'A=1; rm -rf ~'",
        "tmux new-session -d 'A=1; rm -rf ~'",
        "parallel 'A=1; rm -rf ~' ::: x",
        "docker exec -it web sh -c 'A=1; rm -rf /'",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
}

#[test]
fn variables_that_env_sets_for_a_command_are_judged_like_assignments() {
    for text in [
        "env GIT_PAGER='rm -rf ~' git log",
        "env -u GIT_PAGER -C build GIT_PAGER='rm -rf ~' git log",
        "env --unset A --chdir=b T=~ sh -c 'rm -rf $T'",
        "env -iu A B=1 rm -rf ~",
        "env A=1 env GIT_SSH_COMMAND='sh -c \"rm -rf ~\"' git fetch",
        "env 'BASH_FUNC_x%%=() { rm -rf ~; }' x",
        "echo 'rm -rf ~' > e; env BASH_ENV=e bash -c ls",
        "env -S 'GIT_PAGER=\"rm -rf ~\" git log'",
        "env -S 'bash -c \"rm -rf ~\"'",
        "env -S '-i A=1 rm -rf ~'",
        "env -S'-u A T=1 rm' -rf ~",
        "env -S 'bash -c \"rm -rf ~\"' x",
        "env -S 'rm\\_-rf' ~",
        "env -S 'rm\n-rf ~'",
        "env -S 'a-b=1 rm -rf ~'",
        "env A=1 --split-string 'sh -c' 'rm -rf ~'",
        "timeout 5 env A=1 rm -rf ~",
        "env IFS=x sh -c 'T=\"rm -rf /\"; $T'",
        "T=x; env -u T sh -c 'rm -rf \"${T:-/}\"'",
        "T=x; env -uT A=1 sh -c 'rm -rf \"${T:-/}\"'",
        "T=x; env --unset=T sh -c 'rm -rf \"${T:-/}\"'",
        "T=x; env -i sh -c 'rm -rf \"${T:-/}\"'",
        "T=x; env - A=1 sh -c 'rm -rf \"${T:-/}\"'",
        "T=x; env -iS'sh -c' 'rm -rf \"${T:-/}\"'",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    assert_finding("env PWD=build sh -c 'rm -rf *'", GuardVerdict::Ask, "rm-here");
    assert_finding("env HUSKY_SKIP_HOOKS=1 git commit", GuardVerdict::Ask, "bypass");
    for text in [
        "env GIT_PAGER=cat git log",
        "env NOTE='rm -rf ~' ls",
        "env -u 'GIT_PAGER=rm -rf ~' git log",
        "env T=build sh -c 'rm -rf $T'",
        // env(1) knows no operators.
        "env -S 'echo a ; rm -rf ~'",
        // The variable is set only for the command of env.
        "env T=~ ls; rm -rf \"$T\"",
        "T=~; env -u T sh -c 'rm -rf \"$T\"'",
        "T=~; env -i sh -c 'rm -rf \"$T\"'",
        "T=x; env -u T ls; rm -rf \"${T:-/}\"",
        "T=x; env -i ls; rm -rf \"${T:-/}\"",
        "env -i PATH=\"$PATH\" make",
        "env",
    ] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn a_command_of_env_is_judged_in_the_directory_that_env_selects() {
    for text in [
        "env -C / rm -rf ./*",
        "env -C/ rm -rf *",
        "env -C / rm -rf .",
        "env -iC / rm -rf *",
        "env --chdir=/ A=1 rm -rf *",
        "env --chdir / sh -c 'rm -rf *'",
        "env -C ~ sh -c 'rm -rf \"$PWD\"'",
        "env -C build -C / rm -rf *",
        "env -S '-C / rm -rf *'",
        "env -C /usr env -C .. rm -rf *",
        "cd / && env -C etc rm -rf .",
        "timeout 5 env -C / rm -rf *",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    assert_finding("env -C sub rm -rf ..", GuardVerdict::Ask, "rm-here");
    assert_finding("env -C \"$D\" rm -rf *", GuardVerdict::Ask, "rm-unset");
    for text in [
        "env -C build rm -rf out",
        "env -C build make",
        "env -C \"$(mktemp -d)\" rm -rf *",
        "env -a /C rm -rf build/*",
        // The directory is selected only for the command of env.
        "env -C / ls; rm -rf ./build",
    ] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn variables_that_other_wrappers_set_for_a_command_are_judged_like_assignments() {
    for text in [
        "sudo GIT_PAGER='rm -rf ~' git log",
        "sudo A=1 -u me GIT_SSH_COMMAND='sh -c \"rm -rf ~\"' git fetch",
        "sudo T=~ sh -c 'rm -rf $T'",
        "doas nice sudo T=~ timeout 5 sh -c 'rm -rf $T'",
        "cross-env GIT_PAGER='rm -rf ~' git log",
        "npx cross-env T=~ sh -c 'rm -rf $T'",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    assert_finding("cross-env HUSKY_SKIP_HOOKS=1 git commit", GuardVerdict::Ask, "bypass");
    assert_finding("sudo LD_PRELOAD=./x.so ls", GuardVerdict::Ask, "bypass");
    assert_eq!(matched_rules("sudo GIT_PAGER=cat git log"), ["privilege"]);
    for text in [
        "cross-env NODE_ENV=production GIT_PAGER=cat git log",
        "cross-env NOTE='rm -rf ~' ls",
        "cross-env T=build sh -c 'rm -rf $T'",
        // The variable is set only for the command of cross-env.
        "cross-env T=~ ls; rm -rf \"$T\"",
    ] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn an_assignment_to_pwd_does_not_change_the_directory() {
    for text in [
        "PWD=build rm -rf *",
        "PWD=build; rm -rf *",
        "PWD=build sh -c 'rm -rf *'",
        // A shell sets the variable at its start.
        "PWD=build bash -c 'rm -rf \"$PWD\"'",
        "PWD=build; rm -rf \"$(pwd)\"",
    ] {
        assert_finding(text, GuardVerdict::Ask, "rm-here");
    }
    for text in [
        "PWD=/; rm -rf $PWD",
        "PWD=/ eval 'rm -rf $PWD'",
        "PWD=build; cd / && rm -rf \"$PWD\"",
        "IFS=x sh -c 'T=\"rm -rf /\"; $T'",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    for text in ["PWD=/ ls", "PWD=/ rm -rf build", "cd build && PWD=/ rm -rf *"] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn variables_that_siding_sets_for_a_command_line_are_judged_like_assignments() {
    for text in [
        "siding run --env GIT_PAGER='rm -rf ~' -- git log",
        "siding run --keep --env=GIT_PAGER='rm -rf ~' -b 'git log'",
        "siding run --env A=1 --env GIT_SSH_COMMAND='sh -c \"rm -rf ~\"' git fetch",
        "siding run --env T=~ 'rm -rf $T'",
        "siding run --env T=~ -- bash -c 'rm -rf $T'",
        "siding run --env 'BASH_FUNC_x%%=() { rm -rf ~; }' x",
        "siding monitor --env PROMPT_COMMAND='ls; rm -rf ~' --match x bash",
        "echo 'rm -rf ~' > e; siding run --env BASH_ENV=e -- bash -c ls",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    assert_finding("siding run --env HUSKY=0 -- git commit", GuardVerdict::Ask, "bypass");
    // A key of the guard's own table is not a variable: `rm` runs even if `cd` fails.
    let text = "siding run --env 'set -e=1' 'cd build; rm -rf *'";
    assert_finding(text, GuardVerdict::Ask, "rm-here");
    for text in [
        "siding run --env GIT_PAGER=cat -- git log",
        "siding run --env GIT_PAGER='head -50' -- git log",
        "siding run --env NOTE='rm -rf ~' -- ls",
        "siding run -- ls --env GIT_PAGER='rm -rf ~'",
        "siding run --env T=build 'rm -rf $T'",
        // The variable is set only for the command line of siding.
        "siding run --env T=~ -- ls; rm -rf \"$T\"",
    ] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn variables_that_a_tool_sets_for_a_text_are_judged_like_assignments() {
    let findings = |name: &str, value: &str, text: &str| {
        let environment = [("A".to_owned(), "1".to_owned()), (name.to_owned(), value.to_owned())];
        let rules = Rules::builtin();
        let report = judge_with_environment(text, &environment, &rules, ExecMode::Foreground);
        let seen = report.findings.into_iter().map(|finding| (finding.rule, finding.text));
        (report.verdict, seen.collect::<Vec<_>>())
    };
    for (name, value, text, verdict, rule, span) in [
        ("GIT_PAGER", "rm -rf ~", "git log", GuardVerdict::Deny, "rm-root", "GIT_PAGER=rm -rf ~"),
        ("T", "~", "ls; rm -rf $T", GuardVerdict::Deny, "rm-root", "rm -rf $T"),
        ("NOTE", "x", "ls; rm -rf ~", GuardVerdict::Deny, "rm-root", "rm -rf ~"),
        ("HUSKY", "0", "git commit -m x", GuardVerdict::Ask, "bypass", "HUSKY=0"),
        ("PWD", "/srv/x", "rm -rf *", GuardVerdict::Ask, "rm-here", "rm -rf *"),
    ] {
        let (found_verdict, found) = findings(name, value, text);
        assert_eq!(found_verdict, verdict, "{name}: {found:?}");
        assert!(found.contains(&(rule.to_owned(), span.to_owned())), "{name}: {found:?}");
    }
    for (name, value, text) in [
        ("GIT_PAGER", "cat", "git log"),
        ("HUSKY", "1", "git commit -m x"),
        ("NOTE", "rm -rf ~", "ls"),
        ("T", "build", "rm -rf $T"),
    ] {
        assert_eq!(findings(name, value, text), (GuardVerdict::Allow, vec![]), "{name}");
    }
}

#[test]
fn an_unknown_option_before_a_command_line_of_siding_is_asked_about() {
    for text in [
        "siding run --no-such none -- ls",
        "siding run --no-such none 'rm -rf ~'",
        "siding run --ne none 'rm -rf ~'",
        "siding run \"-$X\" -- ls",
        "siding monitor --budget 1s ls",
    ] {
        assert_finding(text, GuardVerdict::Ask, "unknown-option");
    }
    let judgement = judge_foreground("siding run --no-such rm -rf ~");
    assert_eq!(judgement.verdict, GuardVerdict::Deny);
}

/// Failure F62: a heredoc with data, or a commit message, was mistaken for a command.
#[test]
fn data_is_not_taken_for_a_command() {
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
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn commands_only_known_at_run_time_are_asked_about() {
    assert_finding("$TOOL x", GuardVerdict::Ask, "dynamic-name");
    assert_finding("eval \"$X\"", GuardVerdict::Ask, "dynamic-name");
    assert_finding("bash -c \"$(cat x)\"", GuardVerdict::Ask, "dynamic-name");
    assert_finding("curl x | tee log | sh", GuardVerdict::Ask, "pipe-to-shell");
    for text in
        ["T=ls; $T", "for t in ls pwd; do $t; done", "\"$HOME/bin/tool\" x", "f() { ls; }; f"]
    {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn assignments_in_branches_are_tracked() {
    assert_finding("D=x; if test -f y; then D=/; fi; rm -rf $D", GuardVerdict::Deny, "rm-root");
    assert_finding("D=/; D=x; rm -rf $D; D=/; rm -rf $D", GuardVerdict::Deny, "rm-root");
    assert_eq!(matched_rules("D=/; D=x; rm -rf $D"), [""; 0]);
    assert_eq!(matched_rules("(cd /; ls); rm -rf build/*"), [""; 0]);
    assert_eq!(matched_rules("(D=/; ls $D); D=${D:-x}; echo $D"), [""; 0]);
}

#[test]
fn unparsable_text_is_asked_about_and_partly_judged() {
    let judgement = judge_foreground("rm -rf ~; echo 'never closed");
    assert_eq!(judgement.parse, siding_guard::ParseCompleteness::Partial);
    assert!(judgement.findings.iter().any(|finding| finding.rule == "unparsable"));
    assert_ne!(judgement.verdict, GuardVerdict::Allow);
}

/// The parser accepts these texts, but bash waits for the end of the construct.
#[test]
fn unclosed_constructs_make_the_parse_partial() {
    for text in ["a=(b", "echo ${x", "echo 'x"] {
        assert_eq!(
            judge_foreground(text).parse,
            siding_guard::ParseCompleteness::Partial,
            "{text}"
        );
    }
    for text in ["a=(b c)", "a+=(b)", "declare -A m=([a]=1)", "echo ${x}"] {
        assert_eq!(judge_foreground(text).parse, siding_guard::ParseCompleteness::Clean, "{text}");
    }
    assert_finding("! ! rm -rf ~", GuardVerdict::Deny, "rm-root");
}
