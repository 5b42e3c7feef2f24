//! Edits: every edit that the crate makes, and every member of every body removed, with all other bytes compared.

use toolway_wire::{
    json::Raw,
    message::{
        meta,
        splice::{Edit, edited},
    },
};

use super::{body, messages};
use crate::oracle::{self, Place};

/// Members that are set or removed in translations between eras.
const EDITED: [&str; 16] = [
    "_meta",
    "cacheScope",
    "capabilities",
    "elicitationId",
    "inputResponses",
    "instructions",
    "progressToken",
    "protocolVersion",
    "requestId",
    "requestState",
    "resultType",
    "serverInfo",
    "supportedVersions",
    "task",
    "taskId",
    "ttlMs",
];

const NEW: &str = r#"{ "new":123456789012345678901234567890 }"#;

/// The objects of the corpus that are edited: bodies, and the `_meta` in them.
fn objects() -> Vec<(String, Raw)> {
    let mut objects = Vec::new();
    for message in messages() {
        let Some(body) = body(&message.envelope) else { continue };
        objects.extend(body.get("_meta").map(|meta| (message.name.clone(), meta)));
        objects.push((message.name, body));
    }
    objects.retain(|(_, object)| oracle::members(&object.text()).is_some());
    objects
}

#[test]
fn setting_a_member_changes_nothing_else() {
    let mut replaced = 0;
    for (name, object) in objects() {
        let text = object.text();
        let places = oracle::members(&text).unwrap();
        for key in EDITED.iter().chain(&meta::HOP_KEYS) {
            let after = edited(&object, &[Edit::Set(key, Raw::parse(NEW).unwrap())]);
            let place = places.iter().find(|place| has_key(&text, place, key));
            replaced += usize::from(place.is_some());
            let expected = match (place, places.last()) {
                (Some(place), _) => format!("{}{NEW}{}", &text[..place.value.start], &text[place.value.end..]),
                (None, Some(last)) => {
                    format!("{},\"{key}\":{NEW}{}", &text[..last.value.end], &text[last.value.end..])
                }
                (None, None) => format!("{{\"{key}\":{NEW}{}", &text[1..]),
            };
            assert_eq!(after.text(), expected, "{name}: {key}");
        }
    }
    assert!(100 < replaced, "only {replaced} edits met the member they name");
}

#[test]
fn removing_a_member_changes_nothing_else() {
    for (name, object) in objects() {
        let text = object.text();
        let places = oracle::members(&text).unwrap();
        for place in &places {
            let key = oracle::said(&text[place.key.clone()]).unwrap();
            let after = edited(&object, &[Edit::Remove(&key)]);
            let after = after.text();

            let kept: Vec<&str> =
                places.iter().filter(|place| !has_key(&text, place, &key)).map(|place| member(&text, place)).collect();
            let found: Vec<Place> = oracle::members(&after).unwrap();
            let found: Vec<&str> = found.iter().map(|place| member(&after, place)).collect();
            assert_eq!(found, kept, "{name}: {key}");
            if kept.len() + 1 == places.len() {
                assert!(is_cut_out_of(&after, &text), "{name}: {key}: {after}");
            }
        }
        assert_eq!(edited(&object, &[Edit::Remove("absent key")]), object, "{name}");
    }
}

#[test]
fn hop_keys_are_removed_and_every_other_byte_is_kept() {
    let mut crossed = 0;
    for message in messages() {
        let Some(params) = message.envelope.params() else { continue };
        let after = meta::without_hop_keys(&params);
        for key in meta::HOP_KEYS {
            assert!(meta::value(Some(&after), key).is_none(), "{}: {key}", message.name);
        }
        let others = |params: &Raw| -> Vec<(String, Raw)> {
            let members = params.members().into_iter().filter(|member| member.key != "_meta");
            members.map(|member| (member.key, member.value)).collect()
        };
        assert_eq!(others(&after), others(&params), "{}", message.name);
        let ours = |params: &Raw| -> Vec<(String, Raw)> {
            let members = meta::of(Some(params)).map(|meta| meta.members()).unwrap_or_default();
            let members = members.into_iter().filter(|member| !meta::HOP_KEYS.contains(&member.key.as_str()));
            members.map(|member| (member.key, member.value)).collect()
        };
        assert_eq!(ours(&after), ours(&params), "{}", message.name);
        crossed += ours(&after).len();
    }
    assert!(3 < crossed, "only {crossed} keys of anyone else's were there to cross");
}

/// The keys are set for any value of `_meta` in the request, even `null`.
#[test]
fn hop_keys_are_set_for_any_value_of_meta() {
    let token = [Edit::Set(meta::PROGRESS_TOKEN, Raw::of(&7))];
    for message in messages() {
        let params = message.envelope.params().filter(|params| oracle::members(&params.text()).is_some());
        let before = params.unwrap_or_else(Raw::empty_object);
        let after = edited(&before, &[meta::with_keys(Some(&before), &token)]);
        let given = meta::value(Some(&after), meta::PROGRESS_TOKEN).map(|token| token.to_string());
        assert_eq!(given.as_deref(), Some("7"), "{}", message.name);
        let without = |params: &Raw| edited(&meta::without_hop_keys(params), &[Edit::Remove("_meta")]);
        assert_eq!(without(&after), without(&before), "{}", message.name);
    }
}

fn has_key(text: &str, place: &Place, key: &str) -> bool {
    oracle::said(&text[place.key.clone()]).as_deref() == Some(key)
}

fn member<'a>(text: &'a str, place: &Place) -> &'a str {
    &text[place.key.start..place.value.end]
}

/// Whether `after` is `before` without one contiguous part.
fn is_cut_out_of(after: &str, before: &str) -> bool {
    let alike = |one: &mut dyn Iterator<Item = u8>, other: &mut dyn Iterator<Item = u8>| {
        one.zip(other).take_while(|(one, other)| one == other).count()
    };
    let start = alike(&mut after.bytes(), &mut before.bytes());
    let end = alike(&mut after.bytes().rev(), &mut before.bytes().rev());
    after.len() <= start + end
}
