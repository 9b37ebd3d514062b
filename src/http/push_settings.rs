//! How a topic is pushed, as configurations say and show it. Its secrets, and what its `authorization` and `cookie`
//! headers hold, are never shown: `***` stands for each, and put back keeps what is stored.

use super::{
    callback_fields::{
        read_method, read_secret_headers, read_timeout, read_url, refuse_own_headers,
    },
    fields::Fields,
    message_fields::read_headers,
};
use crate::{
    error::Error,
    model::{
        CallMethod, CallUrl, MASK, MAX_HEADERS, MAX_IN_FLIGHT, MAX_SECRETS, Push, RATE_PER_S,
        SigningSecret, masked, names_header, unmasked,
    },
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How dueq sends a topic's messages itself; what is absent has its default, `secrets` apart, which stay as they are.
/// Secrets and secret headers belong to the origin (scheme, host, port) of `url`: they are sent to no other, and to keep
/// them while it changes is refused (`secret_required`).
#[derive(ToSchema)]
#[schema(example = json!({"url": "https://example.com/hooks/orders", "max_in_flight": 16}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the setting; it is read field by field")]
pub struct PushRequest {
    /// Where messages go that name no callback of their own: an absolute http or https URL without user and password, of
    /// a host that dueq may call. Without it every message must name its own.
    #[schema(format = "uri", max_length = 2048)]
    url: Option<String>,
    /// By which method; POST unless given.
    method: Option<CallMethod>,
    /// Headers of every call, as those of a message, whose headers win over these. `***` as the value of a secret one keeps
    /// what is stored. Secret ones are sent to the origin of `url` only, and without `url` not at all. Not `host`, `content-length`, `content-type`, hop-by-hop ones, `webhook-*` and
    /// `dueq-*`.
    headers: Option<BTreeMap<String, String>>,
    /// How long a call may take, ms.
    #[schema(minimum = 100, maximum = 1_800_000, default = 15_000)]
    timeout_ms: Option<i64>,
    /// Calls that an instance has under way at once, at most.
    #[schema(minimum = 1, maximum = 10_000, default = 64)]
    max_in_flight: Option<i64>,
    /// The same for one host.
    #[schema(minimum = 1, maximum = 10_000, default = 8)]
    max_in_flight_per_host: Option<i64>,
    /// Calls a second of all instances together; any number unless given.
    #[schema(minimum = 0.01, maximum = 100_000)]
    rate_per_s: Option<f64>,
    /// What calls are signed with, per Standard Webhooks: `whsec_` and 24 to 64 bytes in base64; two while rotating.
    /// Absent: those that are stored stay; each `***` keeps one of them, in order; `[]`: none.
    #[schema(max_items = 2)]
    secrets: Option<Vec<String>>,
    /// Headers, of the push and of its messages, whose values are never read back, beside `authorization` and `cookie`; at
    /// most 32.
    #[schema(max_items = 32)]
    secret_headers: Option<Vec<String>>,
}

/// How dueq sends a topic's messages itself.
#[derive(Serialize, ToSchema)]
#[schema(as = Push)]
pub struct PushView<'a> {
    /// Where messages go that name no callback of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    url: Option<&'a str>,
    /// By which method.
    method: CallMethod,
    /// Headers of every call; the values of secret ones show as `***`.
    headers: BTreeMap<String, String>,
    /// How long a call may take, ms.
    timeout_ms: i64,
    /// Calls that an instance has under way at once, at most.
    #[schema(value_type = i64)]
    max_in_flight: u32,
    /// The same for one host.
    #[schema(value_type = i64)]
    max_in_flight_per_host: u32,
    /// Calls a second of all instances together; absent: any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    rate_per_s: Option<f64>,
    /// `***` for each secret that calls are signed with.
    #[schema(value_type = Vec<String>)]
    secrets: Vec<&'static str>,
    /// Headers that show as `***`, beside `authorization` and `cookie`; absent: no others.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    secret_headers: &'a [String],
}

impl<'a> From<&'a Push> for PushView<'a> {
    fn from(push: &'a Push) -> Self {
        Self {
            url: push.url.as_ref().map(CallUrl::as_str),
            method: push.method,
            headers: masked(&push.headers, |name| push.is_secret(name)),
            timeout_ms: push.timeout_ms,
            max_in_flight: push.max_in_flight,
            max_in_flight_per_host: push.max_in_flight_per_host,
            rate_per_s: push.rate_per_s,
            secrets: vec![MASK; push.secrets.len()],
            secret_headers: &push.secret_headers,
        }
    }
}

/// What a body says of how a topic is pushed, before what it keeps is known.
#[derive(Debug)]
pub(super) struct PushChange {
    /// All but the secrets; headers as they were put.
    push: Push,
    /// The secrets, `None` for each that is stored; absent: all of them.
    secrets: Option<Vec<Option<SigningSecret>>>,
}

/// Reads the push of this name; what is absent is as `default` has it.
pub(super) fn read_push(fields: &mut Fields<'_>, name: &str, default: Push) -> Option<PushChange> {
    fields.object(name, |fields| {
        let headers = read_headers(fields).unwrap_or_default();
        refuse_own_headers(fields, &headers);
        let mut bound = |name, default| {
            fields.integer(name, 1..=MAX_IN_FLIGHT).map_or(default, |bound| bound as u32)
        };
        let max_in_flight = bound("max_in_flight", default.max_in_flight);
        let per_host = bound("max_in_flight_per_host", default.max_in_flight_per_host);
        let push = Push {
            url: read_url(fields),
            method: read_method(fields).unwrap_or(default.method),
            headers,
            timeout_ms: read_timeout(fields).unwrap_or(default.timeout_ms),
            max_in_flight,
            max_in_flight_per_host: per_host,
            rate_per_s: fields.number("rate_per_s", RATE_PER_S),
            secret_headers: read_secret_headers(fields),
            ..default
        };
        let secrets = fields.strings("secrets", 0..=MAX_SECRETS, |text| match text {
            MASK => Ok(None),
            text => SigningSecret::parse(text).map(Some).map_err(|error| error.to_string()),
        });
        PushChange { push, secrets }
    })
}

impl PushChange {
    /// Where messages go.
    pub fn url(&self) -> Option<&CallUrl> {
        self.push.url.as_ref()
    }

    /// The push that `stored` becomes, which is none where the topic was not pushed before.
    ///
    /// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`, `TooManySecretHeaders`.
    pub fn onto(&self, stored: Option<&Push>) -> Result<Push, Error> {
        let unpushed = Push::default();
        let kept = stored.unwrap_or(&unpushed);
        let belongs_to = kept.origin();
        // Without a URL the secrets stay with the origin that they were stored for.
        let elsewhere = self.push.url.is_some() && self.push.origin() != belongs_to;
        let is_secret = |name: &str| self.push.is_secret(name) || kept.is_secret(name);
        let headers = unmasked(&self.push.headers, &kept.headers, is_secret, elsewhere);
        let headers = headers.map_err(|unkept| Error::of_unkept(unkept, "push.headers"))?;
        let absent = || vec![None; kept.secrets.len()];
        let put = self.secrets.clone().unwrap_or_else(absent);
        let secrets = with_kept(&put, &kept.secrets, elsewhere)?;
        let keeps_secrets = put.contains(&None) || headers != self.push.headers;
        let mut push = Push { headers, secrets, ..self.push.clone() };
        push.secrets_for = belongs_to.filter(|_| push.url.is_none() && keeps_secrets);
        // What was a secret stays one.
        let is_kept = |name: &String| {
            let same =
                |(put, value): (&String, &String)| put.eq_ignore_ascii_case(name) && value == MASK;
            self.push.headers.iter().any(same)
        };
        push.secret_headers.clear();
        let still = kept.secret_headers.iter().filter(|name| is_kept(name));
        for name in self.push.secret_headers.iter().chain(still) {
            if !names_header(&push.secret_headers, name) {
                push.secret_headers.push(name.clone());
            }
        }
        if push.secret_headers.len() > MAX_HEADERS {
            return Err(Error::TooManySecretHeaders("push.secret_headers".to_owned()));
        }
        Ok(push)
    }
}

/// The secrets as they were put, the first that is left open being the first of those kept, and so on.
fn with_kept(
    put: &[Option<SigningSecret>],
    kept: &[SigningSecret],
    elsewhere: bool,
) -> Result<Vec<SigningSecret>, Error> {
    let mut kept = kept.iter();
    let secret = |(i, new): (usize, &Option<SigningSecret>)| {
        let place = || format!("push.secrets[{i}]");
        match (new, elsewhere) {
            (Some(new), _) => Ok(new.clone()),
            (None, false) => kept.next().cloned().ok_or_else(|| Error::NothingMasked(place())),
            (None, true) => Err(match kept.next() {
                Some(_) => Error::SecretRequired(place()),
                None => Error::NothingMasked(place()),
            }),
        }
    };
    put.iter().enumerate().map(secret).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::values::tests::read, *};

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn put(text: &str) -> PushChange {
        let (change, errors) = read(text, |fields| read_push(fields, "v", Push::default()));
        assert_eq!(errors, [], "{text}");
        change.unwrap()
    }

    #[test]
    fn what_is_absent_has_its_default_and_secrets_stay() {
        let stored = put(&format!(r#"{{"rate_per_s":0.5,"secrets":["{OLD}"]}}"#)).onto(None);
        let stored = stored.unwrap();
        let default = Push { secrets: stored.secrets.clone(), ..Push::default() };
        for text in ["{}", r#"{"secrets":null,"url":null}"#, r#"{"secrets":["***"]}"#] {
            assert_eq!(put(text).onto(Some(&stored)).unwrap(), default, "{text}");
        }
        assert_eq!(put(r#"{"secrets":[]}"#).onto(Some(&stored)).unwrap(), Push::default());
        assert_eq!(put("{}").onto(None).unwrap(), Push::default());
    }

    #[test]
    fn each_mask_keeps_the_next_secret_that_is_stored() {
        let parse = |text| SigningSecret::parse(text).unwrap();
        let stored = Push { secrets: vec![parse(OLD)], ..Push::default() };
        let rotated = put(&format!(r#"{{"secrets":["{NEW}","***"]}}"#)).onto(Some(&stored));
        assert_eq!(rotated.unwrap().secrets, [parse(NEW), parse(OLD)]);
        let more = put(r#"{"secrets":["***","***"]}"#).onto(Some(&stored));
        assert_eq!(more, Err(Error::NothingMasked("push.secrets[1]".to_owned())));
        let header = put(r#"{"headers":{"Cookie":"***"}}"#).onto(Some(&stored));
        assert_eq!(header, Err(Error::NothingMasked("push.headers.Cookie".to_owned())));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (text, field) in [
            ("[]", "v"),
            (r#"{"url":"example.com"}"#, "v.url"),
            (r#"{"method":"HEAD"}"#, "v.method"),
            (r#"{"timeout_ms":1800001}"#, "v.timeout_ms"),
            (r#"{"max_in_flight":0}"#, "v.max_in_flight"),
            (r#"{"max_in_flight_per_host":10001}"#, "v.max_in_flight_per_host"),
            (r#"{"rate_per_s":0}"#, "v.rate_per_s"),
            (r#"{"headers":{"Host":"a"}}"#, "v.headers.Host"),
            (r#"{"headers":{"a b":"a"}}"#, "v.headers.a b"),
            (r#"{"secrets":["whsec_"]}"#, "v.secrets[0]"),
            (r#"{"secrets":["***","***","***"]}"#, "v.secrets"),
            (r#"{"paused":true}"#, "v.paused"),
        ] {
            let (_, errors) = read(text, |fields| read_push(fields, "v", Push::default()));
            let named: Vec<_> = errors.iter().map(|(field, _)| field.as_str()).collect();
            assert_eq!(named, [field], "{text}");
        }
    }
}
