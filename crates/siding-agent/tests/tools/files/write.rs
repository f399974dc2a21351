//! `write_file` on real files: atomic replacement, permissions, links, and a full disk.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;
use siding_agent::cancel_flag::CancelFlag;
use siding_agent::tool::Toolbox;

use super::workspace::{Workspace, assert_accepted, assert_refused, tool_context};
use crate::tiny::Tiny;

fn file_mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("the file exists").mode() & 0o7777
}

fn is_root() -> bool {
    siding_core::sys::process::effective_uid() == 0
}

#[test]
fn a_new_file_is_created_with_its_parent_directories() {
    let place = Workspace::new();
    let answer = place.write("a/b/c.txt", "one\ntwo").unwrap();
    assert_eq!(answer, "created `a/b/c.txt`: 2 lines, 7 bytes");
    assert_eq!(place.read_text("work/a/b/c.txt"), "one\ntwo");
    assert_eq!(place.write("empty", "").unwrap(), "created `empty`: 0 lines, 0 bytes");
    assert_eq!(place.write("one", "a\n").unwrap(), "created `one`: 1 line, 2 bytes");
    // The mode of a new file follows the umask, as for a file that the test creates itself.
    std::fs::write(place.path("work/plain"), "").unwrap();
    assert_eq!(file_mode(&place.path("work/one")), file_mode(&place.path("work/plain")));
    assert_eq!(place.file_names("work"), ["a", "empty", "one", "plain"]);
    assert_refused(place.write("new/../x", "a"), &[]);
    assert_refused(place.write("new/", "a"), &["is a directory"]);
    assert_refused(
        place.call("write_file", json!({ "path": "p", "content": {} })),
        &["`content`", "a text"],
    );
}

#[test]
fn an_existing_file_is_replaced_and_keeps_its_permissions() {
    let place = Workspace::new();
    place.put_file("work/run.sh", "old content\n");
    std::fs::set_permissions(place.path("work/run.sh"), PermissionsExt::from_mode(0o751)).unwrap();
    let answer = place.write("run.sh", "new\n").unwrap();
    assert_eq!(answer, "replaced `run.sh`, which had 12 bytes: 1 line, 4 bytes");
    assert_eq!(place.read_text("work/run.sh"), "new\n");
    assert_eq!(file_mode(&place.path("work/run.sh")), 0o751);
    assert_eq!(place.file_names("work"), ["run.sh"]);
    std::fs::hard_link(place.path("work/run.sh"), place.path("work/other")).unwrap();
    assert_accepted(place.write("run.sh", "newer\n"), &["hard links"]);
    assert_eq!(place.read_text("work/other"), "new\n");
}

#[test]
fn a_concurrent_reader_sees_the_old_or_the_new_content() {
    let place = Workspace::new();
    place.put_file("work/a", "old");
    let mut open = std::fs::File::open(place.path("work/a")).unwrap();
    place.write("a", "new").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut open, &mut text).unwrap();
    assert_eq!(text, "old", "the opened file is unchanged");
}

#[test]
fn the_owner_is_kept_where_the_system_allows_it() {
    if !is_root() {
        eprintln!("left out: needs root");
        return;
    }
    let place = Workspace::new();
    place.put_file("work/a", "old");
    std::os::unix::fs::chown(place.path("work/a"), Some(1234), Some(4321)).unwrap();
    std::fs::set_permissions(place.path("work/a"), PermissionsExt::from_mode(0o4755)).unwrap();
    place.write("a", "new").unwrap();
    let facts = std::fs::metadata(place.path("work/a")).unwrap();
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o7777), (1234, 4321, 0o4755));
}

#[test]
fn a_link_inside_the_roots_is_followed() {
    let place = Workspace::new();
    place.put_file("work/real/a", "old");
    symlink("real/a", place.path("work/link")).unwrap();
    symlink("link", place.path("work/twice")).unwrap();
    symlink("real/none", place.path("work/dangling")).unwrap();
    assert_accepted(place.write("twice", "new"), &["replaced `twice`"]);
    assert_eq!(place.read_text("work/real/a"), "new");
    assert!(place.path("work/link").symlink_metadata().unwrap().is_symlink());
    assert_accepted(place.write("dangling", "x"), &["created `dangling`"]);
    assert_eq!(place.read_text("work/real/none"), "x");
}

#[test]
fn a_write_is_refused_after_the_file_changed() {
    let place = Workspace::new();
    place.put_file("work/a", "one\n");
    place.read("a").unwrap();
    place.put_file("work/a", "two\n");
    assert_refused(place.write("a", "three\n"), &["changed since you read it", "read it again"]);
    assert_eq!(place.read_text("work/a"), "two\n");
    place.read("a").unwrap();
    assert_accepted(place.write("a", "three\n"), &["replaced"]);
    assert_accepted(place.write("a", "four\n"), &["replaced"]);
}

#[test]
fn a_write_protected_file_is_left_unchanged() {
    if is_root() {
        eprintln!("left out: root may write anywhere");
        return;
    }
    let place = Workspace::new();
    place.put_file("work/shut/a", "old");
    place.put_file("work/locked", "old");
    let set = |path, mode| {
        std::fs::set_permissions(place.path(path), PermissionsExt::from_mode(mode)).unwrap();
    };
    set("work/locked", 0o444);
    set("work/shut", 0o555);
    let outcomes = ["shut/a", "shut/b", "shut/c/d"].map(|path| place.write(path, "new"));
    let names = place.file_names("work/shut");
    // Restores the permissions, so that the directory can be removed.
    set("work/shut", 0o755);
    for outcome in outcomes {
        assert_refused(outcome, &["could not", "denied"]);
    }
    assert_eq!(names, ["a"]);
    assert_refused(place.write("locked", "new"), &["write-protected"]);
    assert_refused(place.edit("locked", "old", "new"), &["write-protected"]);
    assert_eq!(
        (place.read_text("work/locked"), place.read_text("work/shut/a")),
        ("old".into(), "old".into())
    );
}

#[test]
fn a_full_disk_loses_nothing() {
    let place = Workspace::new();
    std::fs::create_dir(place.path("work/tiny")).unwrap();
    let Some(_tiny) = Tiny::mount(place.path("work/tiny")) else { return };
    // A new context is needed: the first one opened the directory before the file system was
    // mounted on it.
    let scene = tool_context(&place.path("work/tiny"), &[]);
    let tools = Toolbox::new().with_file_tools();
    let write = |content: String| {
        let input = json!({ "path": "a", "content": content });
        tools.run(&scene, "write_file", input, &CancelFlag::default())
    };
    assert_accepted(write("old\n".repeat(1_000)), &["created"]);
    assert_refused(write("new\n".repeat(50_000)), &["could not write `a`", "No space left"]);
    assert_eq!(place.read_text("work/tiny/a"), "old\n".repeat(1_000));
    assert_eq!(place.file_names("work/tiny"), ["a"]);
}
