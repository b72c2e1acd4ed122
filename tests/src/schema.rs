//! Checks a document against a JSON schema of draft 2020-12. Supports the keywords that the schemas in `docs/schema`
//! use. An unknown keyword is an error, so that no keyword is ignored.

use serde_json::Value;

/// Keywords that only describe a schema.
const WORDS: &[&str] = &["$schema", "$id", "$defs", "title", "description"];

/// Returns all places where the document breaks the schema.
#[must_use]
pub fn breaches(schema: &Value, document: &Value) -> Vec<String> {
    let mut breaches = Vec::new();
    check(schema, schema, document, "$", &mut breaches);
    breaches
}

fn check(root: &Value, schema: &Value, value: &Value, at: &str, breaches: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        breaches.push(format!("{at}: the schema is {schema}, not an object"));
        return;
    };
    for (keyword, demand) in keywords {
        let holds = match keyword.as_str() {
            words if WORDS.contains(&words) => true,
            "$ref" => {
                let pointer = demand
                    .as_str()
                    .and_then(|text| text.strip_prefix('#'))
                    .unwrap_or("/nowhere");
                match root.pointer(pointer) {
                    Some(target) => {
                        check(root, target, value, at, breaches);
                        true
                    }
                    None => false,
                }
            }
            "const" => value == demand,
            "enum" => list(demand).contains(value),
            "type" => match demand {
                Value::Array(names) => names.iter().any(|name| is_of_type(value, name)),
                name => is_of_type(value, name),
            },
            "minimum" => value
                .as_f64()
                .is_none_or(|have| demand.as_f64().is_some_and(|least| have >= least)),
            "minLength" => value.as_str().is_none_or(|text| {
                demand
                    .as_u64()
                    .is_some_and(|least| text.chars().count() as u64 >= least)
            }),
            "required" => value.as_object().is_none_or(|object| {
                list(demand)
                    .iter()
                    .all(|name| name.as_str().is_some_and(|n| object.contains_key(n)))
            }),
            "properties" => {
                for (name, inner) in demand.as_object().into_iter().flatten() {
                    if let Some(property) = value.get(name) {
                        check(root, inner, property, &format!("{at}.{name}"), breaches);
                    }
                }
                true
            }
            "items" => {
                for (index, item) in list(value).iter().enumerate() {
                    check(root, demand, item, &format!("{at}[{index}]"), breaches);
                }
                true
            }
            "anyOf" => list(demand).iter().any(|inner| {
                let mut within = Vec::new();
                check(root, inner, value, at, &mut within);
                within.is_empty()
            }),
            _ => false,
        };
        if !holds {
            breaches.push(format!("{at}: {keyword} {demand} does not hold for {value}"));
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is_of_type(value: &Value, name: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_keyword_can_be_broken() {
        let definitions = json!({ "short": { "type": "string", "minLength": 2 } });
        for (schema, good, bad) in [
            (json!({ "const": 1 }), json!(1), json!(2)),
            (json!({ "enum": ["a", "b"] }), json!("b"), json!("c")),
            (json!({ "type": "integer", "minimum": 1 }), json!(1), json!(0)),
            (json!({ "type": ["string", "null"] }), json!(null), json!(1)),
            (
                json!({ "type": "object", "required": ["a"] }),
                json!({ "a": 1 }),
                json!({ "b": 1 }),
            ),
            (
                json!({ "properties": { "a": { "type": "boolean" } } }),
                json!({ "b": 1 }),
                json!({ "a": 1 }),
            ),
            (
                json!({ "type": "array", "items": { "type": "null" } }),
                json!([null]),
                json!([null, 1]),
            ),
            (json!({ "anyOf": [{ "const": 1 }, { "const": 2 }] }), json!(2), json!(3)),
            (
                json!({ "$ref": "#/$defs/short", "$defs": definitions }),
                json!("ab"),
                json!("a"),
            ),
        ] {
            assert_eq!(breaches(&schema, &good), [] as [String; 0], "{schema}");
            assert_eq!(breaches(&schema, &bad).len(), 1, "{schema}");
        }
    }

    #[test]
    fn rejects_unknown_keywords_and_references() {
        assert_eq!(breaches(&json!({ "maxItems": 1 }), &json!([])).len(), 1);
        assert_eq!(breaches(&json!({ "$ref": "#/$defs/none" }), &json!([])).len(), 1);
    }
}
