//! Queries for messages: any text is one or is refused, soon, and matches or does not.

use crate::{body, cases, soon, spoilt_text, text};
use dueq_model::{MessageQuery, Subject};
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_text_is_a_query_or_refused_and_matches_or_not(
        query in prop_oneof![
            text(),
            spoilt_text(Just(r#"error:"a * b" key:a/* header.x:1 payload.$.a[0].b:>1.5 attempts:<=3 at:>2026-11-20"#)),
        ],
        body in body(),
        said in text(),
    ) {
        if let Ok(query) = soon(|| MessageQuery::parse(&query)) {
            let message = Subject {
                error: Some(&said), key: Some(&said), group: None, attempts: 0, priority: 0, at: 0, published: 0,
                body: Some(&body),
            };
            soon(|| query.matches(message, |_| false));
            prop_assert_eq!(MessageQuery::parse(query.text()), Ok(query));
        }
    }
}
