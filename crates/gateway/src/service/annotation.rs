//! Arguments that a tool wants repeated in headers (`x-mcp-header`): shown to callers only where they can keep to it.

use toolway_wire::{
    header,
    json::{Kind, Raw},
    message::splice::{self, Edit},
};

const ANNOTATION: &str = "x-mcp-header";

/// Whether callers are shown a tool's annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// As they are, if they are valid.
    Valid,
    /// Not at all.
    Never,
}

/// The tool, without annotations that are not to be shown; the same bytes where it has none.
pub(super) fn fitted(tool: &Raw, shown: Shown) -> Raw {
    if !mentions(tool) {
        return tool.clone();
    }
    let Some(schema) = tool.get("inputSchema") else { return tool.clone() };
    if shown == Shown::Valid && header::annotated(&schema).is_ok() {
        return tool.clone();
    }
    splice::edited(tool, &[Edit::Set("inputSchema", without(&schema))])
}

/// Cheap, and true more often than needed.
fn mentions(text: &Raw) -> bool {
    text.as_bytes().windows(ANNOTATION.len()).any(|window| window == ANNOTATION.as_bytes())
}

/// A schema without the annotation, on every level where there are properties.
fn without(schema: &Raw) -> Raw {
    let mut edits = Vec::new();
    if schema.get(ANNOTATION).is_some() {
        edits.push(Edit::Remove(ANNOTATION));
    }
    if let Some(properties) = schema.get("properties").filter(mentions) {
        let members = properties.members();
        let changed: Vec<Edit<'_>> = members
            .iter()
            .filter(|member| mentions(&member.value) && member.value.kind() == Kind::Object)
            .map(|member| Edit::Set(&member.key, without(&member.value)))
            .collect();
        edits.push(Edit::Set("properties", splice::edited(&properties, &changed)));
    }
    splice::edited(schema, &edits)
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::{Shown, fitted};

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n": {"type":"number"}}},"x":1.0}"#;

    #[test]
    fn an_annotation_is_taken_out_and_nothing_else() {
        let shown = fitted(&raw(TOOL), Shown::Never);
        assert_eq!(shown.to_string(), TOOL.replace(r#","x-mcp-header":"Region""#, ""));
        assert_eq!(fitted(&raw(TOOL), Shown::Valid).to_string(), TOOL);
    }

    #[test]
    fn an_invalid_one_is_never_shown() {
        let bad = TOOL.replace(r#""Region""#, r#""not a header name""#);
        assert!(!fitted(&raw(&bad), Shown::Valid).to_string().contains("x-mcp-header"));
    }

    #[test]
    fn a_tool_that_only_speaks_of_it_is_left_alone() {
        let tool = r#"{"name":"t","description":"about x-mcp-header","inputSchema":{}}"#;
        assert_eq!(fitted(&raw(tool), Shown::Never).to_string(), tool);
    }
}
