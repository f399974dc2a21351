//! Connections: their age, and what goes through them. Real TCP on the loopback.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use siding_e2e::eventually;

use crate::support::{breaches, sandbox, shown, start, stop_all, until_breach, until_looked_at};

/// What the other end of a connection does.
#[derive(Clone, Copy)]
enum Server {
    /// Takes all it gets.
    Takes,
    /// Sends this many bytes to whoever connects, and takes what it gets.
    Sends(usize),
}

/// Serves for the rest of the test, which ends with its process. Returns the port.
fn serve(server: Server) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it has one").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || attend(stream, server));
        }
    });
    port
}

fn attend(mut stream: TcpStream, server: Server) {
    if let Server::Sends(bytes) = server {
        let _the_client_may_leave = stream.write_all(&vec![7; bytes]);
    }
    let mut buffer = vec![0; 64 << 10];
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) {}
}

/// SPEC §3, a long transfer in the background: bytes sent to one remote. What is received does not
/// count.
#[test]
fn a_long_upload_is_told_and_a_download_is_not() {
    let sandbox = sandbox();
    let limit = ["--max-sent", "1MiB"];
    let port = serve(Server::Sends(5 << 20));
    let download = start(
        &sandbox,
        &limit,
        &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 5242880 <&3 | wc -c; sleep 300"),
    );
    let port = serve(Server::Takes);
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let modest =
        start(&sandbox, &limit, &format!("{connect}; head -c 9000 /dev/zero >&3; sleep 300"));
    let upload =
        start(&sandbox, &limit, &format!("{connect}; head -c 3145728 /dev/zero >&3; sleep 300"));
    let breach = until_breach(&sandbox, &upload, "sent");
    assert_eq!(breach["remote"], "127.0.0.1");
    let detail = breach["detail"].as_str().expect("a sentence");
    assert!(detail.contains(" sent to 127.0.0.1, limit 1MiB; by pid "), "{detail}");
    eventually("the download is over", || shown(&sandbox, &download)["output"]["bytes"] == 8);
    until_looked_at(&sandbox, 2);
    assert!(breaches(&sandbox, &download).is_empty() && breaches(&sandbox, &modest).is_empty());
    assert_eq!(breaches(&sandbox, &upload).len(), 1, "once for each remote");
    let sent = |id: &str| shown(&sandbox, id)["usage"]["sent"][0].clone();
    let (much, little) = (sent(&upload), sent(&modest));
    assert_eq!(much["remote"], "127.0.0.1");
    assert!(much["bytes"].as_u64().is_some_and(|bytes| bytes >= 3 << 20), "{much:#}");
    let range = 9_000..9_100;
    assert!(little["bytes"].as_u64().is_some_and(|bytes| range.contains(&bytes)), "{little:#}");
    stop_all(&sandbox);
}

/// SPEC §3, connection age: one that stays is told, a row of short ones is not.
#[test]
fn a_connection_that_stays_is_told_and_short_ones_are_not() {
    let sandbox = sandbox();
    let port = serve(Server::Takes);
    let limit = ["--max-connection-age", "2s"];
    let short = start(
        &sandbox,
        &limit,
        &format!("while :; do (exec 3<>/dev/tcp/127.0.0.1/{port}; sleep .2); done"),
    );
    let stays = start(&sandbox, &limit, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}; sleep 300"));
    let breach = until_breach(&sandbox, &stays, "connection_age");
    assert_eq!(breach["remote"], "127.0.0.1");
    assert!(breach["value"].as_u64().is_some_and(|age| age > 2_000), "{breach:#}");
    until_looked_at(&sandbox, 2);
    assert!(breaches(&sandbox, &short).is_empty());
    stop_all(&sandbox);
}
