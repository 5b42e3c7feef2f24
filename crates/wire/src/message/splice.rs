//! The only edits of messages: set or remove named members; every other byte stays.

use std::ops::Range;

use crate::json::{Raw, scan};

/// One edit of an object.
#[derive(Clone, Debug)]
pub enum Edit<'a> {
    /// Sets a member: replaced in place, or appended.
    Set(&'a str, Raw),
    /// Appends a member that does not exist yet; the caller has checked this, and the object is not searched.
    Add(&'a str, Raw),
    /// Removes a member.
    Remove(&'a str),
}

/// The object with the edits applied. Other values are returned unchanged.
pub fn edited(object: &Raw, edits: &[Edit<'_>]) -> Raw {
    if edits.is_empty() {
        return object.clone();
    }
    let size = object.as_bytes().len() + edits.iter().map(Edit::growth).sum::<usize>();
    let mut out = Vec::with_capacity(size);
    write(&mut out, object, edits);
    Raw::checked(out.into())
}

/// As [`edited`], appended to `out`.
pub fn write(out: &mut Vec<u8>, object: &Raw, edits: &[Edit<'_>]) {
    let text = object.as_bytes();
    if edits.is_empty() || text.first() != Some(&b'{') {
        out.extend_from_slice(text);
        return;
    }
    if edits.iter().all(|edit| matches!(edit, Edit::Add(..))) {
        return append(out, text, edits);
    }
    let mut members: Vec<(Range<usize>, Range<usize>)> = Vec::new();
    object.each_member(|key, value| members.push((key, value)));
    let mut writer = ObjectWriter::new(out, text, members.first().map(|(key, _)| key.start));
    let mut done = vec![false; edits.len()];
    for (key, value) in members {
        match edits.iter().position(|edit| scan::key_is(&text[key.clone()], edit.key())) {
            None => writer.member(key, value.clone(), &text[value]),
            Some(index) => match &edits[index] {
                Edit::Set(_, new) | Edit::Add(_, new) if !done[index] => {
                    done[index] = true;
                    writer.member(key, value, new.as_bytes());
                }
                // A second member with this name is removed too.
                Edit::Set(..) | Edit::Add(..) | Edit::Remove(_) => writer.skip(value),
            },
        }
    }
    for (edit, done) in edits.iter().zip(done) {
        if let (Edit::Set(key, value) | Edit::Add(key, value), false) = (edit, done) {
            writer.add(key, value);
        }
    }
    writer.finish();
}

/// The object with `now`, the value of a member with a unique name, replaced by `new`.
pub(crate) fn replaced(object: &Raw, now: &Raw, new: &Raw) -> Raw {
    let (text, value) = (object.as_bytes(), position(object, now));
    let mut out = Vec::with_capacity(text.len() - value.len() + new.as_bytes().len());
    out.extend_from_slice(&text[..value.start]);
    out.extend_from_slice(new.as_bytes());
    out.extend_from_slice(&text[value.end..]);
    Raw::checked(out.into())
}

/// The object without the member whose value is `gone`; its name is unique and has no quotes.
pub(crate) fn without(object: &Raw, gone: &Raw) -> Raw {
    let (text, value) = (object.as_bytes(), position(object, gone));
    let before = |end: usize| text[..end].trim_ascii_end();
    let colon = before(value.start).len().saturating_sub(1);
    let name = memchr::memrchr(b'"', before(colon).strip_suffix(b"\"").unwrap_or_default()).unwrap_or_default();
    let rest = &text[value.end..];
    let (head, rest) = match (before(name).strip_suffix(b","), rest.trim_ascii_start().strip_prefix(b",")) {
        // Removes the comma before it and keeps what follows.
        (Some(others), _) => (others.trim_ascii_end(), rest),
        (None, Some(others)) => (&text[..name], others.trim_ascii_start()),
        (None, None) => (&text[..name], rest),
    };
    Raw::checked([head, rest].concat().into())
}

/// Position of a value within the object it was taken from.
fn position(object: &Raw, value: &Raw) -> Range<usize> {
    let (outer, inner) = (object.as_bytes().as_ptr_range(), value.as_bytes().as_ptr_range());
    debug_assert!(outer.start <= inner.start && inner.end <= outer.end, "a value of another object");
    let start = inner.start.addr() - outer.start.addr();
    start..start + value.as_bytes().len()
}

/// An object with these members; values are copied unchanged.
pub fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a Raw), IntoIter: Clone>) -> Raw {
    let members = members.into_iter();
    // Exact if no key needs escapes and there is at least one member: quotes, colon, and a comma or brace each.
    let size = members.clone().map(|(key, value)| key.len() + value.as_bytes().len() + 4).sum::<usize>();
    let mut out = Vec::with_capacity(size + 1);
    out.push(b'{');
    for (key, value) in members {
        if 1 < out.len() {
            out.push(b',');
        }
        write_string(&mut out, key);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
    Raw::checked(out.into())
}

/// An array of these values, copied unchanged.
pub fn array<'a>(items: impl IntoIterator<Item = &'a Raw>) -> Raw {
    let mut out = Vec::from(*b"[");
    for item in items {
        if 1 < out.len() {
            out.push(b',');
        }
        out.extend_from_slice(item.as_bytes());
    }
    out.push(b']');
    Raw::checked(out.into())
}

/// The object with all members of `other` set.
pub(crate) fn merged(object: &Raw, other: &Raw) -> Raw {
    let members = other.members();
    let edits: Vec<Edit<'_>> = members.iter().map(|member| Edit::Set(&member.key, member.value.clone())).collect();
    edited(object, &edits)
}

/// Appends an object with these members added at the end.
fn append(out: &mut Vec<u8>, object: &[u8], edits: &[Edit<'_>]) {
    let members = object.strip_suffix(b"}").unwrap_or(object);
    out.extend_from_slice(members);
    // Only whitespace after the brace: this is the first member.
    let mut first = members.trim_ascii_end().len() == 1;
    for edit in edits {
        let (Edit::Set(key, value) | Edit::Add(key, value)) = edit else { continue };
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        write_string(out, key);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
}

/// Appends a string literal; text without escapes needs no second buffer.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    if scan::is_plain(text) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(Raw::of(text).as_bytes());
    }
}

// === impl Edit ===

impl Edit<'_> {
    /// Name of the member.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Set(key, _) | Self::Add(key, _) | Self::Remove(key) => key,
        }
    }

    /// Maximum number of bytes that the edit adds, for keys without escapes.
    pub(crate) fn growth(&self) -> usize {
        match self {
            Self::Set(key, value) | Self::Add(key, value) => key.len() + value.as_bytes().len() + 4,
            Self::Remove(_) => 0,
        }
    }
}

/// Writes an edited object: text between kept members is copied with them.
struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    text: &'a [u8],
    /// End of the last member, kept or not.
    end: usize,
    any: bool,
    dropped_first: bool,
}

impl<'a> ObjectWriter<'a> {
    fn new(out: &'a mut Vec<u8>, text: &'a [u8], first_key: Option<usize>) -> Self {
        let end = first_key.unwrap_or(1);
        out.extend_from_slice(&text[..end]);
        Self { out, text, end, any: false, dropped_first: false }
    }

    fn member(&mut self, key: Range<usize>, value: Range<usize>, new: &[u8]) {
        // The comma before a member goes when nothing was kept before it.
        let from = if self.dropped_first && !self.any { key.start } else { self.end };
        self.out.extend_from_slice(&self.text[from..value.start]);
        self.out.extend_from_slice(new);
        self.end = value.end;
        self.any = true;
    }

    fn skip(&mut self, value: Range<usize>) {
        self.dropped_first |= !self.any;
        self.end = value.end;
    }

    fn add(&mut self, key: &str, value: &Raw) {
        if self.any {
            self.out.push(b',');
        }
        write_string(self.out, key);
        self.out.push(b':');
        self.out.extend_from_slice(value.as_bytes());
        self.any = true;
    }

    fn finish(self) {
        self.out.extend_from_slice(&self.text[self.end..]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};
    use serde_json::Value;

    use super::{Edit, edited, merged, object, replaced, without};
    use crate::{json::Raw, property};

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn edits_change_one_member_and_keep_other_bytes() {
        let cases = [
            (r#"{ "a" : 1 ,"b":[ 2]}"#, vec![Edit::Set("a", raw("9"))], r#"{ "a" : 9 ,"b":[ 2]}"#),
            (r#"{ "a" : 1 , "b":[ 2] }"#, vec![Edit::Remove("a")], r#"{ "b":[ 2] }"#),
            (r#"{"a":1, "b":2 , "c":3}"#, vec![Edit::Remove("b")], r#"{"a":1 , "c":3}"#),
            (r#"{"a":1,"b":2 }"#, vec![Edit::Remove("b")], r#"{"a":1 }"#),
            ("{ }", vec![Edit::Set("a", raw("1"))], r#"{"a":1 }"#),
            (r#"{"a":1}"#, vec![Edit::Remove("a"), Edit::Set("b", raw("2"))], r#"{"b":2}"#),
            (r#"{"a":1 }"#, vec![Edit::Set("b", raw("2"))], r#"{"a":1,"b":2 }"#),
            (r#"{"a":1,"a":2,"b":3}"#, vec![Edit::Set("a", raw("0"))], r#"{"a":0,"b":3}"#),
            (r#"{"\u0061":1,"b":3}"#, vec![Edit::Remove("a")], r#"{"b":3}"#),
            ("[1]", vec![Edit::Set("a", raw("1"))], "[1]"),
            ("{}", vec![Edit::Add("a", raw("1"))], r#"{"a":1}"#),
            ("{ }", vec![Edit::Add("a", raw("1"))], r#"{ "a":1}"#),
            (r#"{"b":{} }"#, vec![Edit::Add("a", raw("1"))], r#"{"b":{} ,"a":1}"#),
            (r#"{"b":2}"#, vec![Edit::Remove("b"), Edit::Add("a", raw("1"))], r#"{"a":1}"#),
            ("[1]", vec![Edit::Add("a", raw("1"))], "[1]"),
        ];
        for (before, edits, after) in cases {
            assert_eq!(edited(&raw(before), &edits).to_string(), after, "from {before}");
        }
    }

    #[test]
    fn removal_by_value_equals_removal_by_name() {
        for object in [
            r#"{"_meta":1}"#,
            r#"{ "_meta" : 1 }"#,
            r#"{"_meta":{"a":"\""},"b":2}"#,
            r#"{ "_meta":1 , "b":2 }"#,
            r#"{"a":"\"" , "_meta" : {} }"#,
            r#"{"a":1,"_meta":{"b":[1]} , "c":3}"#,
            r#"{"a\"":1,"\u005fmeta":[] ,"c":3}"#,
        ] {
            let object = raw(object);
            let meta = object.get("_meta").unwrap();
            let (gone, set) = (Edit::Remove("_meta"), Edit::Set("_meta", raw("[7]")));
            assert_eq!(without(&object, &meta), edited(&object, &[gone]), "from {object}");
            assert_eq!(replaced(&object, &meta, &raw("[7]")), edited(&object, &[set]), "from {object}");
        }
    }

    #[test]
    fn object_keeps_the_text_of_its_values() {
        let (one, other) = (raw("1.50"), raw(r#"{ "b":2 ,"a":1}"#));
        assert_eq!(object([("x", &one), ("a\"b", &other)]).to_string(), r#"{"x":1.50,"a\"b":{ "b":2 ,"a":1}}"#);
        assert_eq!(object([]).to_string(), "{}");
        assert_eq!(merged(&other, &object([("a", &one), ("c", &one)])).to_string(), r#"{ "b":2 ,"a":1.50,"c":1.50}"#);
    }

    proptest! {
        #![proptest_config(property::cases())]
        #[test]
        fn edit_changes_only_the_named_member(
            keys in prop::collection::btree_set("[a-d]", 0..4), target in "[a-f]", remove in prop::bool::ANY,
        ) {
            let members: Vec<String> = keys.iter().map(|key| format!(" \"{key}\" : [\"{key}\"]")).collect();
            let before = raw(&format!("{{{} }}", members.join(",")));
            let edit = if remove { Edit::Remove(&target) } else { Edit::Set(&target, raw("7")) };
            let after = edited(&before, &[edit]);
            let mut expected: serde_json::Map<String, Value> = before.read().unwrap();
            if remove { expected.remove(&target); } else { expected.insert(target.clone(), 7.into()); }
            assert_eq!(Raw::parse(after.bytes().clone()).unwrap().read::<Value>().unwrap(), Value::Object(expected));
            for key in keys.iter().filter(|key| **key != target) {
                assert!(after.to_string().contains(&format!("\"{key}\" : [\"{key}\"]")));
            }
        }
    }
}
