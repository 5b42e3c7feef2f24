//! Icons of servers and tools: the first that is a plain picture in a data URL. Addresses are never fetched.

use toolway_wire::json::Raw;

use super::image;

/// Largest icon in bytes.
const MAX_ICON: usize = 128 * 1024;
/// Icons of one item that are looked at.
const MAX_TRIED: usize = 16;

/// The icon of an item with `icons`; `None` if none of them is shown.
pub(crate) fn icon(item: &Raw) -> Option<String> {
    let icons = item.get("icons")?;
    let text = |raw: Option<Raw>| raw?.as_str().map(std::borrow::Cow::into_owned);
    let sources = icons.elements_within(MAX_TRIED).into_iter().filter_map(|icon| text(icon.get("src")));
    sources.filter(|source| source.len() <= MAX_ICON).find_map(|source| {
        let (kind, data) = source.strip_prefix("data:")?.split_once(";base64,")?;
        image(kind, data)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_wire::json::Raw;

    use super::{MAX_ICON, icon};

    #[test]
    fn an_icon_is_a_small_plain_picture_in_a_data_url() {
        let of = |src: &str| icon(&Raw::of(&json!({ "icons": [{ "src": src }] })));
        assert_eq!(of("data:image/png;base64,AA==").unwrap(), "data:image/png;base64,AA==");
        for odd in [
            "https://evil.example/icon.png",
            "data:image/svg+xml;base64,AA==",
            "data:image/png,AA==",
            "data:text/html;base64,AA==",
            "javascript:alert(1)",
            "data:image/png;base64,AA\" onload=\"x",
            "DATA:image/png;base64,AA==",
            "",
        ] {
            assert_eq!(of(odd), None, "{odd}");
        }
        assert_eq!(of(&format!("data:image/png;base64,{}", "A".repeat(MAX_ICON))), None);
        let second = json!({ "icons": [{ "src": 7 }, { "src": "http://x" }, { "src": "data:image/gif;base64,AA==" }] });
        assert_eq!(icon(&Raw::of(&second)).unwrap(), "data:image/gif;base64,AA==");
    }
}
