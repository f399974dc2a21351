//! `write_file`.

use schemars::JsonSchema;
use serde::Deserialize;

use super::ground::Missing;
use super::kind::{Access, Tool};
use super::seen::Print;
use super::spot::Spot;
use super::{Outcome, Scene};
use crate::provider::Cancel;

/// Writes a whole file.
#[derive(Debug, Clone, Copy)]
pub struct WriteFile;

/// Which, and what into it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file, relative to the working directory or absolute. Missing directories are made.
    path: String,
    /// Everything that is to be in it, as it is to be written.
    content: String,
}

impl Tool for WriteFile {
    type Args = Args;
    const NAME: &'static str = "write_file";
    const ABOUT: &'static str = "\
Write a whole file: a new one, or one in place of what is there. To change a part of a file take \
`edit_file`.";
    const ACCESS: Access = Access::Changes;

    fn call(&self, scene: &Scene, args: Args, _cancel: &Cancel) -> Outcome {
        let spot = scene.ground.find(&args.path, Missing::Make)?;
        if spot.entry.is_some() {
            is_as_seen(scene, &spot)?;
        }
        let content = args.content.as_bytes();
        spot.put(content)?;
        scene.seen.remember(spot.key.clone(), Print::of(content));
        let size = size(content);
        Ok(match spot.entry {
            None => format!("made `{}`: {size}", spot.path),
            Some(before) => {
                let note = if before.has_hard_links { OTHER_NAMES } else { "" };
                format!("replaced `{}`, which had {} bytes: {size}{note}", spot.path, before.len)
            }
        })
    }
}

/// What is said of a file that had several names.
pub(super) const OTHER_NAMES: &str =
    "; it had other names too (hard links), and under those is what was there before";

/// Makes sure that a file holds what this agent has last seen in it, if it has seen it.
///
/// # Errors
///
/// That it does not.
pub(super) fn is_as_seen(scene: &Scene, spot: &Spot) -> Result<(), String> {
    match scene.seen.of(&spot.key) {
        Some(seen) if Print::of(&spot.read()?) != seen => Err(changed(spot)),
        Some(_) | None => Ok(()),
    }
}

/// Says that somebody else has written to a file.
pub(super) fn changed(spot: &Spot) -> String {
    format!(
        "`{}` has changed since you read it, and nothing was written: read it again, then make your \
         change to what is there now",
        spot.path
    )
}

/// Says how long a content is.
fn size(content: &[u8]) -> String {
    let newlines = content.iter().filter(|&&byte| byte == b'\n').count();
    let unended = usize::from(!content.is_empty() && !content.ends_with(b"\n"));
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    format!("{}, {}", count(newlines + unended, "line"), count(content.len(), "byte"))
}
