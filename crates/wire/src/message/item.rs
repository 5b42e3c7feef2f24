//! Views of listed items: tools, resources, resource templates, prompts.
//!
//! Lenient: only the members that an item needs are required, everything else stays in [`raw`](Tool::raw). A malformed
//! item is reported and does not hide the others.

use std::borrow::Cow;

use crate::json::{JsonKind, Raw, scan};

/// A tool as its server describes it.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name, exactly as it goes back to the server.
    pub name: String,
    /// Title for users.
    pub title: Option<String>,
    /// Description for models.
    pub description: Option<String>,
    /// JSON Schema of the arguments; `{}` if the server gives none.
    pub input_schema: Raw,
    /// JSON Schema of the structured result.
    pub output_schema: Option<Raw>,
    /// Hints of the server about the tool; not trustworthy.
    pub annotations: Option<Raw>,
    /// The whole item.
    pub raw: Raw,
}

/// A resource as its server describes it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// URI to read it.
    pub uri: String,
    /// Its name; the URI if the server gives none.
    pub name: String,
    /// Title for users.
    pub title: Option<String>,
    /// Description for models.
    pub description: Option<String>,
    /// Media type of its contents.
    pub mime_type: Option<String>,
    /// The whole item.
    pub raw: Raw,
}

/// A resource template.
#[derive(Clone, Debug)]
pub struct Template {
    /// URI template (RFC 6570).
    pub uri_template: String,
    /// Its name; the template if the server gives none.
    pub name: String,
    /// Description for models.
    pub description: Option<String>,
    /// Media type of the resources.
    pub mime_type: Option<String>,
    /// The whole item.
    pub raw: Raw,
}

/// A prompt as its server describes it.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// Name on the server.
    pub name: String,
    /// Title for users.
    pub title: Option<String>,
    /// Description for models.
    pub description: Option<String>,
    /// Declared arguments.
    pub arguments: Vec<PromptArgument>,
    /// The whole item.
    pub raw: Raw,
}

/// One argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Description for users.
    pub description: Option<String>,
    /// Whether the prompt needs it.
    pub required: bool,
}

/// A listed item without a required member, or with one that is given twice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {index} is malformed: {problem}")]
pub struct MalformedItem {
    /// Kind of item: `tool`, `resource` …
    pub what: &'static str,
    /// Index in the list.
    pub index: usize,
    /// Description of the problem.
    pub problem: String,
    /// The whole item.
    pub raw: Raw,
}

/// A kind of item that servers list.
pub trait Item: Sized + Clone {
    /// Kind of item: `tool`, `resource` …
    const WHAT: &'static str;
    /// The method that lists it.
    const METHOD: &'static str;
    /// The member of the result that holds the list.
    const KEY: &'static str;
    /// Parses an item; the error names the missing member.
    fn view(raw: &Raw) -> Result<Self, String>;
    /// This item with `copy`, which has the same text, as its buffer.
    #[must_use]
    fn moved(self, copy: Raw) -> Self;
    /// Bytes that it owns besides the buffer of its raw text.
    fn owned_bytes(&self) -> usize;
}

/// Reads the items of one list result; malformed ones are returned separately.
pub fn read_items<T: Item>(result: &Raw) -> Result<(Vec<T>, Vec<MalformedItem>), String> {
    read_items_within(result, usize::MAX)
}

/// As [`read_items`], but reads at most `most + 1` items.
pub fn read_items_within<T: Item>(result: &Raw, most: usize) -> Result<(Vec<T>, Vec<MalformedItem>), String> {
    let list = result.get(T::KEY).filter(|list| list.kind() == JsonKind::Array);
    let list = list.ok_or_else(|| format!("the result has no array `{}`", T::KEY))?;
    let (mut items, mut malformed) = (Vec::new(), Vec::new());
    for (index, raw) in list.elements_within(most).into_iter().enumerate() {
        let viewed = match repeated_member(&raw) {
            Some(key) => Err(format!("`{}` is given twice", key.escape_debug())),
            None => T::view(&raw),
        };
        match viewed {
            Ok(item) => items.push(item),
            Err(problem) => malformed.push(MalformedItem { what: T::WHAT, index, problem, raw }),
        }
    }
    Ok((items, malformed))
}

/// A member that an item has twice. Parsers disagree about which one counts: what is compared and shown here would not be
/// what a client reads from the same text.
fn repeated_member(raw: &Raw) -> Option<String> {
    let text = raw.as_bytes();
    let mut keys: Vec<Cow<'_, str>> = Vec::with_capacity(8);
    raw.each_member(|name, _| {
        let literal = &text[name];
        keys.push(scan::decode_string(literal).unwrap_or_else(|| String::from_utf8_lossy(literal)));
    });
    keys.sort_unstable();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone().into_owned())
}

// === impl Item ===

impl Item for Tool {
    const WHAT: &'static str = "tool";
    const METHOD: &'static str = "tools/list";
    const KEY: &'static str = "tools";

    fn view(raw: &Raw) -> Result<Self, String> {
        let [name, title, description, input_schema, output_schema, annotations] =
            raw.fields(["name", "title", "description", "inputSchema", "outputSchema", "annotations"]);
        let input_schema = input_schema.unwrap_or_else(Raw::empty_object);
        if input_schema.kind() != JsonKind::Object {
            return Err("`inputSchema` is not an object".to_owned());
        }
        Ok(Self {
            name: needed(name, "name")?,
            title: text(title),
            description: text(description),
            input_schema,
            output_schema,
            annotations,
            raw: raw.clone(),
        })
    }

    fn moved(self, copy: Raw) -> Self {
        let moved = |part: &Raw| part.moved(&self.raw, &copy);
        Self {
            input_schema: moved(&self.input_schema),
            output_schema: self.output_schema.as_ref().map(moved),
            annotations: self.annotations.as_ref().map(moved),
            raw: copy.clone(),
            ..self
        }
    }

    fn owned_bytes(&self) -> usize {
        size_of::<Self>() + self.name.len() + length(&self.title) + length(&self.description)
    }
}

impl Item for Resource {
    const WHAT: &'static str = "resource";
    const METHOD: &'static str = "resources/list";
    const KEY: &'static str = "resources";

    fn view(raw: &Raw) -> Result<Self, String> {
        let [uri, name, title, description, mime_type] =
            raw.fields(["uri", "name", "title", "description", "mimeType"]);
        let uri = needed(uri, "uri")?;
        Ok(Self {
            name: text(name).unwrap_or_else(|| uri.clone()),
            uri,
            title: text(title),
            description: text(description),
            mime_type: text(mime_type),
            raw: raw.clone(),
        })
    }

    fn moved(self, copy: Raw) -> Self {
        Self { raw: copy, ..self }
    }

    fn owned_bytes(&self) -> usize {
        size_of::<Self>()
            + self.uri.len()
            + self.name.len()
            + length(&self.title)
            + length(&self.description)
            + length(&self.mime_type)
    }
}

impl Item for Template {
    const WHAT: &'static str = "resource template";
    const METHOD: &'static str = "resources/templates/list";
    const KEY: &'static str = "resourceTemplates";

    fn view(raw: &Raw) -> Result<Self, String> {
        let [uri_template, name, description, mime_type] =
            raw.fields(["uriTemplate", "name", "description", "mimeType"]);
        let uri_template = needed(uri_template, "uriTemplate")?;
        Ok(Self {
            name: text(name).unwrap_or_else(|| uri_template.clone()),
            uri_template,
            description: text(description),
            mime_type: text(mime_type),
            raw: raw.clone(),
        })
    }

    fn moved(self, copy: Raw) -> Self {
        Self { raw: copy, ..self }
    }

    fn owned_bytes(&self) -> usize {
        size_of::<Self>()
            + self.uri_template.len()
            + self.name.len()
            + length(&self.description)
            + length(&self.mime_type)
    }
}

impl Item for Prompt {
    const WHAT: &'static str = "prompt";
    const METHOD: &'static str = "prompts/list";
    const KEY: &'static str = "prompts";

    fn view(raw: &Raw) -> Result<Self, String> {
        let [name, title, description, arguments] = raw.fields(["name", "title", "description", "arguments"]);
        let arguments = arguments.map(|list| list.elements()).unwrap_or_default();
        Ok(Self {
            name: needed(name, "name")?,
            title: text(title),
            description: text(description),
            arguments: arguments.iter().filter_map(PromptArgument::view).collect(),
            raw: raw.clone(),
        })
    }

    fn moved(self, copy: Raw) -> Self {
        Self { raw: copy, ..self }
    }

    fn owned_bytes(&self) -> usize {
        let argument =
            |argument: &PromptArgument| size_of_val(argument) + argument.name.len() + length(&argument.description);
        let arguments: usize = self.arguments.iter().map(argument).sum();
        size_of::<Self>() + self.name.len() + length(&self.title) + length(&self.description) + arguments
    }
}

impl PromptArgument {
    fn view(raw: &Raw) -> Option<Self> {
        let [name, description, required] = raw.fields(["name", "description", "required"]);
        Some(Self {
            name: text(name)?,
            description: text(description),
            required: required.and_then(|flag| flag.as_bool()).unwrap_or_default(),
        })
    }
}

fn length(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn text(value: Option<Raw>) -> Option<String> {
    value.and_then(|value| value.as_str().map(std::borrow::Cow::into_owned))
}

fn needed(value: Option<Raw>, key: &str) -> Result<String, String> {
    text(value).ok_or_else(|| format!("`{key}` is missing or not a string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_with_a_member_twice_is_malformed_however_it_is_spelled() {
        for twice in [
            r#"{"name":"a","description":"Reads","description":"Sends"}"#,
            r#"{"name":"a","description":"Reads","descripti\u006fn":"Sends"}"#,
            r#"{"name":"a","name":"b"}"#,
            r#"{"name":"a","annotations":{},"annotations":{}}"#,
        ] {
            let text = format!(r#"{{"tools":[{twice},{{"name":"c","Name":"C","inputSchema":{{"a":1,"a":2}}}}]}}"#);
            let (items, malformed) = read_items::<Tool>(&Raw::parse(text).unwrap()).unwrap();
            assert!(items.len() == 1 && items[0].name == "c", "{twice}");
            assert!(malformed[0].to_string().ends_with("is given twice"), "{}", malformed[0]);
        }
    }
}
