//! Suggestions for misspelled keys.

use strsim::{levenshtein, osa_distance};

use super::keys::Key;

/// Maximum length of a name that is compared with the keys, in bytes. A longer name is
/// unlikely to be a misspelled key, and the comparison would be slow.
const MAX_COMPARED_NAME_BYTES: usize = 64;

/// Returns the known key most similar to `name`, as [`similar_name`] compares them.
pub(super) fn nearest_key(name: &str) -> Option<Key> {
    let nearest = similar_name(name, Key::ALL.iter().map(|key| key.name()))?;
    Key::from_name(nearest)
}

/// Returns the candidate most similar to `name`, if at most a third of the letters differ; two
/// swapped letters count as one. Names in kebab case, upper case and camel case (`maxElapsed` for
/// `max_elapsed`) are converted first.
pub(super) fn similar_name<'c>(
    name: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<&'c str> {
    if name.len() > MAX_COMPARED_NAME_BYTES {
        return None;
    }
    let name = to_snake_case(name);
    let (distance, nearest) =
        candidates.map(|candidate| (osa_distance(&name, candidate), candidate)).min()?;
    (distance * 3 <= nearest.len()).then_some(nearest)
}

/// Returns a candidate that starts with `name`, otherwise the candidate with the smallest edit
/// distance. Returns `None` if there are no candidates, or if the name is too long to compare.
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
        // A candidate that starts with the name is preferred: a truncated name has a large edit
        // distance to the intended candidate.
        (!candidate.starts_with(name.as_str()), levenshtein(&name, &candidate))
    })
}

fn to_snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len());
    let mut after_lower = false;
    for char in name.chars() {
        if char.is_ascii_uppercase() && after_lower {
            snake.push('_');
        }
        after_lower = char.is_ascii_lowercase();
        snake.push(match char {
            '-' | '.' | ' ' => '_',
            other => other.to_ascii_lowercase(),
        });
    }
    snake
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
            ("shlel", Key::Shell),
            ("retention_bites", Key::RetentionBytes),
        ] {
            assert_eq!(nearest_key(name), Some(key), "{name}");
        }
        for name in ["", "colour", "x", "日本語", &"max_elapsed".repeat(9)] {
            assert_eq!(nearest_key(name), None, "{name}");
        }
    }
}
