//! An MCP client for tests. The client stores all messages that the server sends.

use serde_json::{Value, json};
use siding_e2e::{RunningProgram, Sandbox, eventually_some};

/// The newest protocol revision with a handshake (`initialize`).
pub(crate) const INITIALIZE_REVISION: &str = "2025-11-25";
/// The protocol revision without a handshake.
pub(crate) const STATELESS_REVISION: &str = "2026-07-28";
/// The name of the MCP Tasks extension (SEP-2663).
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Returns a sandbox that fails its test if the test leaves processes running.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Returns the unread notices of a task's session.
pub(crate) fn unread_notices(sandbox: &Sandbox, id: &str) -> Value {
    let shown = sandbox.siding(&["show", "--json", id]).run().expect_code(0).json();
    let session = shown["session_id"].as_str().expect("a session");
    // These calls run outside the session, because a `show` inside the session would acknowledge
    // the end.
    sandbox.siding(&["notices", "--json", "--session", session]).run().expect_code(0).json()
}

/// A client that is connected to the standard input and output of its server.
pub(crate) struct Client {
    server: RunningProgram,
    requests: u64,
    /// Metadata that is sent in the `_meta` of each request; empty in the revision with a
    /// handshake.
    meta: Value,
}

/// The content blocks of a tool's result. An absent block is represented by an empty text.
#[derive(Debug)]
pub(crate) struct ToolAnswer {
    pub(crate) message: String,
    pub(crate) output: String,
    /// Notices about other tasks, from the last block.
    pub(crate) notices: String,
    pub(crate) is_error: bool,
}

impl ToolAnswer {
    pub(crate) fn from_result(result: &Value) -> Self {
        let blocks = result["content"].as_array().into_iter().flatten();
        let mut blocks: Vec<String> =
            blocks.filter_map(|block| block["text"].as_str().map(str::to_owned)).collect();
        let is_notices = |text: &mut String| text.starts_with("Reported by siding");
        let notices = blocks.pop_if(is_notices).unwrap_or_default();
        let mut blocks = blocks.into_iter();
        let mut next = || blocks.next().unwrap_or_default();
        let is_error = result["isError"].as_bool().unwrap_or(false);
        Self { message: next(), output: next(), notices, is_error }
    }

    /// Returns the first id of a shell command's task in the message.
    #[track_caller]
    pub(crate) fn task_id(&self) -> String {
        let is_id = |word: &&str| word.len() == 14 && word.starts_with("b-");
        let words = self.message.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words.into_iter().find(is_id).unwrap_or_else(|| panic!("no id in {self:?}")).to_owned()
    }
}

impl Client {
    /// Starts a server and sends no message.
    pub(crate) fn spawn(sandbox: &Sandbox) -> Self {
        Self::from_server(sandbox.siding(&["mcp"]).stdin_pipe().spawn())
    }

    pub(crate) fn from_server(server: RunningProgram) -> Self {
        Self { server, requests: 0, meta: json!({}) }
    }

    /// Starts a server and performs the handshake.
    pub(crate) fn connect_initialized(sandbox: &Sandbox) -> Self {
        Self::spawn(sandbox).initialize()
    }

    pub(crate) fn initialize(self) -> Self {
        self.initialize_as("test")
    }

    /// Performs the handshake with this client name.
    pub(crate) fn initialize_as(mut self, name: &str) -> Self {
        let info = json!({ "name": name, "version": "1" });
        let params = json!({ "protocolVersion": INITIALIZE_REVISION, "capabilities": {}, "clientInfo": info });
        let result = self.request("initialize", params);
        assert_eq!(result["protocolVersion"], INITIALIZE_REVISION, "{result}");
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        self
    }

    /// Starts a server and uses the revision without a handshake.
    pub(crate) fn connect_stateless(sandbox: &Sandbox, capabilities: Value) -> Self {
        Self::spawn(sandbox).discover(capabilities)
    }

    /// Uses the revision without a handshake, in which each request declares the client's
    /// capabilities.
    pub(crate) fn discover(mut self, capabilities: Value) -> Self {
        self.meta = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS_REVISION,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let result = self.request("server/discover", json!({}));
        let versions = result["supportedVersions"].as_array().expect("versions");
        assert!(
            versions.contains(&json!(STATELESS_REVISION))
                && versions.contains(&json!(INITIALIZE_REVISION)),
            "{result}"
        );
        self
    }

    pub(crate) fn process(&self) -> siding_e2e::Process {
        self.server.process()
    }

    /// Sends a message as one line.
    pub(crate) fn send(&mut self, message: &Value) {
        self.server.write_stdin(format!("{message}\n").as_bytes());
    }

    /// Sends a request and returns its id.
    pub(crate) fn start_request(&mut self, method: &str, mut params: Value) -> u64 {
        self.requests += 1;
        let mut meta = self.meta.clone();
        for (key, value) in params["_meta"].take().as_object().into_iter().flatten() {
            meta[key] = value.clone();
        }
        params["_meta"] = meta;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a tool call and returns the request's id.
    pub(crate) fn start_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.start_request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Returns all messages of the server so far.
    pub(crate) fn messages(&mut self) -> Vec<Value> {
        let text = self.server.stdout_text();
        let complete = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        complete.lines().map(|line| serde_json::from_str(line).expect("a message")).collect()
    }

    /// Waits for the first message for which `is_it` returns true.
    #[track_caller]
    pub(crate) fn wait_for_message(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        eventually_some(what, || self.messages().into_iter().find(&is_it))
    }

    /// Waits for the answer to a request and returns the whole message.
    #[track_caller]
    pub(crate) fn wait_for_answer(&mut self, id: u64) -> Value {
        self.wait_for_message("the request is answered", |message| message["id"] == id)
    }

    /// Sends a request that must succeed, and returns the result.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start_request(method, params);
        let answer = self.wait_for_answer(id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Sends a request that must fail, and returns the error code.
    #[track_caller]
    pub(crate) fn request_error_code(&mut self, method: &str, params: Value) -> i64 {
        let id = self.start_request(method, params);
        let answer = self.wait_for_answer(id);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// Calls a tool and returns its result, which must not be a protocol error.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> ToolAnswer {
        let id = self.start_call(tool, arguments);
        let answer = self.wait_for_answer(id);
        assert!(answer["error"].is_null(), "{tool}: {answer}");
        ToolAnswer::from_result(&answer["result"])
    }

    /// Starts a command in the background and returns its task's id.
    #[track_caller]
    pub(crate) fn start_background_task(&mut self, command: &str) -> String {
        let answer = self.call("run", json!({ "command": command, "background": true }));
        assert!(!answer.is_error, "{answer:?}");
        answer.task_id()
    }

    /// Calls a tool and waits for its first progress message, which shows that the call is running.
    /// Returns the request's id and the progress.
    #[track_caller]
    pub(crate) fn start_call_with_progress(
        &mut self,
        tool: &str,
        arguments: Value,
    ) -> (u64, Value) {
        let token = self.requests;
        let meta = json!({ "progressToken": token });
        let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
        let request = self.start_request("tools/call", params);
        let is_it = |message: &Value| message["params"]["progressToken"] == token;
        (request, self.wait_for_message("the progress arrives", is_it)["params"].clone())
    }

    /// Cancels a request, and waits until the server has read the cancellation.
    #[track_caller]
    pub(crate) fn cancel(&mut self, request: u64) {
        let params = json!({ "requestId": request, "reason": "enough" });
        self.send(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
        }));
        let _read_after_it = self.request("tools/list", json!({}));
    }

    /// Closes the pipes to the server's stdin and from its stdout immediately, as the kernel does
    /// when a client dies. Returns the server, which still runs.
    pub(crate) fn hang_up(mut self) -> RunningProgram {
        self.server.hang_up();
        self.server
    }

    /// Closes stdin and waits until the server has exited.
    #[track_caller]
    pub(crate) fn shutdown(mut self) {
        self.server.close_stdin();
        let _left = self.server.wait().expect_code(0);
    }
}
