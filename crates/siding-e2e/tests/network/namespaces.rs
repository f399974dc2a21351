//! The policies `none` and `loopback`, each of which gives a task its own network namespace.

use siding_e2e::eventually;

use crate::support::{
    CountingServer, connect_command, kill_shim_and_wait_for_takeover, root_and_user_sandboxes,
    run_with_policy, show_task, start_with_policy,
};

/// Promise P102: tasks with `none` or `loopback` cannot connect to a server outside.
#[test]
fn net_none_and_net_loopback_block_outside_connections() {
    for sandbox in root_and_user_sandboxes() {
        let server = CountingServer::start();
        let text = connect_command(server.port);
        let _reached = run_with_policy(&sandbox, "host", &text).expect_code(0);
        eventually("the listener accepts a connection", || server.accepted() == 1);
        for (policy, why) in
            [("none", "Network is unreachable"), ("loopback", "Connection refused")]
        {
            let refused = run_with_policy(&sandbox, policy, &text).expect_code(1);
            assert!(refused.stdout_text().contains(why), "{refused}");
            let words = ["run", "--net", policy, "--", "bash", "-c", &text];
            let _refused = sandbox.siding(&words).run().expect_code(1);
        }
        assert_eq!(server.accepted(), 1, "another connection was accepted");
    }
}

#[test]
fn net_loopback_brings_lo_up_and_net_none_does_not() {
    for sandbox in root_and_user_sandboxes() {
        let puppet = sandbox.puppet_line(&["--quiet", "listen", "port", "hang"]);
        let text = format!(
            "{puppet} & while [ ! -e port ]; do sleep .02; done; \
             (: <>/dev/tcp/127.0.0.1/$(cat port)); code=$?; kill %1; exit $code"
        );
        let _talks_to_itself = run_with_policy(&sandbox, "loopback", &text).expect_code(0);
        std::fs::remove_file(sandbox.path("port")).expect("the file exists");
        let _not_even_that = run_with_policy(&sandbox, "none", &text).expect_code(1);
    }
}

#[test]
fn net_none_keeps_uid_gid_and_file_ownership() {
    for sandbox in root_and_user_sandboxes() {
        let text = "id -u; id -g; stat -c '%u %a' .; touch made; stat -c %u made; rm made";
        let with = |policy| run_with_policy(&sandbox, policy, text).expect_code(0).stdout_text();
        assert_eq!(with("none"), with("host"));
    }
}

/// Promise P102: a process that has left the task's session and its parent process stays confined,
/// even after a takeover.
#[test]
fn a_daemon_stays_confined_after_takeover() {
    for sandbox in root_and_user_sandboxes() {
        let server = CountingServer::start();
        let tries = format!(
            "(setsid bash -c '(while [ ! -e go ]; do sleep .02; done; {}; \
             echo $? >result.new; mv result.new result) &' &); sleep 300",
            connect_command(server.port)
        );
        let id = start_with_policy(&sandbox, "none", &tries);
        assert_eq!(show_task(&sandbox, &id)["net"], "none");
        kill_shim_and_wait_for_takeover(&sandbox, &id);
        std::fs::write(sandbox.path("go"), "").expect("test directory");
        let result = || std::fs::read_to_string(sandbox.path("result")).ok();
        eventually("the daemon has tried", || result().is_some());
        assert_eq!((result().as_deref(), server.accepted()), (Some("1\n"), 0));
        let text = sandbox.siding(&["show", &id]).run().expect_code(0).stdout_text();
        assert!(text.contains("network      none\n"), "{text}");
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    }
}
