//! How a topic is pushed, as configurations say and show it. Its secrets, and what its `authorization` and `cookie`
//! headers hold, are never shown: `***` stands for each, and put back keeps what is stored.

use super::{
    callbacks::{SecretHeaders, names_of},
    prelude::*,
};
use dueq_model::{
    CallMethod, CallUrl, MASK, MAX_HEADERS, MAX_IN_FLIGHT, MAX_SECRETS, Push, SigningSecret,
    masked, names_header, unmasked,
};
use std::collections::BTreeMap;

request! {
    /// How dueq sends a topic's messages. Absent fields take their defaults, except `secrets`, which stay as they are.
    /// Secrets and secret headers belong to the origin (scheme, host, port) of `url`. They are sent to no other origin,
    /// and keeping them while the origin changes is refused (`secret_required`).
    #[example = json!({"url": "https://example.com/hooks/orders", "max_in_flight": 16})]
    pub struct PushRequest {
        /// Where messages go that have no `callback`: an absolute http or https URL without user and password, on a
        /// host that dueq may call. Without it, every message needs its own.
        pub url: Option<CallUrl>,
        /// The HTTP method. Default: POST.
        pub method: Option<CallMethod>,
        /// Headers of every call, with the limits of a message's headers, which win over these. `***` keeps the stored
        /// value of a secret header. Secret headers are sent only to the origin of `url`, and never without `url`.
        /// `host`, `content-length`, `content-type`, hop-by-hop headers, `webhook-*` and `dueq-*` are refused.
        pub headers: Option<Headers>,
        /// How long a call may take, ms. Default: 15000.
        pub timeout_ms: Option<CallTimeoutMs>,
        /// Calls that an instance makes at once, at most. Default: 64.
        pub max_in_flight: Option<Bounded<1, MAX_IN_FLIGHT>>,
        /// Calls to one host that an instance makes at once, at most. Default: 8.
        pub max_in_flight_per_host: Option<Bounded<1, MAX_IN_FLIGHT>>,
        /// Calls per second of all instances together. Default: unlimited.
        pub rate_per_s: Option<Decimal<1, 10_000_000>>,
        /// Signing secrets per Standard Webhooks: `whsec_` and 24 to 64 bytes in base64. Two while you rotate them.
        /// Absent: the stored secrets stay. Each `***` keeps one of them, in order. `[]`: none.
        pub secrets: Option<List<SigningSecret, 0, MAX_SECRETS>>,
        /// Further headers, of the push and of its messages, whose values are never shown, besides `authorization` and
        /// `cookie`. At most 32.
        pub secret_headers: Option<SecretHeaders>,
    }
    check(fields) {
        refuse_own_headers(fields, headers.as_ref().and_then(Option::as_ref), "");
    }
}

answer! {
    /// How dueq sends a topic's messages.
    #[name = "Push"]
    pub struct PushView<'a> {
        /// Where messages go that have no `callback`.
        url: Option<&'a str>,
        /// The HTTP method.
        method: CallMethod,
        /// Headers of every call. The values of secret headers read `***`.
        headers: BTreeMap<String, String>,
        /// How long a call may take, ms.
        timeout_ms: i64,
        /// Calls that an instance makes at once, at most.
        max_in_flight: i64,
        /// Calls to one host that an instance makes at once, at most.
        max_in_flight_per_host: i64,
        /// Calls per second of all instances together. Absent: unlimited.
        rate_per_s: Option<f64>,
        /// `***` for each signing secret.
        secrets: Vec<&'static str>,
        /// Further headers that read `***`, besides `authorization` and `cookie`. Absent: no others.
        secret_headers: Option<&'a Vec<String>>,
    }
}

impl<'a> From<&'a Push> for PushView<'a> {
    fn from(push: &'a Push) -> Self {
        Self {
            url: push.url.as_ref().map(CallUrl::as_str),
            method: push.method,
            headers: masked(&push.headers, |name| push.is_secret(name)),
            timeout_ms: push.timeout_ms,
            max_in_flight: push.max_in_flight.into(),
            max_in_flight_per_host: push.max_in_flight_per_host.into(),
            rate_per_s: push.rate_per_s,
            secrets: vec![MASK; push.secrets.len()],
            secret_headers: Some(&push.secret_headers).filter(|names| !names.is_empty()),
        }
    }
}

impl PushRequest {
    /// The push as it is said, but for what it keeps; what is absent is as `default` has it.
    fn put(&self, default: &Push) -> Push {
        let bound = |bound: Option<Bounded<1, MAX_IN_FLIGHT>>, default| {
            bound.map_or(default, |bound| bound.get() as u32)
        };
        let per_host = default.max_in_flight_per_host;
        Push {
            url: self.url.clone(),
            method: self.method.unwrap_or(default.method),
            headers: self.headers.clone().unwrap_or_default().0,
            timeout_ms: self.timeout_ms.map_or(default.timeout_ms, Bounded::millis),
            max_in_flight: bound(self.max_in_flight, default.max_in_flight),
            max_in_flight_per_host: bound(self.max_in_flight_per_host, per_host),
            rate_per_s: self.rate_per_s.map(Decimal::get),
            secret_headers: names_of(self.secret_headers.clone()),
            ..default.clone()
        }
    }

    /// The push that `stored` becomes, which is none where the topic was not pushed before.
    ///
    /// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`, `TooManySecretHeaders`.
    pub fn onto(&self, stored: Option<&Push>, default: &Push) -> Result<Push, Error> {
        let said = self.put(default);
        let unpushed = Push::default();
        let kept = stored.unwrap_or(&unpushed);
        let belongs_to = kept.origin();
        // Without a URL the secrets stay with the origin that they were stored for.
        let elsewhere = said.url.is_some() && said.origin() != belongs_to;
        let is_secret = |name: &str| said.is_secret(name) || kept.is_secret(name);
        let headers = unmasked(&said.headers, &kept.headers, is_secret, elsewhere);
        let headers = headers.map_err(|unkept| Error::of_unkept(unkept, "push.headers"))?;
        let put = match &self.secrets {
            Some(secrets) => secrets.0.clone(),
            None => vec![SigningSecret::kept(); kept.secrets.len()],
        };
        let secrets = with_kept(&put, &kept.secrets, elsewhere)?;
        let keeps_secrets = put.iter().any(SigningSecret::is_kept) || headers != said.headers;
        let mut push = Push { headers, secrets, ..said.clone() };
        push.secrets_for = belongs_to.filter(|_| push.url.is_none() && keeps_secrets);
        // What was a secret stays one.
        let is_kept = |name: &String| {
            let same =
                |(put, value): (&String, &String)| put.eq_ignore_ascii_case(name) && value == MASK;
            said.headers.iter().any(same)
        };
        push.secret_headers.clear();
        let still = kept.secret_headers.iter().filter(|name| is_kept(name));
        for name in said.secret_headers.iter().chain(still) {
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

/// The secrets as they were put; the first that stands for a stored one being the first of those kept, and so on.
fn with_kept(
    put: &[SigningSecret],
    kept: &[SigningSecret],
    elsewhere: bool,
) -> Result<Vec<SigningSecret>, Error> {
    let mut kept = kept.iter();
    let secret = |(i, put): (usize, &SigningSecret)| {
        let place = || format!("push.secrets[{i}]");
        match (put.is_kept(), elsewhere) {
            (false, _) => Ok(put.clone()),
            (true, false) => kept.next().cloned().ok_or_else(|| Error::NothingMasked(place())),
            (true, true) => Err(match kept.next() {
                Some(_) => Error::SecretRequired(place()),
                None => Error::NothingMasked(place()),
            }),
        }
    };
    put.iter().enumerate().map(secret).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{input::Fields, problem::Problem},
        *,
    };
    use bytes::Bytes;

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn read(text: &str) -> Result<PushRequest, Vec<String>> {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let read = Fields::of_json(&body).and_then(Fields::read);
        let named = |problem: Problem| problem.body("").errors.into_iter().map(|e| e.field);
        read.map_err(|problem| named(problem).collect())
    }

    fn onto(text: &str, stored: Option<&Push>) -> Result<Push, Error> {
        read(text).unwrap().onto(stored, &Push::default())
    }

    #[test]
    fn what_is_absent_has_its_default_and_secrets_stay() {
        let stored = onto(&format!(r#"{{"rate_per_s":0.5,"secrets":["{OLD}"]}}"#), None);
        let stored = stored.unwrap();
        let default = Push { secrets: stored.secrets.clone(), ..Push::default() };
        for text in ["{}", r#"{"secrets":null,"url":null}"#, r#"{"secrets":["***"]}"#] {
            assert_eq!(onto(text, Some(&stored)).unwrap(), default, "{text}");
        }
        assert_eq!(onto(r#"{"secrets":[]}"#, Some(&stored)).unwrap(), Push::default());
        assert_eq!(onto("{}", None).unwrap(), Push::default());
    }

    #[test]
    fn each_mask_keeps_the_next_secret_that_is_stored() {
        let parse = |text| SigningSecret::parse(text).unwrap();
        let stored = Push { secrets: vec![parse(OLD)], ..Push::default() };
        let rotated = onto(&format!(r#"{{"secrets":["{NEW}","***"]}}"#), Some(&stored));
        assert_eq!(rotated.unwrap().secrets, [parse(NEW), parse(OLD)]);
        let more = onto(r#"{"secrets":["***","***"]}"#, Some(&stored));
        assert_eq!(more, Err(Error::NothingMasked("push.secrets[1]".to_owned())));
        let header = onto(r#"{"headers":{"Cookie":"***"}}"#, Some(&stored));
        assert_eq!(header, Err(Error::NothingMasked("push.headers.Cookie".to_owned())));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (text, field) in [
            ("[]", "(body)"),
            (r#"{"url":"example.com"}"#, "url"),
            (r#"{"method":"HEAD"}"#, "method"),
            (r#"{"timeout_ms":1800001}"#, "timeout_ms"),
            (r#"{"max_in_flight":0}"#, "max_in_flight"),
            (r#"{"max_in_flight_per_host":10001}"#, "max_in_flight_per_host"),
            (r#"{"rate_per_s":0}"#, "rate_per_s"),
            (r#"{"headers":{"Host":"a"}}"#, "headers.Host"),
            (r#"{"headers":{"a b":"a"}}"#, "headers.a b"),
            (r#"{"secrets":["whsec_"]}"#, "secrets[0]"),
            (r#"{"secrets":["***","***","***"]}"#, "secrets"),
            (r#"{"paused":true}"#, "paused"),
        ] {
            assert_eq!(read(text).map(drop), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
