//! How the registry writes a topic down: number, revision, settings.

use dueq_model::TopicSettings;

/// Number, revision and configuration, which is not there where it is the default; nothing where they cannot be read.
pub fn parse_entry(entry: &str) -> Option<(u32, i64, Option<TopicSettings>)> {
    let mut parts = entry.splitn(3, ' ');
    let (number, revision) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let settings = parts.next().map(serde_json::from_str).transpose();
    Some((number, revision, settings.ok()?))
}
