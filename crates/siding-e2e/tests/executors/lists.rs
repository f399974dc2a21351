//! The tasks of another machine in `siding ps`.

use serde_json::json;

use crate::fake_ssh::{FakeSsh, write_program};
use crate::sandbox;

/// Runs the remote command on this machine, after text as startup files of a shell print it.
const GREETING_SSH: &str = "echo '[Welcome]'; for last; do :; done; eval \"$last\"";
/// Lists one task, and fails to read another one.
const INCOMPLETE_LIST: &str = r#"
case "$*" in
*--json*) echo '[{"task_id":"b-x","executor":null}]' ;;
*) echo 'b-x  running' ;;
esac
echo 'siding: task b-y: damaged' >&2
exit 125"#;

#[test]
fn a_list_is_found_after_other_text_and_kept_with_its_error() {
    let sandbox = sandbox();
    let fake = FakeSsh::new(&sandbox, GREETING_SSH);
    let program = sandbox.path("remote-siding");
    fake.set_program(&program);
    let list = |flags: &[&str]| fake.siding(&[&["ps", "--on", "build"], flags].concat()).run();
    assert_eq!(list(&[]).expect_code(0).stdout_text(), "build:\nno tasks\n");
    assert_eq!(list(&["--json"]).expect_code(0).json(), json!([]));

    write_program(&program, INCOMPLETE_LIST);
    let done = list(&[]).expect_code(125);
    assert_eq!(done.stdout_text(), "build:\nb-x  running\n");
    assert!(done.stderr_text().contains("build: siding: task b-y: damaged"), "{done}");
    let done = list(&["--json"]).expect_code(125);
    assert_eq!(done.json(), json!([{"task_id": "b-x", "executor": "build"}]));
}
