//! Programs that survive the end of the host that started them: editors and browsers, in which a
//! user may still be working.

/// Maximum number of bytes of a program's name that the kernel stores: `TASK_COMM_LEN` without the
/// terminating zero.
const MAX_KERNEL_NAME_BYTES: usize = 15;
/// Prefixes of the arguments of a browser in which no user works: it has no window, or another
/// program controls it.
const HEADLESS_FLAGS: [&str; 3] = ["--headless", "--remote-debugging-", "--enable-automation"];

/// Name of the group [`EDITORS`] in a list of programs.
const EDITORS_GROUP: &str = "editors";
/// Name of the group [`BROWSERS`] in a list of programs.
const BROWSERS_GROUP: &str = "browsers";

/// Editors that open their own window.
pub const EDITORS: [&str; 18] = [
    "code",
    "code-insiders",
    "codium",
    "cursor",
    "emacs",
    "gedit",
    "gnome-text-editor",
    "gvim",
    "idea",
    "kate",
    "pycharm",
    "subl",
    "sublime_text",
    "vscodium",
    "webstorm",
    "windsurf",
    "zed",
    "zed-editor",
];
/// Browsers and their helper processes.
pub const BROWSERS: [&str; 16] = [
    "brave",
    "brave-browser",
    "chrome",
    "chrome_crashpad_handler",
    "chromium",
    "chromium-browser",
    "epiphany",
    "falkon",
    "firefox",
    "firefox-esr",
    "google-chrome",
    "konqueror",
    "microsoft-edge",
    "msedge",
    "opera",
    "vivaldi-bin",
];

/// Returns the programs that are excluded from termination by default.
#[must_use]
pub fn default_excluded_programs() -> Vec<String> {
    vec![EDITORS_GROUP.to_owned(), BROWSERS_GROUP.to_owned()]
}

/// Returns the program names of an entry in a list of programs: the members of a group, otherwise
/// the entry itself.
fn expand_group(item: &str) -> Vec<&str> {
    match item {
        EDITORS_GROUP => EDITORS.to_vec(),
        BROWSERS_GROUP => BROWSERS.to_vec(),
        name => vec![name],
    }
}

/// Name prefixes of interpreters. Two processes with the same interpreter may run different
/// programs, so the executable does not identify the program.
const INTERPRETER_PREFIXES: [&str; 8] =
    ["bun", "deno", "java", "node", "perl", "php", "python", "ruby"];

/// Returns whether a program of this name is an interpreter.
#[must_use]
pub fn is_interpreter(name: &str) -> bool {
    INTERPRETER_PREFIXES.iter().any(|interpreter| name.starts_with(interpreter))
}

/// Returns whether a process is one of `programs`, unless its arguments show that no user works in
/// it. `name` is the file name of the executable, or the kernel's name of the process; `words` is
/// the command line.
#[must_use]
pub fn is_excluded_program(name: &str, words: &[String], programs: &[String]) -> bool {
    let first = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let kernels = |program: &str| {
        let end = program.len().min(MAX_KERNEL_NAME_BYTES);
        name == program || program.is_char_boundary(end) && name == &program[..end]
    };
    let is_named = |program: &str| first == program || kernels(program);
    let is_meant = programs.iter().flat_map(|item| expand_group(item)).any(is_named);
    is_meant && !words.iter().any(|word| HEADLESS_FLAGS.iter().any(|flag| word.starts_with(flag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_excluded(name: &str, line: &str) -> bool {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        is_excluded_program(name, &words, &default_excluded_programs())
    }

    #[test]
    fn interpreters_are_recognized_by_name_prefix() {
        assert!(
            is_interpreter("node") && is_interpreter("python3.11") && !is_interpreter("claude")
        );
    }

    #[test]
    fn interactive_editors_and_browsers_are_excluded_headless_ones_are_not() {
        assert!(is_excluded("code", "/usr/share/code/code --new-window ."));
        assert!(is_excluded("firefox-esr", "/usr/lib/firefox-esr/firefox-esr https://example.org"));
        assert!(is_excluded("chrome_crashpad", "/opt/google/chrome/chrome_crashpad_handler"));
        assert!(is_excluded("x", "/usr/bin/firefox"), "the first word is compared, too");
        assert!(!is_excluded("chrome", "/opt/google/chrome/chrome --headless=new --disable-gpu"));
        assert!(!is_excluded("chrome", "chrome --remote-debugging-port=0"));
        assert!(!is_excluded("chrome", "chrome --enable-automation --user-data-dir=/tmp/x"));
        assert!(!is_excluded("socat", "socat UNIX-LISTEN:/tmp/code TCP:code"));
        assert!(!is_excluded("node", "node /usr/bin/code"));
        let words = ["code".to_owned()];
        assert!(!is_excluded_program("code", &words, &[]), "an empty list spares nothing");
        assert!(!is_excluded_program("code", &words, &["browsers".to_owned()]));
        assert!(is_excluded_program("code", &words, &["browsers".to_owned(), "code".to_owned()]));
    }
}
