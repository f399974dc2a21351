//! The link that works once, the cookie, and the token for programs.

use std::os::unix::fs::PermissionsExt as _;

use siding_e2e::{Sandbox, is_root};

use crate::client::{TOKEN, WebServer, find_link, path_of};
use crate::sandbox;

#[test]
fn a_link_signs_one_browser_in_and_a_further_link_is_printed() {
    let sandbox = sandbox();
    let mut server = WebServer::start(&sandbox, &[]);
    let first = server.link_path();
    let reply = server.get_with(&first, &[]);
    assert_eq!(reply.status, 200, "{}", reply.head);
    let text = reply.text();
    assert!(text.contains("<a href=\"/\" data-signed-in"), "{text}");
    // Without a script, the browser also continues to the list of tasks.
    assert!(
        text.contains("<noscript><meta http-equiv=\"refresh\" content=\"0; url=/\">"),
        "{text}"
    );
    assert!(!text.contains("data-page-key"), "only a person's server has page keys: {text}");
    let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    let again = server.get_with(&first, &[]);
    assert_eq!((again.status, again.header("set-cookie")), (401, None), "the link was used");
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(server.get_with("/", &[("Cookie", pair)]).status, 200);
    let printed = server.running.wait_for_stdout("for another one");
    let second = find_link(&printed);
    assert_ne!(path_of(&second), first);
    assert_eq!(server.get_with(path_of(&second), &[]).status, 200);
}

#[test]
fn without_cookie_and_token_nothing_is_shown() {
    let sandbox = sandbox();
    let server = WebServer::start(&sandbox, &[]);
    for path in
        ["/", "/sessions", "/api/v1/tasks", "/api/v1/events", "/assets/style.css", "/nothing"]
    {
        for headers in [
            &[][..],
            &[("Cookie", "siding-web=0")],
            &[("Authorization", "Bearer ")],
            &[("Authorization", "Bearer a-token-of-a-test-0123456780")],
        ] {
            let reply = server.get_with(path, headers);
            assert_eq!(reply.status, 401, "{path} {headers:?}: {reply:?}");
        }
    }
    let reply = server.get_with("/api/v1/tasks", &[]);
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
    let message = reply.text();
    assert!(message.contains("link") && message.contains("SIDING_WEB_TOKEN"), "{message}");
    let wrong = [("Authorization", "Bearer a-token-of-a-test-0123456780")];
    let message = server.get_with("/api/v1/tasks", &wrong).text();
    assert!(message.contains("the value of `SIDING_WEB_TOKEN`"), "{message}");
    assert!(!message.contains("link") && !message.contains(TOKEN), "{message}");
    // A browser that loads a page in advance does not use up the link.
    let early = server.get_with(&server.link_path(), &[("Sec-Purpose", "prefetch")]);
    assert_eq!(early.status, 405);
    assert_eq!(server.get_with(&server.link_path(), &[]).status, 200);
}

/// A browser sends no cookie with `SameSite=Strict` for a request that a page of another site
/// caused, even if it has signed in. The answer contains a link to itself; a request through this
/// link has the cookie.
#[test]
fn a_link_on_another_site_leads_to_a_link_that_sends_the_cookie() {
    let sandbox = sandbox();
    let server = WebServer::start(&sandbox, &[]);
    let load = [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Mode", "navigate"),
        ("Sec-Fetch-Dest", "document"),
    ];
    let reply = server.get_with("/", &load);
    assert_eq!(reply.status, 401, "{reply:?}");
    let text = reply.text();
    assert!(text.contains("<a href=\"\">Open this page again</a>"), "{text}");
    assert!(text.contains("name=\"viewport\""), "readable on a narrow screen: {text}");
    for headers in [&[][..], &[("Sec-Fetch-Site", "none")]] {
        let reply = server.get_with("/", headers);
        assert_eq!(reply.status, 401);
        assert!(!reply.text().contains("Open this page again"), "{}", reply.text());
    }
    let reply = server.get_with("/api/v1/tasks", &load);
    assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some("Bearer")));
}

#[test]
fn the_token_is_in_a_private_file_and_is_not_printed() {
    let sandbox = sandbox();
    let running = sandbox.siding(&["web"]).spawn();
    let mut server = WebServer::from_running(running);
    let file = sandbox.home().join(format!("run/siding/web-{}.token", server.port));
    let token = std::fs::read_to_string(&file).expect("the file exists");
    let printed = server.running.stdout_text();
    assert!(!printed.contains(token.trim()) && printed.contains("web-"), "{printed}");
    let mode = std::fs::metadata(&file).expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let bearer = format!("Bearer {}", token.trim());
    assert_eq!(server.get_with("/api/v1/tasks", &[("Authorization", &bearer)]).status, 200);
    let wrong = [("Authorization", "Bearer 0123456789abcdef0123456789abcdef")];
    let message = server.get_with("/api/v1/tasks", &wrong).json()["error"].to_string();
    assert!(message.contains(&file.display().to_string()), "{message}");
    assert!(!message.contains(token.trim()), "{message}");
    server.running.signal(rustix::process::Signal::TERM);
    let _ended = server.running.wait().expect_code(0);
    assert!(!file.exists(), "the token file must be removed");
}

#[test]
fn other_machines_need_an_option() {
    let sandbox = sandbox();
    let refused = sandbox.siding(&["web", "--addr", "0.0.0.0:0"]).run().expect_code(125);
    assert!(refused.stderr_text().contains("--allow-remote"), "{refused}");
    let server = WebServer::start(&sandbox, &["--addr", "0.0.0.0:0", "--allow-remote"]);
    let _cookie = server.sign_in();
}

#[test]
fn an_address_that_is_in_use_is_named() {
    let sandbox = sandbox();
    let held = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = held.local_addr().expect("an address").to_string();
    let refused = sandbox.siding(&["web", "--addr", &address]).run().expect_code(125);
    let message = refused.stderr_text();
    assert!(message.contains(&format!("could not listen on {address}: ")), "{refused}");
    assert!(message.contains("0 for any free one"), "{refused}");
}

#[test]
fn processes_of_another_user_are_not_served() {
    if !is_root() {
        eprintln!("left out: only root has another user");
        return;
    }
    let sandbox = Sandbox::new_for_uid(1234);
    let server = WebServer::start(&sandbox, &["--metrics"]);
    let program = "import socket,sys\n\
        s=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n\
        s.sendall(b'GET '+sys.argv[3].encode()+b' HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer '+\
        sys.argv[2].encode()+b'\\r\\nConnection: close\\r\\n\\r\\n')\n\
        try:\n  print('heard', s.recv(12)[9:].decode())\n\
        except ConnectionError:\n  print('heard ')\n";
    let ask = |uid, path: &str| {
        let args = ["-c", program, &server.port.to_string(), TOKEN, path];
        sandbox.host("python3", &args).cwd("/").as_user(uid, uid).run().expect_code(0).stdout_text()
    };
    for path in ["/", "/metrics"] {
        assert_eq!(ask(4321, path), "heard \n", "{path}: even with the token");
        assert_eq!(ask(1234, path), "heard 200\n", "{path}");
    }
}
