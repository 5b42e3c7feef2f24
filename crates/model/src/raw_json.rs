//! JSON text of others inside our types: kept as it was written, with every digit, escape and repeated key.
//!
//! A [`Value`] cannot hold `123456789012345678901234567890` or `1e400`, so text that is sent on is a [`Raw`]; a `Value` of it
//! is only looked at.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::{Map, Value, value::RawValue};
use toolway_wire::json::{JsonKind, Raw};

/// Stores one value as it is.
pub(crate) mod one {
    use super::{Deserializer, Raw, RawValue, Serializer, de, from_stored, ser, to_stored};
    use serde::{Deserialize, Serialize};

    pub(crate) fn serialize<S: Serializer>(raw: &Raw, serializer: S) -> Result<S::Ok, S::Error> {
        to_stored(raw).map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        from_stored(Box::<RawValue>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Stores a list of values as they are.
pub(crate) mod list {
    use super::{Deserialize, Deserializer, Raw, RawValue, Serialize, Serializer, de, from_stored, ser, to_stored};

    pub(crate) fn serialize<S: Serializer>(items: &[Raw], serializer: S) -> Result<S::Ok, S::Error> {
        let items: Result<Vec<_>, _> = items.iter().map(to_stored).collect();
        items.map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Raw>, D::Error> {
        let items = Vec::<Box<RawValue>>::deserialize(deserializer)?;
        items.into_iter().map(|item| from_stored(item).map_err(de::Error::custom)).collect()
    }
}

fn to_stored(raw: &Raw) -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string(raw.to_string())
}

fn from_stored(stored: Box<RawValue>) -> Result<Raw, toolway_wire::json::JsonError> {
    Raw::parse(String::from(Box::<str>::from(stored)))
}

/// The value, to be looked at. A number that it cannot hold becomes a string.
pub fn value_of(raw: &Raw) -> Value {
    raw.read().unwrap_or_else(|_| match raw.kind() {
        JsonKind::Object => {
            let members = raw.members().into_iter().map(|member| (member.key, value_of(&member.value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        JsonKind::Array => raw.elements().iter().map(value_of).collect(),
        _ => Value::String(raw.to_string()),
    })
}

/// Whether the text is an object.
pub(crate) fn is_object(raw: &Raw) -> bool {
    raw.kind() == JsonKind::Object
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_wire::json::Raw;

    use super::value_of;

    #[test]
    fn a_number_without_a_value_is_looked_at_as_text() {
        let raw = Raw::parse(r#"{"a": [1, 1e400], "b": "x"}"#).unwrap();
        assert_eq!(value_of(&raw), json!({ "a": [1, "1e400"], "b": "x" }));
    }
}
