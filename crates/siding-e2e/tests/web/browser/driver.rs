//! A client of chromedriver. WebDriver is JSON over HTTP.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use siding_e2e::{RunningProgram, Sandbox};

/// Variable with the path of chromedriver, if `PATH` does not contain it.
const PROGRAM_VARIABLE: &str = "SIDING_CHROMEDRIVER";
/// Variable with the directory for screenshots. If it is not set, no screenshots are written.
const SCREENSHOTS_VARIABLE: &str = "SIDING_SCREENSHOTS";
/// The words before the port in the output of chromedriver.
const STARTED: &str = "started successfully on port ";

/// A key of the keyboard, as WebDriver encodes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    Tab,
    Enter,
    Escape,
}

impl Key {
    const fn value(self) -> &'static str {
        match self {
            Self::Tab => "\u{e004}",
            Self::Enter => "\u{e007}",
            Self::Escape => "\u{e00c}",
        }
    }
}

/// The size and the color scheme of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) scheme: &'static str,
}

/// A browser without a window.
pub(super) struct Browser {
    driver: RunningProgram,
    port: u16,
    session: String,
}

impl Browser {
    #[track_caller]
    pub(super) fn start(sandbox: &Sandbox) -> Self {
        let program = std::env::var(PROGRAM_VARIABLE).unwrap_or_else(|_| "chromedriver".to_owned());
        let mut driver = sandbox.host(&program, &["--port=0"]).spawn();
        let printed = driver.wait_for_stdout(STARTED);
        let port = printed.split(STARTED).nth(1).expect("a port");
        let port = port.split(|c: char| !c.is_ascii_digit()).next().expect("a port");
        let port = port.parse().expect("a port");
        // The sandbox of Chromium does not work as root and in most containers.
        let arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": arguments },
        } } });
        let created = send_command(port, "POST", "/session", &wanted);
        let session = created["sessionId"].as_str().expect("a session").to_owned();
        Self { driver, port, session }
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let value =
            send_command(self.port, method, &format!("/session/{}{path}", self.session), body);
        assert!(value["error"].is_null(), "{method} {path}: {value:#}");
        value
    }

    /// Opens a page and waits until it is loaded.
    #[track_caller]
    pub(super) fn open(&self, url: &str) {
        let _none = self.call("POST", "/url", &json!({ "url": url }));
    }

    /// Runs a script in the page, and returns what the script returns.
    #[track_caller]
    pub(super) fn run_script(&self, script: &str) -> Value {
        self.call("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Presses and releases a key.
    #[track_caller]
    pub(super) fn press_key(&self, key: Key) {
        self.press_in_turn(&[key.value()]);
    }

    /// Presses and releases a key while Ctrl is pressed.
    #[track_caller]
    pub(super) fn press_with_control(&self, key: Key) {
        let (control, key) = ("\u{e009}", key.value());
        let strokes = [("keyDown", control), ("keyDown", key), ("keyUp", key), ("keyUp", control)];
        self.send_strokes(&strokes);
    }

    /// Presses and releases the keys of these characters.
    #[track_caller]
    pub(super) fn type_text(&self, text: &str) {
        let keys: Vec<String> = text.chars().map(String::from).collect();
        self.press_in_turn(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    }

    #[track_caller]
    fn press_in_turn(&self, keys: &[&str]) {
        let strokes: Vec<_> =
            keys.iter().flat_map(|key| [("keyDown", *key), ("keyUp", *key)]).collect();
        self.send_strokes(&strokes);
    }

    #[track_caller]
    fn send_strokes(&self, strokes: &[(&str, &str)]) {
        let strokes: Vec<Value> =
            strokes.iter().map(|(kind, value)| json!({ "type": kind, "value": value })).collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        let _none = self.call("POST", "/actions", &json!({ "actions": [keyboard] }));
    }

    /// Returns the errors of the console since the last call, such as violations of the content
    /// security policy.
    #[track_caller]
    pub(super) fn take_console_errors(&self) -> Vec<String> {
        let entries = self.call("POST", "/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().expect("a list").iter();
        let errors = entries.filter(|entry| entry["level"] == "SEVERE");
        errors.map(|entry| entry["message"].to_string()).collect()
    }

    #[track_caller]
    pub(super) fn set_screen(&self, screen: Screen) {
        let Screen { width, height, scheme } = screen;
        self.run_devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false }),
        );
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.run_devtools("Emulation.setEmulatedMedia", &json!({ "features": [feature] }));
    }

    /// Runs a script in each page that is opened from now on, before the scripts of the page.
    #[track_caller]
    pub(super) fn run_before_pages(&self, script: &str) {
        self.run_devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    /// Sets the time zone of the pages that are opened from now on, such as `Asia/Kolkata`.
    #[track_caller]
    pub(super) fn set_time_zone(&self, zone: &str) {
        self.run_devtools("Emulation.setTimezoneOverride", &json!({ "timezoneId": zone }));
    }

    #[track_caller]
    fn run_devtools(&self, command: &str, parameters: &Value) {
        let body = json!({ "cmd": command, "params": parameters });
        let _none = self.call("POST", "/goog/cdp/execute", &body);
    }

    /// Writes a screenshot into the directory of the screenshots, if there is one.
    #[track_caller]
    pub(super) fn save_screenshot(&self, name: &str) {
        let Some(directory) = std::env::var_os(SCREENSHOTS_VARIABLE).map(PathBuf::from) else {
            return;
        };
        let picture = self.call("GET", "/screenshot", &Value::Null);
        let bytes = decode_base64(picture.as_str().expect("a picture"));
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join(format!("{name}.png")), bytes).expect("a file");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends with its session.
        let path = format!("/session/{}", self.session);
        let _best_effort = try_send_command(self.port, "DELETE", &path, &Value::Null);
        self.driver.signal(Signal::TERM);
    }
}

/// Sends a command and returns the field `value` of the answer.
#[track_caller]
fn send_command(port: u16, method: &str, path: &str, body: &Value) -> Value {
    try_send_command(port, method, path, body).expect("an answer of chromedriver")
}

fn try_send_command(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<Value> {
    let body = if method == "POST" { body.to_string() } else { String::new() };
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        if let Some(body) = complete_body(&bytes) {
            let answer: Value = serde_json::from_slice(body)?;
            return Ok(answer["value"].clone());
        }
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&piece[..count]);
    }
}

/// Returns the body of a response when all of it has arrived.
fn complete_body(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
    let length: usize = length.trim().parse().ok()?;
    bytes.get(end..end + length)
}

fn decode_base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> =
        text.bytes().filter(|byte| *byte != b'=').map(|byte| u32::from(value(byte))).collect();
    let decode_group = |group: &[u32]| {
        let bits = group.iter().fold(0_u32, |bits, digit| (bits << 6) | digit);
        let bits = bits << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(decode_group).collect()
}

#[test]
fn base64_of_any_length_is_decoded() {
    let cases: [(&str, &[u8]); 5] =
        [("", b""), ("aQ==", b"i"), ("aGk=", b"hi"), ("aGkh", b"hi!"), ("+/8=", b"\xfb\xff")];
    for (text, decoded) in cases {
        assert_eq!(decode_base64(text), decoded, "{text}");
    }
}
