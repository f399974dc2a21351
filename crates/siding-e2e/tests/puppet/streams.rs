//! Verbs that act on streams, files and resources.

use std::time::Duration;

use siding_e2e::fill_pattern::FillPattern;
use siding_e2e::{Sandbox, is_root, processes, words};

use crate::run_puppet;

#[test]
fn fill_writes_the_planned_bytes() {
    let sandbox = Sandbox::new();
    for (args, shape, bytes) in [
        (&["fill", "200000"][..], FillPattern::Lines(80), 200_000),
        (&["fill", "10k", "--line", "33"], FillPattern::Lines(33), 10_240),
        (&["fill", "1M", "--block", "64k"], FillPattern::Blocks(65_536), 1 << 20),
    ] {
        let done = sandbox.puppet(args).run().expect_code(0);
        assert!(done.stdout == shape.bytes(0, bytes), "{args:?}: {} bytes", done.stdout.len());
    }
}

#[test]
fn stdin_is_echoed_and_its_end_announced() {
    let sandbox = Sandbox::new();
    let done = sandbox.puppet(&["--quiet", "read-stdin"]).stdin("a\0b").run().expect_code(0);
    assert_eq!(done.stdout, b"a\0b");
    assert_eq!(sandbox.wait_for_announcement("eof").field::<u64>("bytes"), 3);
    let mut running = sandbox.puppet(&["--quiet", "read-stdin"]).stdin_pipe().spawn();
    running.write_stdin(b"one");
    let _text = running.wait_for_stdout("one");
    running.close_stdin();
    assert_eq!(running.wait().expect_code(0).stdout_text(), "one");
}

#[test]
fn reopening_or_truncating_stdout_changes_a_regular_file() {
    let sandbox = Sandbox::new();
    for (verbs, expected) in [
        (&["reopen", "/dev/stdout", "new"][..], "new\n"),
        (&["reopen-append", "/proc/self/fd/1", "new"], "old\nnew\n"),
        (&["reopen-rw", "/dev/fd/1", "new"], "new\n"),
        (&["truncate", "/dev/stdout"], ""),
        (&["ftruncate", "1"], ""),
        (&["rewind", "1", "xx"], "xx\n\n"),
    ] {
        let file = sandbox.path("out");
        let target = std::fs::File::create(&file).expect("test file");
        let script = [&["--quiet", "write", "old\n"], verbs].concat();
        let _done = sandbox.puppet(&script).stdout_to(target).run().expect_code(0);
        let found = std::fs::read_to_string(&file).expect("test file");
        assert_eq!(found, expected, "{verbs:?}");
    }
}

#[test]
fn failed_file_step_is_announced_and_the_script_continues() {
    let sandbox = Sandbox::new();
    let _done = sandbox.puppet(&words("ftruncate 1 chmod 600 /nowhere exit 3")).run();
    assert_eq!(sandbox.wait_for_announcement("ftruncate").field::<i32>("error"), 22);
    assert_eq!(sandbox.wait_for_announcement("chmod").field::<i32>("error"), 2);
    assert_eq!(sandbox.wait_for_announcement("exit").field::<i32>("code"), 3);
}

#[test]
fn remove_honors_directory_permissions() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("dir");
    std::fs::create_dir(&dir).expect("test directory");
    let dir_text = dir.display().to_string();
    let _done = sandbox.puppet(&["chmod", "0", &dir_text, "remove", &dir_text]).run();
    assert!(sandbox.wait_for_announcement("remove").fields.contains_key("error") != is_root());
}

#[test]
fn closefds_closes_all_descriptors() {
    let sandbox = Sandbox::new();
    let running = sandbox.puppet(&["closefds", "mark", "bare", "hang"]).spawn();
    let bare = sandbox.wait_for_mark("bare");
    assert_eq!(processes::descriptors(bare.pid), vec![]);
    drop(running);
}

#[test]
fn puppet_inherits_only_stdio_cwd_and_birthmark() {
    let sandbox = Sandbox::new();
    let _done = sandbox.puppet(&["report"]).run().expect_code(0);
    let report = sandbox.wait_for_announcement("report");
    let text = &report.fields["text"];
    let fds: Vec<&str> = text.split(' ').skip(1).collect();
    assert_eq!(fds.len(), 3, "{text}");
    assert_eq!(fds[0], "0=/dev/null");
    let mark = processes::read_birthmark(std::process::id());
    assert_eq!(report.fields["birthmark"], mark.map_or("none".to_owned(), |mark| mark.to_string()));
    assert!(text.starts_with(format!("cwd={}", sandbox.path("").display()).trim_end_matches("/")));
}

#[test]
fn puppet_holds_descriptors_memory_and_a_port() {
    let sandbox = Sandbox::new();
    let port_file = sandbox.path("port");
    let port_text = port_file.display().to_string();
    let verbs = ["hold-fds", "100", "grow", "32M", "listen", &port_text, "mark", "full", "hang"];
    let _keeps_alive = sandbox.puppet(&verbs).spawn();
    let full = sandbox.wait_for_mark("full");
    assert_eq!(sandbox.wait_for_announcement("hold-fds").field::<u64>("held"), 100);
    assert!(processes::descriptors(full.pid).len() >= 104);
    let status = std::fs::read_to_string(format!("/proc/{}/status", full.pid))
        .expect("the process is alive");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("memory");
    let resident: u64 = resident.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(resident > 32 << 10, "{resident} kB");
    let port: u16 =
        std::fs::read_to_string(&port_file).expect("test file").parse().expect("a port");
    let _connection =
        std::net::TcpStream::connect(("127.0.0.1", port)).expect("a listener on the port");
}

/// If the hard limit for descriptors is below the requested number, `hold-fds` opens as many as the
/// limit allows except one, and the script continues. An unprivileged process cannot raise its hard
/// limit, whose default in the kernel is 4,096.
#[test]
fn hold_fds_continues_at_the_descriptor_limit() {
    let sandbox = Sandbox::new();
    let line = sandbox.puppet_line(&words("hold-fds 100 mark full"));
    let script = format!("ulimit -n 32; exec {line}");
    let _done = sandbox.host("bash", &["-c", &script]).run().expect_code(0);
    let held = sandbox.wait_for_announcement("hold-fds").field::<u64>("held");
    assert!((20..32).contains(&held), "{held}");
    let _continued = sandbox.wait_for_mark("full");
}

#[test]
fn burn_lasts_as_long_as_requested() {
    let done = run_puppet(&words("burn --for 50 sleep 50 exit 1")).expect_code(1);
    assert!(done.elapsed >= Duration::from_millis(100), "{done}");
}
