//! Appends a block to TOML text and removes the block again. The rest of the text is not changed.

use toml_edit::{Document, DocumentMut, Item, Table};

use super::json::TextError;
use super::program::ProgramNames;
use super::record::{InstallRecord, OriginalEmptyFile};

/// The values of the block that an install appends to Codex's `config.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CodexBlock {
    /// Path of siding, which is the program of the MCP server.
    pub(crate) program: String,
    /// Path of the script that the host's shells read first, because `BASH_ENV` names it.
    pub(crate) shell_file: String,
}

/// Table of the MCP servers (`codex-rs/config` in Codex's source, which also defines
/// [`POLICY_TABLE`]).
const SERVERS_TABLE: &str = "mcp_servers";
const SERVER_KEY: &str = "siding";
/// Table that determines the environment of commands. Variables in its table `set` are added to the
/// environment.
const POLICY_TABLE: &str = "shell_environment_policy";
const SET_TABLE: &str = "set";
/// The variable that names the file which bash reads before a command (bash(1)).
const SHELL_FILE_VARIABLE: &str = "BASH_ENV";

/// Returns the text with the block appended and an earlier block removed. Returns the text
/// unchanged if its server entry starts this program and the policy has a table `set`.
///
/// # Errors
///
/// The text is not TOML, its server `siding` does not start `siding mcp`, or no table can be
/// appended, for example because `mcp_servers` is an inline table.
pub(crate) fn install(
    old: Option<&str>,
    block: &CodexBlock,
    names: &ProgramNames,
    record: &mut InstallRecord,
) -> Result<String, TextError> {
    let text = old.unwrap_or_default();
    let document = parse(text)?;
    if is_complete(document.as_table(), block) {
        return Ok(text.to_owned());
    }
    if let Some(server) = get_item(document.as_table(), &[SERVERS_TABLE, SERVER_KEY])
        && siding_command(server, names).is_none()
    {
        let start = server.span().map_or(0, |span| span.start);
        let what = "a server named `siding` that does not start siding".to_owned();
        return Err(TextError::at_offset(text, start, what));
    }
    let (base, blank) = match old {
        None => (String::new(), Some(OriginalEmptyFile::NoFile)),
        Some(text) => (remove_block(text, names, Some(record))?, record.blank.clone()),
    };
    let added = block
        .render(&base, get_item(parse(&base)?.as_table(), &[POLICY_TABLE, SET_TABLE]).is_none());
    let new = format!("{base}{added}");
    parse(&new).map_err(|fault| {
        let what = format!("no table can be appended to the file ({})", fault.what);
        TextError::at_offset(text, text.len(), what)
    })?;
    *record = InstallRecord { blank, appended: Some(added), ..InstallRecord::default() };
    Ok(new)
}

/// Returns the text without the block; `None` if nothing is left of a file that the install
/// created.
///
/// # Errors
///
/// The text is not TOML.
pub(crate) fn remove(
    old: &str,
    names: &ProgramNames,
    record: Option<&InstallRecord>,
) -> Result<Option<String>, TextError> {
    let left = remove_block(old, names, record)?;
    let was_created = record.is_some_and(|made| made.blank == Some(OriginalEmptyFile::NoFile));
    if was_created && left.trim().is_empty() && left != old {
        return Ok(None);
    }
    Ok(Some(left))
}

/// Returns the program that the entry of siding's MCP server starts; `None` if there is no such
/// entry.
pub(crate) fn server_program(
    text: &str,
    names: &ProgramNames,
) -> Result<Option<String>, TextError> {
    let document = parse(text)?;
    Ok(get_item(document.as_table(), &[SERVERS_TABLE, SERVER_KEY])
        .and_then(|server| siding_command(server, names)))
}

/// Returns the value of `BASH_ENV` in a text: the script that the host's shells read first.
pub(crate) fn shell_file(text: &str) -> Result<Option<String>, TextError> {
    let document = parse(text)?;
    let value = get_item(document.as_table(), &[POLICY_TABLE, SET_TABLE, SHELL_FILE_VARIABLE]);
    Ok(value.and_then(Item::as_str).map(str::to_owned))
}

impl CodexBlock {
    fn render(&self, base: &str, variable: bool) -> String {
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
        let header = format!("[{SERVERS_TABLE}.{SERVER_KEY}]");
        lines.extend([header.as_str(), &command, "args = [\"mcp\"]"]);
        let table = format!("[{POLICY_TABLE}.{SET_TABLE}]");
        let file = format!("{SHELL_FILE_VARIABLE} = {}", quoted(&self.shell_file));
        if variable {
            lines.extend(["", table.as_str(), &file]);
        }
        lines.join(newline) + newline
    }
}

fn is_complete(table: &Table, block: &CodexBlock) -> bool {
    let server = [SERVERS_TABLE, SERVER_KEY, "command"];
    let command = get_item(table, &server).and_then(Item::as_str);
    let variable = get_item(table, &[POLICY_TABLE, SET_TABLE]);
    command == Some(&block.program)
        // Any table `set` is accepted: an install does not change a table that a person wrote.
        && variable.is_some()
}

fn remove_block(
    text: &str,
    names: &ProgramNames,
    record: Option<&InstallRecord>,
) -> Result<String, TextError> {
    if let Some(added) = record.and_then(|made| made.appended.as_deref())
        && let Some(start) = text.find(added)
    {
        return Ok(format!("{}{}", &text[..start], &text[start + added.len()..]));
    }
    // A person has edited the block, or there is no record of the block, so its entries are removed
    // one by one.
    if server_program(text, names)?.is_none() {
        return Ok(text.to_owned());
    }
    let mut document: DocumentMut = text.parse().map_err(|error| to_text_error(text, &error))?;
    let table = document.as_table_mut();
    drop_member(table, &[SERVERS_TABLE, SERVER_KEY]);
    let ours = get_item(table, &[POLICY_TABLE, SET_TABLE, SHELL_FILE_VARIABLE])
        .and_then(Item::as_str)
        .is_some_and(|file| file.ends_with("siding/bash-env"));
    if ours {
        drop_member(table, &[POLICY_TABLE, SET_TABLE, SHELL_FILE_VARIABLE]);
    }
    Ok(document.to_string())
}

/// Removes a member, and the parent tables that become empty, except inline tables.
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

/// Parses TOML text. The document keeps the position of each key and value in the text.
///
/// # Errors
///
/// The text is not TOML.
pub(crate) fn parse(text: &str) -> Result<Document<String>, TextError> {
    Document::parse(text.to_owned()).map_err(|error| to_text_error(text, &error))
}

fn to_text_error(text: &str, error: &toml_edit::TomlError) -> TextError {
    let start = error.span().map_or(0, |span| span.start);
    TextError::at_offset(text, start, error.message().to_owned())
}

fn get_item<'t>(table: &'t Table, keys: &[&str]) -> Option<&'t Item> {
    let (first, rest) = keys.split_first()?;
    rest.iter().try_fold(table.get(first)?, |item, key| item.get(key))
}

fn siding_command(server: &Item, names: &ProgramNames) -> Option<String> {
    let command = server.get("command")?.as_str()?;
    let first = server.get("args")?.get(0)?.as_str()?;
    (first == "mcp" && names.is_siding(command)).then(|| command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(program: &str) -> CodexBlock {
        CodexBlock {
            program: program.to_owned(),
            shell_file: "/h/.config/siding/bash-env".to_owned(),
        }
    }

    fn names() -> ProgramNames {
        ProgramNames::with_name(None)
    }

    #[test]
    fn uninstall_restores_the_original_text() {
        for text in [
            "model = \"x\"\n",
            "model = \"x\"",
            "# mine\r\n[mcp_servers.other]\r\ncommand = 'y'\r\n",
            "[shell_environment_policy]\ninherit = \"all\" # mine\n\n",
            "[shell_environment_policy]\nset = { A = \"1\" }\n",
            "\n\n",
            "",
        ] {
            let mut made = InstallRecord::default();
            let new = install(Some(text), &block("/o/siding"), &names(), &mut made).expect(text);
            assert_eq!(server_program(&new, &names()).expect("TOML").as_deref(), Some("/o/siding"));
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
            // Without a record, whitespace and empty tables may differ from the original text.
            let left = remove(&moved, &names(), None).expect("TOML").expect("a file");
            assert!(!left.contains("siding"), "{left}");
        }
        let mut made = InstallRecord::default();
        let new = install(None, &block("/o/siding"), &names(), &mut made).expect("TOML");
        assert_eq!(shell_file(&new).expect("TOML").as_deref(), Some("/h/.config/siding/bash-env"));
        assert_eq!(remove(&new, &names(), Some(&made)).expect("TOML"), None);
    }

    #[test]
    fn text_that_cannot_be_extended_is_rejected() {
        for (text, line, what) in [
            ("a = \n", 1, ""),
            ("x = 1\n[mcp_servers]\nsiding = { command = \"npx\" }\n", 3, "does not start siding"),
            ("mcp_servers = {}\n", 2, "no table can be appended"),
        ] {
            let fault =
                install(Some(text), &block("/o/siding"), &names(), &mut InstallRecord::default());
            let fault = fault.expect_err(text);
            assert!(fault.what.contains(what), "{fault}");
            assert_eq!(fault.line, line, "{text}: {fault}");
        }
    }
}
