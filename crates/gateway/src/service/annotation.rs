//! `x-mcp-header` annotations of tool arguments: shown only where callers can send the headers.

use toolway_wire::{
    header,
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
};

const ANNOTATION: &str = "x-mcp-header";

/// What happens to the header annotations of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderAnnotations {
    /// Kept unless they are invalid.
    KeepValid,
    /// Always removed.
    Remove,
}

/// The tool without the annotations that callers must not see; the same bytes if there are none.
pub(super) fn filter_headers(tool: &Raw, annotations: HeaderAnnotations) -> Raw {
    if !mentions(tool) {
        return tool.clone();
    }
    let Some(schema) = tool.get("inputSchema") else { return tool.clone() };
    if annotations == HeaderAnnotations::KeepValid && header::param_headers(&schema).is_ok() {
        return tool.clone();
    }
    splice::edited(tool, &[Edit::Set("inputSchema", without(&schema))])
}

/// Cheap test; may be true for a tool without annotations.
fn mentions(text: &Raw) -> bool {
    text.as_bytes().windows(ANNOTATION.len()).any(|window| window == ANNOTATION.as_bytes())
}

/// The schema without annotations, at every level of properties.
fn without(schema: &Raw) -> Raw {
    let mut edits = Vec::new();
    if schema.get(ANNOTATION).is_some() {
        edits.push(Edit::Remove(ANNOTATION));
    }
    if let Some(properties) = schema.get("properties").filter(mentions) {
        let members = properties.members();
        let changed: Vec<Edit<'_>> = members
            .iter()
            .filter(|member| mentions(&member.value) && member.value.kind() == JsonKind::Object)
            .map(|member| Edit::Set(&member.key, without(&member.value)))
            .collect();
        edits.push(Edit::Set("properties", splice::edited(&properties, &changed)));
    }
    splice::edited(schema, &edits)
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::{HeaderAnnotations, filter_headers};

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n": {"type":"number"}}},"x":1.0}"#;

    #[test]
    fn removing_annotations_changes_nothing_else() {
        let shown = filter_headers(&raw(TOOL), HeaderAnnotations::Remove);
        assert_eq!(shown.to_string(), TOOL.replace(r#","x-mcp-header":"Region""#, ""));
        assert_eq!(filter_headers(&raw(TOOL), HeaderAnnotations::KeepValid).to_string(), TOOL);
    }

    #[test]
    fn invalid_annotations_are_removed() {
        let bad = TOOL.replace(r#""Region""#, r#""not a header name""#);
        assert!(!filter_headers(&raw(&bad), HeaderAnnotations::KeepValid).to_string().contains("x-mcp-header"));
    }

    #[test]
    fn tool_that_only_mentions_the_annotation_is_unchanged() {
        let tool = r#"{"name":"t","description":"about x-mcp-header","inputSchema":{}}"#;
        assert_eq!(filter_headers(&raw(tool), HeaderAnnotations::Remove).to_string(), tool);
    }
}
