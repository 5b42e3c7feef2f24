//! Views of what a server lists: tools, resources, templates, prompts.
//!
//! Lenient: only what an item cannot do without is required, everything else stays in [`raw`](Tool::raw). One
//! malformed item is reported beside the others and hides none of them.

use crate::json::{Kind, Raw};

/// A tool as its server describes it.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name, exactly as it goes back to the server.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For models.
    pub description: Option<String>,
    /// What it takes; `{}` where the server says nothing.
    pub input_schema: Raw,
    /// What it gives.
    pub output_schema: Option<Raw>,
    /// Hints the server gives about itself; not to be trusted.
    pub annotations: Option<Raw>,
    /// All of it.
    pub raw: Raw,
}

/// A resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Where it is read.
    pub uri: String,
    /// Its name; the URI where the server gives none.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For models.
    pub description: Option<String>,
    /// What it holds.
    pub mime_type: Option<String>,
    /// All of it.
    pub raw: Raw,
}

/// A family of resources.
#[derive(Clone, Debug)]
pub struct Template {
    /// RFC 6570 template of their URIs.
    pub uri_template: String,
    /// Its name; the template where the server gives none.
    pub name: String,
    /// For models.
    pub description: Option<String>,
    /// What they hold.
    pub mime_type: Option<String>,
    /// All of it.
    pub raw: Raw,
}

/// A prompt.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The name.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// For models.
    pub description: Option<String>,
    /// What it takes.
    pub arguments: Vec<PromptArgument>,
    /// All of it.
    pub raw: Raw,
}

/// One argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// Whether the prompt needs it.
    pub required: bool,
}

/// An item that lacks what an item cannot do without.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {index} is malformed: {problem}")]
pub struct Malformed {
    /// `tool`, `resource` …
    pub what: &'static str,
    /// Its place in the list.
    pub index: usize,
    /// What is wrong.
    pub problem: String,
    /// All of it.
    pub raw: Raw,
}

/// Something a server lists.
pub trait Item: Sized + Clone {
    /// `tool`, `resource` …
    const WHAT: &'static str;
    /// The method that lists it.
    const METHOD: &'static str;
    /// The member of the result that holds the list.
    const KEY: &'static str;
    /// The view, or what is missing.
    fn view(raw: &Raw) -> Result<Self, String>;
}

/// Reads the items of one list result; those that are malformed are reported.
pub fn read_items<T: Item>(result: &Raw) -> Result<(Vec<T>, Vec<Malformed>), String> {
    read_items_within(result, usize::MAX)
}

/// The same, as far as one more than `most`.
pub fn read_items_within<T: Item>(result: &Raw, most: usize) -> Result<(Vec<T>, Vec<Malformed>), String> {
    let list = result.get(T::KEY).filter(|list| list.kind() == Kind::Array);
    let list = list.ok_or_else(|| format!("the result has no array `{}`", T::KEY))?;
    let (mut items, mut malformed) = (Vec::new(), Vec::new());
    for (index, raw) in list.elements_within(most).into_iter().enumerate() {
        match T::view(&raw) {
            Ok(item) => items.push(item),
            Err(problem) => malformed.push(Malformed { what: T::WHAT, index, problem, raw }),
        }
    }
    Ok((items, malformed))
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
        if input_schema.kind() != Kind::Object {
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

fn text(value: Option<Raw>) -> Option<String> {
    value.and_then(|value| value.as_str().map(std::borrow::Cow::into_owned))
}

fn needed(value: Option<Raw>, key: &str) -> Result<String, String> {
    text(value).ok_or_else(|| format!("`{key}` is missing or not a string"))
}
