//! `read_file`.

use std::os::unix::net::UnixListener;

use serde_json::json;
use siding_agent::provider::Cancel;
use siding_agent::tool::Toolbox;
use siding_core::sys::file;

use super::place::{Place, refused, said, scene};

#[test]
fn a_file_is_shown_with_numbers() {
    let place = Place::new();
    place.put("work/src/a.rs", "fn a() {\n\tb();\n}\n");
    assert_eq!(place.read("src/a.rs").unwrap(), "1\tfn a() {\n2\t\tb();\n3\t}\n");
    let absolute = place.at("work/src/a.rs");
    assert_eq!(place.read(absolute.to_str().unwrap()), place.read("src/a.rs"));
    let part = place.call("read_file", json!({ "path": "src/a.rs", "offset": "2", "limit": 1 }));
    assert_eq!(part.unwrap(), "2\t\tb();\n[lines 2 to 2 of 3; go on with `offset` 3]\n");
}

#[test]
fn ends_are_said() {
    let place = Place::new();
    place.put("work/empty", "");
    assert_eq!(place.read("empty").unwrap(), "[`empty` is empty]");
    place.put("work/open", "a\r\nb");
    said(place.read("open"), &["1\ta\n2\tb\n", "no newline at the end", "CR LF"]);
    let beyond = place.call("read_file", json!({ "path": "open", "offset": 3 }));
    refused(beyond, &["`open` has 2 lines", "no line 3"]);
    place.put("work/long", "line\n".repeat(5_000));
    said(
        place.read("long"),
        &["\n2000\tline\n[lines 1 to 2000 of 5000; go on with `offset` 2001]\n"],
    );
    place.put("work/wide", format!("{}\n", "x".repeat(1_999)).repeat(100));
    said(place.read("wide"), &["of 100, as many as fit into 64 KiB; go on with `offset` 33]"]);
}

#[test]
fn a_line_of_100_megabytes_is_cut() {
    let place = Place::new();
    place.put("work/big", vec![b'x'; 100_000_000]);
    let text = said(place.read("big"), &["[… 99998000 more bytes in this line]", "no newline"]);
    assert!(text.len() < 3_000, "{}", text.len());
    refused(place.edit("big", "x", "y"), &["larger than 8 MiB"]);
}

#[test]
fn what_follows_in_a_large_file_is_not_read() {
    let place = Place::new();
    // Mostly a hole: 1 TB could not be read.
    place.put("work/huge", "line\n".repeat(3_000_000));
    let huge = std::fs::File::options().write(true).open(place.at("work/huge")).unwrap();
    if huge.set_len(1 << 40).is_err() {
        eprintln!("left out: this file system has no files of 1 TB");
        return;
    }
    said(place.read("huge"), &["lines 1 to 2000 of a file that is longer", "`offset` 2001"]);
    let cancel = Cancel::default();
    cancel.set();
    let tools = Toolbox::new().with_files();
    let scene = scene(&place.at("work"), &[]);
    let deep = json!({ "path": "huge", "offset": 9_000_000 });
    refused(tools.run(&scene, "read_file", deep, &cancel), &["given up"]);
}

#[test]
fn what_is_no_text_is_named() {
    let place = Place::new();
    place.put("work/program", b"\x7fELF\x02\0\0");
    refused(place.read("program"), &["no text (a program)", "7 bytes", "`file` or `xxd`"]);
    place.put("work/utf16", b"\xff\xfea\0b\0");
    refused(place.read("utf16"), &["UTF-16", "iconv"]);
    place.put("work/latin", b"caf\xe9\n");
    said(place.read("latin"), &["1\tcaf\\xe9\n", "no UTF-8"]);
    refused(place.edit("program", "ELF", "elf"), &["zero bytes"]);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let place = Place::new();
    let work = file::open_directory(&place.at("work")).unwrap();
    file::create_fifo(&work, "fifo").unwrap();
    let _listener = UnixListener::bind(place.at("work/socket")).unwrap();
    for (path, what) in [("fifo", "a FIFO"), ("socket", "a socket")] {
        refused(place.read(path), &[what, "not opened"]);
        refused(place.edit(path, "a", "b"), &[what]);
        refused(place.write(path, "a"), &[what]);
    }
    std::fs::create_dir(place.at("work/sub")).unwrap();
    for path in ["sub", "sub/", ".", "sub/..", "sub/."] {
        refused(place.read(path), &["is a directory", "`ls`"]);
        refused(place.write(path, "a"), &["is a directory"]);
    }
    let work = place.at("work");
    refused(place.read(work.to_str().unwrap()), &["is a directory"]);
}

#[test]
fn devices_are_not_opened() {
    let place = Place::new();
    let tools = Toolbox::new().with_files();
    let scene = scene(&place.at("work"), &["/dev".into()]);
    for path in ["/dev/null", "/dev/zero", "/dev/tty"] {
        let outcome = tools.run(&scene, "read_file", json!({ "path": path }), &Cancel::default());
        if std::fs::symlink_metadata(path).is_ok() {
            refused(outcome, &["a device"]);
        }
    }
}

#[test]
fn a_path_that_names_nothing_is_refused() {
    let place = Place::new();
    let work = place.at("work");
    refused(place.read("none.rs"), &["there is no `none.rs`", work.to_str().unwrap()]);
    refused(place.read("none/a.rs"), &["there is no `none/a.rs`"]);
    refused(place.read(""), &["no path"]);
    refused(place.read("a\0b"), &["no path"]);
    refused(place.read("~/a"), &["`~` is not known"]);
    place.put("work/file", "");
    refused(place.read("file/a"), &["could not reach `file/a`"]);
    refused(place.call("read_file", json!({ "file": "a" })), &["`file`", "`path`"]);
    refused(place.call("reed_file", json!({})), &["no tool `reed_file`", "read_file"]);
}
