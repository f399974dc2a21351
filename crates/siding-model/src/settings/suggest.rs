//! Suggestions for misspelled keys.

use super::keys::Key;

/// Longest name that is compared. A longer name is no misspelled key, and comparing it takes long.
const MAX_COMPARED_NAME_BYTES: usize = 64;

/// Returns the known key most similar to `name`, if at most a third of the letters differ. Names in
/// kebab case, upper case and camel case (`maxElapsed` for `max_elapsed`) are converted first.
pub(super) fn nearest_key(name: &str) -> Option<Key> {
    if name.len() > MAX_COMPARED_NAME_BYTES {
        return None;
    }
    let name = to_snake_case(name);
    let (distance, key) =
        Key::ALL.iter().map(|key| (edit_distance(&name, key.name().as_bytes()), *key)).min()?;
    (distance * 3 <= key.name().len()).then_some(key)
}

/// Returns a candidate that starts with `name`, otherwise the most similar candidate, even if it is
/// very different. Returns `None` without candidates, or for a name too long to compare.
pub(super) fn nearest_name<'c>(
    name: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<&'c str> {
    if name.len() > MAX_COMPARED_NAME_BYTES {
        return None;
    }
    let name = to_snake_case(name);
    candidates.min_by_key(|candidate| {
        let candidate = to_snake_case(candidate);
        // A candidate that starts with the name comes first: its edit distance to a truncated name
        // is large.
        (!candidate.starts_with(&name), edit_distance(&name, &candidate))
    })
}

fn to_snake_case(name: &str) -> Vec<u8> {
    let mut snake = Vec::with_capacity(name.len());
    let mut after_lower = false;
    for byte in name.bytes() {
        if byte.is_ascii_uppercase() && after_lower {
            snake.push(b'_');
        }
        after_lower = byte.is_ascii_lowercase();
        snake.push(match byte {
            b'-' | b'.' | b' ' => b'_',
            other => other.to_ascii_lowercase(),
        });
    }
    snake
}

/// Returns the number of letters to insert, delete or replace to turn `a` into `b` (Levenshtein
/// distance).
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            let changed = diagonal + usize::from(x != y);
            row[j + 1] = changed.min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_suggest_the_intended_key() {
        for (name, key) in [
            ("max_elapsd", Key::MaxElapsed),
            ("max-elapsed", Key::MaxElapsed),
            ("maxElapsed", Key::MaxElapsed),
            ("MAX_ELAPSED_HARD_CAP", Key::MaxElapsedHardCap),
            ("kil_grace", Key::KillGrace),
            ("outputKeepTail", Key::OutputKeepTail),
            ("shel", Key::Shell),
            ("retention_bites", Key::RetentionBytes),
        ] {
            assert_eq!(nearest_key(name), Some(key), "{name}");
        }
        for name in ["", "colour", "x", "日本語", &"max_elapsed".repeat(9)] {
            assert_eq!(nearest_key(name), None, "{name}");
        }
    }
}
