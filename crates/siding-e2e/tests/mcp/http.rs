//! MCP over HTTP, and the checks that decide which clients the server admits.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use siding_e2e::{RunningProgram, Sandbox, eventually, is_root, processes};

use crate::client::{INITIALIZE_REVISION, STATELESS_REVISION, ToolAnswer, sandbox};

const TOKEN: &str = "a-token-of-a-test-0123456789";

/// A `siding mcp --http` server on a free loopback port.
struct HttpServer {
    running: RunningProgram,
    port: u16,
}

#[derive(Debug)]
struct HttpReply {
    status: u16,
    head: String,
    /// All messages of the body, from JSON or an event stream.
    messages: Vec<Value>,
}

impl HttpServer {
    fn start(sandbox: &Sandbox) -> Self {
        let call = sandbox.siding(&["mcp", "--http", "127.0.0.1:0"]);
        Self::from_running(call.env("SIDING_MCP_TOKEN", TOKEN).spawn())
    }

    fn from_running(mut running: RunningProgram) -> Self {
        let stderr = running.wait_for_stdout("/mcp\n");
        let address = stderr.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address: SocketAddr = address.expect("an address").parse().expect("an address");
        let port = address.port();
        Self { running, port }
    }

    /// Sends a message in a POST request. `headers` replace those of a valid request; an empty
    /// value removes the header.
    fn post(&self, headers: &[(&str, &str)], body: &Value) -> HttpReply {
        let body = body.to_string();
        let host = format!("127.0.0.1:{}", self.port);
        let token = format!("Bearer {TOKEN}");
        let usual = [
            ("Host", host.as_str()),
            ("Authorization", &token),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Connection", "close"),
        ];
        let mut request = "POST /mcp HTTP/1.1\r\n".to_owned();
        let is_given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let kept = usual.iter().filter(|(name, _)| !is_given(name));
        for (name, value) in kept.chain(headers).filter(|(_, value)| !value.is_empty()) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        send_http(self.port, &request).expect("an answer")
    }

    /// Sends a request of the stateless revision, which needs no handshake.
    fn stateless_request(&self, method: &str, name: Option<&str>, mut params: Value) -> HttpReply {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS_REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut headers =
            vec![("MCP-Protocol-Version", STATELESS_REVISION), ("Mcp-Method", method)];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        self.post(&headers, &body)
    }

    fn call(&self, tool: &str, arguments: Value) -> ToolAnswer {
        let params = json!({ "name": tool, "arguments": arguments });
        let reply = self.stateless_request("tools/call", Some(tool), params);
        let answer = reply.messages.iter().find(|message| message["id"] == 1);
        ToolAnswer::from_result(&answer.unwrap_or_else(|| panic!("{reply:?}"))["result"])
    }
}

/// A client of the revision with a handshake, which has a session of MCP.
struct HttpSession<'s> {
    server: &'s HttpServer,
    id: String,
    requests: u64,
}

impl<'s> HttpSession<'s> {
    #[track_caller]
    fn open(server: &'s HttpServer) -> Self {
        let reply = server.post(&[], &initialize_request());
        assert_eq!(reply.status, 200, "{reply:?}");
        let id = reply.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.to_owned())
        });
        let id = id.unwrap_or_else(|| panic!("no session in {reply:?}"));
        let session = Self { server, id, requests: 1 };
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(&initialized).status, 202);
        session
    }

    fn post(&self, body: &Value) -> HttpReply {
        let of_session =
            [("Mcp-Session-Id", self.id.as_str()), ("MCP-Protocol-Version", INITIALIZE_REVISION)];
        self.server.post(&of_session, body)
    }

    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> ToolAnswer {
        self.requests += 1;
        let (id, params) = (self.requests, json!({ "name": tool, "arguments": arguments }));
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        let reply = self.post(&call);
        let answer = reply.messages.iter().find(|message| message["id"] == id);
        ToolAnswer::from_result(&answer.unwrap_or_else(|| panic!("{reply:?}"))["result"])
    }
}

fn send_http(port: u16, request: &str) -> Option<HttpReply> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let lines = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let messages = lines.filter(|line| line.starts_with('{'));
    let messages = messages.filter_map(|line| serde_json::from_str(line).ok()).collect();
    Some(HttpReply { status, head: head.to_owned(), messages })
}

/// Returns an address of this machine outside loopback, if it has one. Connecting a UDP socket
/// selects a route and sends no packet.
fn non_loopback_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

fn initialize_request() -> Value {
    let info = json!({ "name": "test", "version": "1" });
    let params =
        json!({ "protocolVersion": INITIALIZE_REVISION, "capabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

#[test]
fn both_protocol_revisions_are_served_over_http() {
    let sandbox = sandbox();
    let server = HttpServer::start(&sandbox);
    let mut session = HttpSession::open(&server);
    assert_eq!(session.call("run", json!({ "command": "echo old" })).output, "old\n");
    assert_eq!(server.stateless_request("server/discover", None, json!({})).status, 200);
    assert_eq!(server.call("run", json!({ "command": "echo new" })).output, "new\n");
}

/// Several agents share a server over HTTP. Keys for `last` are keys for the screen that the same
/// agent has seen, and what another agent has seen is no reason to leave rows out.
#[test]
fn the_last_screen_is_that_of_the_same_client() {
    let sandbox = sandbox();
    let server = HttpServer::start(&sandbox);
    let (mut one, mut other) = (HttpSession::open(&server), HttpSession::open(&server));
    let command = "read -p 'first? ' a; read -p 'second? ' b; echo \"a=$a b=$b\"";
    let asked = one.call("run", json!({ "command": command, "pty": true, "budget": 30 }));
    assert!(asked.output.starts_with("first? ▮\n"), "{asked:?}");
    let id = asked.task_id();

    let first = json!({ "id": id, "keys": ["1", "Enter"], "if_screen": "last" });
    let unseen = other.call("keys", first);
    assert!(unseen.is_error && unseen.message.contains("pass the hash"), "{unseen:?}");
    let whole = other.call("keys", json!({ "id": id, "keys": ["1", "Enter"] }));
    assert!(whole.output.starts_with("first? 1\nsecond? ▮\n"), "{whole:?}");

    let late = json!({ "id": id, "keys": ["wrong", "Enter"], "if_screen": "last" });
    let refused = server.call("keys", late.clone());
    assert!(refused.is_error && refused.message.contains("pass the hash"), "{refused:?}");
    let refused = one.call("keys", late);
    assert!(refused.is_error && refused.output.contains("second? ▮"), "{refused:?}");

    // A client without a session of MCP has seen no screen, except the one whose hash it passes.
    let whole = server.call("keys", json!({ "id": id }));
    assert!(whole.output.starts_with("first? 1\nsecond? ▮\n"), "{whole:?}");
    let (_, hash) = whole.output.trim_end().rsplit_once("hash ").expect("the screen has a hash");
    let hash: String = hash.chars().take_while(char::is_ascii_hexdigit).collect();
    let ended = json!({ "id": id, "keys": ["2", "Enter"], "if_screen": hash });
    assert!(server.call("keys", ended).output.contains("a=1 b=2"));
}

#[test]
fn request_without_the_token_is_refused() {
    let sandbox = sandbox();
    let server = HttpServer::start(&sandbox);
    let longer = format!("Bearer {TOKEN}0");
    for wrong in ["", "Bearer ", "Bearer 0", TOKEN, &longer] {
        let reply = server.post(&[("Authorization", wrong)], &initialize_request());
        assert_eq!(reply.status, 401, "{wrong:?}: {reply:?}");
        assert!(reply.head.to_lowercase().contains("www-authenticate: bearer"), "{reply:?}");
    }
    // The commands that the server starts must not have the token in their environment.
    let answer = server.call("run", json!({ "command": "env | grep -c MCP_TOKEN" }));
    assert_eq!(answer.output, "0\n", "{answer:?}");
    let elsewhere = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n", server.port);
    let reply =
        send_http(server.port, &(elsewhere + "Connection: close\r\n\r\n")).expect("an answer");
    assert_eq!(reply.status, 404, "{reply:?}");
}

/// Requests with an unexpected `Host` or `Origin` are refused. By DNS rebinding, a web page can
/// send requests to loopback under the host name of the page's own site.
#[test]
fn unexpected_host_or_origin_header_is_refused() {
    let sandbox = sandbox();
    let server = HttpServer::start(&sandbox);
    for (name, value) in [
        ("Host", "evil.example"),
        ("Host", "localhost.evil.example:80"),
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://localhost.evil.example"),
    ] {
        let reply = server.post(&[(name, value)], &initialize_request());
        assert_eq!(reply.status, 403, "{name}: {value}: {reply:?}");
    }
    for (name, value) in [("Host", "localhost:99"), ("Origin", "http://localhost:5173")] {
        let reply = server.post(&[(name, value)], &initialize_request());
        assert_eq!(reply.status, 200, "{name}: {value}: {reply:?}");
    }
}

#[test]
fn listening_beyond_loopback_needs_allow_remote() {
    let sandbox = sandbox();
    let refused = sandbox.siding(&["mcp", "--http", "0.0.0.0:0"]).run().expect_code(125);
    assert!(refused.stderr_text().contains("--allow-remote"), "{refused}");
    let weak = sandbox.siding(&["mcp", "--http", "127.0.0.1:0"]).env("SIDING_MCP_TOKEN", "short");
    let weak = weak.run().expect_code(125);
    assert!(
        weak.stderr_text().contains("SIDING_MCP_TOKEN") && weak.stderr_text().contains("16"),
        "{weak}"
    );
}

#[test]
fn generated_token_is_printed_and_readable_only_by_its_owner() {
    let sandbox = sandbox();
    let mut server =
        HttpServer::from_running(sandbox.siding(&["mcp", "--http", "127.0.0.1:0"]).spawn());
    let stderr = server.running.wait_for_stdout("token: ");
    let token = stderr.split("token: ").nth(1).expect("a token");
    let token = token.split_whitespace().next().expect("a token").to_owned();
    assert_eq!(token.len(), 32, "{stderr}");
    let file = sandbox.home().join(format!("run/siding/mcp-{}.token", server.port));
    assert_eq!(std::fs::read_to_string(&file).expect("the entry exists").trim(), token);
    let mode = std::fs::metadata(&file).expect("the entry exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let bearer = format!("Bearer {token}");
    assert_eq!(server.post(&[("Authorization", &bearer)], &initialize_request()).status, 200);
    server.running.signal(rustix::process::Signal::TERM);
    let _ended = server.running.wait().expect_code(0);
    assert!(!file.exists(), "the token file must be removed");
}

#[test]
fn connections_of_another_local_user_are_refused() {
    if !is_root() {
        eprintln!("left out: only root has another user");
        return;
    }
    // The server runs as an ordinary user, and the test sends requests to it as another one.
    let sandbox = Sandbox::new_for_uid(1234);
    let server = HttpServer::start(&sandbox);
    let open = sandbox.siding(&["mcp", "--http", "0.0.0.0:0", "--allow-remote"]);
    let open = HttpServer::from_running(open.env("SIDING_MCP_TOKEN", TOKEN).spawn());
    let program = "import socket,sys\n\
        s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n\
        s.sendall(b'GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n')\n\
        try:\n  print('heard', len(s.recv(100)))\n\
        except ConnectionError:\n  print('heard 0')\n";
    let ask = |uid, address: &str, port: u16| {
        let args = ["-c", program, address, &port.to_string()];
        sandbox.host("python3", &args).cwd("/").as_user(uid, uid).run().expect_code(0).stdout_text()
    };
    let mut routes = vec![("127.0.0.1".to_owned(), &server), ("127.0.0.1".to_owned(), &open)];
    // With `--allow-remote`, the server admits other machines, and still refuses other users of
    // this machine, whichever address they connect to.
    match non_loopback_address() {
        Some(address) => routes.push((address.to_string(), &open)),
        None => eprintln!("left out: this machine has no address but loopback"),
    }
    for (address, server) in routes {
        assert_eq!(ask(4321, &address, server.port), "heard 0\n", "{address}");
        assert_ne!(ask(1234, &address, server.port), "heard 0\n", "{address}");
    }
}

#[test]
fn tasks_of_a_killed_http_server_end() {
    let sandbox = sandbox();
    let call = sandbox.siding(&["mcp", "--http", "127.0.0.1:0"]);
    let call = call.env("SIDING_MCP_TOKEN", TOKEN).env("SIDING_SESSION_GRACE", "100ms");
    let server = HttpServer::from_running(call.spawn());
    let id = server.call("run", json!({ "command": "sleep 300", "background": true })).task_id();
    drop(server);
    eventually("nothing of the task is left", || processes::with_birthmark(&id).is_empty());
}
