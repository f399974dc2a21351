//! `allow`: a proxy outside of a namespace that holds nothing else.

use siding_e2e::eventually;

use crate::support::{
    Server, ask, connect, proxies, replace_shim, run, sandboxes, start, until_over,
};

#[test]
fn a_named_host_is_reached_and_another_is_told_of_once() {
    for sandbox in sandboxes() {
        let server = Server::start();
        let port = server.port;
        let (named, other) = (ask(&format!("localhost:{port}")), ask(&format!("127.0.0.1:{port}")));
        let direct = connect(port);
        let text =
            format!("{named}; {other}; {other}; (setsid bash -c \"{other}\" & wait); {direct}");
        std::fs::write(sandbox.path("tries.sh"), text).expect("its own directory");
        let policy = format!("allow:localhost:{port},*.example.org");
        let id = start(&sandbox, &policy, "bash tries.sh 2>&1");
        let output = until_over(&sandbox, &id);
        let answers: Vec<_> = output.lines().filter(|line| line.starts_with("HTTP/")).collect();
        let forbidden = "HTTP/1.1 403 Forbidden\r";
        let wanted = ["HTTP/1.1 200 Connection established\r", forbidden, forbidden, forbidden];
        assert_eq!(
            answers.iter().map(|line| line.trim_end()).collect::<Vec<_>>(),
            wanted.map(str::trim_end)
        );
        assert!(output.contains("Connection refused"), "{output}");
        assert_eq!(server.taken(), 1);
        let told = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
        let told = told.as_array().expect("a list").iter().filter(|one| one["limit"] == "net");
        let told: Vec<_> = told.collect();
        let summary = told[0]["summary"].as_str().expect("a text");
        assert!(summary.contains(&format!("net: 127.0.0.1:{port} was refused")), "{summary}");
        assert_eq!((told.len(), &told[0]["kind"]), (1, &"limit".into()));
        eventually("the proxy has left", || proxies(&id).is_empty());
    }
}

/// The proxy is outside, so what a task serves itself is to be asked for without it.
#[test]
fn programs_are_told_of_the_proxy() {
    for sandbox in sandboxes() {
        let text = "echo $HTTP_PROXY $https_proxy $ALL_PROXY \"[$NO_PROXY $no_proxy]\"";
        let address = "http://127.0.0.1:3128";
        for (policy, own) in [
            ("allow:example.org", "localhost,127.0.0.1,::1"),
            ("allow:[::1]:80,localhost:8080", "127.0.0.1"),
            ("allow:[::1]:80,localhost:8080,127.0.0.1", ""),
        ] {
            let args = ["run", "--allow-duplicate", "--net", policy, "--", text];
            let done = sandbox.siding(&args).env("NO_PROXY", "*").env("http_proxy", "x").run();
            let told = format!("{address} {address} {address} [{own} {own}]\n");
            assert_eq!(done.expect_code(0).out(), told, "{policy}");
        }
        let open = run(&sandbox, "host", text).expect_code(0);
        assert_eq!(open.out(), "[ ]\n");
    }
}

/// The proxy lives no longer than the task, and no longer than the shim. Without it the way out is
/// shut.
#[test]
fn a_proxy_ends_with_its_task_and_with_a_killed_shim() {
    for sandbox in sandboxes() {
        let server = Server::start();
        let target = format!("localhost:{}", server.port);
        let policy = format!("allow:{target}");
        let text = format!("while [ ! -e go ]; do sleep .02; done; {}", ask(&target));
        std::fs::write(sandbox.path("tries.sh"), text).expect("its own directory");
        let stopped = start(&sandbox, &policy, "bash tries.sh; :");
        assert_eq!(proxies(&stopped).len(), 1);
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", &stopped]).run().expect_code(0);
        eventually("the proxy has left", || proxies(&stopped).is_empty());
        let orphaned = start(&sandbox, &policy, "bash tries.sh 2>&1");
        replace_shim(&sandbox, &orphaned);
        eventually("the proxy has left", || proxies(&orphaned).is_empty());
        std::fs::write(sandbox.path("go"), "").expect("its own directory");
        let output = until_over(&sandbox, &orphaned);
        assert!(output.contains("Connection refused"), "{output}");
        assert_eq!(server.taken(), 0);
    }
}
