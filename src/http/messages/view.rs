//! A message as answers show it: alone with its events, or in a list.

use super::completion::{CompletionView, result_of};
use crate::{callbacks::CallbackView, openapi::describe::described, prelude::*};
use dueq_model::{
    Backoff, Body, CallPlace, CallReport, CallUrl, Content, Event, EventKind, MessageId, Millis,
    OCTETS, State as MessageState, TopicName, WaitingFor,
};
use dueq_store::{MessageOptions, MessageSnapshot, Topic};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};
use utoipa::ToSchema;

/// What others see in place of an answer.
const HIDDEN_ANSWER: &str = "hidden: the request carried a secret";

answer! {
    /// A message.
    pub struct Message<'a> {
        /// Its id, a UUID.
        id: MessageId,
        /// Its topic.
        #[example = "orders"]
        topic: &'a TopicName,
        /// Its state.
        state: MessageState,
        /// The payload, byte for byte: any JSON value, including null. Absent if the payload is bytes. Lists contain it
        /// only if payloads are asked for; the same holds for `payload_base64`, `content_type`, `headers` and `callback`.
        payload: Option<&'a RawValue>,
        /// The payload in standard base64 with padding, if the payload is bytes.
        payload_base64: Option<Base64>,
        /// Media type of the bytes; only with `payload_base64`.
        content_type: Option<&'a str>,
        /// The publisher's headers. Values that were secret in a pushed topic read `***`.
        headers: Option<Cow<'a, BTreeMap<String, String>>>,
        /// Where dueq sends the message. Absent: to the topic's `push.url`.
        callback: Option<CallbackView<'a>>,
        /// Where its call goes: to its own URL or to its topic's. Only in lists of pushed topics.
        #[example = "https://example.com/hook"]
        url: Option<&'a str>,
        /// The HTTP status that its last call was answered with. Absent if there was no answer or no call.
        last_status: Option<i64>,
        /// The trace that it was published in, as a W3C `traceparent`, if that is recorded. In lists as `payload` is.
        traceparent: Option<String>,
        /// The key that it was published with.
        key: Option<&'a str>,
        /// The name of the API key that published a callback, or gave it another body or target, if that has one. In lists as `payload` is.
        published_by: Option<&'a str>,
        #[serde(flatten)]
        options: Flat<OptionsView<'a>>,
        /// Attempts so far, including those that do not count.
        attempts: i64,
        /// Attempts left before it is dead.
        attempts_left: i64,
        /// When its time to live ends, RFC 3339 in UTC with ms, like all instants. Absent: never.
        expires_at: Option<Instant>,
        /// When it was published.
        published_at: Instant,
        /// When it is due, or fell due. Only for `delayed`, `ready` and `blocked`. That of a message whose call has no place stays.
        due_at: Option<Instant>,
        /// Why it is not being worked on now. Absent for `dead` and `acked`.
        waiting_for: Option<Waiting<'a>>,
        /// When its lease ends; only for `leased`.
        lease_expires_at: Option<Instant>,
        /// When it died; only for `dead`.
        died_at: Option<Instant>,
        /// Where its ack is published. In lists as `payload` is.
        on_done: Option<CompletionView<'a>>,
        /// Where its death is published. In lists as `payload` is.
        on_dead: Option<CompletionView<'a>>,
        /// What came of it, if it is acknowledged: the result that its ack gave, any JSON value; or the answer to its call:
        /// `status`, some `headers` and `body`, as far as that was kept. If the request carried a secret header, only keys that may
        /// `configure` the topic see the body. Not in lists.
        result: Option<Box<RawValue>>,
        /// The reason of the last nack that gave one, or how the last call failed. At most 1024 characters.
        last_error: Option<&'a str>,
        /// Its last 20 events, oldest first. Not in lists.
        events: Option<Vec<MessageEvent<'a>>>,
    }
}

answer! {
    /// Why a message is not being worked on now.
    #[name = "WaitingFor"]
    pub struct Waiting<'a> {
        /// The first reason that holds.
        reason: WaitingReason,
        /// When that ends: for `lease`, `backoff`, `due` and `rate`. For `host_failing`: when the next probe may begin.
        until: Option<Instant>,
        /// The error after which it waits, if one was given. For `backoff`. At most 1024 characters.
        error: Option<&'a str>,
        /// The host of its call, name and port. For `host_paused` and `host_failing`.
        #[example = "example.com:443"]
        host: Option<&'a str>,
        /// The first of the messages of its group that are ahead of it. For `group`.
        message_id: Option<MessageId>,
        /// How many messages of its group are ahead of it. For `group`.
        ahead: Option<i64>,
        /// How many messages of its topic may be leased, which are. For `limit`.
        max_leased: Option<i64>,
        /// Which place its call lacks. For `no_place`.
        place: Option<CallPlace>,
    }
}

/// Why a message is not being worked on; of several reasons the first in this list. `lease`: a consumer has it. `topic_paused`: its
/// topic is paused. `backoff`: it failed and waits for its next attempt. `due`: it is not due yet. `host_paused`: calls to its
/// host are paused. `group_paused`: its group is paused. `group`: others of its group come first. `limit`: its topic has `max_leased`
/// messages leased. `rate`: the rate of its group or its topic is used up. `host_failing`: calls to its host fail, and the next probe
/// may begin at `until`. `no_place`: as many calls are under way as may. `consumer`: it is ready, and waits for a consumer, or for dueq to call it.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitingReason {
    Lease,
    TopicPaused,
    Backoff,
    Due,
    HostPaused,
    GroupPaused,
    Group,
    Limit,
    Rate,
    HostFailing,
    NoPlace,
    Consumer,
}

described! {
    WaitingReason: |document| document.component::<WaitingReason>();
    CallPlace: |document| document.component::<CallPlace>();
}

impl<'a> From<&'a WaitingFor> for Waiting<'a> {
    fn from(waiting_for: &'a WaitingFor) -> Self {
        let none = |reason| Self {
            reason,
            until: None,
            error: None,
            host: None,
            message_id: None,
            ahead: None,
            max_leased: None,
            place: None,
        };
        let until = |reason, at: &Millis| Self { until: Some(Instant(*at)), ..none(reason) };
        match waiting_for {
            WaitingFor::Lease(at) => until(WaitingReason::Lease, at),
            WaitingFor::TopicPaused => none(WaitingReason::TopicPaused),
            WaitingFor::Backoff(at, error) => {
                Self { error: error.as_deref(), ..until(WaitingReason::Backoff, at) }
            }
            WaitingFor::Due(at) => until(WaitingReason::Due, at),
            WaitingFor::HostPaused(host) => {
                Self { host: Some(host), ..none(WaitingReason::HostPaused) }
            }
            WaitingFor::GroupPaused => none(WaitingReason::GroupPaused),
            WaitingFor::Group(first, ahead) => {
                let (message_id, ahead) = (Some(*first), Some(*ahead));
                Self { message_id, ahead, ..none(WaitingReason::Group) }
            }
            WaitingFor::Limit(most) => {
                Self { max_leased: Some(*most), ..none(WaitingReason::Limit) }
            }
            WaitingFor::Rate(at) => until(WaitingReason::Rate, at),
            WaitingFor::HostFailing(host, at) => {
                Self { host: Some(host), ..until(WaitingReason::HostFailing, at) }
            }
            WaitingFor::NoPlace(place) => {
                Self { place: Some(*place), ..none(WaitingReason::NoPlace) }
            }
            WaitingFor::Consumer => none(WaitingReason::Consumer),
        }
    }
}

answer! {
    /// An event in a message's life.
    pub struct MessageEvent<'a> {
        /// When it happened, RFC 3339 in UTC with ms.
        at: Instant,
        /// What happened.
        kind: EventKind,
        /// Number of the attempt that it is about.
        attempt: Option<u32>,
        /// The consumer's reason. For `nacked` and `released`.
        reason: Option<&'a str>,
        /// The HTTP status of the answer. For `called`.
        status: Option<i64>,
        /// Why there was no answer. For `called`.
        error: Option<&'a str>,
        /// How long the call took, ms. For `called`.
        duration_ms: Option<i64>,
        /// The first KiB of the answer's body as text, if it had one; of one that delivered, as much as the topic keeps. For `called`. If the request carried a secret header, only
        /// keys that may `configure` the topic see it.
        answer: Option<&'a str>,
        /// True if the instant was derived afterwards. Absent if it was recorded.
        estimated: Option<bool>,
    }
}

impl<'a> Message<'a> {
    /// A message with its events. Unless the reader `sees_answers`, those to requests that carried a secret are hidden.
    pub fn whole(topic: &'a Topic, found: &'a MessageSnapshot, sees_answers: bool) -> Self {
        // Older versions did not note which requests carried one.
        let carries = found.body.as_ref().is_some_and(|body| topic.sends_secrets(body));
        let event = |event| {
            let mut shown = MessageEvent::of(event);
            let hides = |call: &CallReport| !sees_answers && (call.secret || carries);
            if event.call.as_ref().is_some_and(hides) {
                shown.answer = shown.answer.map(|_| HIDDEN_ANSWER);
            }
            shown
        };
        let events = Some(found.events.iter().map(event).collect());
        let is_done = found.state == MessageState::Acked;
        let mut calls = found.events.iter().rev().filter_map(|event| event.call.as_ref());
        let hides = !sees_answers && (carries || calls.next().is_some_and(|call| call.secret));
        let result = is_done.then(|| result_of(found, !hides)).flatten();
        Self { events, result, ..Self::listed(topic, found) }
    }

    /// A message of a list.
    pub fn listed(topic: &'a Topic, found: &'a MessageSnapshot) -> Self {
        let body = found.body.as_ref();
        let content = body.map(RenderedContent::of);
        let headers = body.map(|body| body.shown_headers(topic.settings.push.as_ref()));
        let content = content.unwrap_or_default();
        let due = matches!(
            found.state,
            MessageState::Delayed | MessageState::Ready | MessageState::Blocked
        );
        let at = |state| (found.state == state).then_some(Instant(found.at));
        Self {
            id: found.id,
            topic: &topic.name,
            state: found.state,
            payload: content.payload,
            payload_base64: content.payload_base64,
            content_type: content.content_type,
            headers,
            callback: body.and_then(|body| body.callback.as_ref()).map(CallbackView::from),
            url: found.url.as_ref().map(CallUrl::as_str),
            last_status: found.last_status.map(i64::from),
            traceparent: body.and_then(|body| body.trace).map(|trace| trace.to_string()),
            key: found.key.as_deref(),
            published_by: body
                .and_then(|body| body.publisher.as_deref())
                .filter(|publisher| topic.name.is_callbacks() && !publisher.is_empty()),
            options: Flat((&found.options).into()),
            attempts: found.attempts,
            attempts_left: found.attempts_left,
            expires_at: found.expires_at.map(Instant),
            published_at: Instant(found.id.published()),
            due_at: due.then_some(Instant(found.at)),
            waiting_for: found.waiting_for.as_ref().map(Waiting::from),
            lease_expires_at: at(MessageState::Leased),
            died_at: at(MessageState::Dead),
            on_done: body.and_then(|it| it.on_done.as_deref()).map(CompletionView::from),
            on_dead: body.and_then(|it| it.on_dead.as_deref()).map(CompletionView::from),
            result: None,
            last_error: found.last_error.as_deref(),
            events: None,
        }
    }
}

impl<'a> MessageEvent<'a> {
    fn of(event: &'a Event) -> Self {
        let call = event.call.as_ref();
        Self {
            at: Instant(event.at),
            kind: event.kind,
            attempt: event.attempt,
            reason: event.reason.as_deref(),
            status: call.and_then(|call| call.status).map(i64::from),
            error: call.and_then(|call| call.error.as_deref()),
            duration_ms: call.map(|call| call.duration_ms),
            answer: call.and_then(|call| call.answer.as_deref()),
            estimated: event.estimated.then_some(true),
        }
    }
}

answer! {
    /// What a message says for itself.
    pub struct OptionsView<'a> {
        /// Its group.
        group: Option<&'a str>,
        /// 0 to 255. Among ready messages, higher goes first.
        priority: u8,
        /// Its own limit of attempts. Absent: the topic's.
        max_attempts: Option<u16>,
        /// Its own backoff. Absent: the topic's.
        backoff: Option<&'a Backoff>,
        /// Its own time to live, ms. Absent: the topic's.
        ttl_ms: Option<i64>,
    }
}

impl<'a> From<&'a MessageOptions> for OptionsView<'a> {
    fn from(options: &'a MessageOptions) -> Self {
        let MessageOptions { priority, max_attempts, ttl_ms, backoff, group, .. } = options;
        let (group, backoff) = (group.as_deref(), backoff.as_ref());
        Self { group, priority: *priority, max_attempts: *max_attempts, backoff, ttl_ms: *ttl_ms }
    }
}

answer! {
    /// A payload as answers show it.
    #[derive(Default)]
    pub struct RenderedContent<'a> {
        /// The payload, byte for byte: any JSON value, including null. Absent if the payload is bytes.
        pub payload: Option<&'a RawValue>,
        /// The payload in standard base64 with padding, if the payload is bytes.
        pub payload_base64: Option<Base64>,
        /// Media type of the bytes; only with `payload_base64`.
        pub content_type: Option<&'a str>,
    }
}

impl<'a> RenderedContent<'a> {
    /// What is stored as JSON and is none, which is damage, is shown as bytes.
    pub fn of(body: &'a Body) -> Self {
        let content = &body.content;
        if let Content::Json(json) = content
            && let Ok(payload) = serde_json::from_slice(json)
        {
            return Self { payload: Some(payload), ..Self::default() };
        }
        Self {
            payload: None,
            payload_base64: Some(Base64(content.payload().clone())),
            content_type: Some(content.content_type().unwrap_or(OCTETS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_shows_how_it_ended() {
        let event = |line: &str| Event::read_all(line).remove(0);
        let shown = |line| serde_json::to_value(MessageEvent::of(&event(line))).unwrap();
        let answered = "c 5 2 {\"status\":500,\"duration_ms\":12,\"answer\":\"no\"}\n";
        let json = serde_json::json!({
            "at": "1970-01-01T00:00:00.005Z", "kind": "called", "attempt": 2, "status": 500,
            "duration_ms": 12, "answer": "no",
        });
        assert_eq!(shown(answered), json);
        let broken = "c 5 2 {\"error\":\"timeout\",\"duration_ms\":100}\n";
        assert_eq!(
            (&shown(broken)["error"], shown(broken).get("status")),
            (&"timeout".into(), None)
        );
    }
}
