//! A topic's configuration as requests say and answers show it; putTopic and updateTopic, guarded by its revision.

use crate::{
    messages::completion::{CompletionRequest, CompletionView, make_topics, own_completion},
    prelude::*,
    topics::{
        Topic, answer_with_topic,
        push_settings::PushRequest,
        settings::{Said, configured, shown},
    },
};
use dueq_model::{
    Backoff, CallUrl, Completion, DeadForm, Durability, GroupOrder, MAX_GROUP_CONCURRENCY,
    MAX_IDEMPOTENCY_WINDOW_MS, MAX_LEASED_LIMIT, MAX_PARTITIONS, MAX_PAYLOAD_BYTES,
    MAX_TOPIC_MESSAGES, Millis, OnFull, Push, Retention, TopicName, TopicSettings,
    retention_settings, topic_settings,
};

request! {
    /// A topic's whole configuration. Absent fields take their defaults.
    #[example = json!({"lease_ms": 60_000, "max_attempts": 5, "max_messages": 1_000_000, "on_full": "reject"})]
    pub struct PutTopicRequest {
        pub settings: Flat<TopicFields>,
    }
}

request! {
    /// The changes to a topic's configuration. Absent fields stay, null resets a field to its default, and nested
    /// objects are replaced as a whole.
    #[example = json!({"max_attempts": 5, "ttl_ms": null})]
    pub struct UpdateTopicRequest {
        pub settings: Flat<TopicFields>,
    }
}

retention_settings! { configured Retention
    /// How long acknowledged and dead messages are kept. Absent fields take their defaults.
    request RetentionRequest
    /// How long acknowledged and dead messages are kept.
    #[name = "Retention"]
    answer RetentionPolicy
}

impl Said<Retention> for RetentionRequest {
    fn stored(&self, default: &Retention) -> Retention {
        self.applied_to(default, default)
    }
}

topic_settings! { configured TopicSettings
    /// A topic's configuration, as a change that can be applied to any: absent stays, null is the default again. A whole
    /// configuration is such a change to the defaults.
    request TopicFields
    /// A topic's configuration, for messages that do not override it.
    answer TopicConfig
}

impl<'a> TopicConfig<'a> {
    /// That of a topic, with the number of leases that a group has.
    pub fn of(settings: &'a TopicSettings) -> Self {
        Self { group_concurrency: settings.leased_per_group(), ..Self::from(settings) }
    }
}

shown! {
    Completion as CompletionView<'a>: |it| it.into();
    Retention as RetentionPolicy<'a>: |it| it.into();
}

/// Refuses a configuration that the topic of this name cannot have, whatever it has now.
pub(crate) fn check_settings(fields: &mut Fields<'_>, topic: &TopicName) {
    let name = fields.peek("dead_topic").and_then(|value| value.text());
    if name.as_ref().is_some_and(|name| name == topic.as_str()) {
        fields.refuse("dead_topic", "must be another topic");
    } else if name.is_some_and(|name| name.starts_with('_')) {
        fields.refuse("dead_topic", "must not be a topic of dueq's own");
    }
    let partitions =
        fields.peek("partitions").and_then(|value| <Bounded<1, 256>>::read(value).ok());
    if partitions.is_some_and(|partitions| !partitions.get().is_power_of_two()) {
        fields.refuse("partitions", "must be a power of two");
    } else if fields.is_null("partitions") {
        fields.refuse("partitions", "must be a number");
    }
}

impl TopicFields {
    /// Checks the URLs and the topics that are put, which may not be the caller's to name, and makes topics for completions where
    /// they count for the caller.
    async fn check(&self, state: &AppState, caller: &Caller) -> Result<(), Problem> {
        if let Some(dead_topic) = self.dead_topic.as_value() {
            caller.check_verb(Verb::Configure, dead_topic)?;
        }
        for (name, completion) in self.completions() {
            let url = completion.url.as_ref();
            state.check_url(url, || format!("{name}.url"))?;
            own_completion(caller, &mut completion.clone().into())?;
        }
        state.check_url(self.push_url(), || "push.url".to_owned())?;
        let auth = self.push.as_value().and_then(|push| push.auth.as_value());
        let token_url = auth.and_then(|auth| auth.token_url.as_ref());
        state.check_url(token_url, || "push.auth.token_url".to_owned())?;
        let client_cert = self.push.as_value().and_then(|push| push.client_cert.as_value());
        let name = client_cert.map(|name| &**name);
        state.check_client_cert(name, || "push.client_cert".to_owned())?;
        let named = self.completions().filter_map(|(_, it)| it.topic.clone()).collect();
        Ok(make_topics(&state.store, caller, named).await?)
    }

    fn completions(&self) -> impl Iterator<Item = (&'static str, &CompletionRequest)> {
        let all = [("on_done", self.on_done.as_value()), ("on_dead", self.on_dead.as_value())];
        all.into_iter().filter_map(|(name, it)| Some((name, it?)))
    }

    fn push_url(&self) -> Option<&CallUrl> {
        self.push.as_value()?.url.as_value()
    }

    /// A setting among them that dueq's own topic does not take.
    fn reserved_of_callbacks(&self) -> Option<&'static str> {
        let batch = self.push.as_value().and_then(|push| push.batch.as_value());
        let push = self.push_url().map(|_| "push.url").or(batch.map(|_| "push.batch"));
        self.reserved().or(push)
    }

    /// The configuration that `settings` become: the defaults, or what is stored. What is stored, if anything is, has the
    /// secrets that are kept; `default` is what null sets back to. `by`: the API key that asks for it, by its name.
    ///
    /// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`, `BadSetting`.
    pub fn onto(
        &self,
        settings: &TopicSettings,
        stored: Option<&TopicSettings>,
        default: &TopicSettings,
        by: &str,
    ) -> Result<TopicSettings, Error> {
        let mut changed = TopicSettings {
            closing: false,
            was_closing: false,
            paused: false,
            loading: None,
            revision: None,
            ..self.applied_to(settings, default)
        };
        for (name, it) in self.completions() {
            let stored =
                if name == "on_done" { &mut changed.on_done } else { &mut changed.on_dead };
            if let Some(stored) = stored.as_mut().filter(|_| it.url.is_some()) {
                stored.publisher = by.to_owned();
            }
        }
        if self.partitions.0.is_none() {
            changed.partitions = stored.unwrap_or(default).partitions;
        }
        if let (Some(request), Some(push)) = (self.push.as_value(), &mut changed.push) {
            let pushed = stored.and_then(|stored| stored.push.as_ref());
            *push = request.keeping(push, pushed).map_err(|error| match error {
                // There was something until the topic was pushed no more.
                Error::NothingMasked(field) if stored.is_some() && pushed.is_none() => {
                    Error::SecretRequired(field)
                }
                error => error,
            })?;
        }
        changed.check(stored)?;
        Ok(changed)
    }
}

/// Configure a topic.
///
/// Replaces the whole configuration. Absent fields take their defaults. Creates the topic if it does not exist.
#[utoipa::path(
    put, path = "/topics/{topic}", tag = "topics", params(TopicPath, IfMatch),
    request_body(content = PutTopicRequest, description = "The configuration"),
    responses(
        (status = 200, description = "The configuration is replaced", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        (status = 201, description = "The topic is created", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        ConfigProblems, NewTopicProblems, RedisProblems,
    ),
)]
pub async fn put_topic(
    cx: Context,
    PublicTopic(name): PublicTopic,
    _: NoQuery,
    payload: Payload,
) -> Answer {
    let PutTopicRequest { settings: changes } =
        payload.read(|fields, _| check_settings(fields, &name))?;
    changes.check(&cx, &cx.caller).await?;
    let default = TopicSettings::default();
    let whole = |stored: Option<&TopicSettings>| {
        changes.onto(&default, stored, &default, cx.caller.owner())
    };
    let created = match IfMatch::of(&payload.headers) {
        // Only what exists can match, so nothing comes into being.
        IfMatch::Any => {
            let replaced = cx.store.update_topic(&name, |stored| whole(Some(stored)), None);
            replaced.await.map_err(no_match)?;
            false
        }
        IfMatch::None => cx.store.put_topic(&name, whole, None, cx.caller.maker()).await?,
        IfMatch::OneOf(revisions) => {
            cx.store.put_topic(&name, whole, Some(&revisions), None).await?
        }
    };
    let mut answer = answer_with_topic(&cx, &name, Error::after_change).await?;
    if created {
        *answer.status_mut() = StatusCode::CREATED;
    }
    Ok(answer)
}

/// Change a topic's configuration.
///
/// Absent fields stay, null resets a field to its default, and nested objects are replaced as a whole. In dueq's own
/// topic `_callbacks` you can change everything except `lease_ms`, `ttl_ms`, `max_leased`, `rate_per_s` and `push.url`.
#[utoipa::path(
    patch, path = "/topics/{topic}", tag = "topics", params(TopicPath, IfMatch),
    request_body(content = UpdateTopicRequest, description = "The changes"),
    responses(
        (status = 200, description = "The topic", body = Topic,
            headers(("ETag" = String, description = "The revision of its configuration"))),
        TopicProblems, ConfigProblems, NewTopicProblems, RedisProblems,
    ),
)]
pub async fn update_topic(
    cx: Context,
    ChangeableTopic(name): ChangeableTopic,
    _: NoQuery,
    payload: Payload,
) -> Answer {
    let UpdateTopicRequest { settings: changes } =
        payload.read(|fields, _| check_settings(fields, &name))?;
    changes.check(&cx, &cx.caller).await?;
    if name.is_callbacks()
        && let Some(setting) = changes.reserved_of_callbacks()
    {
        let detail = format!("{setting} of _callbacks cannot be changed");
        return Err(Problem::topic_reserved(detail));
    }
    let default = TopicSettings::default_of(&name);
    let change = |stored: &TopicSettings| {
        let mut changed = changes.onto(stored, Some(stored), &default, cx.caller.owner())?;
        changed.ordered |= name.is_callbacks() && changes.group_order.0.is_some();
        Ok(changed)
    };
    match IfMatch::of(&payload.headers) {
        // dueq's own topic is created by its first message, but can be configured before.
        IfMatch::None if name.is_callbacks() => {
            let is_fair = cx.store.fair_by_default();
            let older = TopicSettings::older_default_of(&name);
            let absent = if is_fair { &default } else { &older };
            let change = |stored: Option<&TopicSettings>| change(stored.unwrap_or(absent));
            cx.store.put_topic(&name, change, None, None).await?;
        }
        IfMatch::None => cx.store.update_topic(&name, change, None).await?,
        IfMatch::Any => cx.store.update_topic(&name, change, None).await.map_err(no_match)?,
        IfMatch::OneOf(revisions) => {
            let updated = cx.store.update_topic(&name, change, Some(&revisions)).await;
            updated.map_err(no_match)?
        }
    }
    answer_with_topic(&cx, &name, Error::after_change).await
}

/// A topic that does not exist matches nothing.
fn no_match(error: Error) -> Error {
    match error {
        Error::TopicNotFound => Error::RevisionMismatch,
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::describe::Description;
    use bytes::Bytes;
    use dueq_model::Push;
    use std::collections::BTreeMap;

    fn read(text: &str) -> Result<TopicFields, Vec<String>> {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let mut fields = Fields::of_json(&body).unwrap();
        check_settings(&mut fields, &TopicName::parse("mine").unwrap());
        let named = |problem: Problem| problem.body("").errors.into_iter().map(|e| e.field);
        fields.read().map_err(|problem| named(problem).collect())
    }

    #[test]
    fn absent_stays_null_resets_and_nested_objects_are_replaced_whole() {
        let mine = TopicSettings {
            lease_ms: 5_000,
            ttl_ms: Some(9),
            max_messages: Some(7),
            on_full: OnFull::DropOldest,
            durability: Durability::Replicated,
            push: Some(Push { timeout_ms: 5_000, ..Push::default() }),
            dead_topic: Some(TopicName::parse("other").unwrap()),
            dead_form: DeadForm::Raw,
            retention: Retention {
                acked_ms: 1,
                acked_max: 4,
                dead_ms: 2,
                dead_max: 3,
                ..Retention::default()
            },
            group_order: GroupOrder::Fair,
            group_concurrency: Some(2),
            group_rate_per_s: Some(0.5),
            group_burst: 3,
            ..TopicSettings::default()
        };
        let default = TopicSettings::default();
        let onto = |text: &str| read(text).unwrap().onto(&mine, Some(&mine), &default, "").unwrap();
        assert_eq!(onto("{}"), mine);
        let names = Description::of::<TopicFields>().properties.into_iter().map(|it| it.name);
        let nulls: BTreeMap<_, _> =
            names.filter(|name| *name != "partitions").map(|name| (name, ())).collect();
        let nulls = &serde_json::to_string(&nulls).unwrap();
        assert_eq!(onto(nulls), TopicSettings::default());
        let changed =
            onto(r#"{"max_messages":8,"retention":{"dead_ms":5,"dead_max":null},"push":{}}"#);
        let retention = Retention { dead_ms: 5, ..Retention::default() };
        let push = Some(Push::default());
        assert_eq!(changed, TopicSettings { max_messages: Some(8), retention, push, ..mine });
    }

    #[test]
    fn settings_that_no_topic_can_have_are_refused_by_name() {
        for (text, field) in [
            (r#"{"retention":{"acked_ms":-1}}"#, "retention.acked_ms"),
            (r#"{"retention":{"days":1}}"#, "retention.days"),
            (r#"{"paused":true}"#, "paused"),
            (r#"{"push":{"rate_per_s":0}}"#, "push.rate_per_s"),
            (r#"{"dead_topic":"a b"}"#, "dead_topic"),
            (r#"{"dead_topic":"_callbacks"}"#, "dead_topic"),
            (r#"{"dead_topic":"mine"}"#, "dead_topic"),
            (r#"{"partitions":3}"#, "partitions"),
            (r#"{"partitions":null}"#, "partitions"),
        ] {
            assert_eq!(read(text).map(drop), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
