//! Install and uninstall as functions of a file's text.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::hosts::{Host, Places, Scope};
use super::json::{Dialect, Json, Step};
use super::made::Made;
use super::program::{Names, Program};
use super::target::{Content, Target};
use super::tree::Tree;

fn program(path: &str) -> Program {
    Program { path: path.to_owned(), on_path: false, names: Names::with(None) }
}

/// The file with the hooks, and with the server's entry too, so that one text has all there is.
fn target(path: &str, dialect: Dialect) -> Target {
    let places = Places { home: "/h".into(), cwd: "/".into() };
    let targets = Host::ClaudeCode.targets(&places, Scope::User, &program(path), None);
    let mut all = (Vec::new(), None);
    for target in targets.expect("paths are UTF-8") {
        let Content::Json { hooks, server, .. } = target.content else { panic!("{target:?}") };
        all.0.extend(hooks);
        all.1 = all.1.or(server);
    }
    Target {
        path: "/f".into(),
        content: Content::Json { dialect, hooks: all.0, server: all.1, status_line: None },
    }
}

fn names() -> Names {
    Names::with(None)
}

#[track_caller]
fn install(target: &Target, old: Option<&str>, made: &mut Made) -> String {
    let text = target.installed(old, &names(), made);
    text.unwrap_or_else(|fault| panic!("{fault}: {old:?}"))
}

/// Installs, sees that a second time changes nothing, and uninstalls.
#[track_caller]
fn there_and_back(old: Option<&str>, dialect: Dialect) -> Option<String> {
    let target = target("/opt/siding", dialect);
    let mut made = Made::default();
    let new = install(&target, old, &mut made);
    assert_ne!(Some(new.as_str()), old);
    let first = made.clone();
    assert_eq!(install(&target, Some(&new), &mut made), new, "not idempotent: {old:?}");
    assert_eq!(made, first);
    Json::read(&new, dialect).unwrap_or_else(|fault| panic!("{fault}: {new}"));
    target.removed(&new, &names(), Some(&made)).unwrap_or_else(|fault| panic!("{fault}: {new}"))
}

const OTHERS: &str = r#"{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]}"#;

#[test]
fn uninstall_gives_back_what_was_there() {
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
        let text = text.replace("OTHERS", OTHERS);
        assert_eq!(there_and_back(Some(&text), Dialect::Strict).as_deref(), Some(text.as_str()));
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
        let text = text.replace("OTHERS", OTHERS);
        assert_eq!(there_and_back(Some(&text), Dialect::Loose).as_deref(), Some(text.as_str()));
    }
    assert_eq!(there_and_back(None, Dialect::Strict), None);
}

/// Without a memory, as on another machine: what is left empty goes.
#[test]
fn uninstall_needs_no_memory() {
    let target = target("/opt/siding", Dialect::Strict);
    for (text, left) in [
        ("{\n  \"a\": 1\n}\n", "{\n  \"a\": 1\n}\n"),
        ("{}", "{\n}"),
        ("{\"hooks\": {}, \"a\": 1}", "{ \"a\": 1}"),
        ("{\"hooks\": {\"Stop\": [OTHERS]}}", "{\"hooks\": {\"Stop\": [OTHERS]}}"),
    ] {
        let (text, left) = (text.replace("OTHERS", OTHERS), left.replace("OTHERS", OTHERS));
        let new = install(&target, Some(&text), &mut Made::default());
        let out = target.removed(&new, &names(), None).expect("JSON");
        assert_eq!(out.as_deref(), Some(left.as_str()), "{text}");
    }
}

#[test]
fn another_program_takes_the_place_of_the_first() {
    let mut made = Made::default();
    let text = "{\n  \"model\": \"x\"\n}\n";
    let first = install(&target("/old/siding", Dialect::Strict), Some(text), &mut made);
    let second = install(&target("/new/siding", Dialect::Strict), Some(&first), &mut made);
    assert_eq!(second, first.replace("/old/", "/new/"));
    // A row that no longer is, and one that is there twice.
    let stale = second.replacen("\"post-tool-batch\"", "\"of-old-times\"", 1);
    assert_eq!(
        hooks_of(&install(&target("/new/siding", Dialect::Strict), Some(&stale), &mut made)),
        hooks_of(&second)
    );
    let target = target("/new/siding", Dialect::Strict);
    assert_eq!(
        target.removed(&second, &names(), Some(&made)).expect("JSON").as_deref(),
        Some(text)
    );
}

/// The handlers, in an order of their own.
fn hooks_of(text: &str) -> Vec<String> {
    let json = Json::read(text, Dialect::Strict).expect("JSON");
    let found = super::hooks::find(&json, &names());
    let mut all: Vec<String> = found
        .into_iter()
        .map(|one| format!("{} {:?} {}", one.event, one.matcher, one.handler))
        .collect();
    all.sort();
    all
}

#[test]
fn what_is_not_ours_is_not_touched_and_said() {
    for (text, line, column, what) in [
        ("[]", 1, 1, "no object"),
        ("{\n  \"hooks\": []\n}", 2, 12, "`hooks` is no object"),
        ("{\n  \"hooks\": null\n}", 2, 12, "`hooks` is no object"),
        ("{\"hooks\": {\"Stop\": {}}}", 1, 20, "`hooks.Stop` is no list"),
        ("{\"hooks\": {\"Stop\": [{\"x\": 1}]}}", 1, 21, "no list `hooks`"),
        ("{\"hooks\": {}, \"hooks\": {}}", 1, 15, "twice"),
        ("{\"mcpServers\": 3}", 1, 16, "`mcpServers` is no object"),
        ("{\"mcpServers\": {\"siding\": {\"command\": \"npx\"}}}", 1, 27, "does not start siding"),
    ] {
        let mut made = Made::default();
        let target = target("/opt/siding", Dialect::Strict);
        let fault = target.installed(Some(text), &names(), &mut made).expect_err(text);
        assert!(fault.what.contains(what), "{fault}");
        assert_eq!((fault.line, fault.column), (line, column), "{text}: {fault}");
        let left = target.removed(text, &names(), None).expect("JSON");
        assert_eq!(left.as_deref(), Some(text));
    }
}

/// A variable that a person has set for the server is the person's.
#[test]
fn the_environment_of_the_server_stays() {
    let mut made = Made::default();
    let old = target("/old/siding", Dialect::Strict);
    let text = install(&old, None, &mut made);
    let mine = text.replace("\"env\": {}", "\"env\": {\"SIDING_KILL_GRACE\": \"5s\"}");
    assert_ne!(mine, text);
    let moved = install(&target("/new/siding", Dialect::Strict), Some(&mine), &mut made);
    assert_eq!(moved, mine.replace("/old/", "/new/"));
}

/// White space and, where they may be, comments.
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

/// A file as a host may have it, with hooks of others or without.
fn file(dialect: Dialect) -> impl Strategy<Value = String> {
    let group = || prop_oneof![Just(OTHERS.to_owned()), Just("{\"hooks\":[]}".to_owned())];
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
    // Each case reads a text some hundred times.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_file_is_as_before(text in file(Dialect::Strict)) {
        prop_assert_eq!(there_and_back(Some(&text), Dialect::Strict), Some(text));
    }

    #[test]
    fn any_file_with_comments_is_as_before(text in file(Dialect::Loose)) {
        prop_assert_eq!(there_and_back(Some(&text), Dialect::Loose), Some(text));
    }

    /// A person edits the file in between: their edit stays, and all of siding goes.
    #[test]
    fn edits_in_between_stay(
        text in file(Dialect::Loose),
        event in select(vec!["Stop", "Notification"]),
        top in any::<bool>(),
    ) {
        let target = target("/opt/siding", Dialect::Loose);
        let mut made = Made::default();
        let edit = |text: String| {
            let mut json = Json::read(&text, Dialect::Loose).expect("JSON");
            let group = Tree::map([("hooks", Tree::List(vec![]))]);
            let there = json.get(&[Step::Key("hooks"), Step::Key(event)]).is_some();
            match (top, there) {
                (false, true) => {
                    json.insert(&[Step::Key("hooks"), Step::Key(event)], None, &group);
                }
                (false, false) if json.get(&[Step::Key("hooks")]).is_some() => {
                    json.insert(&[Step::Key("hooks")], Some(event), &Tree::List(vec![group]));
                }
                _ => json.insert(&[], Some("theirs"), &group),
            }
            json.into_text()
        };
        let new = install(&target, Some(&text), &mut made);
        let left = target.removed(&edit(new), &names(), Some(&made)).expect("JSON").expect("a file");
        prop_assert!(!left.contains("siding"), "{}", left);
        // Where the person's own place was there before, it is as if siding never had been.
        let value = |text: &str| Json::read(text, Dialect::Loose).expect("JSON").get(&[]);
        let had = Json::read(&text, Dialect::Loose).expect("JSON");
        if top || had.get(&[Step::Key("hooks"), Step::Key(event)]).is_some() {
            prop_assert_eq!(value(&left), value(&edit(text)));
        }
    }
}
