//! Wrong values made from the schemas of the document: of every field of a body at every depth, and of every parameter of a
//! query.

use serde_json::{Map, Value, json};

use super::{Ground, Place, Wrong, forms};
use crate::harness::*;

/// No whole number of 0…2^63−1, whatever the range.
const NO_NUMBER: &str = r#""5" "?" 1.5 1e999 -1e999 -1 true [] {} "" [5] 1e-1 1e30 9223372036854775808 18446744073709551616
    -9223372036854775809"#;
const NO_FRACTION: &str = r#""2" "?" 1e999 true [] {} "" [1]"#;
const NO_TEXT: &str = r#"1 7 true [] {} 1.5 ["k"]"#;
const NO_WORD: &str = r#"1 7 true [] {} "" "x""#;
const NO_OBJECT: &str = r#"1 "x" true [] [{}]"#;
const NO_ARRAY: &str = r#"1 "x" {} true"#;
const NO_BOOLEAN: &str = r#""true" "?" "" 1 0 [] {}"#;

/// Where a template has an object, and where that has the value that is tried: both are replaced by their text, because what
/// is tried may be no JSON.
const OBJECT: &str = "\"@object@\"";
const VALUE: &str = "\"@value@\"";

/// An object of a body.
pub struct Object<'a> {
    /// What stands before its fields in `errors`: nothing, or such as `messages[1].`.
    pub path: String,
    pub schema: &'a Value,
    /// The least that it must have.
    pub good: Map<String, Value>,
    template: String,
}

impl Object<'_> {
    /// The body with this text as the object's field, together with what the field needs and without what it excludes.
    pub fn with(&self, name: &str, value: &str) -> String {
        let mut object = self.good.clone();
        let (without, needed) = match name {
            "payload_base64" => ("payload", None),
            "content_type" => ("payload", Some(("payload_base64", "AA=="))),
            "cron" => ("every_ms", None),
            "timezone" => ("every_ms", Some(("cron", "0 0 1 1 *"))),
            "callback" => ("topic", None),
            "delays_ms" => ("", Some(("kind", "schedule"))),
            "on_duplicate" | "key_until" => ("", Some(("key", "k"))),
            _ => ("", None),
        };
        object.remove(without);
        object.extend(needed.map(|(name, value)| (name.to_owned(), json!(value))));
        object.insert(name.to_owned(), json!(VALUE.trim_matches('"')));
        self.body(&Value::Object(object).to_string()).replace(VALUE, value)
    }

    /// The body with these members, as text, behind the object's own.
    pub fn and(&self, members: &str) -> String {
        let object = Value::Object(self.good.clone()).to_string();
        let comma = if self.good.is_empty() { "" } else { "," };
        self.body(&format!("{}{comma}{members}}}", &object[..object.len() - 1]))
    }

    /// The body without this field of the object.
    fn without(&self, name: &str) -> String {
        let mut object = self.good.clone();
        object.remove(name);
        self.body(&Value::Object(object).to_string())
    }

    fn body(&self, object: &str) -> String {
        self.template.replace(OBJECT, object)
    }
}

impl Ground {
    /// The object that the body of a place is, and those in it.
    pub fn objects<'a>(&'a self, place: &'a Place) -> Vec<Object<'a>> {
        let Some(Value::Object(good)) = place.good.clone() else { return Vec::new() };
        let schema = match place.operation.get("requestBody") {
            Some(_) => self.document.request(&place.id),
            None => &Value::Null,
        };
        let root = Object { path: String::new(), schema, good, template: OBJECT.to_owned() };
        let mut objects = vec![root];
        let mut next = 0;
        while next < objects.len() {
            objects.extend(self.inside(&objects[next]));
            next += 1;
        }
        objects
    }

    /// The objects that the fields of one are, or whose arrays the fields are: of those the second is tried.
    fn inside<'a>(&'a self, object: &Object<'a>) -> Vec<Object<'a>> {
        let mut found = Vec::new();
        for (name, schema) in object.schema["properties"].as_object().into_iter().flatten() {
            let (schema, items) = (self.schema(schema), self.schema(&self.schema(schema)["items"]));
            let is_array = items["properties"].is_object();
            let schema = if is_array { items } else { schema };
            if !schema["properties"].is_object() {
                continue;
            }
            let Value::Object(good) = self.good(name, schema) else { continue };
            let (place, value) = match is_array {
                true => ("[1]", format!("[{},{OBJECT}]", Value::Object(good.clone()))),
                false => ("", OBJECT.to_owned()),
            };
            let path = format!("{}{name}{place}.", object.path);
            found.push(Object { path, schema, good, template: object.with(name, &value) });
        }
        found
    }

    /// Texts that no value of this schema may be, in a field of this name.
    fn no_values(&self, name: &str, declared: &Value) -> Vec<String> {
        let schema = self.schema(declared);
        // A payload may be anything.
        if ["type", "enum"].iter().all(|it| schema[it].is_null()) {
            return Vec::new();
        }
        let may_be_null = |schema: &Value| {
            schema["oneOf"].is_array() || schema["type"].as_array().is_some_and(|it| it.len() > 1)
        };
        let is = |kind: &str| schema["type"] == kind || schema["type"][0] == kind;
        let bound = |name: &str| schema[name].as_i64();
        let general = match () {
            () if is("integer") => NO_NUMBER,
            () if is("number") => NO_FRACTION,
            () if is("boolean") => NO_BOOLEAN,
            () if is("object") => NO_OBJECT,
            () if is("array") => NO_ARRAY,
            () if schema["enum"].is_array() => NO_WORD,
            () => NO_TEXT,
        };
        let mut found: Vec<String> = general.split_whitespace().map(str::to_owned).collect();
        if !may_be_null(self.document.resolve(declared)) {
            found.push("null".to_owned());
        }
        if is("integer") {
            found.extend(bound("minimum").map(|least| (least - 1).to_string()));
            found.extend(bound("maximum").map(|most| (most + 1).to_string()));
        } else if is("number") {
            found.extend(schema["minimum"].as_f64().map(|least| (least - 0.001).to_string()));
            found.extend(schema["maximum"].as_f64().map(|most| (most + 0.1).to_string()));
        }
        for word in schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            found.extend([format!("\"{word} \""), format!("\" {word}\"")]);
            found.push(format!("\"{}{}\"", word[..1].to_uppercase(), &word[1..].to_lowercase()));
        }
        found.extend((bound("minLength") > Some(0)).then(|| "\"\"".to_owned()));
        for unit in bound("maxLength").into_iter().flat_map(|most| [(most, "x"), (most, "😀")]) {
            found.push(format!("\"{}\"", unit.1.repeat(unit.0 as usize + 1)));
        }
        if is("array") {
            let good = self.good(name, &schema["items"]);
            found.extend((bound("minItems") > Some(0)).then(|| "[]".to_owned()));
            found.extend(
                bound("maxItems").map(|most| json!(vec![&good; most as usize + 1]).to_string()),
            );
            let wrong = self.no_values(name, &schema["items"]);
            found.extend(wrong.iter().map(|wrong| format!("[{good},{wrong}]")));
        }
        let form = schema["format"].as_str().or(schema["contentEncoding"].as_str());
        found.extend(forms::of(name).into_iter().map(str::to_owned));
        found.extend(form.into_iter().flat_map(forms::of).map(str::to_owned));
        let words: Vec<_> =
            schema["enum"].as_array().into_iter().flatten().map(Value::to_string).collect();
        found.retain(|value| !words.contains(value));
        found
    }
}

#[tokio::test]
async fn a_value_that_no_field_may_have_is_422_and_named() {
    let ground = Ground::new().await;
    let places = ground.with_json();
    let mut wrong = Vec::new();
    for place in &places {
        for object in ground.objects(place) {
            for (name, schema) in object.schema["properties"].as_object().into_iter().flatten() {
                for value in ground.no_values(name, schema) {
                    let (body, field) =
                        (object.with(name, &value), format!("{}{name}", object.path));
                    wrong.push(Wrong { place, query: String::new(), body, field });
                }
            }
        }
    }
    assert!(wrong.len() > 3000, "{}", wrong.len());
    ground.refuses(wrong).await;
}

#[tokio::test]
async fn a_field_that_is_unknown_missing_or_there_twice_is_422_and_named() {
    let ground = Ground::new().await;
    let places = ground.with_json();
    let mut wrong = Vec::new();
    for place in &places {
        for object in ground.objects(place) {
            let mut add = |field: &str, body: String| {
                let field = format!("{}{field}", object.path);
                wrong.push(Wrong { place, query: String::new(), body, field });
            };
            for field in ["nope", "Payload", "lease-ms", "maxMessages", "payload ", "é"] {
                for value in ["1", "null", "{\"a\":[]}", "\"x\""] {
                    add(field, object.and(&format!("\"{field}\":{value}")));
                }
            }
            for name in object.schema["required"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap();
                add(name, object.without(name));
            }
            for (name, schema) in object.schema["properties"].as_object().into_iter().flatten() {
                let value = ground.good(name, schema);
                let own = object
                    .good
                    .get(name)
                    .map_or_else(|| format!("\"{name}\":null,"), |_| String::new());
                let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
                for again in [name, &escaped] {
                    add(name, object.and(&format!("{own}\"{again}\":{value}")));
                }
            }
        }
    }
    ground.refuses(wrong).await;
}

/// Parameters that an operation must have beside one of these names.
fn with_parameter(operation: &str, name: &str) -> &'static str {
    match (operation, name) {
        ("listMessages", "state") | ("previewSchedule", "cron" | "every_ms") => "",
        ("listMessages", _) => "state=ready&",
        ("forecastTopic", "bucket_ms") => "buckets=1&",
        ("forecastTopic", "buckets") => "bucket_ms=1&",
        ("forecastTopic", _) => "bucket_ms=1&buckets=1&",
        ("previewSchedule", "timezone") => "cron=*+*+*+*+*&",
        ("previewSchedule", _) => "every_ms=1000&",
        ("publishRaw", "on_duplicate" | "key_until") => "key=k&",
        _ => "",
    }
}

/// The operation that shows public keys.
const KEYS: &str = "getCallbackPublicKey";

#[tokio::test]
async fn a_parameter_that_is_unknown_wrong_missing_or_there_twice_is_422_and_named() {
    let ground = Ground::new().await;
    let places = ground.places();
    let mut wrong = Vec::new();
    for place in
        places.iter().filter(|place| !["getMetrics", "healthz"].contains(&place.id.as_str()))
    {
        let body = place.good.as_ref().map_or(String::new(), Value::to_string);
        let mut add = |field: &str, query: String| {
            let query = format!("?{}{query}", with_parameter(&place.id, field));
            wrong.push(Wrong { place, query, body: body.clone(), field: field.to_owned() });
        };
        for (field, query) in [("nope", "nope=1"), ("a b", "a%20b="), ("nope", "nope")] {
            add(field, query.to_owned());
        }
        let parameters = place.operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
            let (name, schema) = (text(parameter, "name"), ground.schema(&parameter["schema"]));
            let good = match ground.good(name, schema) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            add(name, format!("{name}={good}&{name}={good}"));
            if parameter["required"] == true {
                add(name, String::new());
            }
            for value in ground.no_values(name, schema) {
                let in_quotes: Option<String> = serde_json::from_str(&value).ok();
                // In a query everything is text: `1` is as good a key as any, and "5" as good as 5.
                let is_text = schema["type"] == "string" && schema["enum"].is_null();
                let bare = match in_quotes.as_deref() {
                    Some("5") if schema["type"] == "integer" => continue,
                    Some("true") if schema["type"] == "boolean" => continue,
                    // dueq's own topic signs, too.
                    Some("_callbacks" | "_x") if place.id == KEYS => continue,
                    Some(text) => text,
                    None if is_text => continue,
                    None => &value,
                };
                // No more than a URI may have.
                if encoded(bare).len() < 8000 {
                    add(name, format!("{name}={}", encoded(bare)));
                }
            }
        }
    }
    ground.refuses(wrong).await;
}

#[tokio::test]
async fn the_ends_of_every_range_of_a_setting_are_accepted_and_so_is_every_word() {
    let client = client().await;
    let ground = Ground::new().await;
    let places = ground.with_json();
    let put = places.iter().find(|place| place.id == "putTopic").unwrap();
    for object in ground.objects(put) {
        for (field, schema) in object.schema["properties"].as_object().unwrap() {
            let schema = ground.schema(schema);
            // One each, since what is asked of 256 partitions takes long.
            let name = topic("ends");
            let mut ends = vec![&schema["minimum"], &schema["maximum"]];
            // Partitions never become fewer, which no reset may make them.
            if field != "partitions" {
                ends.push(&Value::Null);
            }
            let ends = ends.into_iter().cloned();
            let words = schema["enum"].as_array().cloned().unwrap_or_default();
            for value in
                ends.filter(|end| end.is_number() || schema["minimum"].is_number()).chain(words)
            {
                let mut config: Value =
                    serde_json::from_str(&object.with(field, &value.to_string())).unwrap();
                if config.pointer("/push/batch").is_some() {
                    config["push"]["url"] = json!("http://hooks.invalid/");
                }
                // These say of which kind it is, or need others.
                if ["kind", "durability", "method", "group_burst"].contains(&field.as_str()) {
                    continue;
                }
                let answer = client.put_topic(&name, config.clone()).await;
                assert!(answer.status < 300, "{config}: {answer}");
                let patched = client.update_topic(&name, config.clone()).await.expect(200).json();
                assert_eq!(patched["config"], answer.json()["config"], "{config}");
            }
        }
    }
}
