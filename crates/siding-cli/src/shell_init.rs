//! The script that each shell of an agent reads first, so that siding adopts the shell.

use std::path::Path;

use siding_model::id::SessionId;
use siding_model::shell_words::single_quote;

use crate::failure::Failure;

/// Returns the script, which makes a shell call `program`. Both bash and zsh accept the script,
/// because an agent may choose either shell.
///
/// # Errors
///
/// Fails if the path of `program` is not UTF-8.
pub(crate) fn init_script(program: &Path, session: Option<&SessionId>) -> Result<String, Failure> {
    let Some(path) = program.to_str() else {
        return Err(Failure::new(format!("the path `{}` is not UTF-8", program.display()))
            .with_hint("install siding in a directory whose name is"));
    };
    let template = include_str!("shell_init/line.sh");
    // A session's name needs no quotes: see `SessionId`. The host supervisor may have adopted a
    // sandboxed shell before the shell reads this script; then only this line sets the variable.
    let export_line = session.map_or_else(
        || ":".to_owned(),
        |session| format!("export SIDING_SESSION=${{SIDING_SESSION:-{session}}}"),
    );
    let session = session.map_or_else(String::new, |session| format!(" --session {session}"));
    Ok(template
        .replace("SESSION </dev", &format!("{session} </dev"))
        .replace("KEPT", &export_line)
        .replace("PROGRAM", &single_quote(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_values_cannot_break_out_of_the_script() {
        let session = "chat-7".parse().expect("a name");
        let text = init_script(Path::new("/opt/it's/siding"), Some(&session)).expect("UTF-8");
        let call = r#"{ '/opt/it'\''s/siding' adopt "$$" --at-once --session chat-7 </dev/null"#;
        assert!(text.contains(call) && text.contains("-x '/opt/it'\\''s/siding' ]]"), "{text}");
        assert!(text.contains("export SIDING_SESSION=${SIDING_SESSION:-chat-7}\n"), "{text}");
        assert!(
            !text.contains("PROGRAM")
                && !text.contains("KEPT")
                && text.contains("SIDING_SESSION=$session"),
            "{text}"
        );
    }
}
