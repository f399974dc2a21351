//! Programs that take a text for a shell, or that put words together in a way of their own.

use super::call::Shape;
use super::expand::{Field, SURE};
use super::lists;
use super::walk::{Place, Walker};
use super::wrappers::behind;

/// Programs of which each word, options left out, is a text for a shell.
const EVERY_WORD: &[&str] = &["concurrently", "hyperfine", "mprocs"];

/// Programs with an option, or a word, whose value is a text for a shell.
const TEXT_BEHIND: &[(&str, &[&str])] = &[
    ("flock", &["-c", "--command"]),
    ("git", &["-x", "--exec", "--tree-filter", "--index-filter", "--msg-filter", "--env-filter"]),
    ("nix-shell", &["--run", "--command"]),
    ("nodemon", &["-x", "--exec"]),
    ("npm", &["-c", "--call"]),
    ("npx", &["-c", "--call"]),
    ("runuser", &["-c", "--command", "--session-command"]),
    ("script", &["-c", "--command"]),
    ("sg", &["-c"]),
    ("su", &["-c", "--command", "--session-command"]),
    ("tar", &["--to-command"]),
    ("vagrant", &["-c", "--command"]),
    ("cargo", &["-s", "--shell"]),
];

/// Takes the programs of this file. Returns whether there is nothing more to unwrap.
pub(super) fn texts(walker: &mut Walker, program: &str, args: &[Field], place: &Place) -> bool {
    for (name, options) in TEXT_BEHIND {
        if *name == program {
            text_behind(walker, args, options, place);
        }
    }
    if EVERY_WORD.contains(&program) {
        for field in args.iter().filter(|field| !field.text.starts_with('-')) {
            walker.text_of(field, place);
        }
        return true;
    }
    match program {
        "eval" => eval(walker, args, place),
        "trap" | "batch" | "at" => {
            if let Some(first) = args.first().filter(|first| program == "trap" && is_code(first)) {
                walker.text_of(first, place);
            }
            if let Some(stdin) = place.stdin.clone().filter(|_| program != "trap") {
                walker.text_of(&stdin, place);
            }
        }
        "alias" => {
            for field in args {
                if let Some((_, text)) = field.text.split_once('=') {
                    let field = Field { text: text.to_owned(), at: None, ..field.clone() };
                    walker.text_of(&field, place);
                }
            }
        }
        "source" | "." => {
            if let Some(file) = args.first() {
                walker.file(file, place);
            }
        }
        "env" => return env(walker, args, place),
        "watch" => {
            let values = &["-n", "--interval", "-q", "--equexit"];
            joined(walker, behind(args, values, 0), place);
        }
        "ssh" | "dbclient" | "autossh" => ssh(walker, args, place),
        "xargs" => lists::xargs(walker, args, place),
        "parallel" => lists::parallel(walker, args, place),
        "find" | "fd" | "fdfind" | "bfs" => lists::find(walker, program, args, place),
        "git" => git(walker, args, place),
        "tmux" | "screen" => {
            for field in args.iter().filter(|field| field.text.contains(' ')) {
                walker.text_of(field, place);
            }
        }
        "siding" => siding(walker, args, place),
        _ => return false,
    }
    true
}

fn text_behind(walker: &mut Walker, args: &[Field], options: &[&str], place: &Place) {
    for (at, field) in args.iter().enumerate() {
        let text = field.text.as_str();
        if options.contains(&text)
            && let Some(code) = args.get(at + 1)
        {
            walker.text_of(code, place);
        }
        if let Some((option, value)) = text.split_once('=')
            && options.contains(&option)
        {
            let field = Field { text: value.to_owned(), at: None, ..field.clone() };
            walker.text_of(&field, place);
        }
    }
}

/// `trap - INT`, `trap '' INT` and `trap cleanup EXIT` with a function have no text to read, or
/// one of a single word, which reads the same.
fn is_code(field: &Field) -> bool {
    !field.text.is_empty() && !field.text.starts_with('-')
}

/// Joins words by blanks, as `eval` and `ssh` do, into a text for a shell.
fn joined(walker: &mut Walker, args: &[Field], place: &Place) {
    match args {
        [] => {}
        [one] => walker.text_of(one, place),
        [first, .., last] => {
            let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
            let span = first.span.to(last.span);
            let field = Field { text: words.join(" "), span, ..Field::default() };
            walker.text_of(&field, place);
        }
    }
}

fn eval(walker: &mut Walker, args: &[Field], place: &Place) {
    let args = match args.split_first() {
        Some((first, rest)) if first.text == "--" => rest,
        _ => args,
    };
    let has_lines = |field: &&Field| field.text.trim_matches('\n').contains('\n');
    // Lines of a value that is not in quotes become one line; so do several arguments.
    let lost = args.len() > 1
        && args.iter().any(|field| field.was_split && !field.text.starts_with(SURE))
        || args.len() > 1 && args.iter().any(|field| has_lines(&field));
    if lost && let Some(first) = args.first() {
        let span = args.iter().fold(first.span, |span, field| span.to(field.span));
        walker.shape(Shape::EvalLines, span);
    }
    joined(walker, args, place);
}

/// `env -S 'text'`; everything else of `env` is a plain wrapper.
fn env(walker: &mut Walker, args: &[Field], place: &Place) -> bool {
    for (at, field) in args.iter().enumerate() {
        let text = field.text.as_str();
        if matches!(text, "-S" | "--split-string") {
            joined(walker, args.get(at + 1..).unwrap_or_default(), place);
            return true;
        }
        let attached = text.strip_prefix("-S").or_else(|| text.strip_prefix("--split-string="));
        if let Some(code) = attached {
            let field = Field { text: code.to_owned(), at: None, ..field.clone() };
            walker.text_of(&field, place);
            return true;
        }
        if !text.starts_with('-') {
            break;
        }
    }
    false
}

fn ssh(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &[
        "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
        "-Q", "-R", "-S", "-W", "-w", "-M",
    ];
    let command = behind(args, VALUES, 1);
    if command.is_empty() {
        if let Some(stdin) = place.stdin.clone() {
            walker.text_of(&stdin, &Place { stdin: None, ..place.clone() });
        }
        return;
    }
    joined(walker, command, place);
}

fn git(walker: &mut Walker, args: &[Field], place: &Place) {
    // `git -c alias.x='!rm -rf /' x`, `git config alias.x '!…'`
    for (at, field) in args.iter().enumerate() {
        let alias = field.text.strip_prefix("alias.");
        let code = alias.and_then(|rest| rest.split_once('=')).map(|(_, code)| (code, field));
        let next = args.get(at + 1).filter(|_| alias.is_some());
        let found = code.or(next.map(|next| (next.text.as_str(), next)));
        if let Some((code, field)) = found
            && let Some(code) = code.strip_prefix('!')
        {
            walker.text_of(&Field { text: code.to_owned(), at: None, ..field.clone() }, place);
        }
    }
    let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
    for subcommand in [&["submodule", "foreach"][..], &["bisect", "run"]] {
        let at = words.windows(2).position(|pair| pair == subcommand);
        if let Some(at) = at {
            joined(walker, behind(&args[at + 2..], &[], 0), place);
        }
    }
}

/// `siding run 'text'`, `siding run -- program words`.
fn siding(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &[
        "--budget",
        "--settle",
        "--timeout",
        "--on-timeout",
        "--grace",
        "--signal",
        "--session",
        "--cwd",
        "--env",
        "--stdin",
        "--on-leader-exit",
        "--name",
        "--shell",
    ];
    let Some((first, rest)) = args.split_first() else { return };
    if !matches!(first.text.as_str(), "run" | "monitor") {
        return;
    }
    match behind(rest, VALUES, 0) {
        [] => {}
        [text] => walker.text_of(text, place),
        words => walker.call(words, words[0].span, place),
    }
}
