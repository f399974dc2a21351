//! Edits of TOML text: one block at the end, and nothing else touched.

use toml_edit::{Document, DocumentMut, Item, Table};

use super::json::Fault;
use super::made::{Blank, Made};
use super::program::Names;

/// What is to be in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Block {
    /// The program of the server.
    pub(crate) program: String,
    /// The file that shells read first.
    pub(crate) shell_file: String,
}

/// Tables of Codex's (`codex-rs/config` of its source).
const SERVERS: &str = "mcp_servers";
const SERVER: &str = "siding";
const POLICY: &str = "shell_environment_policy";
const SET: &str = "set";
/// What bash reads before a command (bash(1)).
const VARIABLE: &str = "BASH_ENV";

/// Returns the text with the block in it.
///
/// # Errors
///
/// When it is no TOML, when a server with that name is another one, or when nothing can be put
/// behind what is there.
pub(crate) fn install(
    old: Option<&str>,
    block: &Block,
    names: &Names,
    made: &mut Made,
) -> Result<String, Fault> {
    let text = old.unwrap_or_default();
    let document = read(text)?;
    if is_whole(document.as_table(), block) {
        return Ok(text.to_owned());
    }
    if let Some(server) = at(document.as_table(), &[SERVERS, SERVER])
        && program_of(server, names).is_none()
    {
        let start = server.span().map_or(0, |span| span.start);
        let what = "a server named `siding` that does not start siding".to_owned();
        return Err(Fault::at(text, start, what));
    }
    let (base, blank) = match old {
        None => (String::new(), Some(Blank::NoFile)),
        Some(text) => (remove_block(text, names, Some(made))?, made.blank.clone()),
    };
    let added = block.text(&base, at(read(&base)?.as_table(), &[POLICY, SET]).is_none());
    let new = format!("{base}{added}");
    read(&new).map_err(|fault| {
        let what = format!("no table can be put behind what is there ({})", fault.what);
        Fault::at(text, text.len(), what)
    })?;
    *made = Made { blank, appended: Some(added), ..Made::default() };
    Ok(new)
}

/// Returns the text without the block; `None` when nothing is left of a file that install made.
///
/// # Errors
///
/// When it is no TOML.
pub(crate) fn remove(
    old: &str,
    names: &Names,
    made: Option<&Made>,
) -> Result<Option<String>, Fault> {
    let left = remove_block(old, names, made)?;
    let made_file = made.is_some_and(|made| made.blank == Some(Blank::NoFile));
    if made_file && left.trim().is_empty() && left != old {
        return Ok(None);
    }
    Ok(Some(left))
}

/// Returns the program of siding's server, if it is there.
pub(crate) fn server(text: &str, names: &Names) -> Result<Option<String>, Fault> {
    let document = read(text)?;
    Ok(at(document.as_table(), &[SERVERS, SERVER]).and_then(|server| program_of(server, names)))
}

/// Returns the file that shells read first, as it is set.
pub(crate) fn shell_file(text: &str) -> Result<Option<String>, Fault> {
    let document = read(text)?;
    let value = at(document.as_table(), &[POLICY, SET, VARIABLE]);
    Ok(value.and_then(Item::as_str).map(str::to_owned))
}

impl Block {
    fn text(&self, base: &str, variable: bool) -> String {
        let newline = if base.contains("\r\n") { "\r\n" } else { "\n" };
        let mut lines = Vec::new();
        if !base.is_empty() {
            lines.push("");
            if !base.ends_with('\n') {
                lines.push("");
            }
        }
        let quoted = |text: &str| toml_edit::Value::from(text).to_string();
        let command = format!("command = {}", quoted(&self.program));
        let header = format!("[{SERVERS}.{SERVER}]");
        lines.extend([header.as_str(), &command, "args = [\"mcp\"]"]);
        let table = format!("[{POLICY}.{SET}]");
        let file = format!("{VARIABLE} = {}", quoted(&self.shell_file));
        if variable {
            lines.extend(["", table.as_str(), &file]);
        }
        lines.join(newline) + newline
    }
}

fn is_whole(table: &Table, block: &Block) -> bool {
    let server = [SERVERS, SERVER, "command"];
    let command = at(table, &server).and_then(Item::as_str);
    let variable = at(table, &[POLICY, SET]);
    command == Some(&block.program)
        // A table of a person's is left to them.
        && variable.is_some()
}

fn remove_block(text: &str, names: &Names, made: Option<&Made>) -> Result<String, Fault> {
    if let Some(added) = made.and_then(|made| made.appended.as_deref())
        && let Some(start) = text.find(added)
    {
        return Ok(format!("{}{}", &text[..start], &text[start + added.len()..]));
    }
    // Somebody has edited it, or there is no memory of it.
    if server(text, names)?.is_none() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse().map_err(|error| fault(text, &error))?;
    let table = document.as_table_mut();
    drop_member(table, &[SERVERS, SERVER]);
    let ours = at(table, &[POLICY, SET, VARIABLE])
        .and_then(Item::as_str)
        .is_some_and(|file| file.ends_with("siding/bash-env"));
    if ours {
        drop_member(table, &[POLICY, SET, VARIABLE]);
    }
    Ok(document.to_string())
}

/// Takes a member out, and the tables above it that have nothing left.
fn drop_member(table: &mut Table, keys: &[&str]) {
    let Some((key, below)) = keys.split_first() else { return };
    if below.is_empty() {
        table.remove(key);
        return;
    }
    let Some(inner) = table.get_mut(key) else { return };
    if let Some(inner) = inner.as_table_mut() {
        drop_member(inner, below);
        if inner.is_empty() {
            table.remove(key);
        }
    } else if let (Some(inner), [last]) = (inner.as_inline_table_mut(), below) {
        inner.remove(last);
    }
}

fn read(text: &str) -> Result<Document<String>, Fault> {
    Document::parse(text.to_owned()).map_err(|error| fault(text, &error))
}

fn fault(text: &str, error: &toml_edit::TomlError) -> Fault {
    let start = error.span().map_or(0, |span| span.start);
    Fault::at(text, start, error.message().to_owned())
}

fn at<'t>(table: &'t Table, keys: &[&str]) -> Option<&'t Item> {
    let (first, rest) = keys.split_first()?;
    rest.iter().try_fold(table.get(first)?, |item, key| item.get(key))
}

fn program_of(server: &Item, names: &Names) -> Option<String> {
    let command = server.get("command")?.as_str()?;
    let first = server.get("args")?.get(0)?.as_str()?;
    (first == "mcp" && names.is_siding(command)).then(|| command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(program: &str) -> Block {
        Block { program: program.to_owned(), shell_file: "/h/.config/siding/bash-env".to_owned() }
    }

    fn names() -> Names {
        Names::with(None)
    }

    #[test]
    fn uninstall_gives_back_what_was_there() {
        for text in [
            "model = \"x\"\n",
            "model = \"x\"",
            "# mine\r\n[mcp_servers.other]\r\ncommand = 'y'\r\n",
            "[shell_environment_policy]\ninherit = \"all\" # mine\n\n",
            "[shell_environment_policy]\nset = { A = \"1\" }\n",
            "\n\n",
            "",
        ] {
            let mut made = Made::default();
            let new = install(Some(text), &block("/o/siding"), &names(), &mut made).expect(text);
            assert_eq!(server(&new, &names()).expect("TOML").as_deref(), Some("/o/siding"));
            let first = made.clone();
            let again = install(Some(&new), &block("/o/siding"), &names(), &mut made);
            assert_eq!((again.expect("TOML"), made.clone()), (new.clone(), first));
            let moved =
                install(Some(&new), &block("/n/siding"), &names(), &mut made).expect("TOML");
            assert_eq!(moved, new.replace("/o/", "/n/"));
            let theirs = format!("{moved}\n[features]\nx = true\n");
            let left = remove(&theirs, &names(), Some(&made)).expect("TOML").expect("a file");
            assert!(left.ends_with("\n[features]\nx = true\n"), "{left}");
            assert!(left.starts_with(text) && !left.contains("siding"), "{left}");
            let left = remove(&moved, &names(), Some(&made)).expect("TOML");
            assert_eq!(left.as_deref(), Some(text));
            // Without a memory, what it means is the same.
            let left = remove(&moved, &names(), None).expect("TOML").expect("a file");
            assert!(!left.contains("siding"), "{left}");
        }
        let mut made = Made::default();
        let new = install(None, &block("/o/siding"), &names(), &mut made).expect("TOML");
        assert_eq!(shell_file(&new).expect("TOML").as_deref(), Some("/h/.config/siding/bash-env"));
        assert_eq!(remove(&new, &names(), Some(&made)).expect("TOML"), None);
    }

    #[test]
    fn what_cannot_be_extended_is_refused() {
        for (text, line, what) in [
            ("a = \n", 1, ""),
            ("x = 1\n[mcp_servers]\nsiding = { command = \"npx\" }\n", 3, "does not start siding"),
            ("mcp_servers = {}\n", 2, "no table can be put"),
        ] {
            let fault = install(Some(text), &block("/o/siding"), &names(), &mut Made::default());
            let fault = fault.expect_err(text);
            assert!(fault.what.contains(what), "{fault}");
            assert_eq!(fault.line, line, "{text}: {fault}");
        }
    }
}
