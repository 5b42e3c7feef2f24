//! Icons of servers: only icons with an embedded image (`data:` URI) are passed on.
//!
//! Clients load icons only from the origin of the server, which is the gateway here. An icon at another URL would be
//! refused, or would reveal the client to that host.

use toolway_wire::{
    json::{JsonKind, Raw},
    message::splice::{self, Edit},
};

/// The item or server info without icons at other URLs; the same bytes if there are none.
pub(super) fn keep_embedded(item: &Raw) -> Raw {
    if !item.may_mention("icons") {
        return item.clone();
    }
    let Some(icons) = item.get("icons").filter(|icons| icons.kind() == JsonKind::Array) else { return item.clone() };
    let all = icons.elements();
    let embedded: Vec<Raw> = all.iter().filter(|icon| is_embedded(icon)).cloned().collect();
    match embedded.len() {
        0 => splice::edited(item, &[Edit::Remove("icons")]),
        embedded if embedded == all.len() => item.clone(),
        _ => splice::edited(item, &[Edit::Set("icons", splice::array(&embedded))]),
    }
}

fn is_embedded(icon: &Raw) -> bool {
    let source = icon.get("src");
    let source = source.as_ref().and_then(Raw::as_str);
    source.is_some_and(|source| source.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")))
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::keep_embedded;

    #[test]
    fn only_embedded_icons_are_kept() {
        for (given, expected) in [
            (r#"{"name": "icons"}"#, r#"{"name": "icons"}"#),
            (r#"{"icons":[{"src":"https://a.example/i.png"}],"name":"a"}"#, r#"{"name":"a"}"#),
            (
                r#"{"icons": [{"src":"data:image/png;base64,AA"}]}"#,
                r#"{"icons": [{"src":"data:image/png;base64,AA"}]}"#,
            ),
            (r#"{"icons":[{"src":"DATA:,"},{"src":"http://a"},{"src":1},{}]}"#, r#"{"icons":[{"src":"DATA:,"}]}"#),
        ] {
            assert_eq!(keep_embedded(&Raw::parse(given.to_owned()).unwrap()).to_string(), expected, "{given}");
        }
    }
}
