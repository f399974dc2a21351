//! Programs that a person started through an agent and wants to keep: editors and browsers.

/// Most bytes of a program's name that the kernel keeps.
const KERNEL_NAME_MAX: usize = 15;
/// Beginnings of words by which a program says that no person looks at it.
const HEADLESS: [&str; 3] = ["--headless", "--remote-debugging-", "--enable-automation"];

/// Name that stands for all of [`EDITORS`] in a list of programs.
const ALL_EDITORS: &str = "editors";
/// Name that stands for all of [`BROWSERS`] in a list of programs.
const ALL_BROWSERS: &str = "browsers";

/// Editors with a window of their own.
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
/// Browsers, and what they leave beside themselves.
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

/// Returns the programs that are spared when nobody says otherwise.
#[must_use]
pub fn built_in_spare_programs() -> Vec<String> {
    vec![ALL_EDITORS.to_owned(), ALL_BROWSERS.to_owned()]
}

/// Returns the names that an item of a list of programs stands for.
fn names_of(item: &str) -> Vec<&str> {
    match item {
        ALL_EDITORS => EDITORS.to_vec(),
        ALL_BROWSERS => BROWSERS.to_vec(),
        name => vec![name],
    }
}

/// Beginnings of the names of programs that run other programs' text: that two processes execute the same
/// one says nothing of them.
const INTERPRETERS: [&str; 8] = ["bun", "deno", "java", "node", "perl", "php", "python", "ruby"];

/// Whether a program of this name runs other programs' text.
#[must_use]
pub fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.iter().any(|interpreter| name.starts_with(interpreter))
}

/// Whether a process is one of these programs with a person in front of it. `name` is that of the
/// program that it executes, or the kernel's for it, `words` its command line.
#[must_use]
pub fn is_spared(name: &str, words: &[String], programs: &[String]) -> bool {
    let first = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let kernels = |program: &str| {
        let end = program.len().min(KERNEL_NAME_MAX);
        name == program || program.is_char_boundary(end) && name == &program[..end]
    };
    let is_named = |program: &str| first == program || kernels(program);
    let is_meant = programs.iter().flat_map(|item| names_of(item)).any(is_named);
    is_meant && !words.iter().any(|word| HEADLESS.iter().any(|flag| word.starts_with(flag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spared(name: &str, line: &str) -> bool {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        is_spared(name, &words, &built_in_spare_programs())
    }

    #[test]
    fn an_interpreter_is_known_by_its_name() {
        assert!(
            is_interpreter("node") && is_interpreter("python3.11") && !is_interpreter("claude")
        );
    }

    #[test]
    fn a_persons_editor_or_browser_is_spared_and_a_driven_one_is_not() {
        assert!(spared("code", "/usr/share/code/code --new-window ."));
        assert!(spared("firefox-esr", "/usr/lib/firefox-esr/firefox-esr https://example.org"));
        assert!(spared("chrome_crashpad", "/opt/google/chrome/chrome_crashpad_handler"));
        assert!(spared("x", "/usr/bin/firefox"), "by its first word");
        assert!(!spared("chrome", "/opt/google/chrome/chrome --headless=new --disable-gpu"));
        assert!(!spared("chrome", "chrome --remote-debugging-port=0"));
        assert!(!spared("chrome", "chrome --enable-automation --user-data-dir=/tmp/x"));
        assert!(!spared("socat", "socat UNIX-LISTEN:/tmp/code TCP:code"));
        assert!(!spared("node", "node /usr/bin/code"));
        let words = ["code".to_owned()];
        assert!(!is_spared("code", &words, &[]), "an empty list spares nothing");
        assert!(!is_spared("code", &words, &["browsers".to_owned()]));
        assert!(is_spared("code", &words, &["browsers".to_owned(), "code".to_owned()]));
    }
}
