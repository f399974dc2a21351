//! `siding extend`, which moves a task's deadline.

use std::time::Instant;

use siding_e2e::{Sandbox, eventually, is_root};

use crate::support::{
    HANG_COMMAND, make_file, run_ok, run_refused, run_to_end, show_task, start_task, stop_all,
    task_id, until_file_exists, wait_for_outcome,
};

/// Promise P48: a task whose deadline was extended runs past its original deadline.
#[test]
fn an_extended_task_outlives_its_first_deadline() {
    let sandbox = crate::support::sandbox();
    let id = start_task(&sandbox, &["--timeout", "3s"], &until_file_exists("go"));
    let started = Instant::now();
    let before = show_task(&sandbox, &id)["deadline_at"].clone();
    let done = run_ok(&sandbox, &["extend", &id, "10m", "--json"]).json();
    assert_ne!(done["deadline_at"], before);
    assert!(
        done["message"].as_str().is_some_and(|message| message.contains("(it was 3s)")),
        "{done}"
    );
    eventually("the first deadline has passed", || started.elapsed().as_millis() > 3_500);
    assert_eq!(show_task(&sandbox, &id)["phase"], "running");
    make_file(&sandbox, "go");
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 0);
}

#[test]
fn extend_adds_time_or_sets_the_deadline_from_the_start() {
    let sandbox = crate::support::sandbox();
    let id = start_task(&sandbox, &["--timeout", "10m"], HANG_COMMAND);
    for (args, message) in [
        (&["20m"][..], "its deadline is now 30m after its start, in 29m"),
        // `+DURATION` is added to the present deadline.
        (&["+10m"], "its deadline is now 40m after its start, in 39m"),
        (&["+10m"], "its deadline is now 50m after its start, in 49m"),
        (&["--to", "1h"], "its deadline is now 1h after its start, in 59m"),
        // `--to` can also set an earlier deadline.
        (&["--to", "5m"], "its deadline is now 5m after its start, in 4m"),
    ] {
        let out = run_ok(&sandbox, &[&["extend", &id], args].concat()).stdout_text();
        assert!(out.starts_with(&format!("{id}: {message}")), "{out}");
    }
    // Concurrent extensions all take effect.
    let calls: Vec<_> = (0..8).map(|_| sandbox.siding(&["extend", &id, "10m"]).spawn()).collect();
    calls.into_iter().for_each(|call| drop(call.wait().expect_code(0)));
    let out = run_ok(&sandbox, &["extend", &id, "0s"]).stdout_text();
    assert!(out.contains("its deadline stays 1h 25m after its start"), "{out}");
    let err = run_refused(&sandbox, &["extend", &id, "--to", "1ms"]);
    assert!(err.contains("has already passed") && err.contains("hint: "), "{err}");
    let err = run_refused(&sandbox, &["extend", &id, "5"]);
    assert!(err.contains("write `5s` for seconds"), "{err}");
    assert!(show_task(&sandbox, &id)["outcome"].is_null(), "a refused call must not end the task");
    stop_all(&sandbox);
}

/// Promise P47: an extension beyond the cap that applied at the task's start is reduced to that
/// cap, and the answer reports the reduction.
#[test]
fn an_extension_beyond_the_cap_is_clamped_and_reported() {
    let sandbox = crate::support::sandbox();
    let args = ["run", "--background", "--json", "--timeout", "10m", "--", HANG_COMMAND];
    let call = sandbox.siding(&args).env("SIDING_MAX_ELAPSED_HARD_CAP", "1h");
    let id = task_id(&call.run().expect_code(0).json());
    for message in
        ["its deadline is now 1h after its start", "its deadline stays 1h after its start"]
    {
        let out = run_ok(&sandbox, &["extend", &id, "2h"]).stdout_text().replace('\n', " ");
        assert!(out.contains(message), "{out}");
        assert!(out.contains("was cut to the cap of 1h (max_elapsed_hard_cap"), "{out}");
    }
    stop_all(&sandbox);
}

#[test]
fn extend_rejects_an_ended_task() {
    let sandbox = crate::support::sandbox();
    let id = run_to_end(&sandbox, "true");
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    let before = std::fs::read(&journal).expect("a journal");
    let err = run_refused(&sandbox, &["extend", &id, "1h"]);
    assert!(err.contains("the task has already ended"), "{err}");
    assert!(err.contains(&format!("hint: `siding show {id}`")), "{err}");
    assert_eq!(std::fs::read(&journal).expect("a journal"), before);
}

/// Promise P47: a cap that the administrator has locked cannot be exceeded by a flag, a variable, a
/// settings file or an extension. The test mounts the system's settings file in its own mount
/// namespace.
#[test]
fn a_locked_system_cap_cannot_be_exceeded() {
    let sandbox = crate::support::sandbox();
    let Some(as_administered) = LockedSystemConfig::new(&sandbox) else {
        println!("skipped: mount namespaces are unavailable here");
        return;
    };
    crate::support::write(&sandbox, ".siding/config.toml", "max_elapsed_hard_cap = \"3h\"\n");
    let run = ["run", "--background", "--json", "--timeout", "2h", "--", HANG_COMMAND];
    let started = as_administered.siding(&run);
    let id = task_id(&serde_json::from_str(&started).expect("JSON"));
    assert!(started.contains("more than the cap of `20m`"), "{started}");
    let out = as_administered.siding(&["extend", &id, "2h"]).replace('\n', " ");
    assert!(out.contains("deadline stays 20m after its start"), "{out}");
    assert!(out.contains("was cut to the cap of 20m (max_elapsed_hard_cap, system"), "{out}");
    let settings = as_administered.siding(&["config", "show"]);
    let message =
        "max_elapsed_hard_cap  20m       system /etc/siding/config.toml line 1 (locked)\n";
    assert!(settings.contains(message), "{settings}");
    stop_all(&sandbox);
}

/// Runs siding with a system settings file that locks the cap, in a mount namespace.
struct LockedSystemConfig<'s> {
    sandbox: &'s Sandbox,
}

impl<'s> LockedSystemConfig<'s> {
    /// Writes the settings file. Returns `None` if the user may not create a mount namespace.
    fn new(sandbox: &'s Sandbox) -> Option<Self> {
        let text = "max_elapsed_hard_cap = \"20m\"\nlocked = [\"max_elapsed_hard_cap\"]\n";
        crate::support::write(sandbox, "etc/siding/config.toml", text);
        let machine = Self { sandbox };
        let tried = sandbox.host("unshare", &machine.unshare_argv("true")).run();
        (tried.code == Some(0)).then_some(machine)
    }

    fn unshare_argv(&self, line: &str) -> Vec<String> {
        let user: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
        let etc = self.sandbox.path("etc");
        let line = format!("mount --bind {} /etc && exec {line}", etc.display());
        let words = [user, &["--mount", "sh", "-c", &line]].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    #[track_caller]
    fn siding(&self, args: &[&str]) -> String {
        let words = self.unshare_argv(&self.sandbox.siding_line(args));
        let call = self.sandbox.host("unshare", &words);
        call.env("SIDING_MAX_ELAPSED_HARD_CAP", "4h").run().expect_code(0).stdout_text()
    }
}
