//! `read_file` on real files: the lines and notes that are shown, and the files that are not
//! opened.

use std::os::unix::net::UnixListener;

use serde_json::json;
use siding_agent::cancel_flag::CancelFlag;
use siding_agent::tool::Toolbox;
use siding_core::sys::file;

use super::workspace::{Workspace, assert_accepted, assert_refused, tool_context};

#[test]
fn a_file_is_shown_with_line_numbers() {
    let place = Workspace::new();
    place.put_file("work/src/a.rs", "fn a() {\n\tb();\n}\n");
    assert_eq!(place.read("src/a.rs").unwrap(), "1\tfn a() {\n2\t\tb();\n3\t}\n");
    let absolute = place.path("work/src/a.rs");
    assert_eq!(place.read(absolute.to_str().unwrap()), place.read("src/a.rs"));
    let part = place.call("read_file", json!({ "path": "src/a.rs", "offset": "2", "limit": 1 }));
    assert_eq!(part.unwrap(), "2\t\tb();\n[lines 2 to 2 of 3; continue with `offset` 3]\n");
}

#[test]
fn the_end_of_the_file_is_reported() {
    let place = Workspace::new();
    place.put_file("work/empty", "");
    assert_eq!(place.read("empty").unwrap(), "[`empty` is empty]");
    place.put_file("work/open", "a\r\nb");
    assert_accepted(place.read("open"), &["1\ta\n2\tb\n", "no newline at the end", "CR LF"]);
    let beyond = place.call("read_file", json!({ "path": "open", "offset": 3 }));
    assert_refused(beyond, &["`open` has 2 lines", "no line 3"]);
    place.put_file("work/long", "line\n".repeat(5_000));
    assert_accepted(
        place.read("long"),
        &["\n2000\tline\n[lines 1 to 2000 of 5000; continue with `offset` 2001]\n"],
    );
    place.put_file("work/wide", format!("{}\n", "x".repeat(1_999)).repeat(100));
    assert_accepted(
        place.read("wide"),
        &["of 100, as many as fit into 64 KiB; continue with `offset` 33]"],
    );
}

#[test]
fn a_line_of_100_megabytes_is_cut() {
    let place = Workspace::new();
    place.put_file("work/big", vec![b'x'; 100_000_000]);
    let text =
        assert_accepted(place.read("big"), &["[… 95.3 MiB more in this line]", "no newline"]);
    assert!(text.len() < 3_000, "{}", text.len());
    assert_refused(place.edit("big", "x", "y"), &["larger than 8 MiB"]);
}

#[test]
fn a_large_file_is_read_only_as_far_as_requested() {
    let place = Workspace::new();
    // The file is sparse and 1 TB long, so reading all of it would take too long.
    place.put_file("work/huge", "line\n".repeat(3_000_000));
    let huge = std::fs::File::options().write(true).open(place.path("work/huge")).unwrap();
    if huge.set_len(1 << 40).is_err() {
        eprintln!("left out: this file system has no files of 1 TB");
        return;
    }
    assert_accepted(
        place.read("huge"),
        &["lines 1 to 2000 of a file that was not read", "`offset` 2001"],
    );
    let cancel = CancelFlag::default();
    cancel.set();
    let tools = Toolbox::new().with_file_tools();
    let scene = tool_context(&place.path("work"), &[]);
    let deep = json!({ "path": "huge", "offset": 9_000_000 });
    assert_refused(tools.run(&scene, "read_file", deep, &cancel), &["was canceled"]);
}

#[test]
fn a_binary_file_is_refused_with_its_type() {
    let place = Workspace::new();
    place.put_file("work/program", b"\x7fELF\x02\0\0");
    assert_refused(
        place.read("program"),
        &["a binary file (a program)", "7 bytes", "`file` or `xxd`"],
    );
    place.put_file("work/utf16", b"\xff\xfea\0b\0");
    assert_refused(place.read("utf16"), &["UTF-16", "iconv"]);
    place.put_file("work/latin", b"caf\xe9\n");
    assert_accepted(place.read("latin"), &["1\tcaf\\xe9\n", "not UTF-8"]);
    assert_refused(place.edit("program", "ELF", "elf"), &["NUL bytes"]);
}

#[test]
fn special_files_are_not_opened() {
    let place = Workspace::new();
    let work = file::open_directory(&place.path("work")).unwrap();
    file::create_fifo(&work, "fifo").unwrap();
    let _keeps_alive = UnixListener::bind(place.path("work/socket")).unwrap();
    for (path, what) in [("fifo", "a FIFO"), ("socket", "a socket")] {
        assert_refused(place.read(path), &[what, "not opened"]);
        assert_refused(place.edit(path, "a", "b"), &[what]);
        assert_refused(place.write(path, "a"), &[what]);
    }
    std::fs::create_dir(place.path("work/sub")).unwrap();
    for path in ["sub", "sub/", ".", "sub/..", "sub/."] {
        assert_refused(place.read(path), &["is a directory", "`ls`"]);
        assert_refused(place.write(path, "a"), &["is a directory"]);
    }
    let work = place.path("work");
    assert_refused(place.read(work.to_str().unwrap()), &["is a directory"]);
}

#[test]
fn devices_are_not_opened() {
    let place = Workspace::new();
    let tools = Toolbox::new().with_file_tools();
    let scene = tool_context(&place.path("work"), &["/dev".into()]);
    for path in ["/dev/null", "/dev/zero", "/dev/tty"] {
        let outcome =
            tools.run(&scene, "read_file", json!({ "path": path }), &CancelFlag::default());
        if std::fs::symlink_metadata(path).is_ok() {
            assert_refused(outcome, &["a device"]);
        }
    }
}

#[test]
fn a_path_to_nothing_is_refused() {
    let place = Workspace::new();
    let work = place.path("work");
    assert_refused(place.read("none.rs"), &["there is no `none.rs`", work.to_str().unwrap()]);
    assert_refused(place.read("none/a.rs"), &["there is no `none/a.rs`"]);
    assert_refused(place.read(""), &["not a path"]);
    assert_refused(place.read("a\0b"), &["not a path"]);
    assert_refused(place.read("~/a"), &["`~` is not expanded"]);
    place.put_file("work/file", "");
    assert_refused(place.read("file/a"), &["could not reach `file/a`"]);
    assert_refused(place.call("read_file", json!({ "file": "a" })), &["`file`", "`path`"]);
    assert_refused(place.call("reed_file", json!({})), &["no tool `reed_file`", "read_file"]);
}
