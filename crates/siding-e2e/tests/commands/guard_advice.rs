//! The advice of the guard's rules: the guard allows each command that a rule names as the
//! alternative, and the command does what the advice says, in real repositories.

use std::collections::BTreeSet;

use siding_e2e::Sandbox;
use siding_guard::{ExecMode, GuardVerdict, Rules, judge};

use crate::support::sandbox;

const ADVISED_COMMANDS: &str = include_str!("../../corpus/guard_advice.toml");

/// Directory with the repositories. Each advised command runs in a copy of them.
const TEMPLATE: &str = "template";

/// Creates the repositories.
const PREPARATION: &str = "
git init -q --bare -b main origin.git
git init -q -b main work
cd work
echo ignored > .gitignore
echo first > file
git add .
git commit -qm first
git remote add origin ../origin.git
git push -qu origin main
";

/// The functions that the texts of `guard_advice.toml` use.
const FUNCTIONS: &str = r#"
ok() { [ $status = 0 ]; }
refused() { [ $status != 0 ]; }
published() { git --git-dir ../origin.git show "$1:$2"; }
diverge() {
    git clone -q ../origin.git ../other
    (cd ../other; echo theirs > theirs; git add .; git commit -qm theirs; git push -q)
    echo mine > mine; git add .; git commit -qm mine
    if git push -q; then exit 1; fi
}
"#;

/// Settings of git that the sandbox's empty home lacks. Without the last three, git could leave a
/// process behind, or refuse a submodule in a directory.
const GIT_SETTINGS: [(&str, &str); 5] = [
    ("user.name", "A"),
    ("user.email", "a@example.org"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.file.allow", "always"),
];

/// A command that the advice of a rule names.
struct AdvisedCommand {
    rule: String,
    /// The code in the advice.
    code: String,
    /// A command that follows the advice and that the guard must allow.
    judged: String,
    /// The command to run and the texts before and after it, or `None` if it cannot run here.
    script: Option<Script>,
}

struct Script {
    before: String,
    typed: String,
    after: String,
}

fn advised_commands() -> Vec<AdvisedCommand> {
    let file: toml::Table = ADVISED_COMMANDS.parse().expect("a TOML file");
    let commands = file["command"].as_array().expect("a list of commands");
    let parse = |command: &toml::Value| {
        let text = |key: &str| Some(command.get(key)?.as_str().expect("a text").to_owned());
        let required = |key: &str| text(key).unwrap_or_else(|| panic!("no {key} in {command}"));
        AdvisedCommand {
            rule: required("rule"),
            code: required("code"),
            judged: text("judged").unwrap_or_else(|| required("typed")),
            script: text("typed").map(|typed| Script {
                before: required("before"),
                typed,
                after: required("after"),
            }),
        }
    };
    commands.iter().map(parse).collect()
}

/// Runs a script in a new directory with a copy of the repositories.
#[track_caller]
fn run_script(sandbox: &Sandbox, directory: &str, script: &Script) {
    let Script { before, typed, after } = script;
    let siding = sandbox.siding_line::<&str>(&[]);
    let text = format!(
        "siding() {{ {siding} \"$@\"; }}\n{FUNCTIONS}cp -a ../{TEMPLATE}/. .\ncd work\n{before}\n\
         status=0\n(\n{typed}\n) > ../typed.out 2>&1 || status=$?\n{after}\n"
    );
    run_bash(sandbox, directory, &text);
}

/// Runs a shell text with settings for git in a new directory, and asserts that it exits with 0.
#[track_caller]
fn run_bash(sandbox: &Sandbox, directory: &str, text: &str) {
    let directory = sandbox.path(directory);
    std::fs::create_dir(&directory).expect("a new directory");
    let mut call = sandbox.host("bash", &["-ec", text]).cwd(&directory);
    call = call.env("GIT_CONFIG_NOSYSTEM", "1");
    call = call.env("GIT_CONFIG_COUNT", GIT_SETTINGS.len().to_string());
    for (number, (key, value)) in GIT_SETTINGS.into_iter().enumerate() {
        call = call.env(&format!("GIT_CONFIG_KEY_{number}"), key);
        call = call.env(&format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    let _checked = call.run().expect_code(0);
}

/// Returns the rules whose advice names a command, with the command.
fn named_commands(rules: &Rules) -> BTreeSet<(String, String)> {
    let mut named = BTreeSet::new();
    for rule in rules.iter() {
        let advice = rule.suggestion.as_deref().unwrap_or_default();
        let codes = advice.split('`').skip(1).step_by(2);
        named.extend(codes.map(|code| (rule.name.clone(), code.to_owned())));
    }
    named
}

#[test]
fn every_command_in_the_advice_of_a_rule_is_tested() {
    let tested: BTreeSet<_> =
        advised_commands().into_iter().map(|advised| (advised.rule, advised.code)).collect();
    assert_eq!(named_commands(&Rules::builtin()), tested);
}

/// The guard allows every command that its own advice names.
#[test]
fn guard_allows_every_command_that_it_advises() {
    let rules = Rules::builtin();
    for advised in advised_commands() {
        let report = judge(&advised.judged, &rules, ExecMode::Background);
        assert_eq!(report.verdict, GuardVerdict::Allow, "{}: {report:?}", advised.judged);
    }
}

#[test]
fn every_advised_command_does_what_the_advice_says() {
    let sandbox = sandbox();
    run_bash(&sandbox, TEMPLATE, PREPARATION);
    for (number, advised) in advised_commands().into_iter().enumerate() {
        let Some(script) = advised.script else { continue };
        run_script(&sandbox, &format!("{number}-{}", advised.rule), &script);
    }
}
