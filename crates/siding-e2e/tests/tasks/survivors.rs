//! What the user may not signal.
//!
//! `sudo` itself is not needed for this: a helper that belongs to root and may change its user
//! does what sudo does after it has asked for the password.

use std::os::unix::fs::PermissionsExt as _;

use siding_e2e::words;

use crate::support::{Task, ordinary};

/// LINUX fault 11: a process of root's below an ordinary user's task is named as a survivor, and
/// the call fails; the rest is gone.
#[test]
fn a_process_of_another_user_is_named() {
    // The sandbox ends the survivor: it may, being root's.
    let Some(sandbox) = ordinary() else {
        return;
    };
    let Some(program) = ["/usr/bin/setpriv", "/bin/setpriv"]
        .into_iter()
        .find(|path| std::fs::exists(path).unwrap_or(false))
    else {
        println!("skipped: no setpriv here");
        return;
    };
    let helper = sandbox.root().join("elevate");
    std::fs::copy(program, &helper).expect("the own directory can be written");
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o4755)).expect("own file");
    let elevated = sandbox.puppet_line(&words("mark other hang"));
    let own = sandbox.puppet_line(&words("mark own hang"));
    let helper = helper.display();
    let text = format!("{own} & {helper} --reuid 0 --regid 0 --clear-groups {elevated}");
    let task = Task::start_with(&sandbox, &["--grace", "100ms"], &text);
    let (own, other) = (sandbox.marked("own"), sandbox.marked("other"));
    let done = sandbox.siding(&["stop", "--json", &task.id]).run().expect_code(125);
    println!("with a survivor: {:?}", done.elapsed);
    assert!(other.alive() && !own.alive(), "{done}");
    let survivors = &done.json()["stop_report"]["survivors"];
    assert_eq!(survivors.as_array().map(Vec::len), Some(1), "{done}");
    assert_eq!(survivors[0]["pid"], other.pid);
    assert_eq!(survivors[0]["uid"], 0);
    let why = survivors[0]["why"].as_str().expect("a reason");
    assert!(why.contains("user 0"), "{done}");
    assert_eq!(done.json()["outcome"]["kind"], "stopped");
    assert!(task.output().contains("could not be ended"), "{}", task.output());
}
