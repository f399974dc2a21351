//! What keeps the tools inside.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::place::{Place, refused, said};

#[track_caller]
fn is_outside(place: &Place, path: &str) {
    let parts = ["leads out of", "--allow-path"];
    refused(place.read(path), &parts);
    refused(place.write(path, "mine"), &parts);
    refused(place.edit(path, "secret", "mine"), &parts);
}

#[test]
fn nothing_outside_is_read_or_written() {
    let place = Place::new();
    place.put("secret/a", "secret");
    place.put("work/sub/x", "");
    symlink("../secret", place.at("work/out")).unwrap();
    symlink("../secret/a", place.at("work/file")).unwrap();
    symlink("../secret/new", place.at("work/dangling")).unwrap();
    symlink(place.at("secret"), place.at("work/absolute")).unwrap();
    symlink(place.at("secret/a"), place.at("work/absolute_file")).unwrap();
    symlink("out/a", place.at("work/twice")).unwrap();
    symlink("/proc/self/root", place.at("work/magic")).unwrap();
    let absolute = place.at("secret/a");
    let around = place.at("work/../secret/a");
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
        is_outside(&place, path);
    }
    assert_eq!(place.names("secret"), ["a"]);
    assert_eq!(place.text("secret/a"), "secret");
    // A directory whose name only begins like the one that is allowed.
    place.put("work-2/a", "secret");
    is_outside(&place, place.at("work-2/a").to_str().unwrap());
}

#[test]
fn what_comes_back_inside_is_inside() {
    let place = Place::new();
    place.put("work/sub/a", "inside\n");
    symlink(place.at("work/sub"), place.at("work/absolute")).unwrap();
    symlink(place.at("work/sub/a"), place.at("work/file")).unwrap();
    symlink("../work/sub", place.at("work/around")).unwrap();
    symlink("..", place.at("work/sub/up")).unwrap();
    let entry = place.at("work");
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
        place.at("work/../work/sub/a").to_str().unwrap(),
    ] {
        assert_eq!(place.read(path).as_deref(), Ok("1\tinside\n"), "{path}");
        said(place.write(path, "inside\n"), &["replaced"]);
    }
}

#[test]
fn a_working_directory_may_be_named_through_a_link() {
    let place = Place::new();
    place.put("work/a", "inside\n");
    symlink("work", place.at("link")).unwrap();
    let scene = super::place::scene(&place.at("link"), &[]);
    let tools = siding_agent::tool::Toolbox::new().with_files();
    for path in [place.at("link/a"), place.at("work/a"), "a".into()] {
        let input = json!({ "path": path });
        let cancel = siding_agent::provider::Cancel::default();
        assert_eq!(tools.run(&scene, "read_file", input, &cancel).as_deref(), Ok("1\tinside\n"));
    }
}

#[test]
fn what_is_allowed_beside_it_is_inside() {
    let place = Place::allowing(&["notes"]);
    place.put("notes/a", "a note\n");
    place.put("secret/a", "secret");
    symlink("../notes", place.at("work/notes")).unwrap();
    symlink("../secret", place.at("notes/out")).unwrap();
    for path in ["../notes/a", "notes/a", place.at("notes/a").to_str().unwrap()] {
        assert_eq!(place.read(path).as_deref(), Ok("1\ta note\n"), "{path}");
    }
    said(place.write("notes/new/b", "b"), &["made"]);
    assert_eq!(place.text("notes/new/b"), "b");
    is_outside(&place, "../secret/a");
    is_outside(&place, "notes/out/a");
    refused(place.read("../none"), &["leads out of", "work`, `"]);
}
