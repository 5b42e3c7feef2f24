//! Icons of servers: shown to callers as far as they hold their own picture.
//!
//! Whoever shows an icon takes it only from the server's own origin. Behind a gateway that is the gateway, so an address
//! elsewhere would be turned away, or tell that address who is there; what is in the icon itself goes through.

use toolway_wire::{
    json::{Kind, Raw},
    message::splice::{self, Edit},
};

/// The item, or whoever answers, without icons that are somewhere else; the same bytes where there are none.
pub(super) fn fitted(item: &Raw) -> Raw {
    if !item.may_mention("icons") {
        return item.clone();
    }
    let Some(icons) = item.get("icons").filter(|icons| icons.kind() == Kind::Array) else { return item.clone() };
    let all = icons.elements();
    let held: Vec<Raw> = all.iter().filter(|icon| holds_its_picture(icon)).cloned().collect();
    match held.len() {
        0 => splice::edited(item, &[Edit::Remove("icons")]),
        held if held == all.len() => item.clone(),
        _ => splice::edited(item, &[Edit::Set("icons", splice::array(&held))]),
    }
}

fn holds_its_picture(icon: &Raw) -> bool {
    let source = icon.get("src");
    let source = source.as_ref().and_then(Raw::as_str);
    source.is_some_and(|source| source.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")))
}

#[cfg(test)]
mod tests {
    use toolway_wire::json::Raw;

    use super::fitted;

    #[test]
    fn only_icons_that_hold_their_picture_are_shown() {
        for (given, expected) in [
            (r#"{"name": "icons"}"#, r#"{"name": "icons"}"#),
            (r#"{"icons":[{"src":"https://a.example/i.png"}],"name":"a"}"#, r#"{"name":"a"}"#),
            (
                r#"{"icons": [{"src":"data:image/png;base64,AA"}]}"#,
                r#"{"icons": [{"src":"data:image/png;base64,AA"}]}"#,
            ),
            (r#"{"icons":[{"src":"DATA:,"},{"src":"http://a"},{"src":1},{}]}"#, r#"{"icons":[{"src":"DATA:,"}]}"#),
        ] {
            assert_eq!(fitted(&Raw::parse(given.to_owned()).unwrap()).to_string(), expected, "{given}");
        }
    }
}
