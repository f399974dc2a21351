//! Tests which changes to rules each layer may make.

use std::path::PathBuf;

use siding_guard::{ExecMode, GuardVerdict, Layer, RuleError, RuleSource, Rules, judge};

const USER_RULES: &str = r#"
[[rule]]
name = "no-foo"
verdict = "deny"
reason = "foo is gone"
suggestion = "bar"
when = [{ program = ["foo"], args = ["@places"] }]
examples = { match = ["foo /srv/x"], mismatch = ["foo x"] }
[sets]
places = ["/srv/**"]
"#;

fn source(layer: Layer) -> RuleSource {
    RuleSource { layer, path: Some(PathBuf::from(format!("{}.toml", layer.name()))) }
}

fn verdict(rules: &Rules, text: &str) -> GuardVerdict {
    judge(text, rules, ExecMode::Foreground).verdict
}

#[test]
fn a_user_adds_rules_and_changes_verdicts() {
    let mut rules = Rules::builtin();
    rules.add_layer(USER_RULES, source(Layer::User)).expect("legal");
    assert_eq!(verdict(&rules, "sudo foo /srv/y"), GuardVerdict::Deny);
    assert!(rules.check_examples(|rule| rule.name == "no-foo").failed.is_empty());
    let off = "[verdicts]\nprivilege = \"allow\"\ngit-discard = \"deny\"";
    rules.add_layer(off, source(Layer::User)).expect("legal");
    assert_eq!(verdict(&rules, "sudo ls"), GuardVerdict::Allow);
    assert_eq!(verdict(&rules, "git clean -fd"), GuardVerdict::Deny);
    let except = "[[except]]\nrule = \"rm-system\"\nwhen = [{ program = [\"rm\"], args = [\"/opt/mine/**\"] }]";
    rules.add_layer(except, source(Layer::User)).expect("legal");
    assert_eq!(verdict(&rules, "rm -rf /opt/mine/x"), GuardVerdict::Allow);
    assert_eq!(verdict(&rules, "rm -rf /opt/other"), GuardVerdict::Ask);
}

#[test]
fn an_exception_for_a_shape_leaves_the_rest_of_the_rule_in_force() {
    let mut rules = Rules::builtin();
    let is_endless = |rules: &Rules, text: &str| {
        let report = judge(text, rules, ExecMode::Background);
        report.findings.iter().any(|finding| finding.rule == "background-endless")
    };
    assert!(is_endless(&rules, "mkfifo p; cat < p"));
    let except = "[[except]]\nrule = \"background-endless\"\nwhen = [{ shape = \"empty-pipe\" }]";
    rules.add_layer(except, source(Layer::User)).expect("legal");
    assert!(!is_endless(&rules, "mkfifo p; cat < p"));
    assert!(is_endless(&rules, "tail -f server.log"));
}

/// A project's file comes with a repository, and the author of the repository must not be able to
/// disable the guard.
#[test]
fn a_project_can_only_tighten() {
    let mut rules = Rules::builtin();
    let hostile = "
[verdicts]
rm-root = \"allow\"
privilege = \"allow\"
git-discard = \"deny\"
[sets]
roots = []
[[except]]
rule = \"self-kill\"
when = [{ program = [\"pkill\"] }]
";
    rules.add_layer(hostile, source(Layer::Project)).expect("only warned about");
    assert_eq!(rules.warnings().len(), 3, "{:?}", rules.warnings());
    assert_eq!(verdict(&rules, "rm -rf /"), GuardVerdict::Deny);
    assert_eq!(verdict(&rules, "sudo ls"), GuardVerdict::Ask);
    assert_eq!(verdict(&rules, "pkill -f x"), GuardVerdict::Ask);
    assert_eq!(verdict(&rules, "git clean -fd"), GuardVerdict::Deny);
    rules.add_layer(USER_RULES, source(Layer::Project)).expect("legal");
    assert_eq!(verdict(&rules, "foo /srv/y"), GuardVerdict::Deny);
}

#[test]
fn a_project_cannot_loosen_what_a_user_made_stricter() {
    let mut rules = Rules::builtin();
    rules.add_layer("[verdicts]\nprivilege = \"deny\"", source(Layer::User)).expect("legal");
    rules
        .add_layer("[verdicts]\nprivilege = \"ask\"", source(Layer::Project))
        .expect("warned about");
    assert_eq!(verdict(&rules, "sudo ls"), GuardVerdict::Deny);
}

#[test]
fn an_invalid_project_file_leaves_other_rules_in_force() {
    for broken in
        ["no toml [", "locked = [\"rm-root\"]", "[verdicts]\nno-such-rule = \"deny\"", "x = 1"]
    {
        let mut rules = Rules::builtin();
        rules.add_layer(broken, source(Layer::Project)).expect("only warned about");
        assert_eq!(rules.warnings().len(), 1, "{broken}");
        assert_eq!(verdict(&rules, "rm -rf /"), GuardVerdict::Deny);
    }
}

#[test]
fn the_system_file_can_lock_rules() {
    let mut rules = Rules::builtin();
    rules.add_layer("locked = [\"privilege\"]", source(Layer::System)).expect("legal");
    rules
        .add_layer("[verdicts]\nprivilege = \"allow\"", source(Layer::User))
        .expect("warned about");
    assert_eq!(rules.warnings().len(), 1);
    assert_eq!(verdict(&rules, "sudo ls"), GuardVerdict::Ask);
    rules
        .add_layer("[verdicts]\nprivilege = \"deny\"", source(Layer::User))
        .expect("stricter is fine");
    assert_eq!(verdict(&rules, "sudo ls"), GuardVerdict::Deny);
}

#[test]
fn rule_file_errors_name_file_and_line() {
    let lay = |text: &str| Rules::builtin().add_layer(text, source(Layer::User)).expect_err(text);
    let message = |text: &str| lay(text).to_string();
    assert!(message("a = ").starts_with("`user.toml` line 1: "));
    assert!(message("\n\nverdict = 1").starts_with("`user.toml` line 3: unknown field `verdict`"));
    assert!(matches!(lay("locked = [\"rm-root\"]"), RuleError::LockNotAllowed { .. }));
    let twice = "[[rule]]\nname = \"rm-root\"\nverdict = \"ask\"\nreason = \"x\"\nwhen = [{ program = [\"x\"] }]";
    assert!(matches!(lay(twice), RuleError::DuplicateRule { .. }));
    let set =
        twice.replace("rm-root", "mine").replace("[\"x\"] }", "[\"x\"], args = [\"@nowhere\"] }");
    assert!(message(&set).ends_with("rule `mine`: there is no set `@nowhere`"));
    let empty = twice.replace("rm-root", "mine").replace("program = [\"x\"]", "no_args = true");
    assert!(matches!(lay(&empty), RuleError::EmptyMatcher { .. }));
    let except = "[[except]]\nrule = \"rm-root\"\nwhen = [{ no_args = true }]";
    assert!(matches!(lay(except), RuleError::EmptyMatcher { .. }));
}

/// In an exception, a matcher that matched either of its keys would exempt all calls of a program
/// or all writes of a file.
#[test]
fn keys_about_different_things_are_refused_in_one_matcher() {
    let add = |layer, when: &str| {
        let text = format!("[[except]]\nrule = \"rm-root\"\nwhen = [{{ {when} }}]");
        Rules::builtin().add_layer(&text, source(layer))
    };
    for when in [
        "program = [\"tee\"], writes = [\"/tmp/**\"]",
        "program = [\"tee\"], reads = [\"/tmp/**\"]",
        "program = [\"git\"], sets = [\"GIT_DIR=*\"]",
        "program = [\"x\"], shape = \"polling\"",
        "reads = [\"/tmp/**\"], writes = [\"/tmp/**\"]",
        "sets = [\"A=*\"], overwrites = [\"/tmp/**\"]",
        "writes = [\"/tmp/**\"], words = [\"-a\"]",
        "reads = [\"/tmp/**\"], not_args = [\"/tmp/x\"]",
        "shape = \"polling\", no_args = true",
    ] {
        let error = add(Layer::User, when).expect_err(when);
        assert!(matches!(error, RuleError::CombinedKinds { .. }), "{when}: {error}");
    }
    for when in [
        "program = [\"tee\"], args = [\"/tmp/**\"], not_args = [\"/tmp/x\"], sets = []",
        "writes = [\"/tmp/**\"], overwrites = [\"/srv/**\"], not_args = [\"/tmp/x\"]",
        "reads = [\"/tmp/**\"]",
        "sets = [\"A=*\"]",
        "shape = \"polling\"",
    ] {
        add(Layer::User, when).expect(when);
    }
}

#[test]
fn earlier_field_names_are_refused_with_the_present_ones() {
    for (old, new) in
        [("why", "reason"), ("instead", "suggestion"), ("hit", "match"), ("miss", "mismatch")]
    {
        let text = USER_RULES.replace(&format!("{new} ="), &format!("{old} ="));
        let error = Rules::builtin().add_layer(&text, source(Layer::User)).expect_err(old);
        let expected = format!(": the field `{old}` is now called `{new}`");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}
