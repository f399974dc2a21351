//! Tests that the tools cannot leave the allowed directories.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::workspace::{Workspace, assert_accepted, assert_refused};

#[track_caller]
fn assert_outside(place: &Workspace, path: &str) {
    let parts = ["leads out of", "--allow-path"];
    assert_refused(place.read(path), &parts);
    assert_refused(place.write(path, "mine"), &parts);
    assert_refused(place.edit(path, "secret", "mine"), &parts);
}

#[test]
fn files_outside_the_allowed_roots_are_not_accessed() {
    let place = Workspace::new();
    place.put_file("secret/a", "secret");
    place.put_file("work/sub/x", "");
    symlink("../secret", place.path("work/out")).unwrap();
    symlink("../secret/a", place.path("work/file")).unwrap();
    symlink("../secret/new", place.path("work/dangling")).unwrap();
    symlink(place.path("secret"), place.path("work/absolute")).unwrap();
    symlink(place.path("secret/a"), place.path("work/absolute_file")).unwrap();
    symlink("out/a", place.path("work/twice")).unwrap();
    symlink("/proc/self/root", place.path("work/magic")).unwrap();
    let absolute = place.path("secret/a");
    let around = place.path("work/../secret/a");
    for path in [
        "../secret/a",
        "sub/../../secret/a",
        "out/a",
        "out/../secret/a",
        "file",
        "dangling",
        "absolute/a",
        "absolute_file",
        "twice",
        "out/new/deep/file",
        "../secret/new",
        "/etc/hostname",
        "/none/such",
        "magic/etc/hostname",
        absolute.to_str().unwrap(),
        around.to_str().unwrap(),
    ] {
        assert_outside(&place, path);
    }
    assert_eq!(place.file_names("secret"), ["a"]);
    assert_eq!(place.read_text("secret/a"), "secret");
    // The name of this directory starts with the name of the allowed one, so a comparison of text
    // would accept it.
    place.put_file("work-2/a", "secret");
    assert_outside(&place, place.path("work-2/a").to_str().unwrap());
}

#[test]
fn a_path_that_returns_inside_is_allowed() {
    let place = Workspace::new();
    place.put_file("work/sub/a", "inside\n");
    symlink(place.path("work/sub"), place.path("work/absolute")).unwrap();
    symlink(place.path("work/sub/a"), place.path("work/file")).unwrap();
    symlink("../work/sub", place.path("work/around")).unwrap();
    symlink("..", place.path("work/sub/up")).unwrap();
    let entry = place.path("work");
    let named = entry.file_name().unwrap().to_str().unwrap();
    for path in [
        "sub/a",
        "./sub//a",
        "sub/../sub/a",
        "absolute/a",
        "file",
        "around/a",
        "sub/up/sub/a",
        &format!("../{named}/sub/a"),
        place.path("work/../work/sub/a").to_str().unwrap(),
    ] {
        assert_eq!(place.read(path).as_deref(), Ok("1\tinside\n"), "{path}");
        assert_accepted(place.write(path, "inside\n"), &["replaced"]);
    }
}

#[test]
fn the_working_directory_may_be_reached_through_a_link() {
    let place = Workspace::new();
    place.put_file("work/a", "inside\n");
    symlink("work", place.path("link")).unwrap();
    let scene = super::workspace::tool_context(&place.path("link"), &[]);
    let tools = siding_agent::tool::Toolbox::new().with_file_tools();
    for path in [place.path("link/a"), place.path("work/a"), "a".into()] {
        let input = json!({ "path": path });
        let cancel = siding_agent::cancel_flag::CancelFlag::default();
        assert_eq!(tools.run(&scene, "read_file", input, &cancel).as_deref(), Ok("1\tinside\n"));
    }
}

#[test]
fn an_additional_allowed_directory_is_accessible() {
    let place = Workspace::with_allowed(&["notes"]);
    place.put_file("notes/a", "a note\n");
    place.put_file("secret/a", "secret");
    symlink("../notes", place.path("work/notes")).unwrap();
    symlink("../secret", place.path("notes/out")).unwrap();
    for path in ["../notes/a", "notes/a", place.path("notes/a").to_str().unwrap()] {
        assert_eq!(place.read(path).as_deref(), Ok("1\ta note\n"), "{path}");
    }
    assert_accepted(place.write("notes/new/b", "b"), &["created"]);
    assert_eq!(place.read_text("notes/new/b"), "b");
    assert_outside(&place, "../secret/a");
    assert_outside(&place, "notes/out/a");
    assert_refused(place.read("../none"), &["leads out of", "work`, `"]);
}
