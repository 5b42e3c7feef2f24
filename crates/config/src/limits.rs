//! Limits on what remote parties can make the gateway keep: bytes and connections.

use crate::{
    error::ConfigError,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Limits of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitSettings {
    /// Byte budget; `None` means [`DEFAULT_MEMORY`].
    pub memory: Setting<Option<u64>>,
    /// Largest list of a server in bytes, over all pages; `None` means the default of `wire`.
    pub listing: Setting<Option<u64>>,
    /// Largest request body in bytes; `None` means the default of `wire`.
    pub request_body: Setting<Option<u64>>,
    /// Open connections of one client, and of one peer address; `None` means the default of `wire`.
    pub connections: Setting<Option<u32>>,
}

/// Default of `limits.memory` in bytes.
pub const DEFAULT_MEMORY: u64 = 512 * 1024 * 1024;

/// Smallest `limits.memory`: less would refuse ordinary results.
const LEAST_MEMORY: u64 = 16 * 1024 * 1024;

const MEMBERS: &[(&str, Shape)] =
    &[("memory", Shape::Text), ("listing", Shape::Text), ("requestBody", Shape::Text), ("connections", Shape::Count)];

/// Units of a size, in bytes.
const UNITS: [(&str, u64); 4] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)];

/// The top-level key `limits`.
pub(crate) const LIMITS: Key<Settings> = Key {
    name: "limits",
    shape: Shape::Members(MEMBERS),
    doc: "Limits of `toolway serve`. `memory`: byte budget for everything that is kept for clients and servers (request \
          bodies, unread events and results, calls that wait for an answer, what servers list, catalogs, list pages, \
          sessions, connections, inbox items, loaded conversations), default `512MB`, at least `16MB`; one client and \
          one server may use half of it each. What does not fit is refused or dropped; a listing that does not fit \
          leaves the one before in use. `listing`: largest list of one server (its tools, resources, templates or \
          prompts, over all pages), default `8MB`; a larger one is not read, and what was listed before stays. \
          `requestBody`: largest request body, default `4MB`. `connections`: open connections of one client and of one peer address, default \
          1024; connections that have not sent a valid key are limited to 64 for each address.",
    example: r#"{"memory": "512MB", "listing": "8MB", "requestBody": "4MB", "connections": 1024}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let limits = &mut settings.limits;
    for (key, field) in field.members()? {
        match key {
            "memory" => {
                let memory = size(&field)?;
                if memory < LEAST_MEMORY {
                    return Err(field.expected("at least `16MB`"));
                }
                put(&mut limits.memory, field.setting(Some(memory)))?;
            }
            "listing" => put(&mut limits.listing, field.setting(Some(size(&field)?)))?,
            "requestBody" => put(&mut limits.request_body, field.setting(Some(size(&field)?)))?,
            "connections" => {
                let count = Some(field.count()?).filter(|count| 0 < *count);
                let count = count.ok_or_else(|| field.expected("a whole number greater than zero"))?;
                put(&mut limits.connections, field.setting(Some(count)))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

fn size(field: &Field<'_>) -> Result<u64, ConfigError> {
    let text = field.text()?;
    parse_size(text).ok_or_else(|| field.expected("a size such as `512MB` or `64KB`, greater than zero"))
}

/// Parses a number of bytes with a unit: `B`, `KB`, `MB` or `GB` (powers of 1024).
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))?;
    let number: u64 = number.trim_end().parse().ok()?;
    number.checked_mul(unit).filter(|bytes| 0 < *bytes)
}

impl LimitSettings {
    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            memory: self.memory.overridden_by(nearer.memory),
            listing: self.listing.overridden_by(nearer.listing),
            request_body: self.request_body.overridden_by(nearer.request_body),
            connections: self.connections.overridden_by(nearer.connections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn size_has_a_unit() {
        assert_eq!(parse_size("512MB"), Some(512 << 20));
        assert_eq!(parse_size("64 KB"), Some(64 << 10));
        assert_eq!(parse_size("1B"), Some(1));
        for wrong in ["512", "MB", "0MB", "-1MB", "1.5MB", "99999999999GB", "1mb"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }
}
