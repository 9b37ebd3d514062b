//! `dueq dead`: why a topic's messages died, and the commands that deal with the most frequent reason.

use super::{
    durations::when,
    object::Object,
    table::{columns, quoted},
};

/// Formats the reasons.
pub fn view(topic: &str, reasons: &Object) -> String {
    let items = reasons.objects("items");
    let Some(first) = items.first() else { return "no dead messages\n".to_owned() };
    let row = |item: &Object| {
        let reason = item.get("reason").unwrap_or_else(|| "(none given)".to_owned());
        let at = |name| when(&item.text(name));
        let count = item.number("count").to_string();
        vec![count, at("first_at"), at("last_at"), item.text("example_id"), reason]
    };
    let head = ["count", "first", "last", "example", "reason"];
    let table = columns(&head, &["count"], items.iter().map(row).collect());
    let topic = quoted(topic);
    let query = quoted(&format!("reason:{}", term(&first.text("reason"))));
    format!(
        "{table}\nlooked at {}, the newest. The first reason:\n\
         \x20 dueq search {topic} {query} --state dead\n\
         \x20 dueq redrive {topic} --query {query} --spread 10m --dry-run\n\
         \x20 dueq purge {topic} --state dead --query {query} --dry-run\n",
        reasons.number("scanned"),
    )
}

/// A reason as a value of a term.
fn term(reason: &str) -> String {
    format!("\"{}\"", reason.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok, unparsed};
    use super::*;

    #[tokio::test]
    async fn reasons_are_a_table_with_what_can_be_done() {
        let answer = ok(
            r#"{"items":[{"reason":"it's \"late\" by * s","example_id":"1","count":12,"first_at":"x","last_at":"y"},
                {"example_id":"2","count":3,"first_at":"x","last_at":"y"}],"scanned":15}"#,
        );
        let sent = asked(&["dead", "a"], &answer).await;
        assert_eq!(sent.lines(), ("GET /topics/a/dead/reasons", ""));
        let query = r#"'reason:"it'\''s \"late\" by * s"'"#;
        assert_eq!(
            sent.shown,
            format!(
                "COUNT  FIRST  LAST  EXAMPLE  REASON\n   \
                 12  x      y     1        it's \"late\" by * s\n    \
                 3  x      y     2        (none given)\n\n\
                 looked at 15, the newest. The first reason:\n  \
                 dueq search a {query} --state dead\n  \
                 dueq redrive a --query {query} --spread 10m --dry-run\n  \
                 dueq purge a --state dead --query {query} --dry-run\n"
            )
        );
        let none = asked(&["dead", "a"], ok(r#"{"items":[],"scanned":0}"#)).await;
        assert_eq!(none.shown, "no dead messages\n");
        assert!(unparsed(&["dead"]) && unparsed(&["dead", "a", "b"]));
    }

    #[test]
    fn a_hostile_reason_is_one_word_of_a_shell() {
        for (reason, written) in [
            ("", "'reason:\"\"'"),
            ("'; rm -rf ~ #", "'reason:\"'\\''; rm -rf ~ #\"'"),
            ("\u{1b}[2J'\n\u{202e}", "$'reason:\"\\x1b[2J\\'\\x0a\\U0000202e\"'"),
        ] {
            assert_eq!(quoted(&format!("reason:{}", term(reason))), written);
        }
        assert_eq!(quoted("orders"), "orders");
    }
}
