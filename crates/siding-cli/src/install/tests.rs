//! Tests of install and uninstall as functions of a file's text.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::hosts::{BaseDirs, Host, Scope};
use super::json::{Dialect, JsonDocument, PathStep};
use super::json_value::JsonValue;
use super::program::{ProgramNames, SidingProgram};
use super::record::InstallRecord;
use super::target::{FileContent, TargetFile};

fn program(path: &str) -> SidingProgram {
    SidingProgram { path: path.to_owned(), on_path: false, names: ProgramNames::with_name(None) }
}

/// Returns one file with the hooks and the server's entry, so that a single text covers both.
fn target(path: &str, dialect: Dialect) -> TargetFile {
    let places = BaseDirs { home: "/h".into(), cwd: "/".into() };
    let targets = Host::ClaudeCode.targets(&places, Scope::User, &program(path), None);
    let mut all = (Vec::new(), None);
    for target in targets.expect("paths are UTF-8") {
        let FileContent::Json { hooks, server, .. } = target.content else { panic!("{target:?}") };
        all.0.extend(hooks);
        all.1 = all.1.or(server);
    }
    TargetFile {
        path: "/f".into(),
        content: FileContent::Json { dialect, hooks: all.0, server: all.1, status_line: None },
    }
}

fn names() -> ProgramNames {
    ProgramNames::with_name(None)
}

#[track_caller]
fn install_into(target: &TargetFile, old: Option<&str>, made: &mut InstallRecord) -> String {
    let text = target.text_with_siding(old, &names(), made);
    text.unwrap_or_else(|fault| panic!("{fault}: {old:?}"))
}

/// Installs, checks that a second install changes nothing, and uninstalls.
#[track_caller]
fn install_and_uninstall(old: Option<&str>, dialect: Dialect) -> Option<String> {
    let target = target("/opt/siding", dialect);
    let mut made = InstallRecord::default();
    let new = install_into(&target, old, &mut made);
    assert_ne!(Some(new.as_str()), old);
    let first = made.clone();
    assert_eq!(install_into(&target, Some(&new), &mut made), new, "not idempotent: {old:?}");
    assert_eq!(made, first);
    JsonDocument::parse(&new, dialect).unwrap_or_else(|fault| panic!("{fault}: {new}"));
    target
        .text_without_siding(&new, &names(), Some(&made))
        .unwrap_or_else(|fault| panic!("{fault}: {new}"))
}

const OTHER_HOOK: &str = r#"{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]}"#;

#[test]
fn uninstall_restores_the_original_text() {
    let strict = [
        "{}",
        "{}\n",
        "{ }",
        "{\n}",
        "{\n\n}\n",
        "\n{}\n",
        "\u{feff}{}",
        "",
        "\n",
        "  \r\n",
        "{\"a\":1}",
        "{\"a\": 1}\n",
        "{\n  \"a\": 1\n}",
        "{\r\n\t\"a\": 1\r\n}\r\n",
        "{\n\"a\": 1}",
        "{ \"a\" : 1 }",
        "{\"hooks\": {}}",
        "{\"hooks\":{}, \"z\": 0}",
        "{\n  \"hooks\": {\n  },\n  \"mcpServers\": { }\n}\n",
        "{\"hooks\": {\"Stop\": []}}",
        "{\n  \"hooks\": {\n    \"Stop\": [ ],\n    \"X\": []\n  }\n}",
        "{\"mcpServers\": {\"other\": {\"command\": \"y\"}}}",
        "{\"hooks\": {\"PreToolUse\": [OTHERS]}}",
        "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      OTHERS\n    ]\n  }\n}\n",
        "{\n  \"hooks\": {\n    \"PreToolUse\": [OTHERS],\n    \"PostToolUse\": [OTHERS, OTHERS]}}",
        "{\"hooks\": {\"Stop\": [{\"hooks\": []}]}}",
        "{\"\\u0068ooks\": {}}",
    ];
    for text in strict {
        let text = text.replace("OTHERS", OTHER_HOOK);
        assert_eq!(
            install_and_uninstall(Some(&text), Dialect::Strict).as_deref(),
            Some(text.as_str())
        );
    }
    for text in [
        "// a\n{} // b\n",
        "{ // a\n}",
        "{ /* a */ }",
        "{\"a\": 1,}",
        "{\n  \"a\": 1, // a\n}",
        "{\n  \"a\": 1 // a\n  /* b */\n}",
        "{\"hooks\": { // none yet\n}}",
        "{\"hooks\": {\"Stop\": [OTHERS, /* c */], /* d */}, // e\r\n}",
    ] {
        let text = text.replace("OTHERS", OTHER_HOOK);
        assert_eq!(
            install_and_uninstall(Some(&text), Dialect::Loose).as_deref(),
            Some(text.as_str())
        );
    }
    assert_eq!(install_and_uninstall(None, Dialect::Strict), None);
}

/// Without a record, as on another system, emptied containers are removed.
#[test]
fn uninstall_works_without_a_record() {
    let target = target("/opt/siding", Dialect::Strict);
    for (text, left) in [
        ("{\n  \"a\": 1\n}\n", "{\n  \"a\": 1\n}\n"),
        ("{}", "{\n}"),
        ("{\"hooks\": {}, \"a\": 1}", "{ \"a\": 1}"),
        ("{\"hooks\": {\"Stop\": [OTHERS]}}", "{\"hooks\": {\"Stop\": [OTHERS]}}"),
    ] {
        let (text, left) = (text.replace("OTHERS", OTHER_HOOK), left.replace("OTHERS", OTHER_HOOK));
        let new = install_into(&target, Some(&text), &mut InstallRecord::default());
        let out = target.text_without_siding(&new, &names(), None).expect("JSON");
        assert_eq!(out.as_deref(), Some(left.as_str()), "{text}");
    }
}

#[test]
fn reinstall_replaces_the_old_program_path() {
    let mut made = InstallRecord::default();
    let text = "{\n  \"model\": \"x\"\n}\n";
    let first = install_into(&target("/old/siding", Dialect::Strict), Some(text), &mut made);
    let second = install_into(&target("/new/siding", Dialect::Strict), Some(&first), &mut made);
    assert_eq!(second, first.replace("/old/", "/new/"));
    // This stands for an argument that only an older siding installed.
    let stale = second.replacen("\"post-tool-batch\"", "\"of-old-times\"", 1);
    assert_eq!(
        sorted_hooks(&install_into(
            &target("/new/siding", Dialect::Strict),
            Some(&stale),
            &mut made
        )),
        sorted_hooks(&second)
    );
    let target = target("/new/siding", Dialect::Strict);
    assert_eq!(
        target.text_without_siding(&second, &names(), Some(&made)).expect("JSON").as_deref(),
        Some(text)
    );
}

/// Returns the handlers in a canonical order.
fn sorted_hooks(text: &str) -> Vec<String> {
    let json = JsonDocument::parse(text, Dialect::Strict).expect("JSON");
    let found = super::hooks::find(&json, &names());
    let mut all: Vec<String> = found
        .into_iter()
        .map(|one| format!("{} {:?} {}", one.event, one.matcher, one.handler))
        .collect();
    all.sort();
    all
}

#[test]
fn unexpected_structures_are_rejected_and_left_unchanged() {
    for (text, line, column, what) in [
        ("[]", 1, 1, "not an object"),
        ("{\n  \"hooks\": []\n}", 2, 12, "`hooks` is not an object"),
        ("{\n  \"hooks\": null\n}", 2, 12, "`hooks` is not an object"),
        ("{\"hooks\": {\"Stop\": {}}}", 1, 20, "`hooks.Stop` is not a list"),
        ("{\"hooks\": {\"Stop\": [{\"x\": 1}]}}", 1, 21, "no list `hooks`"),
        ("{\"hooks\": {}, \"hooks\": {}}", 1, 15, "twice"),
        ("{\"mcpServers\": 3}", 1, 16, "`mcpServers` is not an object"),
        ("{\"mcpServers\": {\"siding\": {\"command\": \"npx\"}}}", 1, 27, "does not start siding"),
    ] {
        let mut made = InstallRecord::default();
        let target = target("/opt/siding", Dialect::Strict);
        let fault = target.text_with_siding(Some(text), &names(), &mut made).expect_err(text);
        assert!(fault.what.contains(what), "{fault}");
        assert_eq!((fault.line, fault.column), (line, column), "{text}: {fault}");
        let left = target.text_without_siding(text, &names(), None).expect("JSON");
        assert_eq!(left.as_deref(), Some(text));
    }
}

/// A reinstall keeps a variable that a person has set for the server.
#[test]
fn reinstall_keeps_the_users_server_environment() {
    let mut made = InstallRecord::default();
    let old = target("/old/siding", Dialect::Strict);
    let text = install_into(&old, None, &mut made);
    let mine = text.replace("\"env\": {}", "\"env\": {\"SIDING_KILL_GRACE\": \"5s\"}");
    assert_ne!(mine, text);
    let moved = install_into(&target("/new/siding", Dialect::Strict), Some(&mine), &mut made);
    assert_eq!(moved, mine.replace("/old/", "/new/"));
}

/// Generates whitespace and, if the dialect allows them, comments.
fn gap(dialect: Dialect) -> impl Strategy<Value = &'static str> {
    let plain = ["", "", " ", "\n  ", "\r\n\t", "\n\n"];
    let comments = ["/* c */", " // c\n", "\n  // c\r\n  ", "/**//**/"];
    let all: Vec<&'static str> = match dialect {
        Dialect::Strict => plain.to_vec(),
        Dialect::Comments | Dialect::Loose => plain.into_iter().chain(comments).collect(),
    };
    select(all)
}

fn members(
    dialect: Dialect,
    brackets: (char, char),
    member: impl Strategy<Value = String> + 'static,
) -> BoxedStrategy<String> {
    let one = (gap(dialect), member, gap(dialect));
    let one = one.prop_map(|(before, member, after)| format!("{before}{member}{after}"));
    let trail = (any::<bool>(), gap(dialect));
    (vec(one, 0..4), gap(dialect), trail)
        .prop_map(move |(members, inside, (comma, behind))| {
            let (open, close) = brackets;
            let list = members.join(",");
            let comma = comma && dialect == Dialect::Loose && !members.is_empty();
            let end = if comma { format!(",{behind}") } else { String::new() };
            let inside = if members.is_empty() { inside } else { "" };
            format!("{open}{list}{inside}{end}{close}")
        })
        .boxed()
}

fn value(dialect: Dialect) -> impl Strategy<Value = String> {
    let leaf = select(vec!["1", "\"a,}]\"", "null", "true", "\"// no\"", "[]", "{}"]);
    leaf.prop_map(str::to_owned).prop_recursive(3, 12, 3, move |inner| {
        let keyed =
            (0..99u8, inner.clone()).prop_map(|(key, value)| format!("\"k{key}\": {value}"));
        prop_oneof![members(dialect, ('[', ']'), inner), members(dialect, ('{', '}'), keyed)]
    })
}

/// Generates a host's file, with or without hooks of other programs.
fn file(dialect: Dialect) -> impl Strategy<Value = String> {
    let group = || prop_oneof![Just(OTHER_HOOK.to_owned()), Just("{\"hooks\":[]}".to_owned())];
    let event = move |name: &'static str| {
        members(dialect, ('[', ']'), group()).prop_map(move |list| format!("\"{name}\":{list}"))
    };
    let events = (event("Stop"), event("PreToolUse"), event("Other"), any::<[bool; 3]>());
    let hooks = (events, gap(dialect), gap(dialect)).prop_map(|(events, before, after)| {
        let (stop, pre, other, there) = events;
        let there = [stop, pre, other].into_iter().zip(there).filter(|(_, there)| *there);
        let list: Vec<String> = there.map(|(event, _)| format!("{before}{event}{after}")).collect();
        format!("\"hooks\": {{{}{before}}}", list.join(","))
    });
    let servers = gap(dialect).prop_map(|gap| format!("\"mcpServers\":{{{gap}}}"));
    let other = value(dialect).prop_map(|value| format!("\"other\" : {value}"));
    let parts = (hooks, servers, other, any::<[bool; 3]>(), any::<bool>());
    (parts, vec(gap(dialect), 6)).prop_map(move |(parts, gaps)| {
        let (hooks, servers, other, there, comma) = parts;
        let there = [other, hooks, servers].into_iter().zip(there).filter(|(_, there)| *there);
        let list: Vec<String> =
            there.map(|(part, _)| format!("{}{part}{}", gaps[0], gaps[1])).collect();
        let comma = comma && dialect == Dialect::Loose && !list.is_empty();
        let comma = if comma { "," } else { "" };
        format!("{}{{{}{comma}{}}}{}", gaps[2], list.join(","), gaps[3], gaps[4])
    })
}

proptest! {
    // Each case parses a text about a hundred times, so fewer cases than usual are generated.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn uninstall_restores_any_strict_json(text in file(Dialect::Strict)) {
        prop_assert_eq!(install_and_uninstall(Some(&text), Dialect::Strict), Some(text));
    }

    #[test]
    fn uninstall_restores_any_json_with_comments(text in file(Dialect::Loose)) {
        prop_assert_eq!(install_and_uninstall(Some(&text), Dialect::Loose), Some(text));
    }

    /// A person edits the file between install and uninstall: the edit stays, and siding's entries
    /// are removed.
    #[test]
    fn edits_between_install_and_uninstall_are_kept(
        text in file(Dialect::Loose),
        event in select(vec!["Stop", "Notification"]),
        top in any::<bool>(),
    ) {
        let target = target("/opt/siding", Dialect::Loose);
        let mut made = InstallRecord::default();
        let edit = |text: String| {
            let mut json = JsonDocument::parse(&text, Dialect::Loose).expect("JSON");
            let group = JsonValue::map([("hooks", JsonValue::List(vec![]))]);
            let there = json.get(&[PathStep::Key("hooks"), PathStep::Key(event)]).is_some();
            match (top, there) {
                (false, true) => {
                    json.insert(&[PathStep::Key("hooks"), PathStep::Key(event)], None, &group);
                }
                (false, false) if json.get(&[PathStep::Key("hooks")]).is_some() => {
                    json.insert(&[PathStep::Key("hooks")], Some(event), &JsonValue::List(vec![group]));
                }
                _ => json.insert(&[], Some("theirs"), &group),
            }
            json.into_text()
        };
        let new = install_into(&target, Some(&text), &mut made);
        let left = target.text_without_siding(&edit(new), &names(), Some(&made)).expect("JSON").expect("a file");
        prop_assert!(!left.contains("siding"), "{}", left);
        // If the edited container existed before, the result equals the edit of the original file.
        let value = |text: &str| JsonDocument::parse(text, Dialect::Loose).expect("JSON").get(&[]);
        let had = JsonDocument::parse(&text, Dialect::Loose).expect("JSON");
        if top || had.get(&[PathStep::Key("hooks"), PathStep::Key(event)]).is_some() {
            prop_assert_eq!(value(&left), value(&edit(text)));
        }
    }
}
