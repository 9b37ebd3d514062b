//! Answers of receivers and messages on their way: any head of an answer means something, any message that was stored
//! becomes a request that HTTP can send.

use super::{
    outcome::{Verdict, verdict},
    request::build,
};
use dueq_fuzz::{body, cases, headers, number, soon, spoilt, text, url};
use dueq_model::{MessageId, Push, SigningSecret, TopicName, is_own_header};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use proptest::{collection::vec, prelude::*, sample::select};
use std::time::Duration;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_head_of_any_answer_means_something(
        status in 100..1_000_u16,
        after in spoilt(select(vec!["120", "Wed, 21 Oct 2026 07:28:00 GMT", "Wednesday, 21-Oct-26 07:28:00 GMT", "99999999999999999999", ""])),
        date in spoilt(Just("Wed, 21 Oct 2026 07:27:00 GMT")),
        retry in spoilt(Just("never")),
        now in number(),
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let mut answer = HeaderMap::new();
        let said = [(header::RETRY_AFTER, after), (header::DATE, date), (HeaderName::from_static("dueq-retry"), retry)];
        for (name, value) in said {
            HeaderValue::from_bytes(&value).into_iter().for_each(|value| drop(answer.insert(name.clone(), value)));
        }
        match soon(|| verdict(status, &answer, None, now)) {
            Verdict::Delivered => prop_assert!(status.is_success()),
            Verdict::Dead => prop_assert!(status.is_client_error()),
            Verdict::Retry { after: Some(_) } => prop_assert!([429, 503].contains(&status.as_u16())),
            Verdict::Retry { after: None } => prop_assert!(!status.is_success()),
        }
    }

    #[test]
    fn any_stored_message_becomes_a_request(
        body in body(),
        pushed in headers(),
        url in prop::option::of(url()),
        timeout_ms in number(),
        connect_timeout_ms in prop::option::of(number()),
        secrets in vec(text(), 0..3),
        (attempt, now) in (any::<u32>(), number()),
    ) {
        // Secrets are read back as they lie in Redis, whatever that is.
        let secret = |text: &String| serde_json::from_value::<SigningSecret>(text.as_str().into()).unwrap();
        let secrets = secrets.iter().map(secret).collect();
        let push =
            Push { url, headers: pushed, timeout_ms, connect_timeout_ms, secrets, ..Push::default() };
        let id = MessageId::parse("019ab000-0000-8000-8000-000000000000").unwrap();
        let topic = TopicName::callbacks();
        match build(&id.to_string(), &topic, Some(attempt), &body, &push, &[], now) {
            Ok(request) => {
                prop_assert_eq!(&request.body, body.content.payload());
                prop_assert!(request.timeout <= Duration::from_millis(i64::MAX as u64));
                prop_assert_eq!(&request.headers["webhook-id"], &id.to_string());
                let own = |name: &HeaderName| is_own_header(name.as_str());
                let dueqs = ["content-type", "content-length", "webhook-id", "webhook-timestamp", "webhook-signature", "dueq-topic", "dueq-attempt"];
                prop_assert!(request.headers.keys().filter(|name| own(name)).all(|name| dueqs.contains(&name.as_str())));
            }
            Err(_) => prop_assert!(push.url.is_none() && body.callback.is_none()),
        }
    }
}
