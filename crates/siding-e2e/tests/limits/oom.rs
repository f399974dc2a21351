//! Kills by the kernel's OOM killer. siding attributes a SIGKILL to the OOM killer only if there is
//! evidence.

use std::path::{Path, PathBuf};

use crate::support::sandbox;

/// Mount point of the memory controller and name of a group's limit file, for cgroup v1 and for
/// cgroup v2.
const CGROUP_MOUNTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A control group with a limit of 60 MB of memory. Dropping this value removes the group, which is
/// then empty because the test waits for its tasks.
struct SmallMemoryCgroup(PathBuf);

impl SmallMemoryCgroup {
    /// Creates a group. Returns `None` if the system has no writable memory controller.
    fn new() -> Option<Self> {
        CGROUP_MOUNTS.into_iter().find_map(|(mount, limit)| {
            let dir = Path::new(mount).join(format!("siding-test-{}", std::process::id()));
            std::fs::create_dir(&dir).ok()?;
            let small = Self(dir);
            std::fs::write(small.0.join(limit), "60000000").ok()?;
            // With swap enabled, the kernel would swap the excess out instead of killing.
            let _best_effort = std::fs::write(small.0.join("memory.swap.max"), "0");
            let _best_effort = std::fs::write(small.0.join("memory.swappiness"), "0");
            Some(small)
        })
    }
}

impl Drop for SmallMemoryCgroup {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir(&self.0);
    }
}

/// Promise P98: the outcome of a task that the OOM killer ended names `oom`; the outcome of a task
/// that ended by any other SIGKILL does not.
#[test]
fn an_oom_kill_is_reported_as_oom_and_another_kill_is_not() {
    let Some(small) = SmallMemoryCgroup::new() else {
        eprintln!("left out: no control group with a memory limit can be made here");
        return;
    };
    let sandbox = sandbox();
    let enter = format!("echo $$ > {}/cgroup.procs", small.0.display());
    let grows = sandbox.puppet_line(&["grow", "300M", "hang"]);
    let args = ["run", "--json", "--", &format!("{enter}; exec {grows}")];
    let killed = sandbox.siding(&args).run().expect_code(137).json();
    let outcome = serde_json::json!({ "kind": "signaled", "signal": "SIGKILL", "by": "oom" });
    assert_eq!(killed["outcome"], outcome, "{killed:#}");
    assert!(killed["message"].as_str().is_some_and(|text| text.contains("memory ran out")));
    let memory = killed["usage"]["memory_bytes"].as_u64().expect("a known limit");
    assert!((20_000_000..70_000_000).contains(&memory), "{memory}");
    let other = sandbox.siding(&["run", "--json", "--", "kill -9 $$"]).run().expect_code(137);
    assert!(other.json()["outcome"]["by"].is_null(), "{}", other.stdout_text());
}
