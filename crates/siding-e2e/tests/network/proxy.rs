//! Whose a proxy is, and what comes of the end of one.

use rustix::process::Signal;
use siding_e2e::{Process, Sandbox, eventually, eventually_some, processes};

use crate::support::{Server, ask, proxies, sandboxes, shown, start, until_over};

/// A file with a text that waits for the file `go` and then asks for a tunnel to `target`.
fn write_tries(sandbox: &Sandbox, target: &str) {
    let text = format!("until [ -e go ]; do sleep .02; done; {}", ask(target));
    std::fs::write(sandbox.path("tries.sh"), text).expect("its own directory");
}

/// The task that `outer` has started.
fn inner(sandbox: &Sandbox, outer: &str) -> String {
    eventually_some("the inner task", || {
        let output = sandbox.state_dir().join("tasks").join(outer).join("output");
        let output = std::fs::read_to_string(output).ok()?;
        // Advice follows, for who reads it.
        let (id, _advice) = output.split_once('\n')?;
        id.starts_with("b-").then(|| id.to_owned())
    })
}

/// SPEC 2.4b: the outer task neither waits for the proxy of an inner one nor takes it along.
#[test]
fn the_proxy_of_an_inner_task_is_none_of_the_outer_ones() {
    for sandbox in sandboxes() {
        let server = Server::start();
        let target = format!("localhost:{}", server.port);
        write_tries(&sandbox, &target);
        let policy = format!("allow:{target}");
        let flags = ["run", "--background", "--allow-duplicate", "--net", &policy];
        let begin = sandbox.siding_line(&[&flags[..], &["--", "bash tries.sh 2>&1"]].concat());

        let left = sandbox.siding(&["run", "--json", "--", &format!("{begin}; exit 3")]).run();
        let left = left.expect_code(3).json();
        assert_eq!(left["phase"], "ended", "{left}");
        let first = inner(&sandbox, left["task_id"].as_str().expect("an id"));

        let outer = start(&sandbox, "host", &format!("{begin}; sleep 60"));
        let second = inner(&sandbox, &outer);
        let _ended = sandbox.siding(&["stop", "--grace", "0s", &outer]).run().expect_code(0);

        assert_eq!([&first, &second].map(|id| proxies(id).len()), [1, 1]);
        std::fs::write(sandbox.path("go"), "").expect("its own directory");
        for id in [first, second] {
            let output = until_over(&sandbox, &id);
            assert!(output.contains("200 Connection established"), "{output}");
        }
    }
}

/// Nobody has asked for a host yet, and the task is not left to find out.
#[test]
fn the_end_of_a_proxy_is_told() {
    for sandbox in sandboxes() {
        write_tries(&sandbox, "example.org:443");
        let id = start(&sandbox, "allow:example.org", "bash tries.sh 2>&1");
        let [proxy] = proxies(&id)[..] else { panic!("not one proxy") };
        proxy.kill();
        let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
        eventually("it is on record", || {
            std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"denied\""))
        });
        let told = sandbox.siding(&["notices"]).run().expect_code(0).out();
        let says = "net: every host (the task's proxy has ended) was refused";
        assert!(told.replace('\n', " ").contains(says), "{told}");
        std::fs::write(sandbox.path("go"), "").expect("its own directory");
        let output = until_over(&sandbox, &id);
        assert!(output.contains("Connection refused"), "{output}");
    }
}

/// The shim dies before it has noted who the leader is: the proxy is older and has the mark too.
#[test]
fn a_proxy_is_not_taken_for_the_leader() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let args = ["run", "--background", "--json", "--net", "allow:example.org", "--", "sleep 60"];
    let call = sandbox.siding(&args).pause_at("spawned").spawn();
    let is_shim = |process: &Process| processes::name(process.pid) == "siding-shim";
    let (id, shim) = eventually_some("its shim stands still", || {
        let id = sandbox.task_ids().pop()?;
        let shim = processes::with_birthmark(&id).into_iter().find(is_shim)?;
        (processes::state(shim.pid) == Some('T')).then_some((id, shim))
    });
    let [proxy] = proxies(&id)[..] else { panic!("not one proxy") };
    assert_eq!(processes::birthmark_of(proxy.pid), processes::birthmark(&id));
    // Else it would leave with the shim.
    proxy.signal(Signal::STOP);
    eventually("it stands still", || processes::state(proxy.pid) == Some('T'));
    shim.kill();
    let _done = call.wait();
    eventually("another shim keeps it", || shown(&sandbox, &id)["rescues"] == 1);
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    let spawned = eventually_some("its leader is known", || {
        let journal = std::fs::read_to_string(&journal).ok()?;
        journal.lines().find(|line| line.contains("\"spawned\"")).map(str::to_owned)
    });
    assert!(!spawned.contains(&format!("\"pid\":{},", proxy.pid)), "{spawned}");
    let _ended = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    assert!(!proxy.alive());
}
