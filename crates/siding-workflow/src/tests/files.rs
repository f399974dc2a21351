//! Tests the file format, and the messages about mistakes in a file.

use std::path::Path;

use super::{plan, plan_error};
use crate::{Condition, OnFailure, Plan, StepAction};

const EXAMPLE_FILE: &str = r#"
name = "release"
max_parallel = 3
on_failure = "continue"
timeout = "2h"
model = "script:x"
env = { CI = "1" }

[[step]]
id = "build"
run = "make"
timeout = "10m"

[[step]]
id = "test"
needs = ["build"]
run = "make test OS=$MATRIX_OS"
retries = 2
on = "slurm:gpu"
matrix = { py = [3, "3.12"], os = ["a", "b c"] }
env = { CI = "2", WHERE = "on {{os}}" }

[[step]]
id = "notes"
needs = ["test", "build"]
if = "failure(test)"
prompt = "Say why {{this}} failed."
cwd = "docs"
"#;

#[test]
fn an_example_file_is_parsed_completely() {
    let plan = plan(EXAMPLE_FILE);
    let ids: Vec<&str> = plan.steps().iter().map(|step| step.id.as_str()).collect();
    let tests =
        ["test[os=a,py=3]", "test[os=a,py=3.12]", "test[os=b c,py=3]", "test[os=b c,py=3.12]"];
    assert_eq!(ids, [&["build"], &tests[..], &["notes"]].concat());
    assert_eq!((plan.on_failure, plan.max_parallel), (OnFailure::Continue, Some(3)));
    assert_eq!(plan.timeout.map(|time| time.as_secs()), Some(7200));
    let test = &plan.steps()[3];
    assert_eq!((test.needs.as_slice(), test.retries, test.layer), (&[0][..], 2, 1));
    assert_eq!(test.on.as_deref(), Some("slurm:gpu"));
    let file_steps: Vec<usize> = plan.steps().iter().map(|step| step.file_step).collect();
    assert_eq!(file_steps, [0, 1, 1, 1, 1, 2]);
    let env: Vec<(&str, &str)> =
        test.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let wanted = [("CI", "2"), ("WHERE", "on b c"), ("MATRIX_OS", "b c"), ("MATRIX_PY", "3")];
    assert_eq!(env, wanted);
    let notes = &plan.steps()[5];
    assert_eq!((notes.needs.as_slice(), notes.layer), (&[0, 1, 2, 3, 4][..], 2));
    assert_eq!(notes.condition.to_string(), "failure(test)");
    assert!(matches!(&notes.condition, Condition::FailureOf(named) if named.steps == [1, 2, 3, 4]));
    let model = Some("script:x".to_owned());
    assert_eq!(
        notes.action,
        StepAction::Prompt { text: "Say why {{this}} failed.".to_owned(), model }
    );
}

/// The message about a mistake names the line, the step, the given value and the allowed values.
#[test]
fn mistakes_are_reported_with_the_allowed_values() {
    let step = |rest: &str| format!("[[step]]\nid = \"a\"\n{rest}\n");
    let run = |rest: &str| step(&format!("run = \"x\"\n{rest}"));
    let cases = [
        (String::new(), "start one with `[[step]]`"),
        ("steps = 1".to_owned(), "expected one of"),
        (run("need = [\"b\"]"), "`needs`"),
        (
            run("needs = [\"b\"]"),
            "step `a`: it needs `b`, and there is no such step; the steps are a",
        ),
        (run("needs = [\"a\"]"), "a needs a"),
        (run("retries = 11"), "write 0 to 10"),
        (run("retries = -1"), "write 0 to 10"),
        (run("timeout = \"5\""), "`timeout`"),
        (run("timeout = \"0s\""), "must not be zero"),
        (run("if = \"maybe()\""), "`success()`, `failure()`, `always()`"),
        (run("if = \"success\""), "`success()`, `failure()`, `always()`"),
        (run("if = \"success(b)\""), "add it to `needs`"),
        (run("if = \"failure()\""), "it has no needs"),
        (run("prompt = \"y\""), "not both"),
        (run("model = \"y\""), "`model` requires `prompt`"),
        (run("on = \"me@build\""), "`me@build` is not the name of an executor"),
        (run("on = \"slurm:\""), "`slurm:` is not the name of an executor"),
        (step("prompt = \"y\"\non = \"build\""), "`on` requires `run`"),
        (run("matrix = { x = [] }"), "write 1 to 100"),
        (run("matrix = { x = [3.1] }"), "write `3.1` in quotes"),
        (run("matrix = { x = [\"1\", 1] }"), "has the value `1` twice"),
        (run("matrix = { \"x-y\" = [1] }"), "is not a valid key"),
        (run("matrix = { x = [1], X = [1] }"), "MATRIX_X"),
        (run("env = { \"a=b\" = \"\" }"), "`env`"),
        (step("run = \"\""), "is blank"),
        (step("run = \"echo {{x}}\"\nmatrix = { x = [1] }"), "\"$MATRIX_X\""),
        (step("run = \"echo x {{ x\\t}}\"\nmatrix = { x = [1] }"), "\"$MATRIX_X\""),
        (
            step("prompt = \"{{y}}\"\nmatrix = { x = [1] }"),
            "the matrix has no key `y`; its keys are x",
        ),
        (step(""), "set `run` to a command, or `prompt`"),
        (format!("max_parallel = 0\n{}", run("")), "write 1 to 64"),
        (format!("on_failure = \"go\"\n{}", run("")), "`stop`"),
        (format!("{}{}", run(""), run("")), "another step has this id"),
        ("[[step]]\nid = \"-x\"\nrun = \"x\"".to_owned(), "is not valid"),
        ("[[step]]\nrun = \"x\"".to_owned(), "`id`"),
    ];
    for (text, part) in cases {
        let error = plan_error(&text);
        assert!(error.starts_with("flow.toml:") && error.contains(part), "{error}\n{text}");
    }
    let second = format!("{}[[step]]\nid = \"b\"\nrun = \"x\"\nneeds = [\"c\"]\n", run(""));
    assert!(plan_error(&second).starts_with("flow.toml:8: step `b`"), "{}", plan_error(&second));
}

#[test]
fn a_cycle_is_reported_in_order() {
    let step = |id: &str, needs: &str| {
        format!("[[step]]\nid = \"{id}\"\nrun = \"x\"\nneeds = [{needs}]\n")
    };
    let text = [
        step("free", ""),
        step("behind", r#""b""#),
        step("a", r#""free", "c""#),
        step("b", r#""a""#),
        step("c", r#""b""#),
    ]
    .concat();
    let error = plan_error(&text);
    let circles =
        ["b needs a needs c needs b", "a needs c needs b needs a", "c needs b needs a needs c"];
    assert!(circles.iter().any(|circle| error.contains(circle)), "{error}");
    assert!(!error.contains("behind") && !error.contains("free"), "{error}");
}

#[test]
fn the_number_of_steps_is_bounded() {
    let values: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    let axis = values.join(",");
    let of = |keys: &str| format!("[[step]]\nid = \"a\"\nrun = \"x\"\nmatrix = {{ {keys} }}\n");
    assert_eq!(plan(&of(&format!("x = [{axis}], y = [1, 2]"))).steps().len(), 80);
    let many = plan_error(&of(&format!("x = [{axis}], y = [{axis}]")));
    assert!(many.contains("at most 1000"), "{many}");
    let text: String =
        (0..=1000).map(|number| format!("[[step]]\nid=\"s{number}\"\nrun=\"x\"\n")).collect();
    assert!(plan_error(&text).contains("at most 1000 steps"), "{}", plan_error(&text));
}

/// A step may be long, so the message names the line of the mistake instead of the line of
/// `[[step]]`.
#[test]
fn a_mistake_is_reported_with_its_own_line() {
    // The line marked with `#!` contains the mistake.
    let marked = [
        "max_parallel = 2\ntimeout = \"5\" #!\n[[step]]\nid = \"a\"\nrun = \"x\"",
        "timeout = \"5m\"\nmax_parallel = 0 #!\n[[step]]\nid = \"a\"\nrun = \"x\"",
        "[env]\nA = \"1\"\n\"a=b\" = \"2\" #!\n[[step]]\nid = \"a\"\nrun = \"x\"",
        "[[step]]\nrun = \"x\"\nid = \"-x\" #!",
        "[[step]]\nid = \"a\"\nrun = \"\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nmodel = \"m\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nprompt = \"y\" #!",
        "[[step]]\nid = \"a\"\nprompt = \"x\"\nrun = \"y\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nretries = 11 #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\ntimeout = \"0s\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nif = \"maybe()\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nif = \"failure()\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nneeds = [\n  \"a\", #!\n]",
        "[[step]]\nid = \"b\"\nrun = \"x\"\n[[step]]\nid = \"a\"\nrun = \"x\"\nneeds = [\n  \"b\",\n  \"c\", #!\n]",
        "[[step]]\nid = \"a\"\nrun = \"x\"\n[[step]]\nrun = \"x\"\nid = \"a\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\n[step.env]\nA = \"1\"\n\"a=b\" = \"2\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\n[step.matrix]\nx = [1]\ny = [] #!",
        "[[step]]\nid = \"a\"\nmatrix = { x = [1] }\nrun = \"echo {{x}}\" #!",
        "[[step]]\nid = \"a\"\nmatrix = { x = [1] }\nprompt = \"{{y}}\" #!",
        "[[step]]\nid = \"a\"\nmatrix = { x = [1] }\nrun = \"x\"\ncwd = \"{{y}}\" #!",
        // The TOML parser finds the following mistakes.
        "[[step]]\nid = \"a\"\nrun = \"x\"\nneed = [\"b\"] #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nretries = \"two\" #!",
        "[[step]]\nid = \"a\"\nrun = \"x\"\nneeds = [\n  \"b\",\n  3, #!\n]",
        "[[step]]\nid = \"a\"\nrun = \"x\"\n[step.matrix]\nx = 1 #!",
        "on_failure = \"stop\"\nnames = \"x\" #!\n[[step]]\nid = \"a\"\nrun = \"x\"",
    ];
    for text in marked {
        let line =
            text.lines().position(|line| line.ends_with("#!")).expect("one line is marked") + 1;
        let error = plan_error(text);
        assert!(error.starts_with(&format!("flow.toml:{line}: ")), "{error}\n{text}");
    }
}

#[test]
fn an_unknown_executor_is_reported_with_the_line_and_the_step() {
    let text = "[[step]]\nid = \"a\"\nrun = \"true\"\non = \"build\"\n\n\
        [[step]]\nid = \"b\"\nrun = \"true\"\non = \"biuld\"\n";
    let check = |name: &str| match name {
        "build" => Ok(()),
        other => Err(format!("no executor has the name `{other}`")),
    };
    let error = Plan::parse_with_executors(Path::new("flow.toml"), text, check);
    let message = error.expect_err("an unknown executor").to_string();
    assert_eq!(message, "flow.toml:9: step `b`: `on`: no executor has the name `biuld`");
    // A recorded workflow stays readable after its executor was removed from the settings.
    assert_eq!(plan(text).steps().len(), 2);
}
