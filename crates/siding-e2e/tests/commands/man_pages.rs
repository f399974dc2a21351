//! The manual pages of `siding man`.

use std::collections::BTreeSet;

use crate::support::{list_subcommands, run_ok, run_refused, sandbox, write};

#[test]
fn every_command_has_a_man_page() {
    let sandbox = sandbox();
    let names = list_subcommands(&sandbox, &[]);
    assert!(names.len() >= 14 && names.contains(&"reap".to_owned()), "{names:?}");
    for name in &names {
        let page = run_ok(&sandbox, &["man", name]).stdout_text();
        assert!(page.contains(&format!(".TH siding-{name} 1 ")), "{page}");
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH EXAMPLES"), "{name}: {page}");
    }
    let page = run_ok(&sandbox, &["man", "session", "open"]).stdout_text();
    assert!(page.contains("owner\\-pid"), "{page}");
    let page = run_ok(&sandbox, &["man"]).stdout_text();
    // The pages escape hyphens, because roff would print unescaped ones as typographic hyphens.
    let listed =
        |name: &String| page.contains(&format!("siding\\-{}(1)", name.replace('-', "\\-")));
    assert!(names.iter().all(listed), "{page}");
}

/// The examples are in a literal section, because roff joins the lines of ordinary text, and joined
/// examples could not be copied.
#[test]
fn examples_are_printed_literally() {
    let sandbox = sandbox();
    let help = run_ok(&sandbox, &["run", "--help"]).stdout_text();
    let examples = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    let examples: Vec<&str> = examples.take_while(|line| !line.is_empty()).collect();
    assert!(examples.len() >= 7, "{help}");
    let page = run_ok(&sandbox, &["man", "run"]).stdout_text();
    let (_, literal) = page.split_once(".SH EXAMPLES\n.EX\n").expect("a literal section");
    let (literal, rest) = literal.split_once(".EE\n").expect("the section ends");
    let shown = literal.replace("\\-", "-").replace("\\*(Aq", "'");
    let typed: Vec<&str> = examples.iter().map(|line| line.trim_start()).collect();
    assert_eq!(shown.lines().collect::<Vec<_>>(), typed);
    assert!(rest.contains(".SH \"EXIT STATUS\"\nthe command"), "{rest}");
    assert!(!page.contains(".SH EXTRA"), "{page}");
}

#[test]
fn man_dir_writes_all_pages() {
    let sandbox = sandbox();
    let _written = run_ok(&sandbox, &["man", "--dir", "share/man1"]);
    let mut wanted = BTreeSet::from(["siding.1".to_owned()]);
    for name in list_subcommands(&sandbox, &[]) {
        wanted.insert(format!("siding-{name}.1"));
        for below in list_subcommands(&sandbox, &[&name]) {
            wanted.insert(format!("siding-{name}-{below}.1"));
        }
    }
    let dir = sandbox.path("share/man1");
    let written: BTreeSet<String> = std::fs::read_dir(&dir)
        .expect("the file exists")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    assert_eq!(written, wanted);
    for name in written {
        let page = std::fs::read_to_string(dir.join(&name)).expect("text");
        assert!(page.contains(".SH NAME"), "{name}: {page}");
    }
    // A second call overwrites the pages, as an update of siding does.
    let _written = run_ok(&sandbox, &["man", "--dir", "share/man1"]);
}

#[test]
fn an_unknown_man_page_is_rejected_with_the_known_commands() {
    let sandbox = sandbox();
    let err = run_refused(&sandbox, &["man", "rum"]);
    assert!(err.contains("no command `rum`") && err.contains("run, ps"), "{err}");
    let err = run_refused(&sandbox, &["man", "session", "shut"]);
    assert!(err.contains("`siding session` has no command `shut`"), "{err}");
    assert!(err.contains("open, close, list"), "{err}");
    write(&sandbox, "file", "");
    let err = run_refused(&sandbox, &["man", "--dir", "file"]);
    assert!(err.contains("`file`") && err.contains("hint: "), "{err}");
}
