//! Values of the right type that are wrong by their form, by the name of the field or the format of its schema.

/// What no field of this name, and nothing of this format, may be.
pub fn of(name: &str) -> Vec<&'static str> {
    let rows = FORMS.lines().filter_map(|row| row.split_once(": "));
    let found = rows.filter(|(names, _)| names.split(' ').any(|it| it == name));
    found.flat_map(|(_, values)| values.split(" | ")).collect()
}

/// Names or formats, and values as JSON.
const FORMS: &str = r#"
date-time: "tomorrow" | "" | "2026-01-01" | "1763662500" | "2026-01-01T00:00:00" | "2026-13-01T00:00:00Z"
date-time: "10000-01-01T00:00:00Z" | "2026-01-01T24:00:01Z" | "+12026-01-01T00:00:00Z" | "2026-02-30T00:00:00Z"
uuid: "no-uuid" | ""
uri: "" | "a.invalid" | "/path" | "//a.invalid/" | "http:" | "http://" | "http:a.invalid" | "http:///a.invalid"
uri: "http:\\\\a.invalid" | "ftp://a.invalid/" | "file:///etc/passwd" | "javascript:alert(1)" | "http://user@a.invalid/"
uri: "http://u:p@a.invalid/" | "http://@a.invalid/" | " http://a.invalid/" | "http://a.invalid/ " | "http://a.invalid/a b"
uri: "http://a.inv\u0000alid/" | "http://a.invalid/\r\nx: y" | "http://a\t/" | "http://a.invalid:65536/"
uri: "http://a.invalid:x/" | "http://[::1/"
base64: "%%%%" | "A" | "AA=A" | "AA==AA==" | "A A=" | "AA==\n" | "é"
content_type: "" | "text" | "a/b\r\nx: y" | "a/b\u0000" | "é/b"
method: "post" | "HEAD" | "CONNECT" | "OPTIONS" | "TRACE" | "GET\r\n" | ["GET"]
headers: {"a":1} | {"a":["b"]} | {"a":{}} | {"a":true} | {"":"x"} | {"a b":"x"} | {"a:":"x"} | {"é":"x"} | {"a":"x\ny"}
headers: {"a":"x\r\nb: c"} | {"a":"\u0000"} | {"a\n":""} | {"a":"1","a":"1"} | {"a":"1","\u0061":"2"}
backoff: {"kind":"none"} | {"kind":"linear"} | {"kind":"exponential "} | {"kind":"Fixed","base_ms":1} | {"kind":1}
backoff: {"kind":"fixed"} | {"kind":"fixed","base_ms":-1} | {"kind":"fixed","base_ms":1.5} | {"kind":"fixed","base_ms":"1"}
backoff: {"kind":"fixed","base_ms":1e30} | {"kind":"fixed","base_ms":1,"base_ms":1} | {"kind":"fixed","base_ms":1,"factor":2}
backoff: {"kind":"fixed","base_ms":1,"delays_ms":[1]} | {"kind":"fixed","kind":"fixed","base_ms":1} | {"kind":"schedule"}
backoff: {"kind":"schedule","delays_ms":[1],"base_ms":1} | {"kind":"schedule","delays_ms":[1],"max_ms":2}
backoff: {"kind":"schedule","delays_ms":[1,"2"]} | {"kind":"exponential","delays_ms":[1]} | {"kind":"exponential","delay_ms":1}
traceparent: "nonsense" | "" | "00-0AF7651916CD43DD8448EB211C80319C-00F067AA0BA902B7-01"
retention: {"max":null}
partitions: 3 | 6 | 255 | 257
topic topics dead_topic: "" | ".." | "a..b" | "-a" | ".a" | "a b" | "a/b" | "{a}" | "*" | "é" | "а" | "a\u0000"
topic dead_topic: "_callbacks" | "_x"
secrets: ["whsec_"] | ["whsec_?"] | ["whsec_c2hvcnQ="] | ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] | ["***","***","***"]
states: ["dead","dead"] | ["delayed","delayed"] | ["ready","leased"] | ["leased"] | ["acked"] | ["all"]
state: "expired" | "ready,dead"
force dry_run dead release payload: "yes" | "True"
cursor: "not-from-here" | "0" | "AAAA" | "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" | "e30"
q: "OR" | "a OR" | "OR a" | "-" | "eror:x" | "key:" | "attempts:many" | "at:yesterday" | "error:\"x"
step_ms: 0 | 1000 | "10s"
cron: "* * * *" | "* * * * * * 2030" | "@reboot" | "0 , * * * *" | ", * * * *" | "1,,2 * * * *" | "JAN 9 * * *"
cron: "0 9 * * FEB" | "0 9 * * MON,L" | "*/90 * * * *" | "60 * * * *" | "* * * * MOO" | "0 0 30 2 *"
timezone: "Europe/Berlinn" | "+02:00" | "../zoneinfo/UTC" | "Etc/Unknown"
"#;
