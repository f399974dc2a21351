//! Determines which paths a program lists: `find`, `fd`, `ls`, `git ls-files`, `grep -l`.
//!
//! The paths are known only at run time, but the text determines the directory of the paths and the
//! form of the names: `find src -name '*.o'` lists paths of the form `src/**/*.o`. A list of paths
//! is represented by such patterns. Therefore a rule that matches `rm -rf *` also matches `ls |
//! xargs rm -rf`.

use super::expand::{NONEMPTY_MARKER, PID_LOOKUP_MARKER};

/// Tests of `find` that have the next word as their value, except those of the name, path, type and
/// depth, which [`find_patterns`] distinguishes.
const FIND_TESTS_WITH_VALUE: &[&str] = &[
    "-mtime",
    "-mmin",
    "-ctime",
    "-cmin",
    "-atime",
    "-amin",
    "-size",
    "-newer",
    "-anewer",
    "-cnewer",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-perm",
    "-links",
    "-inum",
    "-samefile",
    "-regex",
    "-iregex",
    "-lname",
    "-fstype",
    "-newermt",
];

/// Returns patterns for the paths that a program lists, or [`PID_LOOKUP_MARKER`] if the program
/// lists or looks up process ids. Returns `None` for a call that is not known to do either.
pub(super) fn listed_paths(program: &str, args: &[&str]) -> Option<Vec<String>> {
    match program {
        "find" | "bfs" => Some(find_patterns(args)),
        "fd" | "fdfind" => Some(fd_patterns(args)),
        "ls" => ls_patterns(args),
        "git" => git_ls_files_patterns(args),
        "grep" | "rg" | "egrep" | "ag" => grep_list_patterns(program, args),
        "locate" | "plocate" | "mlocate" => {
            Some(vec![glob_below("/", &NONEMPTY_MARKER.to_string())])
        }
        "pgrep" | "pidof" => process_lookup(args),
        "ps" => {
            (!args.iter().any(|arg| arg.starts_with("-p") || *arg == "--ppid" || *arg == "--pid"))
                .then(|| vec![PID_LOOKUP_MARKER.to_string()])
        }
        _ => None,
    }
}

/// Returns the patterns for those listed paths that a program such as `grep` may select. A text
/// without patterns is returned unchanged.
pub(super) fn filtered_paths(text: &str) -> String {
    if !text.contains('*') {
        return text.to_owned();
    }
    // The selected paths are below the directory of the pattern; this module assumes that the
    // directory itself is not selected.
    let lines = text.lines().filter_map(|line| {
        let at = line.find('*')?;
        Some(format!("{}{NONEMPTY_MARKER}\n", &line[..at]))
    });
    lines.collect()
}

/// Returns a pattern for this name at any depth below a directory.
fn glob_below(directory: &str, name: &str) -> String {
    match directory.trim_end_matches('/') {
        "" if directory.is_empty() => format!("./**/{name}"),
        "" => format!("/**/{name}"),
        place => format!("{place}/**/{name}"),
    }
}

/// Returns patterns for the matches of `find`.
pub(super) fn find_patterns(args: &[&str]) -> Vec<String> {
    let is_test = |arg: &&str| arg.starts_with('-') || matches!(*arg, "(" | "!" | ")");
    let args: Vec<&str> = match args.iter().position(|arg| !matches!(*arg, "-H" | "-L" | "-P")) {
        Some(at) => args[at..].to_vec(),
        None => vec![],
    };
    let end = args.iter().position(is_test).unwrap_or(args.len());
    let (starts, mut rest) = args.split_at(end);
    let starts = if starts.is_empty() { &["."][..] } else { starts };
    let mut names: Vec<String> = vec![];
    let (mut is_narrow, mut is_part) = (false, false);
    // Names in `! -name x` and in `-not ( -name x -o -name y )` are skipped. `not_depth` is the
    // depth of the outermost negated parenthesis.
    let (mut is_not, mut depth, mut not_depth) = (false, 0_usize, None);
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match *first {
            "!" | "-not" => {
                (is_not, is_part) = (true, true);
                continue;
            }
            "(" => {
                depth += 1;
                if is_not && not_depth.is_none() {
                    not_depth = Some(depth);
                }
            }
            ")" => {
                if not_depth == Some(depth) {
                    not_depth = None;
                }
                depth = depth.saturating_sub(1);
            }
            "-name" | "-iname" | "-path" | "-ipath" | "-wholename" => {
                let name = rest.first().copied().unwrap_or_default();
                rest = rest.get(1..).unwrap_or_default();
                if !is_not && not_depth.is_none() {
                    let name = name.trim_start_matches("./").trim_start_matches("*/");
                    names.push(name.to_owned());
                }
            }
            // In `-name .git -prune -o …`, `find` excludes the names before `-prune`.
            "-prune" if matches!(rest.first(), Some(&("-o" | "-or"))) => names.clear(),
            "-empty" | "-nouser" | "-nogroup" => is_narrow |= !is_not,
            "-type" | "-maxdepth" | "-mindepth" | "-xtype" => {
                is_part |= *first != "-maxdepth";
                rest = rest.get(1..).unwrap_or_default();
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" | "-delete" => break,
            test if FIND_TESTS_WITH_VALUE.contains(&test) => {
                is_narrow |= !is_not;
                rest = rest.get(1..).unwrap_or_default();
            }
            _ => {}
        }
        is_not = false;
    }
    let of_start = |start: &&str| -> Vec<String> {
        if !names.is_empty() {
            return names.iter().map(|name| glob_below(start, name)).collect();
        }
        let all = format!("{}/**", start.trim_end_matches('/'));
        match (is_narrow, is_part) {
            (true, _) => vec![glob_below(start, &NONEMPTY_MARKER.to_string())],
            (false, true) => vec![all],
            (false, false) => vec![(*start).to_owned(), all],
        }
    };
    starts.iter().flat_map(of_start).collect()
}

/// Returns patterns for the matches of `fd`. The first operand is a pattern; the other operands are
/// directories.
pub(super) fn fd_patterns(args: &[&str]) -> Vec<String> {
    const FD_VALUE_OPTIONS: &[&str] =
        &["-E", "--exclude", "-t", "--type", "-d", "--max-depth", "-S", "-j"];
    let (mut names, mut operands) = (vec![], vec![]);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "-x" | "-X" | "--exec" | "--exec-batch" => break,
            "-e" | "--extension" => {
                names.extend(args.next().map(|extension| format!("*.{extension}")));
            }
            arg if FD_VALUE_OPTIONS.contains(&arg) => {
                args.next();
            }
            arg if arg.starts_with('-') && arg.len() > 1 => {}
            arg => operands.push(arg),
        }
    }
    let (pattern, places) = match operands.split_first() {
        Some((pattern, places)) => (*pattern, places),
        None => (".", &[][..]),
    };
    if names.is_empty() && !matches!(pattern, "." | "" | "*" | ".*") {
        names.push(format!("*{NONEMPTY_MARKER}"));
    }
    let places = if places.is_empty() { &["."][..] } else { places };
    let patterns_for = |place: &&str| match names.as_slice() {
        [] => vec![format!("{}/**", place.trim_end_matches('/'))],
        names => names.iter().map(|name| glob_below(place, name)).collect(),
    };
    places.iter().flat_map(patterns_for).collect()
}

/// Returns patterns for the names as `ls` prints them. Returns `None` if the lines contain more
/// than names, as with `-l`.
fn ls_patterns(args: &[&str]) -> Option<Vec<String>> {
    let (options, operands): (Vec<&str>, Vec<&str>) =
        args.iter().copied().partition(|arg| arg.starts_with('-'));
    if options.iter().any(|option| !option.starts_with("--") && option.contains(['l', 's', 'i'])) {
        return None;
    }
    let are_shown = |operand: &str| operand.contains('*') || options.contains(&"-d");
    let name = |operand: &&str| match are_shown(operand) {
        true => (*operand).to_owned(),
        false => "*".to_owned(),
    };
    Some(if operands.is_empty() {
        vec!["*".to_owned()]
    } else {
        operands.iter().map(name).collect()
    })
}

/// Returns patterns for the files that `git ls-files` lists; `None` for other subcommands, and for
/// options such as `-o` that list files other than the tracked files.
fn git_ls_files_patterns(args: &[&str]) -> Option<Vec<String>> {
    let (first, rest) = args.split_first()?;
    if *first != "ls-files" {
        return None;
    }
    let (options, operands): (Vec<&str>, Vec<&str>) =
        rest.iter().copied().partition(|arg| arg.starts_with('-'));
    if !options.iter().all(|option| matches!(*option, "-z" | "-c" | "--cached" | "--")) {
        return None;
    }
    let name = |operand: &&str| glob_below(".", operand);
    Some(if operands.is_empty() {
        vec!["./**".to_owned()]
    } else {
        operands.iter().map(name).collect()
    })
}

/// Returns patterns for the files that `grep -l` lists, which depend on the files' contents.
/// Returns `None` if there is no such option.
fn grep_list_patterns(program: &str, args: &[&str]) -> Option<Vec<String>> {
    let lists = |arg: &&str| match arg.strip_prefix("--") {
        Some(long) => matches!(long, "files-with-matches" | "files-without-match"),
        None => arg.starts_with('-') && arg.contains(['l', 'L']),
    };
    if !args.iter().any(lists) {
        return None;
    }
    let operands: Vec<&str> = args.iter().copied().filter(|arg| !arg.starts_with('-')).collect();
    let places = operands.get(1..).unwrap_or_default();
    let places = if places.is_empty() && program != "egrep" { &["."][..] } else { places };
    Some(places.iter().map(|place| glob_below(place, &NONEMPTY_MARKER.to_string())).collect())
}

/// Returns the marker for process ids that `pgrep NAME` looks up. Returns `None` for a search by
/// parent or session, which is not a lookup by name, and for options that print more than the ids.
fn process_lookup(args: &[&str]) -> Option<Vec<String>> {
    let is_name = |arg: &&str| !arg.starts_with('-') && !arg.is_empty();
    let is_family =
        |arg: &&str| matches!(*arg, "-P" | "--parent" | "-s" | "--session" | "-l" | "-a");
    let is_found = args.iter().any(is_name) && !args.iter().any(is_family);
    is_found.then(|| vec![PID_LOOKUP_MARKER.to_string()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed_text(command: &str) -> String {
        let words: Vec<&str> = command.split(' ').collect();
        let all = listed_paths(words[0], &words[1..]).unwrap_or_else(|| vec!["-".to_owned()]);
        all.join(" ").replace(NONEMPTY_MARKER, "some").replace(PID_LOOKUP_MARKER, "pid")
    }

    #[test]
    fn listings_become_glob_patterns() {
        for (command, expected) in [
            ("find", ". ./**"),
            ("find /", "/ /**"),
            ("find . -type f", "./**"),
            ("find src lib -name *.o", "src/**/*.o lib/**/*.o"),
            ("find . -name a -o -name b", "./**/a ./**/b"),
            ("find . ! -name keep", "./**"),
            ("find . -not ( -name a -o -name b ) -name c", "./**/c"),
            ("find . -path */x/* -print", "./**/x/*"),
            ("find . -name .git -prune -o -name *.o -print", "./**/*.o"),
            ("find . -name node_modules -prune", "./**/node_modules"),
            ("find /var -mtime +7", "/var/**/some"),
            ("find -L ~ -empty", "~/**/some"),
            ("fd -e pyc", "./**/*.pyc"),
            ("fd . /", "/**"),
            ("fd -t f foo src -x rm", "src/**/*some"),
            ("ls", "*"),
            ("ls -A /", "*"),
            ("ls -d x/*/", "x/*/"),
            ("ls -l", "-"),
            ("git ls-files -z", "./**"),
            ("git ls-files *.py", "./**/*.py"),
            ("git ls-files -o", "-"),
            ("git status", "-"),
            ("grep -rl x /etc", "/etc/**/some"),
            ("grep x y", "-"),
            ("pgrep -f x", "pid"),
            ("pgrep -P 1", "-"),
            ("ps aux", "pid"),
            ("ps -p 1", "-"),
        ] {
            assert_eq!(listed_text(command), expected, "{command}");
        }
    }

    #[test]
    fn filtered_listings_drop_the_start_directories() {
        assert_eq!(filtered_paths(".\n./**\n"), format!("./{NONEMPTY_MARKER}\n"));
        assert_eq!(filtered_paths("rm x\n"), "rm x\n");
    }
}
