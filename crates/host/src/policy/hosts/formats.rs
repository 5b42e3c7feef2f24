//! What the input schema says about an argument: whether its `format`, or that of its name, is a URI or a host name.

use serde_json::Value;

use super::bare::BareHosts;

/// Schemas of one argument that are looked at, with those that they combine or refer to.
const MAX_SCHEMAS: usize = 64;

/// The schemas that apply to one value. Where only one of several holds, all count.
#[derive(Clone, Debug, Default)]
pub(super) struct Schemas<'s> {
    root: Option<&'s Value>,
    all: Vec<&'s Value>,
}

/// Who chooses the name of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// The schema: it is one of `properties`.
    Given,
    /// The caller; how it is read by the `format` of `propertyNames`.
    Free(Option<BareHosts>),
}

impl<'s> Schemas<'s> {
    pub(super) fn new(root: &'s Value) -> Self {
        Self::expanded(Some(root), vec![root])
    }

    /// The schemas of a member.
    pub(super) fn member(&self, name: &str) -> Self {
        let of = |schema: &&'s Value| {
            let named = schema.get("properties").and_then(|properties| properties.get(name));
            let patterns = schema.get("patternProperties").and_then(Value::as_object);
            let patterns = patterns.into_iter().flat_map(|patterns| patterns.values());
            let other = [named, schema.get("additionalProperties"), schema.get("unevaluatedProperties")];
            other.into_iter().flatten().chain(patterns).take(MAX_SCHEMAS).collect::<Vec<_>>()
        };
        Self::expanded(self.root, self.all.iter().flat_map(of).collect())
    }

    /// Who chooses the name of a member.
    pub(super) fn names(&self, name: &str) -> Naming {
        let is_given = |schema: &&Value| schema.get("properties").is_some_and(|given| given.get(name).is_some());
        if self.all.iter().any(is_given) {
            return Naming::Given;
        }
        let of_names = self.all.iter().filter_map(|schema| schema.get("propertyNames")).collect();
        Naming::Free(Self::expanded(self.root, of_names).bare_hosts())
    }

    /// The schemas of an element of a list.
    pub(super) fn element(&self, index: usize) -> Self {
        let of = |schema: &&'s Value| {
            let at = |key: &str| schema.get(key).and_then(|list| list.get(index));
            let other = [at("prefixItems"), at("items"), schema.get("items"), schema.get("contains")];
            other.into_iter().flatten().collect::<Vec<_>>()
        };
        Self::expanded(self.root, self.all.iter().flat_map(of).collect())
    }

    /// How a text is read by its `format`; `None` without one that names a host.
    pub(super) fn bare_hosts(&self) -> Option<BareHosts> {
        let formats = self.all.iter().filter_map(|schema| schema.get("format")?.as_str());
        formats.filter_map(BareHosts::of_format).next()
    }

    fn expanded(root: Option<&'s Value>, mut all: Vec<&'s Value>) -> Self {
        let mut next = 0;
        while next < all.len() && all.len() < MAX_SCHEMAS {
            let schema = all[next];
            next += 1;
            for key in ["anyOf", "oneOf", "allOf"] {
                all.extend(schema.get(key).and_then(Value::as_array).into_iter().flatten().take(MAX_SCHEMAS));
            }
            all.extend(["then", "else"].into_iter().filter_map(|key| schema.get(key)));
            let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
            let target = reference.and_then(|pointer| root?.pointer(pointer));
            all.extend(target.filter(|target| !all.iter().any(|known| std::ptr::eq(*known, *target))));
        }
        all.truncate(MAX_SCHEMAS);
        Self { root, all }
    }
}
