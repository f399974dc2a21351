//! The network policy as a setting.

use super::keys::{Key, Layer, Settings};
use super::merge::SettingsWarning;
use super::origin::Origin;
use super::value::{RawValue, Value, ValueError};
use crate::net::NetPolicy;

impl Value for NetPolicy {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let text = raw.as_text().ok_or_else(|| ValueError::not_allowed(raw, Self::ALLOWED))?;
        Ok(text.parse()?)
    }

    fn raw(&self) -> RawValue {
        RawValue::Text(self.to_string())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^ *(host|none|loopback|ports:[0-9, -]+|allow:[A-Za-z0-9_.*:, \\[\\]-]+) *$"
        })
    }
}

impl Settings {
    /// Drops a project's policy that allows more than the policy in effect, because the author of a
    /// repository must not open a network that the user has closed.
    pub(super) fn reject_loosened_net(&mut self, layer: &mut Layer) {
        let kept = &self.net;
        let opening = layer.net.take_if(|given| {
            matches!(given.source.origin, Origin::Project { .. }) && !given.value.is_within(kept)
        });
        if let Some(given) = opening {
            self.warnings.push(SettingsWarning::LoosenedByProject {
                place: given.source,
                asked: given.value.raw(),
                kept: self.net.raw(),
                by: self.origin(Key::Net).clone(),
            });
        }
    }
}
