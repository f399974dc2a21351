//! An MCP server with scripted answers, for behavior that siding's own server never shows.

use crate::Sandbox;

/// A server in bash that implements the handshake of 2025-11-25 (`initialize`). For each tool call
/// the server reads the file `state` and returns its text. Four texts have a special effect:
/// `error` returns a protocol error, `failed` returns a tool error, and `die` ends the server with
/// exit code 3. `die once` also ends the server, but first writes `up` to the file, so that the
/// next server returns `up`.
const SERVER_SCRIPT: &str = r#"
echo "I am $$" >&2
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
text() { answer '"result":{"content":[{"type":"text","text":"'"$1"'"}],"isError":'"$2"'}'; }
while IFS= read -r line; do
  id=; [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
  case $line in
    *'"initialize"'*)
      answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"scripted","version":"1"}}' ;;
    *'"tools/call"'*)
      state=$(cat state)
      case $state in
        'die once') printf up > state; exit 3 ;;
        die) exit 3 ;;
        error) answer '"error":{"code":-32602,"message":"no such thing"}' ;;
        failed) text 'it did not work' true ;;
        *) text "$state" false ;;
      esac ;;
  esac
done
"#;

/// Writes the server script and its first state, and returns the command that starts the server.
///
/// # Panics
///
/// When the sandbox is not writable.
#[must_use]
#[track_caller]
pub fn write_scripted_server(sandbox: &Sandbox, state: &str) -> String {
    std::fs::write(sandbox.path("server.sh"), SERVER_SCRIPT).expect("test directory");
    set_scripted_server_state(sandbox, state);
    "exec bash server.sh".to_owned()
}

/// Replaces the server's state. The rename is atomic, so a concurrent reader gets the old or the
/// new state.
///
/// # Panics
///
/// When the sandbox is not writable.
#[track_caller]
pub fn set_scripted_server_state(sandbox: &Sandbox, state: &str) {
    let (new, place) = (sandbox.path("state.new"), sandbox.path("state"));
    std::fs::write(&new, state).expect("test directory");
    std::fs::rename(new, place).expect("test directory");
}
