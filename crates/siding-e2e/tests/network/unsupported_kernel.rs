//! Kernels that cannot enforce a policy. On such a kernel, no command runs with this policy, and
//! the error names the missing feature.

use siding_e2e::{ProgramOutput, Sandbox, is_root};

use crate::support::root_and_user_sandboxes;

/// Runs a task with this policy while the system call `missing` fails with `ENOSYS`, as on a kernel
/// without that call.
fn run_without_syscall(sandbox: &Sandbox, policy: &str, missing: libc::c_long) -> ProgramOutput {
    let args = ["run", "--net", policy, "--", "touch started"];
    sandbox.siding(&args).without_syscalls(&[missing]).run()
}

#[track_caller]
fn check_state(doctor: &ProgramOutput, name: &str) -> String {
    let checks = doctor.json()["checks"].as_array().expect("a list").clone();
    let found = checks.iter().find(|check| check["name"] == name);
    found.expect("the check is listed")["state"].as_str().expect("a state").to_owned()
}

#[test]
fn an_unenforceable_policy_is_rejected_before_anything_starts() {
    let namespaces = ["none", "loopback"];
    for sandbox in root_and_user_sandboxes() {
        for (missing, policies, works) in [
            (
                libc::SYS_unshare,
                &namespaces[..],
                "this machine can enforce `--net host`, `--net ports:443`",
            ),
            (libc::SYS_landlock_create_ruleset, &["ports:443"], "`--net loopback`, `--net none`"),
            (libc::SYS_landlock_restrict_self, &["ports:443"], "`--net loopback`, `--net none`"),
        ] {
            for policy in policies {
                let refused = run_without_syscall(&sandbox, policy, missing).expect_code(125);
                let message =
                    format!("the network policy `{policy}` cannot be enforced here: could");
                assert!(refused.stderr_text().contains(&message), "{refused}");
                let line = refused.stderr_text().split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(line.contains("nothing was started") && line.contains(works), "{refused}");
                let doctor =
                    sandbox.siding(&["doctor", "--json"]).without_syscalls(&[missing]).run();
                let name = format!("--net {}", policy.split(':').next().expect("a text"));
                assert_eq!(check_state(&doctor, &name), "missing", "{doctor}");
            }
        }
        assert!(!sandbox.path("started").exists());
        assert!(sandbox.task_ids().is_empty(), "no task may be recorded");
    }
}

/// An ordinary user cannot use the policy `none` on a machine that allows no user namespaces
/// (`max_user_namespaces` is 0).
#[test]
fn net_none_is_rejected_without_user_namespaces() {
    if !is_root() {
        println!("left out: this test needs root");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(1001);
    sandbox.expect_clean();
    let line = sandbox.siding_line(&["run", "--net", "none", "--", "touch started"]);
    let script = format!(
        "echo 0 >/proc/sys/user/max_user_namespaces && \
         exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all {line}"
    );
    let args =
        ["--user", "--map-user=1001", "--map-group=1001", "--keep-caps", "sh", "-c", &script];
    let refused = sandbox.host("unshare", &args).run();
    if refused.stderr_text().contains("unshare:") {
        println!("left out: no user namespaces here: {refused}");
        return;
    }
    let refused = refused.expect_code(125);
    assert!(refused.stderr_text().contains("user.max_user_namespaces is 0"), "{refused}");
    assert!(!sandbox.path("started").exists());
}
