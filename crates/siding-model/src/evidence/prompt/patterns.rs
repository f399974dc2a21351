//! Patterns for prompts: each function matches one kind of prompt, or one kind of line that only
//! resembles a prompt. `lowercase` is the line in lower case.

/// Removes white space and the punctuation `:`, `?`, `>`, `›` and `-` from the end of a line.
fn trim_prompt_suffix(line: &str) -> &str {
    line.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ':' | '?' | '>' | '›' | '-'))
}

/// Matches a line that ends with a choice such as `(y/n)`, `[Y/n]`, `(yes/no/[fingerprint])`,
/// `[y,n,q,a,d,e,?]` or `([y]/n)`.
pub(super) fn ends_with_choice(lowercase: &str) -> bool {
    let line = trim_prompt_suffix(lowercase);
    let pairs = [('(', ')'), ('[', ']')];
    pairs.into_iter().any(|(open, close)| {
        let Some(inner) = line.strip_suffix(close) else { return false };
        // Tries each opening bracket from the left, because a choice may itself contain brackets.
        inner.match_indices(open).any(|(at, _)| is_yes_no_choice(&inner[at + 1..]))
    })
}

fn is_yes_no_choice(inner: &str) -> bool {
    const YES: [&str; 3] = ["y", "yes", "ja"];
    const NO: [&str; 3] = ["n", "no", "nein"];
    if inner.len() > 60 {
        return false;
    }
    let words: Vec<&str> = inner
        .split(['/', ',', '|'])
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .collect();
    let any = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    if let [letters] = words.as_slice() {
        // `[Ynaqdhm]`: one letter for each choice.
        return letters.starts_with("yn")
            && (3..9).contains(&letters.len())
            && letters.bytes().all(|byte| byte.is_ascii_lowercase());
    }
    words.len() > 1 && words.iter().all(|word| word.len() <= 24) && any(&YES) && any(&NO)
}

/// Matches a request for confirmation such as `Are you sure?`, `Is this OK? (yes)` or `Continue?`.
pub(super) fn is_confirmation(lowercase: &str) -> bool {
    const CONFIRMATIONS: [&str; 10] = [
        "continue?",
        "proceed?",
        "overwrite?",
        "is this ok?",
        "is this okay?",
        "is that correct?",
        "is this correct?",
        "go ahead?",
        "try again?",
        "replace?",
    ];
    // A default may follow the question: `(yes)`, `[no]`.
    let without_default = lowercase
        .strip_suffix([')', ']'])
        .and_then(|line| line.rsplit_once(['(', '[']))
        .filter(|(_, default)| default.len() <= 12)
        .map_or(lowercase, |(line, _)| line.trim_end());
    let asks = without_default.ends_with('?');
    asks && (lowercase.contains("are you sure")
        || CONFIRMATIONS.iter().any(|asked| without_default.ends_with(asked)))
}

pub(super) fn is_key_prompt(lowercase: &str) -> bool {
    const KEY_PHRASES: [&str; 11] = [
        "press any key",
        "press a key",
        "press enter",
        "press return",
        "press <enter>",
        "press [enter]",
        "press space",
        "hit enter",
        "hit return",
        "hit any key",
        "--more--",
    ];
    // Keys that a running server merely offers are not a prompt: `press any key to stop`, `press
    // enter to show help`.
    const OPTIONAL_KEY_SUFFIXES: [&str; 6] =
        ["to stop", "to quit", "to shut", "to show", "for help", "to restart"];
    let Some((at, key)) = KEY_PHRASES.iter().find_map(|key| Some((lowercase.find(key)?, key)))
    else {
        return lowercase == "(end)"
            || lowercase.ends_with("(end)") && lowercase.starts_with("lines ");
    };
    let rest = lowercase[at + key.len()..].trim_start();
    !OPTIONAL_KEY_SUFFIXES.iter().any(|word| rest.starts_with(word))
}

pub(super) fn is_password_prompt(lowercase: &str) -> bool {
    const SECRET_WORDS: [&str; 9] = [
        "password",
        "passphrase",
        "passcode",
        "passwort",
        "mot de passe",
        "pin",
        "verification code",
        "one-time code",
        "otp",
    ];
    let Some(asked) = lowercase.strip_suffix([':', '?', '>']) else { return false };
    let is_word = |word: &str| {
        asked.match_indices(word).any(|(at, _)| {
            let before = asked[..at].chars().next_back();
            let after = asked[at + word.len()..].chars().next();
            !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
        })
    };
    SECRET_WORDS.iter().any(|word| is_word(word))
}

pub(super) fn is_question(line: &str, lowercase: &str) -> bool {
    const QUESTION_PREFIXES: [&str; 18] = [
        "enter ",
        "please enter ",
        "please select",
        "please choose",
        "select ",
        "choose ",
        "which ",
        "what ",
        "do you ",
        "would you ",
        "should ",
        "username for ",
        "your choice",
        "your name",
        "type ",
        "who ",
        "where ",
        "how ",
    ];
    const FULL_LINE_PROMPTS: [&str; 12] = [
        "login:",
        "username:",
        "user:",
        "user name:",
        "email:",
        "e-mail:",
        "name:",
        "choice:",
        "selection:",
        "option:",
        "answer:",
        "#?",
    ];
    // Prompt libraries of JavaScript and Python, such as Inquirer, start their questions with `?`.
    let of_library = line
        .strip_prefix("? ")
        .is_some_and(|rest| rest.chars().next().is_some_and(char::is_alphabetic));
    let asks = lowercase.ends_with([':', '?', '>', '›']);
    let begins = QUESTION_PREFIXES.iter().any(|word| lowercase.starts_with(word));
    let default = lowercase.ends_with(')') && lowercase.contains(": (");
    of_library
        || FULL_LINE_PROMPTS.contains(&lowercase)
        || lowercase.split(' ').count() == 2 && lowercase.ends_with(" login:")
        || begins && asks
        || default
            && ["package name", "version", "entry point", "license"]
                .iter()
                .any(|asked| lowercase.starts_with(asked))
}

/// Matches the prompts of interpreters and debuggers. The prompt must be the whole line.
pub(super) fn is_interpreter_prompt(line: &str) -> bool {
    const INTERPRETER_PROMPTS: [&str; 18] = [
        ">>>",
        "(gdb)",
        "(lldb)",
        "(Pdb)",
        "ipdb>",
        "mysql>",
        "MariaDB [(none)]>",
        "sqlite>",
        "ftp>",
        "sftp>",
        "telnet>",
        "irb>",
        "ghci>",
        "iex>",
        "scala>",
        "jshell>",
        "redis>",
        "(rdb)",
    ];
    let numbered = line.strip_prefix("In [").and_then(|rest| rest.strip_suffix("]:"));
    let irb = line.strip_prefix("irb(").and_then(|rest| rest.strip_suffix('>'));
    let database = line.strip_suffix("=#").or_else(|| line.strip_suffix("=>"));
    INTERPRETER_PROMPTS.contains(&line)
        || numbered.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        || irb.is_some()
        || database.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        })
}

/// Matches a question with a list of answers below it, one of which is marked as selected. Also
/// matches an open question with the mark `◆` on the last line.
pub(super) fn is_menu(line: &str, above: &[&str]) -> bool {
    const SELECTION_MARKERS: [char; 5] = ['❯', '›', '▸', '◉', '◆'];
    const RAIL_CHARS: [char; 4] = ['│', '└', '┃', '|'];
    let asks = |line: &str| {
        let line = line.trim();
        // Only open questions start with these marks: the libraries replace the mark of an answered
        // question, as in `✔ Pick a name` and `◇ Pick a name`.
        line.starts_with("? ")
            || line.starts_with("◆ ")
            || line.ends_with("(Use arrow keys)")
            || line.starts_with("[?] ")
    };
    let is_marked = |line: &str| {
        let line = line.trim_start().trim_start_matches(RAIL_CHARS).trim_start();
        line.starts_with(SELECTION_MARKERS) || line.starts_with("● ") || line.starts_with("> ")
    };
    let mut all = std::iter::once(&line).chain(above);
    let Some(question) = all.clone().position(|line| asks(line)) else { return false };
    let below = all.by_ref().take(question);
    let closes = line.trim() == "└" || question == 0;
    (question > 0 && below.copied().any(is_marked)) || (closes && line.trim().starts_with("◆ "))
}

/// Matches a log line, which starts with a time or a level.
pub(super) fn is_log_line(line: &str) -> bool {
    const LOG_LEVELS: [&str; 9] =
        ["info", "warn", "warning", "error", "debug", "trace", "notice", "fatal", "critical"];
    let first = line.split_whitespace().next().unwrap_or_default();
    let word = first.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let clock = first.trim_matches(['[', ']', '(', ')']);
    let is_time = clock.len() >= 5
        && clock.bytes().filter(u8::is_ascii_digit).count() >= 4
        && clock.bytes().all(|byte| byte.is_ascii_digit() || b"-:.,TZ+/".contains(&byte));
    LOG_LEVELS.contains(&word.as_str()) || is_time
}

/// Matches a line with a percentage or a progress bar.
pub(super) fn is_progress_line(line: &str) -> bool {
    let has_share = line.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit() && c != '%');
        word.strip_suffix('%').is_some_and(|number| number.parse::<f32>().is_ok())
    });
    let bar = line.chars().filter(|c| "█▏▎▍▌▋▊▉━╸#=".contains(*c)).count();
    has_share || bar > 4
}
