//! A client of the web server that sends exactly the headers of a test.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use siding_e2e::{RunningProgram, Sandbox, Terminal, eventually_some};

/// The token for programs of all tests.
pub(crate) const TOKEN: &str = "a-token-of-a-test-0123456789";

/// A `siding web` on a free loopback port.
pub(crate) struct WebServer {
    pub(crate) running: RunningProgram,
    pub(crate) port: u16,
    /// Everything that the server printed at its start.
    pub(crate) printed: String,
}

/// What a browser has after it was signed in.
#[derive(Debug)]
pub(crate) struct SignedInBrowser {
    /// The value of the header `Cookie`.
    pub(crate) cookie: String,
    /// The page key; `None` if the server was not started by a person.
    pub(crate) page_key: Option<String>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct WebReply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl WebServer {
    pub(crate) fn start(sandbox: &Sandbox, args: &[&str]) -> Self {
        let call = sandbox.siding(&[&["web"], args].concat());
        Self::from_running(call.env("SIDING_WEB_TOKEN", TOKEN).spawn())
    }

    /// Starts the server at a terminal, as a person does.
    pub(crate) fn start_at(terminal: &mut Terminal, sandbox: &Sandbox, args: &[&str]) -> Self {
        let call = sandbox.siding(&[&["web"], args].concat());
        let running = call.env("SIDING_WEB_TOKEN", TOKEN).on_terminal(terminal).spawn();
        terminal.wait_for_text("programs");
        Self::from_printed(running, terminal.scrollback_text())
    }

    pub(crate) fn from_running(mut running: RunningProgram) -> Self {
        let printed = running.wait_for_stdout("programs");
        Self::from_printed(running, printed)
    }

    pub(crate) fn from_printed(running: RunningProgram, printed: String) -> Self {
        let link = find_link(&printed);
        let port = link.split([':', '/']).nth(4).expect("a port").parse().expect("a port");
        Self { running, port, printed }
    }

    /// Returns the path and query of the link that the server printed at its start.
    pub(crate) fn link_path(&self) -> String {
        path_of(&find_link(&self.printed)).to_owned()
    }

    /// Waits for the link that the server prints at its terminal after the first one was used.
    #[track_caller]
    pub(crate) fn wait_for_next_link(&self, terminal: &mut Terminal) -> String {
        let first = find_link(&self.printed);
        eventually_some("the next link is printed", || {
            let last = find_link(&terminal.scrollback_text());
            // A part of the link may have arrived.
            (last != first && last.len() == first.len()).then_some(last)
        })
    }

    /// Uses the printed link and returns the value of the header `Cookie`.
    pub(crate) fn sign_in(&self) -> String {
        self.sign_in_browser().cookie
    }

    /// Uses the printed link.
    pub(crate) fn sign_in_browser(&self) -> SignedInBrowser {
        SignedInBrowser::from_reply(&self.get_with(&self.link_path(), &[]))
    }

    /// Sends a GET with the token.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> WebReply {
        let token = format!("Bearer {TOKEN}");
        let reply = self.get_with(path, &[("Authorization", &token)]);
        assert_eq!(reply.status, 200, "{path}: {} {}", reply.head, reply.text());
        reply
    }

    /// Sends a GET with exactly these headers, `Host` and `Connection: close`.
    pub(crate) fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> WebReply {
        self.send("GET", path, headers, "")
    }

    /// Sends a POST request with the token and a JSON body, as a program does.
    pub(crate) fn post(&self, path: &str, body: &Value) -> WebReply {
        let token = format!("Bearer {TOKEN}");
        let headers = [("Authorization", token.as_str()), ("Content-Type", "application/json")];
        self.send("POST", path, &headers, &body.to_string())
    }

    /// Sends a POST request with a JSON body, as a script of a page does.
    pub(crate) fn post_as_page(
        &self,
        browser: &SignedInBrowser,
        path: &str,
        body: &Value,
    ) -> WebReply {
        let origin = self.origin();
        let mut headers = vec![
            ("Cookie", browser.cookie.as_str()),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/json"),
        ];
        headers.extend(browser.page_key.as_deref().map(|key| ("Siding-Page-Key", key)));
        self.send("POST", path, &headers, &body.to_string())
    }

    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> WebReply {
        let mut stream = self.connect(method, path, headers, body, "close");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a response");
        WebReply::parse(&bytes)
    }

    /// Opens an event stream with the token, and reads nothing.
    pub(crate) fn open_stream(&self, path: &str) -> TcpStream {
        let token = format!("Bearer {TOKEN}");
        self.connect("GET", path, &[("Authorization", &token)], "", "keep-alive")
    }

    /// Opens an event stream with the token, and reads it until `is_enough`.
    pub(crate) fn read_events(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        is_enough: impl Fn(&str) -> bool,
    ) -> String {
        let token = format!("Bearer {TOKEN}");
        let headers = [&[("Authorization", token.as_str())], headers].concat();
        let mut stream = self.connect("GET", path, &headers, "", "keep-alive");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut bytes = Vec::new();
        let mut piece = [0; 64 << 10];
        loop {
            let text = String::from_utf8_lossy(&bytes);
            if is_enough(&text) {
                return text.into_owned();
            }
            let count = stream.read(&mut piece).expect("more events");
            assert!(count > 0, "the stream ended after {text}");
            bytes.extend_from_slice(&piece[..count]);
        }
    }

    fn connect(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        connection: &str,
    ) -> TcpStream {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: {connection}\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.host()));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        stream
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.host())
    }
}

impl SignedInBrowser {
    /// Reads the response to a sign-in link.
    #[track_caller]
    pub(crate) fn from_reply(reply: &WebReply) -> Self {
        assert_eq!(reply.status, 200, "{}", reply.head);
        let cookie = reply.header("set-cookie").expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        let text = reply.text();
        let page_key =
            text.split("data-page-key=\"").nth(1).and_then(|rest| rest.split('"').next());
        Self { cookie, page_key: page_key.map(str::to_owned) }
    }
}

impl WebReply {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a status");
        let mut body = bytes[end + 4..].to_vec();
        if head.to_lowercase().contains("transfer-encoding: chunked") {
            body = join_chunks(&body);
        }
        Self { status, head, body }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (given, value) = line.split_once(": ")?;
            given.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

fn join_chunks(mut body: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&body[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        joined.extend_from_slice(&body[end + 2..end + 2 + size]);
        body = &body[end + 2 + size + 2..];
    }
    joined
}

/// Returns the last link in what the server printed.
pub(crate) fn find_link(printed: &str) -> String {
    let word = printed.split_whitespace().rfind(|word| word.starts_with("http://"));
    word.unwrap_or_else(|| panic!("no link in {printed}")).to_owned()
}

pub(crate) fn path_of(link: &str) -> &str {
    let at = link.match_indices('/').nth(2).expect("a path").0;
    &link[at..]
}
