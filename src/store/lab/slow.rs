//! Redis's slow log: how long single calls hold it, by its own clock and without what the way there takes.

use deadpool_redis::redis::{self, Value};

use super::{Lab, LabError};
use crate::store::scripts;

/// Entries that are kept: more calls than this are slow only where the count no longer matters.
const KEPT: usize = 4096;
/// Bytes of an argument that Redis keeps in its slow log.
const SHOWN: usize = 128;

/// A call that took longer than was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    /// The script's name, or the command's.
    pub name: String,
    /// How long it ran, µs.
    pub micros: u64,
    script: bool,
}

impl SlowCall {
    /// A call of the script `name`.
    #[cfg(test)]
    pub fn script(name: &str, micros: u64) -> Self {
        Self { name: name.to_owned(), micros, script: true }
    }
}

/// Only what clients called: the commands of a script stand in the log, too, right before it, and their time is in its.
fn whole_calls(newest_first: impl Iterator<Item = SlowCall>) -> Vec<SlowCall> {
    let mut within = 0;
    let mut calls = Vec::new();
    for call in newest_first {
        if call.script {
            within = call.micros;
        } else if call.micros <= within {
            within -= call.micros;
            continue;
        }
        calls.push(call);
    }
    calls
}

impl Lab {
    /// From now on calls that take longer than `micros` are written down. Returns what the bound was, for whoever gives
    /// Redis back as it was. Commands within scripts are written down as well, so a low bound costs what it is to
    /// measure, and floods the log.
    ///
    /// # Errors
    /// When Redis does not answer, or CONFIG is forbidden.
    pub async fn watch_slow(&self, micros: u64) -> Result<u64, LabError> {
        const BOUND: &str = "slowlog-log-slower-than";
        let mut connection = self.connection.clone();
        let get = redis::cmd("CONFIG").arg("GET").arg(BOUND).to_owned();
        let before: Vec<String> = get.query_async(&mut connection).await?;
        for (name, value) in [("slowlog-max-len", KEPT as u64), (BOUND, micros)] {
            let set = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).to_owned();
            set.exec_async(&mut connection).await?;
        }
        redis::cmd("SLOWLOG").arg("RESET").exec_async(&mut connection).await?;
        Ok(before.get(1).and_then(|text| text.parse().ok()).unwrap_or(10_000))
    }

    /// What was written down since `watch_slow`, newest first; then it is forgotten.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn slow_calls(&self) -> Result<Vec<SlowCall>, LabError> {
        let mut connection = self.connection.clone();
        let get = redis::cmd("SLOWLOG").arg("GET").arg(KEPT).to_owned();
        let log: Vec<Value> = get.query_async(&mut connection).await?;
        redis::cmd("SLOWLOG").arg("RESET").exec_async(&mut connection).await?;
        Ok(whole_calls(log.iter().filter_map(read)))
    }
}

/// An entry: its number, when, how long, the arguments, and who called.
fn read(entry: &Value) -> Option<SlowCall> {
    let Value::Array(fields) = entry else { return None };
    let [_, _, Value::Int(micros), Value::Array(arguments), ..] = &fields[..] else { return None };
    let text = |at: usize| match arguments.get(at) {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let command = text(0).to_ascii_uppercase();
    let script = command == "EVALSHA" || command == "EVAL";
    let name = if script { script_name(&text(1)) } else { command };
    Some(SlowCall { name, micros: u64::try_from(*micros).ok()?, script })
}

/// The script behind a SHA or a text as the slow log shows it, which cuts long ones and says by how much.
fn script_name(shown: &str) -> String {
    let known = |script: &&'static scripts::Script| {
        if script.sha() == shown {
            return true;
        }
        let Some((_, rest)) = shown.rsplit_once("... (") else { return script.source == shown };
        let cut = rest.strip_suffix(" more bytes)").and_then(|count| count.parse().ok());
        let start = script.source.as_bytes().get(..SHOWN).unwrap_or_default();
        cut == script.source.len().checked_sub(SHOWN) && shown.as_bytes().starts_with(start)
    };
    match scripts::all().into_iter().find(known) {
        Some(script) => script.name.to_owned(),
        None => "another script".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(arguments: &[&str]) -> Value {
        let text = |text: &&str| Value::BulkString(text.as_bytes().to_vec());
        let arguments = Value::Array(arguments.iter().map(text).collect());
        Value::Array(vec![Value::Int(7), Value::Int(1_780_000_000), Value::Int(3456), arguments])
    }

    fn name(arguments: &[&str]) -> String {
        read(&entry(arguments)).unwrap().name
    }

    #[test]
    fn a_slow_script_is_called_by_its_name() {
        assert_eq!(name(&["EVALSHA", scripts::LEASE.sha(), "14"]), "lease");
        assert_eq!(name(&["evalsha", "0000"]), "another script");
        for script in scripts::all() {
            let source = script.source;
            if source.len() > SHOWN && source.is_char_boundary(SHOWN) {
                let cut = format!("{}... ({} more bytes)", &source[..SHOWN], source.len() - SHOWN);
                assert_eq!(name(&["EVAL", &cut]), script.name);
            }
        }
    }

    #[test]
    fn another_command_is_called_by_its_own() {
        let call = SlowCall { name: "UNLINK".to_owned(), micros: 3456, script: false };
        assert_eq!(read(&entry(&["unlink", "key"])), Some(call));
        assert_eq!(read(&Value::Nil), None);
    }

    #[test]
    fn what_a_script_does_is_not_counted_beside_it() {
        let command =
            |name: &str, micros| SlowCall { name: name.to_owned(), micros, script: false };
        let lease = || SlowCall::script("lease", 9_000);
        let log =
            [lease(), command("ZADD", 4_000), command("HMGET", 4_500), command("UNLINK", 3_100)];
        let calls = whole_calls(log.into_iter());
        assert_eq!(calls, [lease(), command("UNLINK", 3_100)]);
    }
}
