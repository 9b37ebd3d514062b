//! Arguments of the client commands, and the request that they make.

use super::{
    api::segment,
    commands::Command,
    durations::{instant, parse},
    failure::Failure,
    warn,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{
    ArgAction, ArgMatches,
    builder::{PossibleValuesParser, TypedValueParser as _, ValueParser},
};
use form_urlencoded::Serializer;
use serde_json::value::RawValue;
use std::{
    fs,
    io::{self, Read as _},
};

/// An argument. Its usage names it and its type: `<topic>` must be given, `[payload]` may be, `--key KEY` is an option and
/// `--force` a flag. Types are DURATION, INSTANT, N, COUNT (from 1 on), PAYLOAD, PATH (of a payload), NAME=VALUE, NAME=JSON, and
/// a choice such as `one|none`; any other is text. Several values are marked `...`, or `,` between commas.
#[derive(Clone, Copy)]
pub struct Arg {
    usage: &'static str,
    help: &'static str,
    /// The field of the API. `a.b`: a field of an object; empty: its pairs are fields; `null`: its values are, each null.
    field: Option<&'static str>,
    alias: Option<&'static str>,
    not: [&'static str; 5],
    needs: Option<&'static str>,
    unless: Option<&'static str>,
    required: bool,
}

/// An argument that is a field of its own name, and has no rules.
pub const fn arg(usage: &'static str, help: &'static str) -> Arg {
    let (field, alias, not, needs, unless) = (None, None, [""; 5], None, None);
    Arg { usage, help, field, alias, not, needs, unless, required: false }
}

/// A value, as it was written and as JSON.
#[derive(Clone)]
struct Value {
    text: String,
    json: String,
}

impl Arg {
    /// Another field.
    pub const fn field(self, field: &'static str) -> Self {
        Self { field: Some(field), ..self }
    }

    /// Another name.
    pub const fn alias(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    /// Conflicts with that argument, too.
    pub const fn not(mut self, other: &'static str) -> Self {
        let mut at = 0;
        while !self.not[at].is_empty() {
            at += 1;
        }
        self.not[at] = other;
        self
    }

    /// Requires that argument.
    pub const fn needs(self, other: &'static str) -> Self {
        Self { needs: Some(other), ..self }
    }

    /// Required, unless that argument is given.
    pub const fn unless(self, other: &'static str) -> Self {
        Self { unless: Some(other), ..self }
    }

    /// Required.
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    fn words(&self) -> (&'static str, Option<&'static str>) {
        let usage = self.usage.split_once(" --").map_or(self.usage, |(_, long)| long);
        let (name, kind) = usage.split_once(' ').map_or((usage, None), |(n, k)| (n, Some(k)));
        (name.trim_matches(['<', '>', '[', ']', '-']), kind)
    }

    /// Its name.
    fn id(&self) -> &'static str {
        self.words().0
    }

    /// The type of its value, without marks; `None` for a flag.
    fn kind(&self) -> Option<&'static str> {
        let kind = self.words().1.map(|kind| kind.trim_end_matches(['.', ',']));
        kind.or(self.is_positional().then_some("TEXT"))
    }

    fn is_positional(&self) -> bool {
        self.usage.starts_with(['<', '['])
    }

    fn field_name(&self) -> String {
        let name = self.id().replace('-', "_");
        match (self.field, self.kind()) {
            (Some(field), _) => field.to_owned(),
            (None, Some("DURATION")) => format!("{name}_ms"),
            (None, _) => name,
        }
    }

    pub fn to_clap(self) -> clap::Arg {
        let mut arg = clap::Arg::new(self.id()).help(self.help);
        if !self.is_positional() {
            arg = arg.long(self.id());
        }
        if let Some(short) = self.usage.strip_prefix('-').and_then(|it| it.chars().next()) {
            arg = if short == '-' { arg } else { arg.short(short) };
        }
        arg = arg.visible_aliases(self.alias);
        arg = arg.conflicts_with_all(self.not.into_iter().filter(|other| !other.is_empty()));
        arg = self.needs.map_or(arg.clone(), |other| arg.requires(other));
        arg = self.unless.map_or(arg.clone(), |other| arg.required_unless_present(other));
        arg = arg.required(self.required || self.usage.starts_with('<'));
        let Some(kind) = self.kind() else { return arg.action(ArgAction::SetTrue) };
        let is_choice = kind.contains('|');
        arg = arg.value_parser(parser(kind)).ignore_case(is_choice);
        if !is_choice && !self.is_positional() {
            arg = arg.value_name(kind);
        }
        arg = match kind {
            "PAYLOAD" if self.is_positional() => arg.allow_negative_numbers(true),
            "PAYLOAD" | "JSON" => arg.allow_hyphen_values(true),
            _ => arg,
        };
        if self.usage.trim_end_matches('.').ends_with(',') {
            arg = arg.value_delimiter(',').action(ArgAction::Append);
        }
        if self.usage.ends_with("...") {
            arg = arg.num_args(1..);
        }
        if kind.contains('=') { arg.action(ArgAction::Append) } else { arg }
    }
}

/// Reads a value of this type.
fn parser(kind: &'static str) -> ValueParser {
    let value = |text: &str, json: String| Value { text: text.to_owned(), json };
    let number = move |text: &str, least: u64| match text.parse() {
        Ok(number) if number >= least => Ok(value(text, u64::to_string(&number))),
        _ => Err(format!("expected a whole number of at least {least}")),
    };
    if kind.contains('|') {
        let known: Vec<&str> = kind.split('|').collect();
        let choice = known.clone();
        return PossibleValuesParser::new(known)
            .map(move |given| {
                let found = choice.iter().find(|known| known.eq_ignore_ascii_case(&given));
                value(found.unwrap_or(&""), quoted(found.unwrap_or(&"")))
            })
            .into();
    }
    ValueParser::new(move |text: &str| -> Result<Value, String> {
        match kind {
            "DURATION" => Ok(value(text, parse(text)?.to_string())),
            "INSTANT" => Ok(value(text, quoted(&instant(text)?))),
            "N" => number(text, 0),
            "COUNT" => number(text, 1),
            "NUMBER" => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(value(text, number.to_string())),
                _ => Err("expected a number".to_owned()),
            },
            "NAME=VALUE" | "NAME=JSON" => {
                let (name, given) = pair(text)?;
                let json = match kind {
                    "NAME=VALUE" => quoted(&given),
                    _ if name.ends_with("_ms") && !is_json(&given) => parse(&given)?.to_string(),
                    _ => json_or_string(&given),
                };
                Ok(value(&name, json))
            }
            "JSON" => Ok(value(text, json_or_string(text))),
            _ => Ok(value(text, quoted(text))),
        }
    })
}

/// Parses `name=value`.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is written name=value".to_owned()),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// JSON as it was written, or other text as a JSON string.
fn json_or_string(text: &str) -> String {
    if is_json(text) { text.to_owned() } else { quoted(text) }
}

/// A payload as JSON, and whether it is base64 of other bytes: from a file, from standard input (`-`), or the argument itself.
fn payload(kind: &str, text: &str) -> Result<(String, bool), Failure> {
    let mut bytes = Vec::new();
    let (from, read) = match (kind, text) {
        ("PATH", path) => (path, fs::read(path).map(|read| bytes = read)),
        (_, "-") => ("standard input", io::stdin().read_to_end(&mut bytes).map(drop)),
        (_, text) => {
            // The shell may have eaten the quotes of what is meant as JSON.
            if text.trim_start().starts_with(['{', '['])
                && let Err(error) = serde_json::from_str::<&RawValue>(text)
            {
                warn(&format!("the payload is not JSON ({error}), so it is sent as a string"));
            }
            bytes = text.as_bytes().to_vec();
            ("", Ok(()))
        }
    };
    read.map_err(|error| Failure::Usage(format!("cannot read {from}: {error}")))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => (json_or_string(&text), false),
        Err(error) => (quoted(&STANDARD.encode(error.into_bytes())), true),
    })
}

/// The arguments that were given to a command.
pub struct Given<'a> {
    pub command: &'static Command,
    pub matches: &'a ArgMatches,
}

impl Given<'_> {
    fn values(&self, id: &str) -> Vec<&Value> {
        let values = self.matches.try_get_many::<Value>(id).ok().flatten();
        values.into_iter().flatten().collect()
    }

    /// The values of an argument, as they were written.
    pub fn texts(&self, id: &str) -> Vec<String> {
        self.values(id).into_iter().map(|value| value.text.clone()).collect()
    }

    /// The value of an argument, as it was written.
    pub fn text(&self, id: &str) -> Option<String> {
        self.texts(id).into_iter().next()
    }

    /// The value of an argument that is a number or a duration.
    pub fn number(&self, id: &str) -> Option<u64> {
        self.values(id).first().and_then(|value| value.json.parse().ok())
    }

    /// Whether a flag is given.
    pub fn flag(&self, id: &str) -> bool {
        matches!(self.matches.try_get_one::<bool>(id), Ok(Some(true)))
    }

    fn all(&self) -> impl Iterator<Item = &'static Arg> {
        self.command.args.iter().copied().flatten()
    }

    /// The first path that has an argument for each of its names.
    fn pattern(&self) -> &'static str {
        let is_known = |path: &&&str| names(path).all(|name| self.values(name).len() == 1);
        let paths = self.command.paths;
        paths.iter().find(is_known).or(paths.last()).copied().unwrap_or_default()
    }

    /// Whether the arguments go into a body.
    pub fn has_body(&self) -> bool {
        !["GET", "DELETE"].contains(&self.command.method)
    }

    /// The path of the request, with its query.
    pub fn path(&self) -> String {
        let pattern = self.pattern();
        let value = |name: &str| segment(&self.text(name).unwrap_or_default());
        let written = names(pattern).fold(pattern.to_owned(), |path, name| {
            path.replace(&format!("{{{name}}}"), &value(name))
        });
        if self.has_body() {
            return written;
        }
        let mut query = Serializer::new(String::new());
        for arg in self.all().filter(|arg| !names(pattern).any(|name| name == arg.id())) {
            let flag = self.flag(arg.id()).then(|| "true".to_owned());
            query.extend_pairs(self.text(arg.id()).or(flag).map(|value| (arg.field_name(), value)));
        }
        let query = query.finish();
        if query.is_empty() { written } else { format!("{written}?{query}") }
    }

    /// The body of the request: JSON as it was written, the payload first.
    ///
    /// Errors: the payload cannot be read, a field is given twice, or a change changes nothing.
    pub fn body(&self) -> Result<String, Failure> {
        let in_path = |id: &str| names(self.pattern()).any(|name| name == id);
        let mut fields: Vec<(String, String)> = Vec::new();
        for arg in self.all().filter(|arg| !in_path(arg.id())) {
            let (field, values) = (arg.field_name(), self.values(arg.id()));
            let kind = arg.kind().unwrap_or_default();
            let pairs = || values.iter().map(|it| (it.text.clone(), it.json.clone()));
            match (kind, &values[..]) {
                ("", _) if self.flag(arg.id()) => fields.push((field, "true".to_owned())),
                (_, []) => {}
                ("PAYLOAD" | "PATH", [value, ..]) => {
                    let (json, is_base64) = payload(kind, &value.text)?;
                    let base64 = if is_base64 { "_base64" } else { "" };
                    fields.insert(0, (format!("{field}{base64}"), json));
                }
                (_, values) if field == "null" => fields.extend(values.iter().map(|value| {
                    let unit = if value.text == "ttl" { "_ms" } else { "" };
                    (value.text.replace('-', "_") + unit, "null".to_owned())
                })),
                (kind, _) if kind.contains('=') && field.is_empty() => fields.extend(pairs()),
                // A name that is given twice is the server's to refuse.
                (kind, _) if kind.contains('=') => fields.push((field, object(pairs()))),
                (_, values) if arg.usage.ends_with(['.', ',']) => {
                    let mut list: Vec<&str> = Vec::new();
                    let each = values.iter().map(|value| &*value.json);
                    each.for_each(|json| list.extend((!list.contains(&json)).then_some(json)));
                    fields.push((field, format!("[{}]", list.join(","))));
                }
                (_, [value, ..]) => fields.push((field, value.json.clone())),
            }
        }
        let command = self.command.name;
        let is_again = |at: usize| fields[..at].iter().any(|(before, _)| *before == fields[at].0);
        if let Some(at) = (1..fields.len()).find(|at| is_again(*at)) {
            let name = &fields[at].0;
            let reason = format!("{name} is given twice: see dueq {command} --help");
            return Err(Failure::Usage(reason));
        }
        if fields.is_empty() && self.command.method == "PATCH" {
            return Err(Failure::Usage(format!("nothing to change: see dueq {command} --help")));
        }
        Ok(nested(&fields))
    }
}

/// An object of these fields. Those of an object within come together where its first one is.
fn nested(fields: &[(String, String)]) -> String {
    let mut whole: Vec<(String, String)> = Vec::new();
    for (name, json) in fields {
        match name.split_once('.') {
            None => whole.push((name.clone(), json.clone())),
            Some((outer, _)) if whole.iter().any(|(known, _)| known == outer) => {}
            Some((outer, _)) => {
                let inner = fields.iter().filter_map(|(name, json)| {
                    let inner = name.strip_prefix(outer)?.strip_prefix('.')?;
                    Some((inner.to_owned(), json.clone()))
                });
                whole.push((outer.to_owned(), nested(&inner.collect::<Vec<_>>())));
            }
        }
    }
    object(whole.into_iter())
}

/// The names in the braces of a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn object(pairs: impl Iterator<Item = (String, String)>) -> String {
    let pairs: Vec<_> = pairs.map(|(name, json)| format!("{}:{json}", quoted(&name))).collect();
    format!("{{{}}}", pairs.join(","))
}
