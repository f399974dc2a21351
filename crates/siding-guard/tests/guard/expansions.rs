//! Tests that commands in expansions are found. bash runs command substitutions in every word that
//! it expands.

use siding_guard::GuardVerdict;

use crate::{assert_finding, judge_foreground, matched_rules};

#[test]
fn substitutions_are_found_wherever_bash_expands() {
    for text in [
        "echo ${x/a/$(rm -rf ~)}",
        "echo \"${x//a/`rm -rf ~`}\"",
        "echo \"${x/#a/$(rm -rf ~)}\"",
        "echo \"${x^^$(rm -rf ~)}\"",
        "echo \"${x:$(rm -rf ~):1}\"",
        "echo \"${!x/a/$(rm -rf ~)}\"",
        "echo \"${a[@]/x/$(rm -rf ~)}\"",
        "echo \"${#a[$(rm -rf ~)]}\"",
        "echo $(( a[$(rm -rf ~)] ))",
        "echo $[ $(rm -rf ~) ]",
        "cat <<E\n${x/a/$(rm -rf ~)}\nE",
        "cat <<< \"${x:-$(rm -rf ~)}\"",
        "a=([$(rm -rf ~)]=1)",
        "declare -A m=([\"$(rm -rf ~)\"]=1)",
        "[[ x =~ $(rm -rf ~) ]]",
        "exec 3< <(rm -rf ~)",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
}

#[test]
fn sequences_in_braces_are_expanded() {
    for text in ["{r..r}m -rf /", "rm -rf /u{s..s}r", "rm -rf x/{y,{1..3}} /{bin,y}"] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
}

/// A builtin that accepts the name of an array element evaluates the subscript, even in a quoted
/// word.
#[test]
fn subscripts_and_prompts_are_expanded_again() {
    for text in [
        "test -v 'a[$(rm -rf ~)]'",
        "[ -v 'a[$(rm -rf ~)]' ]",
        "[[ -v 'a[$(rm -rf ~)]' ]]",
        "let 'a[$(rm -rf ~)]'",
        "printf -v 'a[$(rm -rf ~)]' x",
        "read 'a[$(rm -rf ~)]' <<< x",
        "unset 'a[`rm -rf ~`]'",
        "declare 'a[$(rm -rf ~)]=1'",
        "x='a[$(rm -rf ~)]'; echo $((x))",
        "x='$(rm -rf ~)'; echo \"${x@P}\"",
        "PS1='$(rm -rf ~)'",
        "PS4='$(rm -rf ~)' bash -xc ls",
        "PROMPT_COMMAND=('rm -rf ~')",
        "BASH_ENV=<(echo 'rm -rf ~') bash -c ls",
        "echo 'rm -rf ~' > e; BASH_ENV=e bash -c ls",
        "mapfile -C 'rm -rf ~' -c 1 a < x",
        "complete -C 'rm -rf ~' foo",
        "compgen -W '$(rm -rf ~)'",
        "bind -x '\"\\C-x\": rm -rf ~'",
        "env 'BASH_FUNC_ls%%=() { rm -rf ~; }' bash -c ls",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    for text in [
        "test -v 'a[0]'",
        "echo 'a[$(date)]'",
        "x='$(rm -rf ~)'; echo \"$x\"",
        "PS1='$(date) '",
        "printf '%s\\n' \"\\$(rm -rf /)\" '`reboot`'",
        "echo \"\\`reboot\\` and \\$(rm -rf ~)\"",
    ] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn values_are_tracked_through_splitting_and_files() {
    for text in [
        "IFS=,; c='rm,-rf,/home/anna'; $c",
        "mapfile -t d < <(ls -d ~/*/); rm -rf \"${d[@]}\"",
        "f=$(mktemp); echo 'rm -rf ~' > \"$f\"; bash \"$f\"",
        "f=/tmp/x; echo 'rm -rf ~' > \"$f\"; . \"$f\"",
        "echo ls > x.sh; echo 'rm -rf ~' | tee -a x.sh; sh x.sh",
        "curl -s https://example.org/x.tgz | tar xz -C /tmp && /tmp/x/install.sh",
        "f=$(mktemp); curl -s https://example.org/x > \"$f\"; sh \"$f\"",
    ] {
        assert_ne!(judge_foreground(text).verdict, GuardVerdict::Allow, "{text}");
    }
    let text = "a=$(mktemp); b=$(mktemp); echo 'rm -rf ~' > $a; echo ls > $b; sh $b";
    assert_eq!(matched_rules(text), [""; 0], "each is a file of its own");
}

/// `parallel` joins its words with spaces to form a shell text, but quotes the inserted values. A
/// value therefore becomes code only if a shell evaluates the value again.
#[test]
fn parallel_passes_code_to_shells() {
    for text in [
        "parallel bash -c ::: 'rm -rf ~'",
        "parallel sh -c {} ::: 'rm -rf ~'",
        "parallel -q bash -c 'rm -rf {}' ::: ~",
        "parallel bash -c '\"rm -rf ~\"' ::: 1 2",
        "parallel rm {1} {2} ::: -rf ::: ~",
        "parallel rm -rf {2} :::: names.txt ::: ~",
        "parallel eval ::: 'rm -rf ~'",
        "env_parallel bash -c ::: 'rm -rf ~'",
        "sem bash -c \"'rm -rf ~'\"",
        "echo 'rm -rf ~' | parallel -j2 bash -c",
    ] {
        assert_finding(text, GuardVerdict::Deny, "rm-root");
    }
    for text in ["parallel gzip ::: *.log", "parallel echo ::: 'rm -rf ~'"] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
}

#[test]
fn lookups_help_and_dry_runs_match_no_rule() {
    for text in [
        "command -v sudo",
        "for p in sudo doas dd; do command -v \"$p\" || echo none; done",
        "which sudo reboot",
        "kubectl delete ns prod --help",
        "aws s3 rb help",
        "helm uninstall x --dry-run",
        "kubectl rollout restart deploy/web",
        "docker push localhost:5000/x",
    ] {
        assert_eq!(matched_rules(text), [""; 0], "{text}");
    }
    assert_finding("command sudo ls", GuardVerdict::Ask, "privilege");
    assert_finding("sudo bash -lc ls", GuardVerdict::Ask, "privilege");
    assert_finding("cargo yank --version 1.0.0", GuardVerdict::Ask, "publish");
    assert_finding("bash -c 'rm -rf ~' --help", GuardVerdict::Deny, "rm-root");
}
