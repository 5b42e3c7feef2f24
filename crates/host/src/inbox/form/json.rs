//! A field of a form as JSON, as the console and scripts see it.

use serde_json::{Map, Value, json};

use super::{FieldKind, FormField, FormOption};

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
}
