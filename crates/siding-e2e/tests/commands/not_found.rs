//! The advice of `siding run` for a person whose command only a shell can run.

use siding_e2e::Terminal;

use crate::support::sandbox;

#[test]
fn a_person_gets_the_line_for_a_builtin_a_missing_quote_and_an_alias() {
    let sandbox = sandbox();
    for (words, line) in [
        (&["source", "env"][..], "`siding run -- 'source env; COMMAND'`"),
        (&["source", "env;", "make"], "`siding run -- 'source env; make'`"),
        (&["no-such-alias"], "`siding run -- bash -ic no-such-alias`"),
        (&["no-such-alias", "-a"], "`siding run -- bash -ic 'no-such-alias -a'`"),
    ] {
        let mut terminal = Terminal::new(80, 24);
        let call = sandbox.siding(&[&["run", "--"], words].concat()).env("SHELL", "/bin/bash");
        let done = call.on_terminal(&terminal).spawn().wait();
        assert_eq!(done.code, Some(127), "{done}");
        terminal.wait_for_text("siding run");
        // The note is wrapped, but not inside the line to type.
        let rows = terminal.screen();
        assert!(rows.iter().any(|row| row.contains(line)), "{rows:?}");
        let for_agent = sandbox.siding(&[&["run", "--"], words].concat()).run().expect_code(127);
        assert!(!for_agent.stderr_text().contains("siding run"), "{for_agent}");
    }
}
