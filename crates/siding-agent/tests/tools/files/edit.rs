//! `edit_file` on real files: the written content, the diff, and the edits that are refused.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

use serde_json::json;

use super::workspace::{Workspace, assert_accepted, assert_refused};

#[test]
fn an_edit_is_written_and_shown_as_a_diff() {
    let place = Workspace::new();
    place.put_file("work/a.rs", "fn a() {}\nfn b() {}\nfn c() {}");
    std::fs::set_permissions(place.path("work/a.rs"), PermissionsExt::from_mode(0o600)).unwrap();
    let answer = place.edit("a.rs", "fn b() {}", "fn b() {\n    c();\n}").unwrap();
    let wanted = "changed `a.rs` in one place\n@@ -1,3 +1,5 @@\n fn a() {}\n-fn b() {}\n+fn b() {\n\
                  +    c();\n+}\n fn c() {}\n\\ No newline at end of file\n";
    assert_eq!(answer, wanted);
    assert_eq!(place.read_text("work/a.rs"), "fn a() {}\nfn b() {\n    c();\n}\nfn c() {}");
    assert_eq!(std::fs::metadata(place.path("work/a.rs")).unwrap().mode() & 0o777, 0o600);
    let all = json!({ "path": "a.rs", "old": "fn", "new": "pub fn", "replace_all": "true" });
    assert_accepted(place.call("edit_file", all), &["in 3 places", "+pub fn c() {}"]);
    assert_eq!(place.file_names("work"), ["a.rs"]);
}

#[test]
fn line_endings_are_preserved() {
    let place = Workspace::new();
    place.put_file("work/dos", "one\r\ntwo\r\nthree");
    place.read("dos").unwrap();
    assert_accepted(place.edit("dos", "one\ntwo", "1\n1.5\n2"), &["+1\n+1.5\n+2\n"]);
    assert_eq!(place.read_text("work/dos"), "1\r\n1.5\r\n2\r\nthree");
}

#[test]
fn a_missing_or_ambiguous_text_is_refused() {
    let place = Workspace::new();
    place.put_file("work/a", "let a = 1;\nlet a = 1;\n");
    assert_refused(
        place.edit("a", "let a", "let b"),
        &["2 times", "1\tlet a", "2\tlet a", "replace_all"],
    );
    assert_refused(place.edit("a", "let c", "let b"), &["`a` was not changed", "does not occur"]);
    assert_refused(place.edit("none", "a", "b"), &["there is no `none`"]);
    assert_eq!(place.read_text("work/a"), "let a = 1;\nlet a = 1;\n");
}

#[test]
fn an_edit_is_refused_after_the_file_changed() {
    let place = Workspace::new();
    place.put_file("work/a", "one\ntwo\n");
    symlink("a", place.path("work/link")).unwrap();
    // Reading one line through a link records the hash of the complete file.
    place.call("read_file", json!({ "path": "link", "limit": 1 })).unwrap();
    place.put_file("work/a", "one\n2\n");
    assert_refused(place.edit("a", "one", "1"), &["changed since you read it", "read it again"]);
    place.read("a").unwrap();
    assert_accepted(place.edit("a", "one", "1"), &["changed `a`"]);
    assert_accepted(place.edit("a", "1\n", "I\n"), &["changed `a`"]);
    assert_eq!(place.read_text("work/a"), "I\n2\n");
    // A file that is rewritten with the recorded content counts as unchanged.
    place.put_file("work/a", "I\n2\n");
    assert_accepted(place.edit("link", "I", "1"), &["changed `link`"]);
}
