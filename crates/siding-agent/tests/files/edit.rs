//! `edit_file`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};

use serde_json::json;

use super::place::{Place, refused, said};

#[test]
fn a_change_is_made_and_shown() {
    let place = Place::new();
    place.put("work/a.rs", "fn a() {}\nfn b() {}\nfn c() {}");
    std::fs::set_permissions(place.at("work/a.rs"), PermissionsExt::from_mode(0o600)).unwrap();
    let answer = place.edit("a.rs", "fn b() {}", "fn b() {\n    c();\n}").unwrap();
    let wanted = "changed `a.rs` in one place\n@@ -1,3 +1,5 @@\n fn a() {}\n-fn b() {}\n+fn b() {\n\
                  +    c();\n+}\n fn c() {}\n\\ No newline at end of file\n";
    assert_eq!(answer, wanted);
    assert_eq!(place.text("work/a.rs"), "fn a() {}\nfn b() {\n    c();\n}\nfn c() {}");
    assert_eq!(std::fs::metadata(place.at("work/a.rs")).unwrap().mode() & 0o777, 0o600);
    let all = json!({ "path": "a.rs", "old": "fn", "new": "pub fn", "replace_all": "true" });
    said(place.call("edit_file", all), &["in 3 places", "+pub fn c() {}"]);
    assert_eq!(place.names("work"), ["a.rs"]);
}

#[test]
fn line_endings_stay() {
    let place = Place::new();
    place.put("work/dos", "one\r\ntwo\r\nthree");
    place.read("dos").unwrap();
    said(place.edit("dos", "one\ntwo", "1\n1.5\n2"), &["+1\n+1.5\n+2\n"]);
    assert_eq!(place.text("work/dos"), "1\r\n1.5\r\n2\r\nthree");
}

#[test]
fn what_is_not_there_once_is_refused() {
    let place = Place::new();
    place.put("work/a", "let a = 1;\nlet a = 1;\n");
    refused(place.edit("a", "let a", "let b"), &["2 times", "1\tlet a", "2\tlet a", "replace_all"]);
    refused(place.edit("a", "let c", "let b"), &["`a` was not changed", "not there"]);
    refused(place.edit("none", "a", "b"), &["there is no `none`"]);
    assert_eq!(place.text("work/a"), "let a = 1;\nlet a = 1;\n");
}

#[test]
fn what_changed_since_it_was_read_is_not_changed() {
    let place = Place::new();
    place.put("work/a", "one\ntwo\n");
    symlink("a", place.at("work/link")).unwrap();
    // A part of it, by another name: all of it is meant.
    place.call("read_file", json!({ "path": "link", "limit": 1 })).unwrap();
    place.put("work/a", "one\n2\n");
    refused(place.edit("a", "one", "1"), &["changed since you read it", "read it again"]);
    place.read("a").unwrap();
    said(place.edit("a", "one", "1"), &["changed `a`"]);
    said(place.edit("a", "1\n", "I\n"), &["changed `a`"]);
    assert_eq!(place.text("work/a"), "I\n2\n");
    // The same content is the same, whoever wrote it.
    place.put("work/a", "I\n2\n");
    said(place.edit("link", "I", "1"), &["changed `link`"]);
}
