//! `write_file`.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;
use siding_agent::provider::Cancel;
use siding_agent::tool::Toolbox;

use super::place::{Place, refused, said, scene};
use crate::tiny::Tiny;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("it is there").mode() & 0o7777
}

fn is_root() -> bool {
    siding_core::sys::process::effective_uid() == 0
}

#[test]
fn a_new_file_is_made_with_what_is_missing_above() {
    let place = Place::new();
    let answer = place.write("a/b/c.txt", "one\ntwo").unwrap();
    assert_eq!(answer, "made `a/b/c.txt`: 2 lines, 7 bytes");
    assert_eq!(place.text("work/a/b/c.txt"), "one\ntwo");
    assert_eq!(place.write("empty", "").unwrap(), "made `empty`: 0 lines, 0 bytes");
    assert_eq!(place.write("one", "a\n").unwrap(), "made `one`: 1 line, 2 bytes");
    // As any other program of the user would make it.
    std::fs::write(place.at("work/plain"), "").unwrap();
    assert_eq!(mode(&place.at("work/one")), mode(&place.at("work/plain")));
    assert_eq!(place.names("work"), ["a", "empty", "one", "plain"]);
    refused(place.write("new/../x", "a"), &[]);
    refused(place.write("new/", "a"), &["is a directory"]);
    refused(
        place.call("write_file", json!({ "path": "p", "content": {} })),
        &["`content`", "a text"],
    );
}

#[test]
fn what_is_there_is_replaced_and_keeps_its_permissions() {
    let place = Place::new();
    place.put("work/run.sh", "old content\n");
    std::fs::set_permissions(place.at("work/run.sh"), PermissionsExt::from_mode(0o751)).unwrap();
    let answer = place.write("run.sh", "new\n").unwrap();
    assert_eq!(answer, "replaced `run.sh`, which had 12 bytes: 1 line, 4 bytes");
    assert_eq!(place.text("work/run.sh"), "new\n");
    assert_eq!(mode(&place.at("work/run.sh")), 0o751);
    assert_eq!(place.names("work"), ["run.sh"]);
    std::fs::hard_link(place.at("work/run.sh"), place.at("work/other")).unwrap();
    said(place.write("run.sh", "newer\n"), &["hard links"]);
    assert_eq!(place.text("work/other"), "new\n");
}

#[test]
fn whoever_reads_meanwhile_finds_all_or_nothing() {
    let place = Place::new();
    place.put("work/a", "old");
    let mut open = std::fs::File::open(place.at("work/a")).unwrap();
    place.write("a", "new").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut open, &mut text).unwrap();
    assert_eq!(text, "old", "it was not written into");
}

#[test]
fn the_owner_stays_where_the_system_allows_it() {
    if !is_root() {
        eprintln!("left out: needs root");
        return;
    }
    let place = Place::new();
    place.put("work/a", "old");
    std::os::unix::fs::chown(place.at("work/a"), Some(1234), Some(4321)).unwrap();
    std::fs::set_permissions(place.at("work/a"), PermissionsExt::from_mode(0o4755)).unwrap();
    place.write("a", "new").unwrap();
    let facts = std::fs::metadata(place.at("work/a")).unwrap();
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o7777), (1234, 4321, 0o4755));
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let place = Place::new();
    place.put("work/real/a", "old");
    symlink("real/a", place.at("work/link")).unwrap();
    symlink("link", place.at("work/twice")).unwrap();
    symlink("real/none", place.at("work/dangling")).unwrap();
    said(place.write("twice", "new"), &["replaced `twice`"]);
    assert_eq!(place.text("work/real/a"), "new");
    assert!(place.at("work/link").symlink_metadata().unwrap().is_symlink());
    said(place.write("dangling", "x"), &["made `dangling`"]);
    assert_eq!(place.text("work/real/none"), "x");
}

#[test]
fn what_changed_since_it_was_read_is_not_replaced() {
    let place = Place::new();
    place.put("work/a", "one\n");
    place.read("a").unwrap();
    place.put("work/a", "two\n");
    refused(place.write("a", "three\n"), &["changed since you read it", "read it again"]);
    assert_eq!(place.text("work/a"), "two\n");
    place.read("a").unwrap();
    said(place.write("a", "three\n"), &["replaced"]);
    said(place.write("a", "four\n"), &["replaced"]);
}

#[test]
fn what_may_not_be_written_is_left_alone() {
    if is_root() {
        eprintln!("left out: root may write anywhere");
        return;
    }
    let place = Place::new();
    place.put("work/shut/a", "old");
    place.put("work/locked", "old");
    let set = |path, mode| {
        std::fs::set_permissions(place.at(path), PermissionsExt::from_mode(mode)).unwrap();
    };
    set("work/locked", 0o444);
    set("work/shut", 0o555);
    let outcomes = ["shut/a", "shut/b", "shut/c/d"].map(|path| place.write(path, "new"));
    let names = place.names("work/shut");
    // So that it can be removed.
    set("work/shut", 0o755);
    for outcome in outcomes {
        refused(outcome, &["could not", "denied"]);
    }
    assert_eq!(names, ["a"]);
    refused(place.write("locked", "new"), &["write-protected"]);
    refused(place.edit("locked", "old", "new"), &["write-protected"]);
    assert_eq!(
        (place.text("work/locked"), place.text("work/shut/a")),
        ("old".into(), "old".into())
    );
}

#[test]
fn a_full_disk_loses_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.at("work/tiny")).unwrap();
    let Some(_tiny) = Tiny::mount(place.at("work/tiny")) else { return };
    // The directory was opened before something was mounted on it.
    let scene = scene(&place.at("work/tiny"), &[]);
    let tools = Toolbox::new().with_files();
    let write = |content: String| {
        let input = json!({ "path": "a", "content": content });
        tools.run(&scene, "write_file", input, &Cancel::default())
    };
    said(write("old\n".repeat(1_000)), &["made"]);
    refused(write("new\n".repeat(50_000)), &["could not write `a`", "No space left"]);
    assert_eq!(place.text("work/tiny/a"), "old\n".repeat(1_000));
    assert_eq!(place.names("work/tiny"), ["a"]);
}
