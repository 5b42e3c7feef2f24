//! Reads a tool's input schema: argument names in order, their types, and the tool's signature.
//!
//! Lenient: unsupported schemas yield no information; the check in [`crate::arguments`] decides.

use toolway_wire::{
    json::{JsonKind, Raw},
    message::item::{PromptArgument, Tool},
};

/// An input schema.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Raw);

/// One argument.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) schema: Raw,
    pub(crate) required: bool,
}

/// Longest chain of references that is followed.
const MAX_REFERENCES: usize = 8;
/// Most alternatives examined for one argument.
const MAX_ALTERNATIVES: usize = 64;
/// Longest default or list of choices in a signature, in characters.
const MAX_SHOWN: usize = 40;

impl Schema {
    pub(crate) fn new(schema: Raw) -> Self {
        Self(schema)
    }

    pub(crate) fn raw(&self) -> &Raw {
        &self.0
    }

    /// The arguments, in the server's order.
    pub(crate) fn properties(&self) -> Vec<Property> {
        let required: Vec<String> =
            self.0.get("required").map(|list| list.elements()).unwrap_or_default().iter().filter_map(string).collect();
        let members = self.0.get("properties").map(|properties| properties.members()).unwrap_or_default();
        let property = |member: toolway_wire::json::Member| Property {
            required: required.contains(&member.key),
            name: member.key,
            schema: member.value,
        };
        members.into_iter().map(property).collect()
    }

    /// Whether arguments that are not listed are allowed: only if the schema says so or lists none.
    pub(crate) fn allows_additional(&self) -> bool {
        let [properties, additional, pattern] =
            self.0.fields(["properties", "additionalProperties", "patternProperties"]);
        let refused = additional.as_ref().and_then(Raw::as_bool) == Some(false);
        !refused && (additional.is_some() || pattern.is_some() || properties.is_none())
    }

    /// The allowed JSON types as in the schema; empty if it does not restrict them.
    pub(crate) fn kinds(&self, schema: &Raw) -> Vec<String> {
        let (mut kinds, mut budget) = (Vec::new(), MAX_ALTERNATIVES);
        self.gather_kinds(schema, &mut budget, &mut kinds);
        kinds
    }

    /// The schema of a list's elements.
    pub(crate) fn elements(&self, schema: &Raw) -> Option<Raw> {
        let schema = self.resolve(schema);
        schema.get("items").or_else(|| self.alternatives(&schema).iter().find_map(|one| self.resolve(one).get("items")))
    }

    /// The allowed values, if the schema lists them.
    pub(crate) fn choices(&self, schema: &Raw) -> Vec<Raw> {
        let schema = self.resolve(schema);
        let listed = schema.get("enum").map(|list| list.elements());
        listed.or_else(|| schema.get("const").map(|only| vec![only])).unwrap_or_default()
    }

    fn gather_kinds(&self, schema: &Raw, budget: &mut usize, kinds: &mut Vec<String>) {
        let Some(left) = budget.checked_sub(1) else { return };
        *budget = left;
        let schema = self.resolve(schema);
        let said = schema.get("type");
        let found: Vec<String> = match &said {
            Some(list) if list.kind() == JsonKind::Array => list.elements().iter().filter_map(string).collect(),
            Some(one) => string(one).into_iter().collect(),
            None => self.choices(&schema).iter().map(|choice| kind_of(choice).to_owned()).collect(),
        };
        let says_nothing = found.is_empty();
        for kind in found {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        if says_nothing {
            for alternative in self.alternatives(&schema).iter().take(MAX_ALTERNATIVES) {
                self.gather_kinds(alternative, budget, kinds);
            }
        }
    }

    fn alternatives(&self, schema: &Raw) -> Vec<Raw> {
        let lists = schema.fields(["anyOf", "oneOf", "allOf"]);
        lists.into_iter().flatten().flat_map(|list| list.elements()).collect()
    }

    /// Follows local references. Remote references are never fetched.
    fn resolve(&self, schema: &Raw) -> Raw {
        let mut schema = schema.clone();
        for _ in 0..MAX_REFERENCES {
            let Some(pointer) = schema.get("$ref").as_ref().and_then(string) else { break };
            match self.lookup_pointer(&pointer) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn lookup_pointer(&self, pointer: &str) -> Option<Raw> {
        let mut place = self.0.clone();
        for key in pointer.strip_prefix("#/")?.split('/') {
            place = place.get(&key.replace("~1", "/").replace("~0", "~"))?;
        }
        Some(place)
    }

    /// One argument of a signature: `to?: integer = 3`.
    fn argument(&self, property: &Property) -> String {
        let optional = if property.required { "" } else { "?" };
        let default = property.schema.get("default").map(|value| format!(" = {}", cut(&value.to_string())));
        format!("{}{optional}: {}{}", property.name, self.type_text(&property.schema), default.unwrap_or_default())
    }

    /// The type of one value: `number`, `string[]`, `"a"|"b"`.
    pub(crate) fn type_text(&self, schema: &Raw) -> String {
        let choices = self.choices(schema);
        if !choices.is_empty() {
            return cut(&choices.iter().map(ToString::to_string).collect::<Vec<_>>().join("|"));
        }
        let word = |kind: String| match (kind.as_str(), self.elements(schema)) {
            ("array", Some(elements)) => match self.kinds(&elements).first() {
                Some(kind) if kind != "array" => format!("{kind}[]"),
                _ => "array".to_owned(),
            },
            _ => kind,
        };
        let words: Vec<String> = self.kinds(schema).into_iter().map(word).collect();
        if words.is_empty() { "any".to_owned() } else { words.join("|") }
    }
}

/// The signature of a tool: `count(to?: integer = 3, pause?: integer)`.
pub(crate) fn signature(tool: &Tool) -> String {
    let schema = Schema::new(tool.input_schema.clone());
    let arguments: Vec<String> = schema.properties().iter().map(|property| schema.argument(property)).collect();
    format!("{}({})", tool.name, arguments.join(", "))
}

/// The signature of a prompt.
pub(crate) fn prompt_signature(name: &str, arguments: &[PromptArgument]) -> String {
    let argument = |one: &PromptArgument| format!("{}{}", one.name, if one.required { "" } else { "?" });
    format!("{name}({})", arguments.iter().map(argument).collect::<Vec<_>>().join(", "))
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_SHOWN {
        return text.to_owned();
    }
    text.chars().take(MAX_SHOWN).chain("…".chars()).collect()
}

fn string(raw: &Raw) -> Option<String> {
    raw.as_str().map(std::borrow::Cow::into_owned)
}

fn kind_of(value: &Raw) -> &'static str {
    match value.kind() {
        JsonKind::Object => "object",
        JsonKind::Array => "array",
        JsonKind::String => "string",
        JsonKind::Number => "number",
        JsonKind::Boolean => "boolean",
        JsonKind::Null => "null",
    }
}

#[cfg(test)]
mod tests {
    use toolway_wire::{
        json::Raw,
        message::item::{Item, Tool},
    };

    use super::signature;

    #[test]
    fn signature_lists_arguments_and_types() {
        let tool = Raw::parse(
            r##"{"name":"paint","inputSchema":{"type":"object","required":["size"],"properties":{
                "size":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}},
                "colour":{"enum":["red","blue"],"default":"red"},"where":{"$ref":"#/$defs/place"},
                "maybe":{"anyOf":[{"type":"string"},{"type":"null"}]},"any":true},
                "$defs":{"place":{"type":"object"}}}}"##,
        )
        .unwrap();
        assert_eq!(
            signature(&Tool::view(&tool).unwrap()),
            r#"paint(size: integer, tags?: string[], colour?: "red"|"blue" = "red", where?: object, maybe?: string|null, any?: any)"#
        );
    }

    #[test]
    fn circular_schema_terminates() {
        let tool = Raw::parse(
            r##"{"name":"loop","inputSchema":{"properties":{"a":{"$ref":"#/properties/a"},
                "b":{"anyOf":[{"$ref":"#/properties/b"},{"$ref":"#/properties/b"}]}}}}"##,
        )
        .unwrap();
        assert_eq!(signature(&Tool::view(&tool).unwrap()), "loop(a?: any, b?: any)");
    }
}
