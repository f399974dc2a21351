//! The policy `ports`: Landlock, and a system call filter for the protocols that Landlock does not
//! cover.

use siding_e2e::eventually;

use crate::support::{
    CountingServer, connect_command, root_and_user_sandboxes, run_with_policy, start_with_policy,
};

#[test]
fn net_ports_allows_only_the_listed_port() {
    for sandbox in root_and_user_sandboxes() {
        let (open, shut) = (CountingServer::start(), CountingServer::start());
        let policy = format!("ports:{}", open.port);
        let _through =
            run_with_policy(&sandbox, &policy, &connect_command(open.port)).expect_code(0);
        eventually("the connection is accepted", || open.accepted() == 1);
        let refused =
            run_with_policy(&sandbox, &policy, &connect_command(shut.port)).expect_code(1);
        assert!(refused.stdout_text().contains("Permission denied"), "{refused}");
        let both = format!("{}; {}", connect_command(open.port), connect_command(shut.port));
        let daemon =
            format!("(setsid bash -c '({both}; echo $? >new; mv new result) &' &); sleep 300");
        let id = start_with_policy(&sandbox, &policy, &daemon);
        eventually("the daemon has tried", || sandbox.path("result").exists());
        eventually("the connection is accepted", || open.accepted() == 2);
        assert_eq!(shut.accepted(), 0);
        let _stopped = sandbox.siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    }
}

/// Landlock's network rules cover only TCP (as of ABI 7). They do not cover TCP Fast Open, with
/// which sendto(2) opens the connection. The system call filter blocks all other ways to send data
/// to the network.
#[test]
fn net_ports_blocks_sockets_that_are_not_tcp() {
    let server = CountingServer::start();
    let tries = format!(
        "import errno, socket as s, sys\n\
         def refused(what, *args):\n\
         \x20   try: what(*args)\n\
         \x20   except OSError as error: print(errno.errorcode[error.errno])\n\
         \x20   else: print('open')\n\
         for kind in [(s.AF_INET, s.SOCK_DGRAM), (s.AF_INET6, s.SOCK_DGRAM | s.SOCK_CLOEXEC), \
         (s.AF_INET, s.SOCK_STREAM, 262), (s.AF_VSOCK, s.SOCK_STREAM), \
         (s.AF_INET, s.SOCK_RAW, 1), (s.AF_PACKET, s.SOCK_RAW)]: refused(s.socket, *kind)\n\
         tcp = s.socket()\n\
         refused(tcp.sendto, b'x', 0x20000000, ('127.0.0.1', {port}))\n\
         refused(tcp.sendmsg, [b'x'], [], 0x20000000, ('127.0.0.1', {port}))\n\
         refused(tcp.setsockopt, 6, 31, b'smc')\n\
         for kind in [(s.AF_UNIX, s.SOCK_DGRAM), (s.AF_INET6, s.SOCK_STREAM, 6), \
         (s.AF_NETLINK, s.SOCK_RAW)]: refused(s.socket, *kind)\n\
         tcp.bind(('127.0.0.1', 0)); tcp.listen(); print('listens')\n",
        port = server.port
    );
    for sandbox in root_and_user_sandboxes() {
        if sandbox.host("python3", &["-c", ""]).run().code != Some(0) {
            println!("left out: no python3");
            return;
        }
        std::fs::write(sandbox.path("tries.py"), &tries).expect("test directory");
        let out =
            run_with_policy(&sandbox, "ports:1", "python3 tries.py").expect_code(0).stdout_text();
        let lines: Vec<_> = out.lines().collect();
        let denied = ["EACCES"; 6];
        let around = ["ENOTSUP", "ENOTSUP", "ENOPROTOOPT"];
        let fine = ["open", "open", "open", "listens"];
        assert_eq!(lines, [&denied[..], &around, &fine].concat());
        assert_eq!(server.accepted(), 0);
    }
}

/// If port 53 is allowed, siding sets `RES_OPTIONS=use-vc`, so that the C library resolves names
/// over TCP, because the task cannot use UDP.
#[test]
fn dns_uses_tcp_when_port_53_is_allowed() {
    for sandbox in root_and_user_sandboxes() {
        let asks = |policy| {
            run_with_policy(&sandbox, policy, "echo $RES_OPTIONS").expect_code(0).stdout_text()
        };
        assert_eq!(
            [asks("ports:53,443"), asks("ports:443"), asks("host")],
            ["use-vc\n", "\n", "\n"]
        );
    }
}
