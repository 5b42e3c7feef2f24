//! References of a schema: all point to `#/$defs/NAME` afterwards, so that the rest of the schema can be changed without
//! breaking them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::children;

/// Moves every target of a reference to `$defs` of the root, and drops definitions that are not used.
pub(super) fn gather(root: &mut Map<String, Value>) -> Result<(), String> {
    let original = Value::Object(root.clone());
    let mut targets = Targets { names: BTreeMap::new(), waiting: Vec::new() };
    targets.rewrite_object(root)?;
    let mut definitions = Map::new();
    while let Some((pointer, name)) = targets.waiting.pop() {
        let mut target = original.pointer(&pointer).cloned().unwrap_or_default();
        targets.rewrite(&mut target)?;
        definitions.insert(name, target);
    }
    if !definitions.is_empty() {
        root.insert("$defs".to_owned(), definitions.into());
    }
    for (pointer, name) in &targets.names {
        if !original.pointer(pointer).is_some_and(|target| target.is_object() || target.is_boolean()) {
            return Err(format!("`$ref` `#{pointer}` (`{name}`) points to nothing"));
        }
    }
    Ok(())
}

/// The name of the definition that a reference of a gathered schema points to.
pub(super) fn name_of(reference: &Value) -> Option<&str> {
    reference.as_str()?.strip_prefix("#/$defs/")
}

struct Targets {
    /// Names of definitions by JSON pointer.
    names: BTreeMap<String, String>,
    /// Pointers and names of definitions that are not gathered yet.
    waiting: Vec<(String, String)>,
}

impl Targets {
    fn rewrite(&mut self, schema: &mut Value) -> Result<(), String> {
        schema.as_object_mut().map_or(Ok(()), |object| self.rewrite_object(object))
    }

    fn rewrite_object(&mut self, object: &mut Map<String, Value>) -> Result<(), String> {
        // Definitions are reached by their references; dynamic ones cannot be resolved.
        for key in ["$defs", "definitions", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"] {
            object.remove(key);
        }
        if let Some(reference) = object.remove("$ref") {
            let Value::String(reference) = reference else { return Err("a `$ref` is not a text".to_owned()) };
            object.insert("$ref".to_owned(), self.local(&reference)?.into());
        }
        children(object).try_for_each(|inner| self.rewrite(inner))
    }

    /// Vendors fetch nothing: a reference must point into the schema itself.
    fn local(&mut self, reference: &str) -> Result<String, String> {
        let outside = || format!("`$ref` `{reference}` points outside the schema");
        let pointer = percent_decoded(reference.strip_prefix('#').ok_or_else(outside)?);
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(format!("`$ref` `{reference}` points to an anchor"));
        }
        let name = match self.names.get(&pointer) {
            Some(name) => name.clone(),
            None => {
                let name = self.new_name(&pointer);
                self.names.insert(pointer.clone(), name.clone());
                self.waiting.push((pointer, name.clone()));
                name
            }
        };
        Ok(format!("#/$defs/{name}"))
    }

    /// The last token of the pointer if it can be used, else a number.
    fn new_name(&self, pointer: &str) -> String {
        let token = pointer.rsplit('/').next().filter(|token| !token.is_empty()).unwrap_or("root");
        let valid = token.len() <= 64 && token.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        let is_free = |wanted: &str| !self.names.values().any(|name| name == wanted);
        if valid && is_free(token) {
            return token.to_owned();
        }
        let mut numbered = (1..).map(|number: usize| format!("definition{number}"));
        numbered.find(|name| is_free(name)).unwrap_or_default()
    }
}

fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(piece.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
