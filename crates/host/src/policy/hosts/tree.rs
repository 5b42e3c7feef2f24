//! Arguments as a tree that keeps every member, also those of the same name.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value as far as it contains text.
#[derive(Debug)]
pub(super) enum Tree {
    Text(String),
    List(Vec<Self>),
    Object(Vec<Member>),
    Other,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) value: Tree,
}

impl Tree {
    /// Parses JSON; `None` if it is invalid, too deep, or contains text that is not Unicode.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }
}

/// Every string and member name of a JSON text; the text itself if it is not JSON.
pub(crate) fn texts(json: &str, mut visit: impl FnMut(&str)) {
    fn walk(tree: &Tree, visit: &mut impl FnMut(&str)) {
        match tree {
            Tree::Text(text) => visit(text),
            Tree::List(elements) => elements.iter().for_each(|element| walk(element, visit)),
            Tree::Object(members) => members.iter().for_each(|member| {
                visit(&member.name);
                walk(&member.value, visit);
            }),
            Tree::Other => {}
        }
    }
    match Tree::parse(json.as_bytes()) {
        Some(tree) => walk(&tree, &mut visit),
        None => visit(json),
    }
}

/// A text with `\uXXXX`, `\xXX` and `\/` replaced; `None` if it has none of them.
pub(super) fn unescaped(text: &str) -> Option<String> {
    if !["\\u", "\\x", "\\/"].iter().any(|escape| text.contains(escape)) {
        return None;
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(position) = rest.find('\\') {
        plain.push_str(&rest[..position]);
        let escape = &rest[position + 1..];
        let digits = match escape.as_bytes().first() {
            Some(b'u') => escape.get(1..5),
            Some(b'x') => escape.get(1..3),
            _ => None,
        };
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
        rest = match (code, digits) {
            (Some(c), Some(digits)) => {
                plain.push(c);
                &escape[1 + digits.len()..]
            }
            _ if escape.starts_with('/') => escape,
            _ => {
                plain.push('\\');
                escape
            }
        };
    }
    plain.push_str(rest);
    Some(plain)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(name) = members.next_key()? {
            list.push(Member { name, value: members.next_value()? });
        }
        Ok(Tree::Object(list))
    }
}
