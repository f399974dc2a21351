//! Divides the words of a call into options and operands, and normalizes paths.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::resolve::Call;

/// For each program, the options that have the next word as their value.
pub(crate) type ValueOptions = HashMap<String, Vec<String>>;

/// A call with its words divided into options and operands, which rules match.
#[derive(Debug)]
pub(crate) struct MatchInput<'c> {
    pub(crate) call: &'c Call,
    /// The options. A value that is a separate word is omitted; a value after `=` is part of the
    /// option.
    options: Vec<&'c str>,
    /// The words that are neither options nor values of options, in order.
    pub(crate) operands: Vec<&'c str>,
    /// The value of `-t` or `--target-directory`.
    target: Option<&'c str>,
    /// The normalized forms of words as paths, cached because many rules compare the same word.
    path_cache: RefCell<HashMap<String, Rc<[String]>>>,
}

impl<'c> MatchInput<'c> {
    pub(crate) fn new(call: &'c Call, values: &ValueOptions) -> Self {
        let options_of = |name: &str| values.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut value_options = options_of(&call.program);
        let (mut options, mut operands, mut target) = (vec![], vec![], None);
        let mut words = call.args.iter().map(|arg| arg.text.as_str());
        while let Some(word) = words.next() {
            if word == "--" {
                operands.extend(words);
                break;
            }
            if word.len() < 2 || !word.starts_with('-') {
                // The options of `docker compose` differ from those of `docker`: in `docker compose
                // -f FILE` the option has a value, in `docker rm -f` it has none.
                if operands.is_empty() && word == "compose" {
                    value_options = options_of(&format!("{} compose", call.program));
                }
                operands.push(word);
                if COMMAND_PREFIX_PROGRAMS.contains(&call.program.as_str()) {
                    // In `sudo bash -lc …`, the words after the first operand are arguments of
                    // another program.
                    operands.extend(words);
                    break;
                }
                continue;
            }
            // `-uroot` is an option with a value, not the letters `r`, `o` and `t`.
            let has_value = word.is_char_boundary(2)
                && !word.starts_with("--")
                && value_options.iter().any(|option| option.len() == 2 && *option == word[..2]);
            options.push(if has_value { &word[..2] } else { word });
            let attached = word.strip_prefix("--target-directory=");
            target = attached.or(target);
            if value_options.iter().any(|option| option == word) {
                let value = words.next();
                let is_target = matches!(word, "-t" | "--target-directory");
                target = value.filter(|_| is_target).or(target);
            }
        }
        Self { call, options, operands, target, path_cache: RefCell::default() }
    }

    /// Returns the sources and the target of a move or copy; the target is `None` for a single
    /// operand. The target is the value of `--target-directory` or, without this option, the last
    /// of several operands.
    pub(crate) fn sources_and_target<'o, 'l>(
        &'l self,
        operands: &'o [&'l str],
    ) -> (&'o [&'l str], Option<&'l str>) {
        match (self.target, operands) {
            (Some(target), operands) => (operands, Some(target)),
            (None, [sources @ .., last]) if !sources.is_empty() => (sources, Some(*last)),
            (None, operands) => (operands, None),
        }
    }

    /// Returns all texts in the words of the call that may name a file, such as `x` in `@x`,
    /// `name=@x` and `host:x`.
    pub(crate) fn file_candidates(&self) -> impl Iterator<Item = &str> {
        let args = &self.call.args;
        let is_key = |at: usize| {
            at.checked_sub(1)
                .is_some_and(|before| KEY_FILE_OPTIONS.contains(&args[before].text.as_str()))
        };
        let words = args.iter().enumerate().filter(move |(at, _)| !is_key(*at));
        let is_client = TRANSFER_CLIENTS.contains(&self.call.program.as_str());
        let commands =
            args.iter().map(|arg| arg.text.as_str()).chain(self.call.stdin_text.as_deref());
        let uploads = commands.filter(move |_| is_client).flat_map(uploaded_words);
        let words = words.map(|(_, arg)| arg.text.as_str()).chain(self.call.stdin_file.as_deref());
        words.chain(uploads).flat_map(word_and_embedded_values)
    }

    /// Returns the normalized forms of a word that is interpreted as a path.
    pub(crate) fn path_forms(&self, word: &str) -> Rc<[String]> {
        if let Some(known) = self.path_cache.borrow().get(word) {
            return Rc::clone(known);
        }
        let found: Rc<[String]> = normalized_forms(word, &self.call.directory).into();
        self.path_cache.borrow_mut().insert(word.to_owned(), Rc::clone(&found));
        found
    }

    /// Returns whether the call has an option. `names` are its names, as in `-f|--force`. The
    /// option may be one of several letters in a word, and may have a value after `=`. With
    /// `may_shorten`, a prefix of three or more letters of a long name matches too
    /// (getopt_long(3)).
    pub(crate) fn has_option(&self, names: &str, may_shorten: bool) -> bool {
        names
            .split('|')
            .any(|name| self.options.iter().any(|option| option_matches(option, name, may_shorten)))
    }
}

/// Programs whose own options precede the command that they run.
const COMMAND_PREFIX_PROGRAMS: &[&str] = &[
    "chroot", "command", "doas", "env", "exec", "gosu", "nice", "nohup", "nsenter", "pkexec",
    "run0", "setsid", "ssh", "sudo", "timeout", "unshare", "xargs",
];

/// Options whose value is a file, usually a key, that the program uses itself and does not send.
const KEY_FILE_OPTIONS: &[&str] = &[
    "-E",
    "-i",
    "-oIdentityFile",
    "--cacert",
    "--cert",
    "--cert-file",
    "--certificate",
    "--env-file",
    "--exclude",
    "--identity",
    "--key",
    "--key-file",
    "--kubeconfig",
    "--netrc-file",
    "--private-key",
    "IdentityFile",
];

/// File transfer clients that read commands from standard input or from an option's value.
const TRANSFER_CLIENTS: &[&str] = &["cadaver", "ftp", "lftp", "ncftp", "sftp", "smbclient", "tftp"];

/// Commands of the transfer clients that send files.
const UPLOAD_COMMANDS: &[&str] = &["append", "mput", "put", "reput", "send"];

/// Returns the arguments of the upload commands among the commands of a transfer client.
fn uploaded_words(commands: &str) -> impl Iterator<Item = &str> {
    commands.split(['\n', ';']).flat_map(|command| {
        // sftp(1): with `-`, a failure of the command is ignored; with `@`, the command is not
        // printed.
        let mut words = command.trim_start().trim_start_matches(['-', '@']).split_whitespace();
        let is_upload = words.next().is_some_and(|name| UPLOAD_COMMANDS.contains(&name));
        words.filter(move |_| is_upload).map(|word| word.trim_matches(['"', '\'']))
    })
}

/// Returns a word, and the texts after the separators `@`, `=`, `:` and `<` in the word, each also
/// cut at its first `;`, `,` or `:`. Returns nothing if the word sets a key file, as `--key=FILE`
/// does.
fn word_and_embedded_values(word: &str) -> impl Iterator<Item = &str> {
    let is_key = KEY_FILE_OPTIONS
        .iter()
        .any(|key| word.strip_prefix(key).is_some_and(|v| v.starts_with('=')));
    let behind =
        word.match_indices(['@', '=', ':', '<']).map(|(at, mark)| &word[at + mark.len()..]);
    let whole = std::iter::once(word).chain(behind).filter(move |_| !is_key);
    whole.flat_map(|part| {
        let cut = part.split([';', ',', ':']).next().unwrap_or(part);
        [part, cut].into_iter().take(if cut.len() == part.len() { 1 } else { 2 })
    })
}

/// Returns the normalized forms of a path. A path in a home directory has the additional form
/// `~/…`.
pub(super) fn normalized_forms(text: &str, directory: &str) -> Vec<String> {
    let path = normalize_path(text, directory);
    let below = path
        .strip_prefix("/home/")
        .or_else(|| path.strip_prefix("/Users/"))
        .and_then(|rest| rest.split_once('/').map(|(_, rest)| rest))
        .or_else(|| path.strip_prefix("/root/"));
    match below.map(|rest| format!("~/{rest}")) {
        Some(home) => vec![path, home],
        None => vec![path],
    }
}

fn option_matches(word: &str, name: &str, may_shorten: bool) -> bool {
    let bare = word.split('=').next().unwrap_or(word);
    if word == name || bare == name {
        return true;
    }
    let mut letters = name.chars().skip(1);
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return !word.starts_with("--") && bare.chars().skip(1).any(|c| c == letter);
    }
    may_shorten && name.starts_with("--") && bare.len() >= 5 && name.starts_with(bare)
}

/// Normalizes a path without reading the file system: removes `//`, `.`, `x/..` and a trailing
/// slash. A relative path is joined to `directory`, unless `directory` is `.`.
pub(crate) fn normalize_path(text: &str, directory: &str) -> String {
    if text.contains("://") {
        return text.to_owned();
    }
    let is_anchored = text.starts_with(['/', '~', '\u{E000}', '\u{E001}']);
    let joined = match directory {
        _ if is_anchored => text.to_owned(),
        "." | "" => text.to_owned(),
        directory => format!("{directory}/{text}"),
    };
    let is_absolute = joined.starts_with('/');
    let mut parts: Vec<&str> = vec![];
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&"..") | None if !is_absolute => parts.push(".."),
                Some(&"~") => parts = vec!["~", ".."],
                Some(_) => {
                    parts.pop();
                }
                None => {}
            },
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    match (is_absolute, path.is_empty()) {
        (true, _) => format!("/{path}"),
        (false, true) if joined.is_empty() => String::new(),
        (false, true) => ".".to_owned(),
        (false, false) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized() {
        for (text, directory, expected) in [
            ("//", ".", "/"),
            ("/tmp/../etc/", ".", "/etc"),
            ("/..", ".", "/"),
            ("~/./", ".", "~"),
            ("./../..", ".", "../.."),
            ("./", ".", "."),
            ("*", "/", "/*"),
            ("x", "~/a", "~/a/x"),
            ("/x", "/tmp", "/x"),
            ("", ".", ""),
            ("https://a//b", ".", "https://a//b"),
        ] {
            assert_eq!(normalize_path(text, directory), expected, "{text}");
        }
    }

    #[test]
    fn only_upload_commands_name_uploaded_files() {
        for (commands, expected) in [
            ("put .env", ".env"),
            ("cd in\n-put \"a.pem\" b\nget c", "a.pem b"),
            ("@mput *.key; bye", "*.key"),
            ("get .env\nls put", ""),
            ("", ""),
        ] {
            assert_eq!(uploaded_words(commands).collect::<Vec<_>>().join(" "), expected);
        }
    }

    #[test]
    fn options_match_in_short_long_and_joined_forms() {
        for (word, name, found) in [
            ("-rf", "-r", true),
            ("-rf", "-x", false),
            ("--recursive", "-r", false),
            ("--recur", "--recursive", true),
            ("--rec", "--recursive", true),
            ("--force", "--force-with-lease", true),
            ("--max-time=5", "--max-time", true),
            ("-delete", "-delete", true),
        ] {
            assert_eq!(option_matches(word, name, true), found, "{word} {name}");
        }
        assert!(!option_matches("--force", "--force-with-lease", false));
    }
}
