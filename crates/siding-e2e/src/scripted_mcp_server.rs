//! An MCP server that does what a file says: for what siding's own would never do.

use crate::Sandbox;

/// Speaks the older handshake. The file `state` is looked at for each call of its tool `look`: its
/// text is the answer; with `error` it is one of the protocol, with `failed` one of the tool; with
/// `die` the server ends with code 3, and with `die once` it does so and writes `up` for the next.
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

/// Returns the command of such a server, and writes what it is to say first.
///
/// # Panics
///
/// When the sandbox cannot be written.
#[must_use]
#[track_caller]
pub fn write_scripted_server(sandbox: &Sandbox, state: &str) -> String {
    std::fs::write(sandbox.path("server.sh"), SERVER_SCRIPT)
        .expect("the own directory can be written");
    set_scripted_server_state(sandbox, state);
    "exec bash server.sh".to_owned()
}

/// Changes what it says: whoever looks meanwhile finds the old or the new.
///
/// # Panics
///
/// When the sandbox cannot be written.
#[track_caller]
pub fn set_scripted_server_state(sandbox: &Sandbox, state: &str) {
    let (new, place) = (sandbox.path("state.new"), sandbox.path("state"));
    std::fs::write(&new, state).expect("the own directory can be written");
    std::fs::rename(new, place).expect("the own directory can be written");
}
