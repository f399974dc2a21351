//! Proxies of the policy `allow`: the task to which a proxy belongs, and the effects of a proxy's
//! exit.

use rustix::process::Signal;
use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes};

use crate::support::{
    CountingServer, proxy_connect_command, proxy_processes, root_and_user_sandboxes, show_task,
    start_with_policy, wait_for_end,
};

/// Writes a script that waits for the file `go` and then requests a tunnel to `target`.
fn write_connect_script(sandbox: &Sandbox, target: &str) {
    let text = format!("until [ -e go ]; do sleep .02; done; {}", proxy_connect_command(target));
    std::fs::write(sandbox.path("tries.sh"), text).expect("test directory");
}

/// Waits until `outer` has printed the id of the task that it has started, and returns that id.
fn wait_for_inner_task(sandbox: &Sandbox, outer: &str) -> String {
    eventually_some("the inner task has started", || {
        let output = sandbox.state_dir().join("tasks").join(outer).join("output");
        let output = std::fs::read_to_string(output).ok()?;
        // The line after the id is siding's advice.
        let (id, _advice) = output.split_once('\n')?;
        id.starts_with("b-").then(|| id.to_owned())
    })
}

/// Promise P39: the outer task neither waits for the proxy of an inner task nor stops it.
#[test]
fn the_proxy_of_an_inner_task_does_not_belong_to_the_outer_task() {
    for sandbox in root_and_user_sandboxes() {
        let server = CountingServer::start();
        let target = format!("localhost:{}", server.port);
        write_connect_script(&sandbox, &target);
        let policy = format!("allow:{target}");
        let flags = ["run", "--background", "--allow-duplicate", "--net", &policy];
        let begin = sandbox.siding_line(&[&flags[..], &["--", "bash tries.sh 2>&1"]].concat());

        let left = sandbox.siding(&["run", "--json", "--", &format!("{begin}; exit 3")]).run();
        let left = left.expect_code(3).json();
        assert_eq!(left["phase"], "ended", "{left}");
        let first = wait_for_inner_task(&sandbox, left["task_id"].as_str().expect("an id"));

        let outer = start_with_policy(&sandbox, "host", &format!("{begin}; sleep 60"));
        let second = wait_for_inner_task(&sandbox, &outer);
        let _ended = sandbox.siding(&["stop", "--grace", "0s", &outer]).run().expect_code(0);

        assert_eq!([&first, &second].map(|id| proxy_processes(id).len()), [1, 1]);
        std::fs::write(sandbox.path("go"), "").expect("test directory");
        for id in [first, second] {
            let output = wait_for_end(&sandbox, &id);
            assert!(output.contains("200 Connection established"), "{output}");
        }
    }
}

/// If the proxy exits unexpectedly, the shim records the exit, which causes a notice, even if the
/// task has not requested any host yet.
#[test]
fn the_unexpected_exit_of_a_proxy_is_notified() {
    for sandbox in root_and_user_sandboxes() {
        write_connect_script(&sandbox, "example.org:443");
        let id = start_with_policy(&sandbox, "allow:example.org", "bash tries.sh 2>&1");
        let [proxy] = proxy_processes(&id)[..] else { panic!("expected exactly one proxy") };
        proxy.kill();
        let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
        eventually("the record exists", || {
            std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"denied\""))
        });
        let notices = sandbox.siding(&["notices"]).run().expect_code(0).stdout_text();
        let says = "net: every host (the task's proxy has ended) was refused";
        assert!(notices.replace('\n', " ").contains(says), "{notices}");
        std::fs::write(sandbox.path("go"), "").expect("test directory");
        let output = wait_for_end(&sandbox, &id);
        assert!(output.contains("Connection refused"), "{output}");
    }
}

/// If a shim is killed before it has recorded the leader, the next shim searches for the leader by
/// the birthmark. The proxy has the same birthmark and is older than the leader, but must not be
/// mistaken for the leader.
#[test]
fn takeover_does_not_mistake_the_proxy_for_the_leader() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let args = ["run", "--background", "--json", "--net", "allow:example.org", "--", "sleep 60"];
    let call = sandbox.siding(&args).pause_at("spawned").spawn();
    let is_shim = |process: &Process| processes::comm(process.pid) == "siding-shim";
    let (id, shim) = eventually_some("its shim is stopped", || {
        let id = sandbox.task_ids().pop()?;
        let shim = processes::with_birthmark(&id).into_iter().find(is_shim)?;
        (processes::state(shim.pid) == Some('T')).then_some((id, shim))
    });
    let [proxy] = proxy_processes(&id)[..] else { panic!("expected exactly one proxy") };
    assert_eq!(processes::read_birthmark(proxy.pid), processes::birthmark_from_id(&id));
    // A proxy that is stopped by SIGSTOP does not exit with the shim, so the next shim finds the
    // proxy.
    proxy.signal(Signal::STOP);
    eventually("the process is stopped", || processes::state(proxy.pid) == Some('T'));
    shim.kill();
    let _done = call.wait();
    eventually("another shim has taken over", || show_task(&sandbox, &id)["rescues"] == 1);
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    let spawned = eventually_some("its leader is recorded", || {
        let journal = std::fs::read_to_string(&journal).ok()?;
        journal.lines().find(|line| line.contains("\"spawned\"")).map(str::to_owned)
    });
    assert!(!spawned.contains(&format!("\"pid\":{},", proxy.pid)), "{spawned}");
    let _ended = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    assert!(!proxy.is_alive());
}
