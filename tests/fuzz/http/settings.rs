//! Configurations of topics and schedules: what is taken can be shown, put back as it is shown, and stored.

use super::{
    AUTHS, BACKOFFS, CALLBACKS, COMPLETIONS, HEADERS, Known, RETRIES, URLS, body, by_the_book,
    fields_of, object, read,
};
use crate::{
    input::Fields,
    messages::fingerprint::fingerprint,
    schedules::fields::PutScheduleRequest,
    topics::{
        config::{TopicConfig, TopicFields, check_settings},
        push_settings::PushRequest,
    },
};
use bytes::Bytes;
use dueq_fuzz::{cases, fewer_cases, now, spoilt};
use dueq_model::{Body, Content, MessageId, TopicName, TopicSettings, Zones};
use dueq_store::{Due, MessageOptions, NewMessage};
use proptest::{prelude::*, sample::select};
use std::sync::LazyLock;

static PUSHES: LazyLock<&'static [Known]> = LazyLock::new(|| {
    fields_of::<PushRequest>(&[
        ("url", URLS),
        ("headers", HEADERS),
        ("retry", RETRIES),
        ("auth", AUTHS),
        ("client_cert", &[r#""bank""#, r#""""#]),
        ("batch", &["{}", r#"{"max_messages":7,"max_wait_ms":0}"#, r#"{"max_messages":0}"#]),
        ("rate_per_s", &["0.01", "100000", "12.186593445987667", "1e-1"]),
        ("secrets", &["[]", r#"["whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]"#, r#"["***","***"]"#]),
        ("secret_headers", &["[]", r#"["x","X"]"#, r#"["a b"]"#]),
    ])
});

static CONFIG: LazyLock<&'static [Known]> = LazyLock::new(|| {
    fields_of::<TopicFields>(&[
        ("backoff", BACKOFFS),
        ("partitions", &["1", "2", "256", "3", "null"]),
        ("retention", &["{}", r#"{"acked_ms":1,"dead_ms":0,"dead_max":0}"#]),
        ("push", &["{}", "null", r#"{"headers":{"Cookie":"a=b"}}"#]),
        ("on_done", COMPLETIONS),
        ("on_dead", COMPLETIONS),
        ("dead_topic", &[r#""other""#, r#""orders""#, r#""_callbacks""#, "null"]),
    ])
});

const CRON: Known =
    ("cron", &[r#""0 9 * * MON-FRI""#, r#""*/5 * * * * *""#, r#""0 0 30 2 *""#, r#""@daily""#]);
const EVERY: Known = ("every_ms", &["1000", "315360000000", "999"]);
const TOPIC: Known = ("topic", &[r#""reports""#, r#""a""#, r#""_callbacks""#]);
const CALLBACK: Known = ("callback", CALLBACKS);

const SCHEDULE: &[Known] = &[
    ("timezone", &[r#""Europe/Berlin""#, r#""UTC""#, r#""Mars""#]),
    (
        "message",
        &[
            r#"{"payload":1}"#,
            "{}",
            r#"{"payload":{},"headers":{"a":"b"},"key":"k"}"#,
            r#"{"delay_ms":1,"payload":1}"#,
        ],
    ),
    ("catch_up", &[r#""one""#, r#""none""#, r#""all""#]),
    CALLBACK,
    EVERY,
];

fn schedule() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        body(&[CRON, TOPIC], SCHEDULE),
        body(&[CRON, CALLBACK], SCHEDULE),
        body(&[EVERY, CALLBACK], SCHEDULE),
        body(&[EVERY, TOPIC], SCHEDULE),
    ]
}

/// A body of a configuration, its push made up too.
fn config() -> impl Strategy<Value = Vec<u8>> {
    let pushed = || {
        let both = (object(&[], &CONFIG), object(&[], &PUSHES));
        both.prop_map(|(config, push)| {
            config.replacen("\"push\": {}", &format!("\"push\": {push}"), 1)
        })
    };
    prop_oneof![pushed().prop_map(String::into_bytes), spoilt(pushed())]
}

/// The configuration that a body makes of what is stored.
fn put(
    body: &[u8],
    stored: Option<&TopicSettings>,
) -> Result<Option<TopicSettings>, TestCaseError> {
    let topic = TopicName::parse("orders").unwrap();
    let body = Bytes::copy_from_slice(body);
    let read = Fields::of_json(&body).and_then(|mut fields| {
        check_settings(&mut fields, &topic);
        fields.read::<TopicFields>()
    });
    match read {
        Ok(changes) => {
            let default = TopicSettings::default();
            Ok(changes.onto(&default, stored, &default, "").ok())
        }
        Err(problem) => by_the_book(problem).map(|()| None),
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_configuration_that_is_taken_can_be_stored_and_put_back_as_it_is_shown(body in config()) {
        let Some(settings) = put(&body, None)? else { return Ok(()) };
        let stored = serde_json::to_string(&settings).unwrap();
        prop_assert_eq!(&serde_json::from_str::<TopicSettings>(&stored).unwrap(), &settings);
        let shown = serde_json::to_vec(&TopicConfig::from(&settings)).unwrap();
        prop_assert_eq!(put(&shown, Some(&settings))?, Some(settings));
    }

    #[test]
    fn a_change_of_nothing_changes_nothing(body in config()) {
        let Some(settings) = put(&body, None)? else { return Ok(()) };
        let changes = Fields::none().read::<TopicFields>().unwrap();
        prop_assert_eq!(changes.onto(&settings, Some(&settings), &settings, ""), Ok(settings));
    }
}

proptest! {
    #![proptest_config(fewer_cases(2))]

    #[test]
    fn a_schedule_is_refused_with_a_reason_or_ticks(body in schedule(), now in now()) {
        // Where nothing was refused there is a schedule.
        match read::<PutScheduleRequest>(&body).and_then(|request| request.into_spec(now, &Zones::bundled())) {
            Ok(spec) => {
                prop_assert!(spec.timing.next_after(now).is_some_and(|next| next > now));
                let body = spec.message.body;
                prop_assert_eq!(Body::decode(body.encode()).unwrap(), body);
            }
            Err(problem) => by_the_book(problem)?,
        }
    }

    #[test]
    fn how_a_payload_is_written_makes_no_difference_to_its_fingerprint(
        json in super::value().prop_filter_map("no JSON", |text| serde_json::from_str::<serde_json::Value>(&text).ok()),
        id in select(vec!["019ab000-0000-8000-8000-000000000000"]),
    ) {
        let of = |text: String| fingerprint(&NewMessage {
            body: Body::new(Content::Json(text.into()), Default::default()),
            due: Due::After(0),
            options: MessageOptions::default(),
        });
        prop_assert_eq!(of(json.to_string()), of(serde_json::to_string_pretty(&json).unwrap()));
        prop_assert!(MessageId::parse(id).is_ok());
    }
}
