//! A message of SQS as dueq keeps it, and back. A body that is a JSON object or array is a JSON payload, any other text is
//! `text/plain`; so consumers of dueq's own API read what clients of SQS send, and the other way round. An attribute of
//! the type `String` that can be a header is one. The others are kept apart, and only SQS shows them.

use super::{
    super::input::{fields::MAX_DEPTH, json::depth},
    fault::{Fault, Kind},
    parts::Pairs,
};
use axum::http::{HeaderName, HeaderValue};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use dueq_model::{
    Body, Content, MASK, MAX_HEADERS, MAX_HEADERS_BYTES, SqsAttribute, SqsParts, is_own_header,
};
use md5::{Digest, Md5};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use std::{borrow::Cow, collections::BTreeMap};

/// Attributes of a message, at most.
const MAX_ATTRIBUTES: usize = 10;
/// Characters of an attribute's name or type, at most.
const MAX_NAME: usize = 256;
const TEXT: &str = "text/plain; charset=utf-8";

/// Attributes by name.
pub type Attributes = BTreeMap<String, SqsAttribute>;

/// An attribute as requests and answers have it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct AttributeValue {
    #[serde(skip_serializing_if = "Option::is_none")]
    string_value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary_value: Option<String>,
    data_type: Option<String>,
}

impl From<&SqsAttribute> for AttributeValue {
    fn from(attribute: &SqsAttribute) -> Self {
        let (kind, value) = (Some(attribute.kind.clone()), Some(attribute.value.clone()));
        match attribute.is_binary() {
            true => Self { binary_value: value, data_type: kind, ..Self::default() },
            false => Self { string_value: value, data_type: kind, ..Self::default() },
        }
    }
}

/// Can a message have this text, and XML?
pub fn is_legal(text: &str) -> bool {
    // Most texts have none of the bytes that one of these begins with, and bytes are looked at sixteen at once.
    let may_be = |byte: u8| byte < b' ' || byte == 0xef;
    !text.bytes().fold(false, |found, byte| found | may_be(byte)) || !text.contains(is_illegal)
}

/// Can XML not have this character?
pub fn is_illegal(c: char) -> bool {
    matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Reads and checks the attributes of a message.
pub fn read_attributes(given: Option<Pairs<AttributeValue>>) -> Result<Attributes, Fault> {
    let given = given.unwrap_or_default().0;
    if given.len() > MAX_ATTRIBUTES {
        return Err(Fault::bad(format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{MAX_ATTRIBUTES}].",
            given.len()
        )));
    }
    let read = |(name, value): (String, _)| {
        check_name(&name)?;
        let attribute = read_attribute(&name, value)?;
        Ok((name, attribute))
    };
    given.into_iter().map(read).collect()
}

fn check_name(name: &str) -> Result<(), Fault> {
    let lower = name.to_ascii_lowercase();
    let is_reserved = lower.starts_with("aws.") || lower.starts_with("amazon.");
    let is_good =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '\u{c0}'..='\u{17f}');
    let dots = name.starts_with('.') || name.ends_with('.') || name.contains("..");
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_good) || dots || is_reserved
    {
        let rule = "An attribute name has 1 to 256 of the characters A-Z a-z 0-9 _ - . It must not begin or end with a dot, \
            have two in a row, or begin with AWS. or Amazon.";
        return Err(Fault::bad(format!(
            "Message (user) attribute name '{name}' is invalid. {rule}"
        )));
    }
    Ok(())
}

/// Reads and checks one of them, whatever its name.
pub fn read_attribute(name: &str, value: AttributeValue) -> Result<SqsAttribute, Fault> {
    let kind = value.data_type.filter(|kind| !kind.is_empty()).ok_or_else(|| {
        Fault::bad(format!(
            "The message attribute '{name}' must contain non-empty message attribute type."
        ))
    })?;
    let base = kind.split('.').next().unwrap_or_default();
    if kind.len() > MAX_NAME || !["String", "Number", "Binary"].contains(&base) {
        return Err(Fault::bad(format!(
            "The type of message (user) attribute '{name}' is invalid. You must use only the following supported type \
                prefixes: Binary, Number, String."
        )));
    }
    let is_binary = base == "Binary";
    let text = if is_binary { value.binary_value } else { value.string_value };
    let text = text.filter(|text| !text.is_empty()).ok_or_else(|| {
        Fault::bad(format!(
            "Message (user) attribute '{name}' must contain a non-empty value of type '{}'.",
            if is_binary { "Binary" } else { "String" }
        ))
    })?;
    if is_binary && STANDARD.decode(&text).is_err() {
        return Kind::Serialization
            .refuse(format!("The value of attribute '{name}' is not in base64."));
    }
    if !is_binary && !is_legal(&text) {
        return Err(Fault::bad(format!(
            "Invalid binary character was found in the message attribute '{name}'."
        )));
    }
    if base == "Number" && !is_number(&text) {
        return Err(Fault::bad(format!(
            "Can't cast the value of message (user) attribute '{name}' to a number."
        )));
    }
    Ok(SqsAttribute { kind, value: text })
}

/// A decimal number of any length, with an exponent or not.
fn is_number(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.parse::<f64>().is_ok()
}

/// Bytes that attributes count.
pub fn size_of(attributes: &Attributes) -> usize {
    let value = |it: &SqsAttribute| match it.is_binary() {
        true => it.value.trim_end_matches('=').len() * 3 / 4,
        false => it.value.len(),
    };
    attributes.iter().map(|(name, it)| name.len() + it.kind.len() + value(it)).sum()
}

/// MD5 of a text, in hex.
pub fn md5_of(text: &[u8]) -> String {
    hex::encode(Md5::digest(text))
}

/// MD5 of attributes as SDKs compute it: in order of their names, each part with its length before it.
pub fn md5_of_attributes<'a>(
    attributes: impl IntoIterator<Item = (&'a String, &'a SqsAttribute)>,
) -> Option<String> {
    let mut attributes = attributes.into_iter().peekable();
    attributes.peek()?;
    let mut hasher = Md5::new();
    let part = |hasher: &mut Md5, bytes: &[u8]| {
        hasher.update((bytes.len() as u32).to_be_bytes());
        hasher.update(bytes);
    };
    for (name, attribute) in attributes {
        part(&mut hasher, name.as_bytes());
        part(&mut hasher, attribute.kind.as_bytes());
        if attribute.is_binary() {
            hasher.update([2]);
            part(&mut hasher, &STANDARD.decode(&attribute.value).unwrap_or_default());
        } else {
            hasher.update([1]);
            part(&mut hasher, attribute.value.as_bytes());
        }
    }
    Some(hex::encode(hasher.finalize()))
}

/// Is this a JSON object or array, as dueq's own API takes it?
fn is_document(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
        && depth(text.as_bytes()) < MAX_DEPTH
        && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The message as dueq keeps it.
pub fn to_body(text: String, attributes: Attributes, mut parts: SqsParts) -> Body {
    let is_document = is_document(&text);
    let data = Bytes::from(text);
    let content = match is_document {
        true => Content::Json(data),
        false => Content::Bytes { data, content_type: TEXT.to_owned() },
    };
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    let mut bytes = 0;
    for (name, attribute) in attributes {
        let value = &attribute.value;
        bytes += name.len() + value.len();
        let is_header = attribute.kind == "String"
            && headers.len() < MAX_HEADERS
            && bytes <= MAX_HEADERS_BYTES
            && !is_own_header(&name)
            && HeaderName::from_bytes(name.as_bytes()).is_ok()
            && value != MASK
            && HeaderValue::from_bytes(value.as_bytes()).is_ok()
            && !headers.keys().any(|other| other.eq_ignore_ascii_case(&name));
        if is_header {
            headers.insert(name, attribute.value);
        } else {
            parts.attributes.insert(name, attribute);
        }
    }
    let sqs = (parts != SqsParts::default()).then(|| Box::new(parts));
    Body { sqs, ..Body::new(content, headers) }
}

/// The attributes of a message. Headers that cannot be attributes are left out.
pub fn attributes_of(body: &Body) -> Attributes {
    let attribute = |(name, value): (&String, &String)| {
        let is_good = check_name(name).is_ok() && !value.is_empty();
        let value = value.clone();
        is_good.then(|| (name.clone(), SqsAttribute { kind: "String".to_owned(), value }))
    };
    let headers = body.shown_headers(None);
    let mut attributes: Attributes = headers.iter().filter_map(attribute).collect();
    attributes.extend(body.sqs.iter().flat_map(|parts| parts.attributes.clone()));
    attributes
}

/// The body of a message, which is text; bytes that are none are in base64.
pub fn text_of(content: &Content) -> Cow<'_, str> {
    let payload = content.payload();
    match std::str::from_utf8(payload) {
        Ok(text) => text.into(),
        Err(_) => STANDARD.encode(payload).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: &str, text: &str) -> SqsAttribute {
        SqsAttribute { kind: kind.to_owned(), value: text.to_owned() }
    }

    #[test]
    fn a_binary_attribute_counts_its_bytes() {
        for (text, bytes) in [("AA==", 1), ("AAA=", 2), ("AAAA", 3), ("AAAAAA==", 4)] {
            let attributes = Attributes::from([("a".to_owned(), value("Binary", text))]);
            assert_eq!(size_of(&attributes), 1 + 6 + bytes, "{text}");
        }
    }

    #[test]
    fn what_comes_in_goes_out_and_strings_are_headers() {
        let attributes = Attributes::from([
            ("a".to_owned(), value("String", "1")),
            ("A".to_owned(), value("String", "2")),
            ("b".to_owned(), value("Number", "-1.5e3")),
            ("c".to_owned(), value("Binary.png", "AP8=")),
            ("content-type".to_owned(), value("String", "x")),
            ("line".to_owned(), value("String", "a\nb")),
            ("é".to_owned(), value("String.x", "é")),
        ]);
        for (text, is_json) in
            [("{\"a\": 1E400}", true), ("[1,]", false), ("7", false), ("é", false)]
        {
            let body = to_body(text.to_owned(), attributes.clone(), SqsParts::default());
            assert_eq!(matches!(body.content, Content::Json(_)), is_json, "{text}");
            let body = Body::decode(body.encode()).unwrap();
            assert_eq!(
                (text_of(&body.content).as_ref(), attributes_of(&body)),
                (text, attributes.clone())
            );
            assert_eq!(body.headers, BTreeMap::from([("A".to_owned(), "2".to_owned())]));
        }
        let plain = to_body("[]".to_owned(), Attributes::new(), SqsParts::default());
        assert_eq!(
            &plain.encode()[..],
            b"\0[]",
            "a plain document costs no more than by dueq's own API"
        );
        let nested = "[".repeat(200) + &"]".repeat(200);
        let body = to_body(nested, Attributes::new(), SqsParts::default());
        assert!(matches!(body.content, Content::Bytes { .. }));
    }

    #[test]
    fn digests_are_those_of_aws() {
        // As AWS's documentation and its SDKs' tests have them.
        assert_eq!(md5_of(b"This is a test message"), "fafb00f5732ab283681e124bf8747ed1");
        let attributes = Attributes::from([("MyAttribute".to_owned(), value("String", "foobar"))]);
        let digest = md5_of_attributes(&attributes);
        assert_eq!(digest.as_deref(), Some("adb59cd4678ea5a855436b949cd07ab6"));
        assert_eq!(md5_of_attributes(&Attributes::new()), None);
    }

    #[test]
    fn characters_and_numbers_are_checked() {
        assert!(is_legal("\t\r\n é \u{10ffff}"));
        for refused in ["\0", "\u{1f}", "\u{b}", "\u{fffe}", "\u{ffff}"] {
            assert!(!is_legal(refused), "{refused:?}");
        }
        for (text, good) in
            [("1", true), ("-1.5E+3", true), ("", false), ("inf", false), ("1e", false)]
        {
            assert_eq!(is_number(text), good, "{text}");
        }
    }
}
