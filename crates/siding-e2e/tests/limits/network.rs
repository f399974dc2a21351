//! Limits on the age of connections and on the bytes sent, with real TCP connections on loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use siding_e2e::eventually;

use crate::support::{
    limit_breaches, sandbox, show_task, start_task, stop_all, wait_for_breach,
    wait_for_limit_checks,
};

#[derive(Clone, Copy)]
enum ServerMode {
    /// Reads and discards everything that clients send.
    Receives,
    /// Sends this many bytes to each client, and then discards everything that the client sends.
    Sends(usize),
}

/// Starts a TCP server that runs until the test process exits, and returns its port.
fn serve(server: ServerMode) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("the value exists").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || handle_connection(stream, server));
        }
    });
    port
}

fn handle_connection(mut stream: TcpStream, server: ServerMode) {
    if let ServerMode::Sends(bytes) = server {
        let _peer_gone = stream.write_all(&vec![7; bytes]);
    }
    let mut buffer = vec![0; 64 << 10];
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
}

/// Promise P97: the bytes that a task sends to one remote address count toward `max_sent`; received
/// bytes do not.
#[test]
fn max_sent_is_breached_by_an_upload_but_not_by_a_download() {
    let sandbox = sandbox();
    let limit = ["--max-sent", "1MiB"];
    let port = serve(ServerMode::Sends(5 << 20));
    let download = start_task(
        &sandbox,
        &limit,
        &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 5242880 <&3 | wc -c; sleep 300"),
    );
    let port = serve(ServerMode::Receives);
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let modest =
        start_task(&sandbox, &limit, &format!("{connect}; head -c 9000 /dev/zero >&3; sleep 300"));
    let upload = start_task(
        &sandbox,
        &limit,
        &format!("{connect}; head -c 3145728 /dev/zero >&3; sleep 300"),
    );
    let breach = wait_for_breach(&sandbox, &upload, "sent");
    assert_eq!(breach["remote"], "127.0.0.1");
    let detail = breach["detail"].as_str().expect("a text");
    assert!(detail.contains(" sent to 127.0.0.1, limit 1MiB; by pid "), "{detail}");
    eventually("the download has ended", || show_task(&sandbox, &download)["output"]["bytes"] == 8);
    wait_for_limit_checks(&sandbox, 2);
    assert!(
        limit_breaches(&sandbox, &download).is_empty()
            && limit_breaches(&sandbox, &modest).is_empty()
    );
    assert_eq!(limit_breaches(&sandbox, &upload).len(), 1, "expected one breach per remote");
    let sent = |id: &str| show_task(&sandbox, id)["usage"]["sent"][0].clone();
    let (much, little) = (sent(&upload), sent(&modest));
    assert_eq!(much["remote"], "127.0.0.1");
    assert!(much["bytes"].as_u64().is_some_and(|bytes| bytes >= 3 << 20), "{much:#}");
    let range = 9_000..9_100;
    assert!(little["bytes"].as_u64().is_some_and(|bytes| range.contains(&bytes)), "{little:#}");
    stop_all(&sandbox);
}

/// Promise P97: a connection that stays open for too long is reported; a series of short
/// connections is not.
#[test]
fn max_connection_age_is_breached_only_by_a_long_connection() {
    let sandbox = sandbox();
    let port = serve(ServerMode::Receives);
    let limit = ["--max-connection-age", "2s"];
    let short = start_task(
        &sandbox,
        &limit,
        &format!("while :; do (exec 3<>/dev/tcp/127.0.0.1/{port}; sleep .2); done"),
    );
    let stays =
        start_task(&sandbox, &limit, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; sleep 300"));
    let breach = wait_for_breach(&sandbox, &stays, "connection_age");
    assert_eq!(breach["remote"], "127.0.0.1");
    assert!(breach["value"].as_u64().is_some_and(|age| age > 2_000), "{breach:#}");
    wait_for_limit_checks(&sandbox, 2);
    assert!(limit_breaches(&sandbox, &short).is_empty());
    stop_all(&sandbox);
}
