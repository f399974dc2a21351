//! `none` and `loopback`: a network namespace.

use siding_e2e::eventually;

use crate::support::{Server, connect, replace_shim, run, sandboxes, shown, start};

/// SPEC §3, unauthorised egress.
#[test]
fn without_a_network_nothing_outside_is_reached() {
    for sandbox in sandboxes() {
        let server = Server::start();
        let text = connect(server.port);
        let _reached = run(&sandbox, "host", &text).expect_code(0);
        eventually("the listener is there", || server.taken() == 1);
        for (policy, why) in
            [("none", "Network is unreachable"), ("loopback", "Connection refused")]
        {
            let refused = run(&sandbox, policy, &text).expect_code(1);
            assert!(refused.out().contains(why), "{refused}");
            let words = ["run", "--net", policy, "--", "bash", "-c", &text];
            let _refused = sandbox.siding(&words).run().expect_code(1);
        }
        assert_eq!(server.taken(), 1, "nobody else came through");
    }
}

#[test]
fn a_loopback_of_its_own_is_up_and_none_is_not() {
    for sandbox in sandboxes() {
        let puppet = sandbox.puppet_line(&["--quiet", "listen", "port", "hang"]);
        let text = format!(
            "{puppet} & while [ ! -e port ]; do sleep .02; done; \
             (: <>/dev/tcp/127.0.0.1/$(cat port)); code=$?; kill %1; exit $code"
        );
        let _talks_to_itself = run(&sandbox, "loopback", &text).expect_code(0);
        std::fs::remove_file(sandbox.path("port")).expect("it was written");
        let _not_even_that = run(&sandbox, "none", &text).expect_code(1);
    }
}

#[test]
fn the_user_and_his_files_stay_the_same() {
    for sandbox in sandboxes() {
        let text = "id -u; id -g; stat -c '%u %a' .; touch made; stat -c %u made; rm made";
        let with = |policy| run(&sandbox, policy, text).expect_code(0).out();
        assert_eq!(with("none"), with("host"));
    }
}

/// PAINS A4: what has left its session and its parent is bound all the same, also when the shim was
/// killed and another keeps the task.
#[test]
fn a_daemon_is_bound_also_after_a_rescue() {
    for sandbox in sandboxes() {
        let server = Server::start();
        let tries = format!(
            "(setsid bash -c '(while [ ! -e go ]; do sleep .02; done; {}; \
             echo $? >result.new; mv result.new result) &' &); sleep 300",
            connect(server.port)
        );
        let id = start(&sandbox, "none", &tries);
        assert_eq!(shown(&sandbox, &id)["net"], "none");
        replace_shim(&sandbox, &id);
        std::fs::write(sandbox.path("go"), "").expect("its own directory");
        let result = || std::fs::read_to_string(sandbox.path("result")).ok();
        eventually("the daemon has tried", || result().is_some());
        assert_eq!((result().as_deref(), server.taken()), (Some("1\n"), 0));
        let text = sandbox.siding(&["show", &id]).run().expect_code(0).out();
        assert!(text.contains("network      none\n"), "{text}");
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    }
}
