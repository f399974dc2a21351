//! Programs that take a text for a shell, or that put words together in a way of their own.

use super::call::Shape;
use super::expand::{ANY, Field, SURE};
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
        "xargs" => xargs(walker, args, place),
        "parallel" => parallel(walker, args, place),
        "find" | "fd" | "fdfind" | "bfs" => find(walker, program, args, place),
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
    let args = args.strip_prefix_option();
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

trait StripOption {
    fn strip_prefix_option(&self) -> &Self;
}

impl StripOption for [Field] {
    /// `eval -- …`
    fn strip_prefix_option(&self) -> &Self {
        match self.split_first() {
            Some((first, rest)) if first.text == "--" => rest,
            _ => self,
        }
    }
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

fn xargs(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &[
        "-I",
        "-n",
        "-P",
        "-L",
        "-d",
        "-E",
        "-s",
        "-a",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--delimiter",
        "--arg-file",
        "--replace",
        "-J",
        "-R",
    ];
    let command = behind(args, VALUES, 0);
    if command.is_empty() {
        return;
    }
    // What it reads, when the text says so: `echo / | xargs rm -rf`.
    let read = place.stdin.as_ref().map(|field| field.text.clone());
    let replaced = args.iter().position(|field| field.text.starts_with("-I")).map(|at| {
        let attached = &args[at].text[2..];
        match attached {
            "" => args.get(at + 1).map_or("{}", |field| field.text.as_str()).to_owned(),
            name => name.to_owned(),
        }
    });
    let inner = Place { stdin: None, upstream: vec![], ..place.clone() };
    let span = command[0].span;
    let mut given: Vec<String> = match &read {
        Some(text) if !text.contains([ANY, SURE]) => {
            text.split_whitespace().take(64).map(str::to_owned).collect()
        }
        Some(_) | None => vec![ANY.to_string()],
    };
    if given.is_empty() {
        given.push(ANY.to_string());
    }
    let fields = match replaced {
        Some(mark) => command
            .iter()
            .map(|field| {
                let text = field.text.replace(&mark, given.first().map_or("", |one| one));
                Field {
                    at: if text == field.text { field.at } else { None },
                    text,
                    ..field.clone()
                }
            })
            .collect(),
        None => given
            .into_iter()
            .fold(command.to_vec(), |fields, one| Walker::with_argument(&fields, one)),
    };
    walker.call(&fields, span, &inner);
}

fn parallel(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &["-j", "-n", "-N", "-P", "-a", "--jobs", "--delay", "--colsep", "-S"];
    let command = behind(args, VALUES, 0);
    let end = command.iter().position(|field| field.text.starts_with(":::"));
    let (command, given) = command.split_at(end.unwrap_or(command.len()));
    if command.is_empty() {
        // The words are commands themselves.
        for field in given.iter().skip(1) {
            walker.text_of(field, place);
        }
        return;
    }
    let words: Vec<&str> = command.iter().map(|field| field.text.as_str()).collect();
    let text = words.join(" ");
    let span = command[0].span.to(command[command.len() - 1].span);
    let values: Vec<String> = match given.len() {
        0 => vec![ANY.to_string()],
        _ => given.iter().skip(1).take(8).map(|field| field.text.clone()).collect(),
    };
    for value in values {
        let text = if text.contains('{') {
            text.replace("{}", &value).replace("{1}", &value)
        } else {
            format!("{text} {value}")
        };
        walker.text_of(&Field { text, span, ..Field::default() }, place);
    }
}

fn find(walker: &mut Walker, program: &str, args: &[Field], place: &Place) {
    let is_start = |field: &Field| {
        if program == "find" || program == "bfs" {
            matches!(field.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir")
        } else {
            matches!(field.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch")
        }
    };
    let mut rest = args;
    while let Some(at) = rest.iter().position(is_start) {
        rest = &rest[at + 1..];
        let end = rest.iter().position(|field| matches!(field.text.as_str(), ";" | "+"));
        let (command, after) = rest.split_at(end.unwrap_or(rest.len()));
        let found: Vec<Field> = command
            .iter()
            .map(|field| {
                let text = field.text.replace("{}", &format!("{SURE}/found"));
                Field {
                    at: if text == field.text { field.at } else { None },
                    text,
                    ..field.clone()
                }
            })
            .collect();
        if let Some(first) = found.first() {
            let inner = Place { stdin: None, upstream: vec![], ..place.clone() };
            walker.call(&found, first.span, &inner);
        }
        rest = after;
    }
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
