//! A local disk without space for the output of a task on another machine.

use std::path::PathBuf;

use serde_json::json;
use siding_e2e::{Sandbox, eventually, is_root, mounts, words};

use crate::ssh_remote::SshRemote;
use crate::{numbered_lines, sandbox};

/// The output of this many lines is larger than the disk.
const LINE_COUNT: u32 = 200_000;
/// The output of this many lines is larger than the disk and the buffers of ssh together, which
/// hold 2 MiB and the content of pipes.
const MANY_LINES: u32 = 1_000_000;

/// A tmpfs of 1 MiB on the state directory, in a mount namespace of this test. It is unmounted on
/// drop.
#[derive(Debug)]
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts the tmpfs. Returns `None` and prints the reason if that is not possible.
    fn mount(sandbox: &Sandbox) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: only root can mount");
            return None;
        }
        let disk = Self(sandbox.state_dir());
        let mounted = mounts::unshare_mounts()
            .and_then(|()| mounts::mount_tmpfs(&disk.0, 0, Some("mode=700,size=1m")));
        match mounted {
            Ok(()) => Some(disk),
            Err(error) => {
                eprintln!("skipped: mounting is not permitted here: {error}");
                None
            }
        }
    }

    /// Returns whether no page is free.
    fn is_full(&self) -> bool {
        let probe = self.0.join("probe");
        let is_full = std::fs::write(&probe, "x").is_err();
        let _may_be_missing = std::fs::remove_file(&probe);
        is_full
    }

    fn enlarge(&self) {
        mounts::mount_tmpfs(&self.0, libc::MS_REMOUNT, Some("size=64m"))
            .expect("remounting succeeded");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        mounts::unmount(&self.0);
    }
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_full_disk_delays_the_output_and_loses_none() {
    let sandbox = sandbox();
    let Some(disk) = SmallDisk::mount(&sandbox) else { return };
    let remote = SshRemote::start(&sandbox);
    let id = remote.start_task(&[], &format!("seq {LINE_COUNT}; exit 5"));
    eventually("it has ended there", || !remote.remote_show(&id)["outcome"].is_null());
    eventually("the disk is full", || disk.is_full());
    assert!(remote.show(&id)["outcome"].is_null(), "the output comes before the end");
    disk.enlarge();
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 5}));
    // The assertion does not print the megabytes.
    assert!(remote.output(&id) == numbered_lines(LINE_COUNT), "the output differs");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_stop_is_carried_out_while_the_disk_is_full() {
    let sandbox = sandbox();
    let Some(disk) = SmallDisk::mount(&sandbox) else { return };
    let remote = SshRemote::start(&sandbox);
    let hang = sandbox.puppet_line(&words("mark m hang"));
    let id = remote.start_task(&[], &format!("seq {MANY_LINES}; exec {hang}"));
    let process = sandbox.wait_for_mark("m");
    eventually("the disk is full", || disk.is_full());
    let done = sandbox.siding(&["stop", &id]).run().expect_code(75);
    assert!(done.stdout_text().contains("not stopped yet"), "{done}");
    eventually("it is stopped there", || remote.remote_show(&id)["outcome"]["kind"] == "stopped");
    assert!(!process.is_alive());
    assert!(disk.is_full() && remote.show(&id)["outcome"].is_null());
    disk.enlarge();
    assert_eq!(remote.wait_outcome(&id)["kind"], "stopped");
}
