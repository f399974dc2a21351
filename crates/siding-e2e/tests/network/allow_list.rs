//! The policy `allow`: a network namespace whose only way to the outside is a proxy.

use siding_e2e::eventually;

use crate::support::{
    CountingServer, connect_command, kill_shim_and_wait_for_takeover, proxy_connect_command,
    proxy_processes, root_and_user_sandboxes, run_with_policy, start_with_policy, wait_for_end,
};

#[test]
fn an_allowed_host_is_reached_and_a_denied_one_is_notified_once() {
    for sandbox in root_and_user_sandboxes() {
        let server = CountingServer::start();
        let port = server.port;
        let (named, other) = (
            proxy_connect_command(&format!("localhost:{port}")),
            proxy_connect_command(&format!("127.0.0.1:{port}")),
        );
        let direct = connect_command(port);
        let text =
            format!("{named}; {other}; {other}; (setsid bash -c \"{other}\" & wait); {direct}");
        std::fs::write(sandbox.path("tries.sh"), text).expect("test directory");
        let policy = format!("allow:localhost:{port},*.example.org");
        let id = start_with_policy(&sandbox, &policy, "bash tries.sh 2>&1");
        let output = wait_for_end(&sandbox, &id);
        let answers: Vec<_> = output.lines().filter(|line| line.starts_with("HTTP/")).collect();
        let forbidden = "HTTP/1.1 403 Forbidden\r";
        let wanted = ["HTTP/1.1 200 Connection established\r", forbidden, forbidden, forbidden];
        assert_eq!(
            answers.iter().map(|line| line.trim_end()).collect::<Vec<_>>(),
            wanted.map(str::trim_end)
        );
        assert!(output.contains("Connection refused"), "{output}");
        eventually("the server has counted the connection", || server.accepted() == 1);
        let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
        let notices =
            notices.as_array().expect("a list").iter().filter(|one| one["limit"] == "net");
        let notices: Vec<_> = notices.collect();
        let summary = notices[0]["summary"].as_str().expect("a text");
        assert!(summary.contains(&format!("net: 127.0.0.1:{port} was refused")), "{summary}");
        assert_eq!((notices.len(), &notices[0]["kind"]), (1, &"limit".into()));
        eventually("the proxy has exited", || proxy_processes(&id).is_empty());
    }
}

/// The environment variables for proxies contain the proxy's address, and `NO_PROXY` excludes the
/// task's own servers, because the proxy runs outside the namespace and cannot reach these servers.
#[test]
fn the_proxy_environment_variables_are_set() {
    for sandbox in root_and_user_sandboxes() {
        let text = "echo $HTTP_PROXY $https_proxy $ALL_PROXY \"[$NO_PROXY $no_proxy]\"";
        let address = "http://127.0.0.1:3128";
        for (policy, own) in [
            ("allow:example.org", "localhost,127.0.0.1,::1"),
            ("allow:[::1]:80,localhost:8080", "127.0.0.1"),
            ("allow:[::1]:80,localhost:8080,127.0.0.1", ""),
        ] {
            let args = ["run", "--allow-duplicate", "--net", policy, "--", text];
            let done = sandbox.siding(&args).env("NO_PROXY", "*").env("http_proxy", "x").run();
            let notices = format!("{address} {address} {address} [{own} {own}]\n");
            assert_eq!(done.expect_code(0).stdout_text(), notices, "{policy}");
        }
        let open = run_with_policy(&sandbox, "host", text).expect_code(0);
        assert_eq!(open.stdout_text(), "[ ]\n");
    }
}

/// The proxy exits when its task ends and when its shim is killed. Without the proxy the task
/// cannot connect to any host.
#[test]
fn the_proxy_exits_with_its_task_and_with_a_killed_shim() {
    for sandbox in root_and_user_sandboxes() {
        let server = CountingServer::start();
        let target = format!("localhost:{}", server.port);
        let policy = format!("allow:{target}");
        let text =
            format!("while [ ! -e go ]; do sleep .02; done; {}", proxy_connect_command(&target));
        std::fs::write(sandbox.path("tries.sh"), text).expect("test directory");
        let stopped = start_with_policy(&sandbox, &policy, "bash tries.sh; :");
        assert_eq!(proxy_processes(&stopped).len(), 1);
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", &stopped]).run().expect_code(0);
        eventually("the proxy has exited", || proxy_processes(&stopped).is_empty());
        let orphaned = start_with_policy(&sandbox, &policy, "bash tries.sh 2>&1");
        kill_shim_and_wait_for_takeover(&sandbox, &orphaned);
        eventually("the proxy has exited", || proxy_processes(&orphaned).is_empty());
        std::fs::write(sandbox.path("go"), "").expect("test directory");
        let output = wait_for_end(&sandbox, &orphaned);
        assert!(output.contains("Connection refused"), "{output}");
        assert_eq!(server.accepted(), 0);
    }
}
