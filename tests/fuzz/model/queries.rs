//! Queries for messages: any text is one or is refused, soon, and matches or does not.

use crate::{body, cases, soon, spoilt_text, text};
use dueq_model::{CallUrl, MessageId, MessageQuery, Subject};
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_text_is_a_query_or_refused_and_matches_or_not(
        query in prop_oneof![
            text(),
            spoilt_text(Just(r#"error:"a * b" key:a/* OR -header.x:1 "c" status:5xx payload.$.a[0].b:>1.5 host:a attempts:<=3 at:>2026-11-20"#)),
        ],
        body in body(),
        said in text(),
    ) {
        let url = CallUrl::parse("http://example.com/a").ok();
        let message = Subject {
            id: MessageId::parse("019ab000-0000-8000-8000-000000000000").unwrap(), status: Some(500), url: url.as_ref(),
            error: Some(&said), key: Some(&said), group: None, attempts: 0, priority: 0, at: 0, published: 0,
            body: Some(&body),
        };
        if let Ok(query) = soon(|| MessageQuery::parse(&query)) {
            soon(|| query.matches(message, |_| false));
            prop_assert_eq!(MessageQuery::parse(query.text()), Ok(query));
        }
        // Either a word is found or its negation is.
        let word = query.replace('\\', "\\\\").replace('"', "\\\"");
        let [found, negated] = ["", "-"].map(|sign| {
            let query = MessageQuery::parse(&format!("{sign}\"{word}\"")).ok()?;
            Some(query.matches(message, |_| false))
        });
        if let (Some(found), Some(negated), None) = (found, negated, &body.damaged) {
            prop_assert_ne!(found, negated);
        }
    }
}
