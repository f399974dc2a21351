//! Finds commands in code of other languages: `os.system('…')`, `execSync("…")`, `qx(…)`.
//!
//! The code is not parsed. A string literal after the name of a function that starts programs is
//! treated as a command, and consecutive literals as the words of one command. This module does not
//! check whether the code with the literal runs.

use super::expand::Field;
use super::walk::{ExecContext, Walker};

/// Names, without version numbers, of programs that accept code as an argument.
const CODE_PROGRAMS: &[&str] = &[
    "Rscript",
    "R",
    "awk",
    "bun",
    "deno",
    "elixir",
    "emacs",
    "erl",
    "expect",
    "gawk",
    "groovy",
    "iex",
    "ipython",
    "julia",
    "lua",
    "luajit",
    "mawk",
    "node",
    "nodejs",
    "osascript",
    "perl",
    "php",
    "pypy",
    "python",
    "ruby",
    "scala",
    "tclsh",
    "ts-node",
    "tsx",
    "jshell",
    "ghc",
    "vi",
    "vim",
    "nvim",
];

/// Names of functions that start a program or shell command from their arguments.
const SPAWN_FUNCTIONS: &[&str] = &[
    "Popen",
    "call",
    "callCommand",
    "capture2",
    "capture3",
    "check_call",
    "check_output",
    "cmd",
    "exec",
    "execFile",
    "execFileSync",
    "execSync",
    "execl",
    "execlp",
    "execv",
    "execve",
    "execvp",
    "execute",
    "getoutput",
    "getstatusoutput",
    "open3",
    "passthru",
    "popen",
    "popen3",
    "proc_open",
    "run",
    "script",
    "shell_exec",
    "spawn",
    "spawnSync",
    "system",
];

/// Languages in which `` `…` `` runs a command.
const BACKTICK_LANGUAGES: &[&str] = &["julia", "perl", "php", "ruby"];

/// Maximum number of bytes of code that are searched.
const MAX_CODE_BYTES: usize = 16 << 10;

/// Returns whether `program` is `name`, with or without a version number or another known suffix.
pub(super) fn is_version_of(program: &str, name: &str) -> bool {
    program.strip_prefix(name).is_some_and(|rest| {
        rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
            || matches!(rest, "js" | "jit")
    })
}

/// Returns whether a program accepts code of a programming language as an argument.
pub(super) fn takes_code(program: &str) -> bool {
    CODE_PROGRAMS.iter().any(|name| is_version_of(program, name))
}

/// Queues the commands in the code that is passed to a program.
pub(super) fn queue_spawned_commands(
    walker: &mut Walker,
    program: &str,
    args: &[Field],
    context: &ExecContext,
) {
    let Some(language) = CODE_PROGRAMS.iter().find(|name| is_version_of(program, name)) else {
        return;
    };
    let inner = ExecContext {
        stdin: None,
        upstream: vec![],
        unknown_wrapper: Some(format!("code of {program}")),
        ..context.clone()
    };
    for field in args.iter().chain(&context.stdin) {
        for text in find_commands(&field.text, language) {
            walker.queue_field(&Field { text, span: field.span, ..Field::default() }, &inner);
        }
    }
}

/// Returns the string literals in code that look like commands.
fn find_commands(code: &str, language: &str) -> Vec<String> {
    let code = &code[..code.floor_char_boundary(MAX_CODE_BYTES.min(code.len()))];
    let mut found = quote_operator_commands(code, language);
    // The words of the current command. The list is empty between two commands.
    let mut words: Vec<String> = vec![];
    let mut rest = code;
    while let Some((gap, quote, text, behind)) = next_string_literal(rest) {
        let is_next_word = !words.is_empty() && gap.trim().trim_matches(['[', '(']).trim() == ",";
        if !is_next_word && !words.is_empty() {
            found.push(join_words(&words));
            words.clear();
        }
        let is_read = || {
            let to = behind.trim_start().strip_prefix('|');
            to.is_some_and(|to| to.trim_start().starts_with("getline"))
        };
        let runs = quote == '`' && BACKTICK_LANGUAGES.contains(&language);
        if is_next_word || runs || follows_spawn_function(gap) || is_read() {
            words.push(text);
        }
        rest = behind;
    }
    if !words.is_empty() {
        found.push(join_words(&words));
    }
    found
}

/// Finds the next string literal. Returns the text before the literal, the quote character, the
/// literal's content, and the text after the literal. Returns `None` if no literal follows, or it
/// is not closed.
fn next_string_literal(code: &str) -> Option<(&str, char, String, &str)> {
    let at = code.find(['\'', '"', '`'])?;
    let mut chars = code[at..].char_indices();
    let (_, quote) = chars.next()?;
    let mut text = String::new();
    while let Some((offset, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, next)) => text.push(next),
                None => return None,
            },
            c if c == quote => {
                return Some((&code[..at], quote, text, &code[at + offset + c.len_utf8()..]));
            }
            c => text.push(c),
        }
    }
    None
}

/// Returns whether a string literal that follows this text is a command, as after `os.system(`,
/// `subprocess.run([` and `exec `.
fn follows_spawn_function(gap: &str) -> bool {
    // Prefixes of Python strings: `f"…"`, `r'…'`.
    let gap = gap
        .strip_suffix(['f', 'r', 'b'])
        .filter(|gap| gap.ends_with(['(', '[', ' ']))
        .unwrap_or(gap);
    let name = gap.trim_end().trim_end_matches(['(', '[', '{', ' ', '\n']);
    let end = name.len();
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let start = name
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + name[at..].chars().next().map_or(1, char::len_utf8));
    let name = name[start..end].trim_end_matches('!');
    SPAWN_FUNCTIONS.contains(&name) || name.ends_with("shell-command") || name == "call-process"
}

/// Joins words to form a shell command, and quotes words that contain blanks.
fn join_words(words: &[String]) -> String {
    match words {
        [one] => one.clone(),
        words => {
            let quoted = |word: &String| match word.contains([' ', '\n']) {
                true => format!("'{word}'"),
                false => word.clone(),
            };
            words.iter().map(quoted).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Returns the contents of `qx(…)` in Perl and of `%x(…)` in Ruby.
fn quote_operator_commands(code: &str, language: &str) -> Vec<String> {
    let mark = match language {
        "perl" => "qx",
        "ruby" => "%x",
        _ => return vec![],
    };
    let text = |part: &str| {
        let open = part.chars().next()?;
        let close = match open {
            '(' => ')',
            '{' => '}',
            '[' => ']',
            '/' | '|' | '!' => open,
            _ => return None,
        };
        part[1..].split_once(close).map(|(text, _)| text.to_owned())
    };
    code.split(mark).skip(1).filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_string_literals_are_found() {
        for (language, code, expected) in [
            ("python", "import os; os.system('rm -rf /')", "rm -rf /"),
            ("python", "subprocess.run(['rm', '-rf', \"/\"], check=True)", "rm -rf /"),
            ("python", "subprocess.run([\"sh\", \"-c\", \"rm -rf /\"])", "sh -c 'rm -rf /'"),
            ("python", "os.system(f\"rm {x}\")", "rm {x}"),
            ("python", "print('rm -rf /')", ""),
            ("python", "x = ['rm', '-rf']", ""),
            ("node", "require('child_process').execSync(`ls`)", "ls"),
            ("node", "console.log(`rm -rf /`)", ""),
            ("perl", "system \"rm\", \"-rf\", \"/\"", "rm -rf /"),
            ("perl", "print qx(ls -l)", "ls -l"),
            ("ruby", "`ls`; %x(pwd)", "pwd|ls"),
            ("awk", "BEGIN { \"date\" | getline d; print \"x\" }", "date"),
            ("osascript", "do shell script \"ls\"", "ls"),
            ("emacs", "(shell-command \"ls\")", "ls"),
            ("python", "os.system('never closed", ""),
        ] {
            assert_eq!(find_commands(code, language).join("|"), expected, "{code}");
        }
    }
}
