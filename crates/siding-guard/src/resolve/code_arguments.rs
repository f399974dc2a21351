//! Resolves calls of programs whose arguments are shell texts, and of programs that join their
//! arguments to form a shell text.

use super::embedded_shells;
use super::env_program;
use super::expand::{Field, NONEMPTY_MARKER};
use super::fan_out;
use super::observation::Construct;
use super::siding_commands;
use super::walk::{CodeSource, ExecContext, Walker};
use super::wrappers::skip_options;
use crate::ast::Origin;

/// Programs whose operands are shell texts.
const CODE_WORD_PROGRAMS: &[&str] = &["concurrently", "hyperfine", "mispipe", "mprocs", "pee"];

/// Programs with options whose values are shell texts.
const CODE_OPTIONS: &[(&str, &[&str])] = &[
    ("complete", &["-C"]),
    ("compgen", &["-C"]),
    ("entr", &["-s"]),
    ("flock", &["-c", "--command"]),
    ("fly", &["-C", "--command"]),
    ("flyctl", &["-C", "--command"]),
    ("gcloud", &["--command"]),
    (
        "git",
        &[
            "-x",
            "--cc-cmd",
            "--env-filter",
            "--exec",
            "--extcmd",
            "--index-filter",
            "--msg-filter",
            "--open-files-in-pager",
            "--receive-pack",
            "--to-cmd",
            "--tree-filter",
            "--upload-pack",
        ],
    ),
    ("man", &["-P", "-H", "--pager", "--html"]),
    ("mapfile", &["-C"]),
    ("nix-shell", &["--run", "--command"]),
    ("nodemon", &["-x", "--exec"]),
    ("npm", &["-c", "--call"]),
    ("npx", &["-c", "--call"]),
    ("readarray", &["-C"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("runuser", &["-c", "--command", "--session-command"]),
    ("scp", &["-S"]),
    ("script", &["-c", "--command"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("tcpdump", &["-z"]),
    ("wget", &["--use-askpass"]),
    ("sg", &["-c"]),
    ("su", &["-c", "--command", "--session-command"]),
    (
        "tar",
        &[
            "-F",
            "-I",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
    ),
    ("vagrant", &["-c", "--command"]),
    ("watchexec", &["-c", "--command"]),
    ("zip", &["-TT", "--unzip-command"]),
    ("cargo", &["-s", "--shell"]),
];

/// Queues the shell texts in the arguments of a program that this module knows. Returns whether the
/// call is completely resolved.
pub(super) fn resolve_code_arguments(
    walker: &mut Walker,
    program: &str,
    args: &[Field],
    context: &ExecContext,
) -> bool {
    for (name, options) in CODE_OPTIONS {
        if *name == program {
            queue_option_values(walker, args, options, context);
        }
    }
    embedded_shells::resolve_shell_escapes(walker, program, args, context);
    if CODE_WORD_PROGRAMS.contains(&program) {
        for field in args.iter().filter(|field| !field.text.starts_with('-')) {
            walker.queue_field(field, context);
        }
        return true;
    }
    match program {
        "eval" => resolve_eval(walker, args, context),
        "trap" | "batch" | "at" => {
            let first = args.iter().find(|field| field.text != "--");
            if let Some(first) = first.filter(|first| program == "trap" && is_trap_code(first)) {
                walker.queue_field(first, context);
            }
            if let Some(stdin) = context.stdin.clone().filter(|_| program != "trap") {
                walker.queue_field(&stdin, context);
            }
        }
        "alias" => {
            for field in args {
                if let Some((_, text)) = field.text.split_once('=') {
                    let field = Field { text: text.to_owned(), offset: None, ..field.clone() };
                    walker.queue_field(&field, context);
                }
            }
        }
        "source" | "." => {
            if let Some(file) = args.first() {
                walker.queue_script_file(file, context);
            }
        }
        "env" => return env_program::resolve_env(walker, args, context),
        "scp" | "sftp" | "sshfs" | "ssh-copy-id" => resolve_ssh_options(walker, args, context),
        "watch" => {
            let values = &["-n", "--interval", "-q", "--equexit"];
            queue_joined_words(walker, skip_options(args, values, 0), context);
        }
        "ssh" | "dbclient" | "autossh" => resolve_ssh(walker, args, context),
        "adb" => resolve_adb(walker, args, context),
        "bind" => {
            for field in args {
                if let Some((_, text)) = field.text.split_once("\":") {
                    let field = Field { text: text.to_owned(), offset: None, ..field.clone() };
                    walker.queue_field(&field, context);
                }
            }
        }
        "complete" | "compgen" => {
            for pair in args.windows(2).filter(|pair| pair[0].text == "-W") {
                walker.queue_expansion(&pair[1].text, pair[1].span);
            }
        }
        "xargs" => fan_out::resolve_xargs(walker, args, context),
        "env_parallel" | "parallel" | "rush" | "sem" => {
            fan_out::resolve_parallel(walker, args, context)
        }
        "find" | "fd" | "fdfind" | "bfs" => fan_out::resolve_find(walker, program, args, context),
        "git" => resolve_git(walker, args, context),
        "tmux" | "screen" => embedded_shells::resolve_terminal(walker, program, args, context),
        "make" | "gmake" => embedded_shells::resolve_makefile(walker, args, context),
        "siding" => siding_commands::resolve_siding(walker, args, context),
        _ => return false,
    }
    true
}

/// Queues the shell texts that follow these options.
pub(super) fn queue_option_values(
    walker: &mut Walker,
    args: &[Field],
    options: &[&str],
    context: &ExecContext,
) {
    for (at, field) in args.iter().enumerate() {
        let text = field.text.as_str();
        if options.iter().any(|option| is_option_or_last_letter(text, option))
            && let Some(code) = args.get(at + 1)
        {
            walker.queue_field(code, context);
        }
        let long = text.split_once('=').filter(|(option, _)| options.contains(option));
        // `-c'rm -rf x'`: the option letter is followed by a text, and not by more option letters.
        let attached = || {
            let short =
                options.iter().find(|option| option.len() == 2 && text.starts_with(*option))?;
            text.contains(' ').then(|| &text[short.len()..])
        };
        if let Some(value) = long.map(|(_, value)| value).or_else(attached) {
            // `tar --checkpoint-action=exec=…`
            let value = value.strip_prefix("exec=").unwrap_or(value);
            let field = Field { text: value.to_owned(), offset: None, ..field.clone() };
            walker.queue_field(&field, context);
        }
    }
}

/// Returns whether a word is this option, or a group of option letters that ends with this option:
/// `-qec`.
pub(super) fn is_option_or_last_letter(word: &str, option: &str) -> bool {
    let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
    let letters = word.strip_prefix('-').unwrap_or_default();
    word == option
        || letter.is_some_and(|letter| {
            letters.ends_with(letter) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
}

/// Returns whether an argument of `trap` is code. The first arguments of `trap - INT` and `trap ''
/// INT` are not code. The function name in `trap cleanup EXIT` is treated as code.
fn is_trap_code(field: &Field) -> bool {
    !field.text.is_empty() && !field.text.starts_with('-')
}

/// Queues the shell text that results when words are joined with spaces, as `eval` and `ssh` join
/// their arguments.
fn queue_joined_words(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    match args {
        [] => {}
        [one] => walker.queue_field(one, context),
        [first, .., last] => {
            let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
            let span = first.span.join(last.span);
            let field = Field { text: words.join(" "), span, ..Field::default() };
            walker.queue_field(&field, context);
        }
    }
}

fn resolve_eval(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    let args = match args.split_first() {
        Some((first, rest)) if first.text == "--" => rest,
        _ => args,
    };
    let has_lines = |field: &&Field| field.text.trim_matches('\n').contains('\n');
    // `eval` joins several arguments, and the lines of an unquoted value, into one line.
    let lost = args.len() > 1
        && args.iter().any(|field| field.was_split && !field.text.starts_with(NONEMPTY_MARKER))
        || args.len() > 1 && args.iter().any(|field| has_lines(&field));
    if lost && let Some(first) = args.first() {
        let span = args.iter().fold(first.span, |span, field| span.join(field.span));
        walker.report_construct(Construct::EvalLines, span);
    }
    match args {
        [one] => {
            let origin = one.offset.map_or(Origin::DerivedFrom(one.span), Origin::Verbatim);
            walker.queue_text_from(one.text.clone(), origin, context, CodeSource::Eval);
        }
        args => queue_joined_words(walker, args, context),
    }
}

/// Queues the commands in options such as `-o ProxyCommand=…`.
fn resolve_ssh_options(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    for (at, field) in args.iter().enumerate() {
        let next =
            || args.get(at + 1).filter(|_| field.text == "-o").map(|field| field.text.as_str());
        let option =
            field.text.strip_prefix("-o").filter(|option| !option.is_empty()).or_else(next);
        let value = option.and_then(|option| option.split_once(['=', ' ']));
        if let Some((_, value)) = value.filter(|(name, _)| {
            matches!(*name, "ProxyCommand" | "LocalCommand" | "KnownHostsCommand")
        }) {
            walker.queue_value_as_command(value, field.span, context);
        }
    }
}

fn resolve_ssh(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    const SSH_VALUE_OPTIONS: &[&str] = &[
        "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
        "-Q", "-R", "-S", "-W", "-w", "-M",
    ];
    resolve_ssh_options(walker, args, context);
    let command = skip_options(args, SSH_VALUE_OPTIONS, 1);
    if command.is_empty() {
        if let Some(stdin) = context.stdin.clone() {
            let inner = ExecContext { stdin: None, has_redirected_stdin: false, ..context.clone() };
            let origin = stdin.offset.map_or(Origin::DerivedFrom(stdin.span), Origin::Verbatim);
            walker.queue_text_from(stdin.text, origin, &inner, CodeSource::Stdin);
        }
        return;
    }
    queue_joined_words(walker, command, context);
}

/// Queues the text of `adb -s DEVICE shell 'rm -r /sdcard'`. The device's shell runs the words,
/// joined with spaces.
fn resolve_adb(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    let words = skip_options(args, &["-s", "-t", "-H", "-P", "-L"], 0);
    if let Some((first, text)) = words.split_first()
        && matches!(first.text.as_str(), "shell" | "exec-out" | "exec-in")
        && !text.is_empty()
    {
        queue_joined_words(walker, skip_options(text, &["-e"], 0), context);
    }
}

fn resolve_git(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    // `git -c alias.x='!rm -rf /' x`, `git config core.pager 'less; …'`
    for (at, field) in args.iter().enumerate() {
        let (key, given) = match field.text.split_once('=') {
            Some((key, value)) => (key, Some((value, field))),
            None => (field.text.as_str(), args.get(at + 1).map(|next| (next.text.as_str(), next))),
        };
        let Some((value, field)) = given else { continue };
        if let Some(code) = value.strip_prefix('!') {
            if key.starts_with("alias.") || key.starts_with("credential.") {
                walker.queue_field(
                    &Field { text: code.to_owned(), offset: None, ..field.clone() },
                    context,
                );
            }
        } else if is_git_command_setting(key) {
            walker.queue_value_as_command(value, field.span, context);
        }
    }
    let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
    if let Some(at) = words.windows(2).position(|pair| pair == ["submodule", "foreach"]) {
        queue_joined_words(walker, skip_options(&args[at + 2..], &[], 0), context);
    }
    if let Some(at) = words.windows(2).position(|pair| pair == ["bisect", "run"])
        && let Some(first) = args.get(at + 2)
    {
        walker.resolve_call(&args[at + 2..], first.span, context);
    }
}

/// Returns whether git runs the value of this configuration variable as a command.
fn is_git_command_setting(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        ["core", name] => {
            matches!(*name, "askpass" | "editor" | "fsmonitor" | "pager" | "sshcommand")
        }
        ["diff", "external"] | ["sequence", "editor"] | ["gpg", .., "program"] | ["pager", _] => {
            true
        }
        ["diff" | "filter" | "merge" | "mergetool" | "difftool", .., name] => {
            matches!(
                *name,
                "clean" | "cmd" | "command" | "driver" | "process" | "smudge" | "textconv"
            )
        }
        _ => false,
    }
}
