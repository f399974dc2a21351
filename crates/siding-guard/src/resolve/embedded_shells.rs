//! Resolves calls of programs with a command language that can run shell commands: editors,
//! debuggers, database clients, terminal multiplexers and `make`.

use super::code_arguments::is_option_or_last_letter;
use super::expand::Field;
use super::walk::{ExecContext, Walker};
use super::wrappers::skip_options;

/// Programs with a command language in which `!` or `shell` starts a shell command, each with the
/// options whose values are commands of this language. An argument that begins with `+` or `.` is
/// also a command of this language.
const COMMAND_OPTIONS: &[(&str, &[&str])] = &[
    ("ed", &[]),
    ("ex", &["-c", "--cmd"]),
    ("ftp", &[]),
    ("gdb", &["-ex", "-iex", "--ex", "--eval-command"]),
    ("less", &[]),
    ("lftp", &["-e", "-c"]),
    ("lldb", &["-o", "-O", "--one-line"]),
    ("mysql", &["-e", "--execute"]),
    ("nvim", &["-c", "--cmd"]),
    ("psql", &["-c", "--command"]),
    ("sftp", &[]),
    ("sqlite3", &["-cmd"]),
    ("vi", &["-c", "--cmd"]),
    ("view", &["-c", "--cmd"]),
    ("vim", &["-c", "--cmd"]),
];

/// Queues the shell commands in `vim -c '!…'`, `gdb -ex 'shell …'` and `psql -c '\! …'`, and the
/// shell commands in command lines on standard input. Resolves the program that a debugger starts.
pub(super) fn resolve_shell_escapes(
    walker: &mut Walker,
    program: &str,
    args: &[Field],
    context: &ExecContext,
) {
    let Some((_, options)) = COMMAND_OPTIONS.iter().find(|(name, _)| *name == program) else {
        return;
    };
    // `gdb --args program words`, `lldb -- program words`
    let mark = if program == "lldb" { "--" } else { "--args" };
    if let Some(at) = args.iter().position(|field| field.text == mark)
        && let Some(first) = args.get(at + 1)
        && program.ends_with("db")
    {
        walker.resolve_call(&args[at + 1..], first.span, context);
    }
    let behind = args.iter().enumerate().filter(|(at, field)| {
        let before = at.checked_sub(1).and_then(|before| args.get(before));
        field.text.starts_with('+')
            || before.is_some_and(|before| {
                options.iter().any(|one| is_option_or_last_letter(&before.text, one))
            })
            || field.text.starts_with('.')
    });
    let all = behind.map(|(_, field)| field).chain(&context.stdin);
    let inner = ExecContext { stdin: None, upstream: vec![], ..context.clone() };
    for field in all {
        for line in field.text.lines() {
            let line = line.trim_start_matches(['+', ':', ' ']);
            let silent = line.strip_prefix("silent!").or_else(|| line.strip_prefix("silent"));
            let line = silent.unwrap_or(line).trim_start();
            let marks =
                ["!", "%!", "\\!", "platform shell ", "shell ", ".shell ", ".system ", "system "];
            if let Some(text) = marks.iter().find_map(|mark| line.strip_prefix(mark)) {
                let field = Field { text: text.to_owned(), offset: None, ..field.clone() };
                // `%!sh` passes the edited file to the command as standard input.
                let upstream =
                    if line.starts_with('%') { vec![program.to_owned()] } else { vec![] };
                walker.queue_field(&field, &ExecContext { upstream, ..inner.clone() });
            }
        }
    }
}

/// Resolves `tmux new-session 'text'`, `tmux new-session -d program words` and `screen -dmS name
/// program words`.
pub(super) fn resolve_terminal(
    walker: &mut Walker,
    program: &str,
    args: &[Field],
    context: &ExecContext,
) {
    const TMUX_VALUE_OPTIONS: &[&str] =
        &["-s", "-t", "-c", "-n", "-x", "-y", "-F", "-e", "-l", "-p"];
    const SCREEN_VALUE_OPTIONS: &[&str] = &["-S", "-dmS", "-DmS", "-c", "-p", "-t", "-h", "-T"];
    for field in args.iter().filter(|field| field.text.contains(' ')) {
        walker.queue_field(field, context);
    }
    let starts =
        ["new", "new-session", "neww", "new-window", "split-window", "splitw", "respawn-pane"];
    let words = match args.split_first() {
        Some((first, rest)) if program == "tmux" && starts.contains(&first.text.as_str()) => {
            skip_options(rest, TMUX_VALUE_OPTIONS, 0)
        }
        Some((first, _)) if program == "screen" && first.text.starts_with("-d") => {
            skip_options(args, SCREEN_VALUE_OPTIONS, 0)
        }
        _ => &[],
    };
    if words.len() > 1 {
        walker.resolve_call(words, words[0].span, context);
    }
}

/// Queues the recipes of a makefile that is part of the text: `make -f - <<'E'`, `make --eval='x:;
/// rm y'`.
pub(super) fn resolve_makefile(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    let reads = args.windows(2).any(|pair| pair[0].text == "-f" && pair[1].text == "-");
    let stdin = context.stdin.as_ref().filter(|_| reads).map(|field| (field.text.as_str(), field));
    let of_process = args.iter().filter_map(|field| {
        let (_, text) = field.process_substitution.as_ref()?;
        Some((text.as_deref()?, field))
    });
    let of_option = args.iter().enumerate().filter_map(|(at, field)| {
        let next = || args.get(at + 1).filter(|_| field.text == "-E" || field.text == "--eval");
        let text = field.text.strip_prefix("--eval=").or_else(|| Some(next()?.text.as_str()))?;
        Some((text, field))
    });
    let inner = ExecContext { stdin: None, upstream: vec![], ..context.clone() };
    for field in args {
        // `SHELL='program words'` replaces the shell that runs the recipes.
        if let Some(text) = field.text.strip_prefix("SHELL=").filter(|text| text.contains(' ')) {
            walker.queue_field(
                &Field { text: text.to_owned(), offset: None, ..field.clone() },
                &inner,
            );
        }
    }
    for (text, field) in of_process.chain(of_option).chain(stdin) {
        for line in text.lines() {
            let recipe = line
                .strip_prefix('\t')
                .or_else(|| Some(line.split_once(':')?.1.split_once(';')?.1));
            if let Some(recipe) = recipe {
                let text = recipe.trim_start_matches(['@', '-', '+', ' ']).replace("$$", "$");
                // `$(HOME)` in make is `${HOME}` in the shell.
                let text = text.replace("$(HOME)", "${HOME}").replace("$(CURDIR)", "${PWD}");
                walker.queue_field(
                    &Field { text, offset: None, process_substitution: None, ..field.clone() },
                    &inner,
                );
            }
        }
    }
}
