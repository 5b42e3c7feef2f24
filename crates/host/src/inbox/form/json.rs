//! A form as JSON: a field as the console and scripts see it, and the schema of a form as servers write it.

use serde_json::{Map, Value, json};
use toolway_wire::{json::Raw, message::splice};

use super::{FieldKind, Form, FormField, FormOption};

impl Form {
    /// The `requestedSchema` of this form, with its fields in their order: [`Form::of`] reads the same form from it.
    pub fn to_schema(&self) -> Raw {
        let fields: Vec<Raw> = self.fields.iter().map(|field| Raw::of(&field.to_schema())).collect();
        let properties = splice::object(self.fields.iter().map(|field| field.name.as_str()).zip(&fields));
        let required = self.fields.iter().filter(|field| field.required).map(|field| field.name.as_str());
        let required = Raw::of(&required.collect::<Vec<_>>());
        splice::object([("type", &Raw::of("object")), ("properties", &properties), ("required", &required)])
    }
}

impl FormField {
    /// The field as JSON: a `type`, what it is called, and its limits where it has some.
    pub fn to_json(&self) -> Value {
        let mut view = json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "required": self.required,
            "default": self.default,
            "secret": self.looks_secret,
        });
        let (word, limits) = of_kind(&self.kind);
        view["type"] = json!(word);
        if let Some(view) = view.as_object_mut() {
            view.extend(limits.into_iter().filter(|(_, limit)| !limit.is_null()));
        }
        view
    }

    /// The definition of the field in a schema.
    fn to_schema(&self) -> Value {
        let titled = |options: &[FormOption]| -> Value {
            let option = |option: &FormOption| match &option.title {
                Some(title) => json!({ "const": option.value, "title": title }),
                None => json!({ "const": option.value }),
            };
            options.iter().map(option).collect()
        };
        let (_, mut definition) = of_kind(&self.kind);
        definition.remove("options");
        let (word, options) = match &self.kind {
            FieldKind::Text { .. } => ("string", None),
            FieldKind::Number { integer: true, .. } => ("integer", None),
            FieldKind::Number { integer: false, .. } => ("number", None),
            FieldKind::Boolean => ("boolean", None),
            FieldKind::Choice { options } => ("string", Some(("oneOf", titled(options)))),
            FieldKind::MultiChoice { options, .. } => ("array", Some(("items", json!({ "anyOf": titled(options) })))),
        };
        definition.insert("type".to_owned(), json!(word));
        definition.extend(options.map(|(key, options)| (key.to_owned(), options)));
        let texts = [("title", &self.title), ("description", &self.description)];
        definition.extend(texts.into_iter().map(|(key, text)| (key.to_owned(), json!(text))));
        definition.insert("default".to_owned(), json!(self.default));
        definition.retain(|_, value| !value.is_null());
        Value::Object(definition)
    }
}

/// The type of a field, and its limits; `null` for those it does not have.
fn of_kind(kind: &FieldKind) -> (&'static str, Map<String, Value>) {
    let (word, limits): (_, &[(&str, Value)]) = match kind {
        FieldKind::Text { format, min_length, max_length, pattern } => (
            "text",
            &[
                ("format", json!(format.map(|format| format.as_str()))),
                ("minLength", json!(min_length)),
                ("maxLength", json!(max_length)),
                ("pattern", json!(pattern)),
            ],
        ),
        FieldKind::Number { integer, minimum, maximum } => {
            let word = if *integer { "integer" } else { "number" };
            (word, &[("minimum", json!(minimum)), ("maximum", json!(maximum))])
        }
        FieldKind::Boolean => ("boolean", &[]),
        FieldKind::Choice { options } => ("choice", &[("options", list(options))]),
        FieldKind::MultiChoice { options, min_items, max_items } => (
            "multichoice",
            &[("options", list(options)), ("minItems", json!(min_items)), ("maxItems", json!(max_items))],
        ),
    };
    (word, limits.iter().map(|(key, limit)| ((*key).to_owned(), limit.clone())).collect())
}

fn list(options: &[FormOption]) -> Value {
    options.iter().map(|option| json!({ "value": option.value, "title": option.title })).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolway_wire::json::Raw;

    use super::super::Form;

    #[test]
    fn field_has_a_type_and_only_the_limits_that_it_has() {
        let schema = json!({ "properties": {
            "dish": { "type": "string", "enum": ["soup"] },
            "guests": { "type": "integer", "minimum": 1 },
            "mail": { "type": "string", "format": "email" },
        }, "required": ["dish"] });
        let fields: Vec<_> = Form::of(&Raw::of(&schema)).unwrap().fields.iter().map(|field| field.to_json()).collect();
        assert_eq!(fields[0]["options"], json!([{ "value": "soup", "title": null }]));
        assert_eq!((&fields[0]["type"], &fields[0]["required"]), (&json!("choice"), &json!(true)));
        assert_eq!((&fields[1]["type"], &fields[1]["minimum"]), (&json!("integer"), &json!(1.0)));
        assert!(fields[1].get("maximum").is_none());
        assert_eq!(fields[2]["format"], "email");
    }

    #[test]
    fn a_form_is_the_same_after_a_way_through_its_schema() {
        let schema = Raw::parse(
            r#"{"properties": {
                "z": { "type": "string", "title": "Token", "minLength": 2, "maxLength": 9, "pattern": "a+" },
                "y": { "type": "string", "format": "date", "description": "when", "default": "2026-07-28" },
                "x": { "type": "number", "minimum": -1.5, "maximum": 3, "default": 0.25 },
                "w": { "type": "integer", "default": 3 },
                "v": { "type": "boolean", "default": false },
                "u": { "type": "string", "enum": ["a", "b"], "enumNames": ["A"] },
                "t": { "type": "array", "items": { "anyOf": [{ "const": "p", "title": "P" }] }, "minItems": 1,
                       "default": ["p"] }
            }, "required": ["z", "t"]}"#,
        );
        let form = Form::of(&schema.unwrap()).unwrap();
        assert_eq!(form.fields.len(), 7);
        assert_eq!(Form::of(&form.to_schema()).unwrap(), form);
    }
}
