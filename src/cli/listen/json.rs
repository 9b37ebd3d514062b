//! JSON for people: indented and coloured. Every token is shown as it came, so numbers keep all of their digits and names
//! that occur twice are shown twice.

use crate::cli::client::table::clean_json;
use anstyle::{AnsiColor, Style};
use serde_json::value::RawValue;

/// The most that is made of a payload, bytes.
const MAX_BYTES: usize = 64 * 1024;

/// Formats the text, if it is JSON.
pub fn pretty(text: &str) -> Option<String> {
    serde_json::from_str::<&RawValue>(text).ok()?;
    Some(indented(&clean_json(text)))
}

fn indented(json: &str) -> String {
    let (mut out, mut depth, mut rest) = (String::new(), 0_usize, json.trim_start());
    while let Some(c) = rest.chars().next() {
        if out.len() > MAX_BYTES {
            out.push('…');
            break;
        }
        let end = match c {
            '"' => string_end(rest),
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => rest.find([',', ':', '}', ']', ' ', '\n', '\t']).unwrap_or(rest.len()),
        };
        let token = &rest[..end];
        rest = rest[end..].trim_start();
        match c {
            '{' | '[' if rest.starts_with(['}', ']']) => out.push(c),
            '{' | '[' => {
                out.push(c);
                depth += 1;
                line(&mut out, depth);
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    line(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                let style = style(c, rest.starts_with(':'));
                out.push_str(&format!("{style}{token}{style:#}"));
            }
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

/// Where the string that begins the text ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// The style of a token that begins with `first`.
fn style(first: char, is_name: bool) -> Style {
    let colour = match first {
        '"' if is_name => AnsiColor::Blue,
        '"' => AnsiColor::Green,
        't' | 'f' | 'n' => AnsiColor::Magenta,
        _ => AnsiColor::Cyan,
    };
    colour.on_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Option<String> {
        pretty(text).map(|text| anstream::adapter::strip_str(&text).to_string())
    }

    #[test]
    fn names_and_values_have_colours_of_their_own() {
        let shown = "{\n  \u{1b}[34m\"a\"\u{1b}[0m: \u{1b}[36m1\u{1b}[0m\n}";
        assert_eq!(pretty(r#"{"a":1}"#).unwrap(), shown);
    }

    #[test]
    fn json_is_indented_and_its_tokens_stay_as_they_are() {
        let text = r#" {"a" : [1E400,9007199254740993,-0.0, {}, [ ] ], "a":"x\"{,\\","b":{"c":null},"d":true}"#;
        let shown = r#"{
  "a": [
    1E400,
    9007199254740993,
    -0.0,
    {},
    []
  ],
  "a": "x\"{,\\",
  "b": {
    "c": null
  },
  "d": true
}"#;
        assert_eq!(plain(text).unwrap(), shown);
        for scalar in ["1", "\"\"", "null", "[]", "{}"] {
            assert_eq!(plain(scalar).unwrap(), scalar);
        }
    }

    #[test]
    fn text_that_is_not_json_is_left_to_others() {
        for text in ["", "{", "a", "{\"a\":1} x", "\"\u{1b}\""] {
            assert_eq!(pretty(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_text_is_escaped_and_large_json_is_cut() {
        let shown = plain("{\"\u{202e}\":\"\u{9b}2J\"}").unwrap();
        assert_eq!(shown, "{\n  \"\\u202e\": \"\\u009b2J\"\n}");
        let deep = format!("{}{}{}", "[".repeat(100), "1,".repeat(300_000) + "1", "]".repeat(100));
        let shown = plain(&deep).unwrap();
        assert!(shown.len() < 2 * MAX_BYTES && shown.ends_with('…'), "{}", shown.len());
    }
}
