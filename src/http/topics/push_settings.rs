//! How a topic is pushed, as configurations say and show it. Its secrets, and what its `authorization` and `cookie`
//! headers hold, are never shown: `***` stands for each, and put back keeps what is stored.

use crate::{
    callbacks::{
        SecretHeaders,
        auth::{AuthRequest, AuthView},
        batch::{PushBatchRequest, PushBatchView},
        retry::{RetryRequest, RetryView},
    },
    prelude::*,
    topics::settings::{Said, configured, shown},
};
use dueq_model::{
    Auth, CallMethod, CallUrl, MASK, MAX_CERT_NAME, MAX_FAILING_AFTER, MAX_FAILING_OVER_MS,
    MAX_HEADERS, MAX_IN_FLIGHT, MAX_KEPT_ANSWER, MAX_SECRETS, MIN_FAILING_OVER_MS, Millis, Push,
    PushBatch, Retry, SigningSecret, masked, names_header, push_settings, unmasked,
};
use std::{borrow::Cow, collections::BTreeMap};

push_settings! { configured Push
    /// How dueq sends a topic's messages. Absent fields take their defaults, except `secrets`, which stay as they are.
    /// Secrets and secret headers belong to the origin (scheme, host, port) of `url`. They are sent to no other origin,
    /// and keeping them while the origin changes is refused (`secret_required`).
    #[example = json!({"url": "https://example.com/hooks/orders", "max_in_flight": 16})]
    request PushRequest
    /// How dueq sends a topic's messages.
    #[name = "Push"]
    answer PushView
}

shown! {
    Auth as AuthView<'a>: |it| it.into();
    Retry as RetryView<'a>: |it| it.into();
    PushBatch as PushBatchView: |it| it.into();
    Push as PushView<'a>: |it| {
        let headers = Cow::Owned(masked(&it.headers, |name| it.is_secret(name)));
        PushView { headers, ..it.into() }
    };
}

impl Said<Option<Push>> for PushRequest {
    fn stored(&self, default: &Option<Push>) -> Option<Push> {
        let default = default.clone().unwrap_or_default();
        Some(self.applied_to(&default, &default))
    }
}

impl PushRequest {
    /// The push that it `said`, in place of the one that is stored, with the secrets that it keeps; none is stored where the
    /// topic was not pushed before.
    ///
    /// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`, `TooManySecretHeaders`.
    pub fn keeping(&self, said: &Push, stored: Option<&Push>) -> Result<Push, Error> {
        let unpushed = Push::default();
        let kept = stored.unwrap_or(&unpushed);
        let belongs_to = kept.origin();
        // Without a URL the secrets stay with the origin that they were stored for.
        let elsewhere = said.url.is_some() && said.origin() != belongs_to;
        let is_secret = |name: &str| said.is_secret(name) || kept.is_secret(name);
        let headers = unmasked(&said.headers, &kept.headers, is_secret, elsewhere);
        let headers = headers.map_err(|unkept| Error::of_unkept(unkept, "push.headers"))?;
        let put = match self.secrets.as_value() {
            Some(secrets) => secrets.0.clone(),
            None => vec![SigningSecret::kept(); kept.secrets.len()],
        };
        let secrets = with_kept(&put, &kept.secrets, elsewhere)?;
        let mut auth = said.auth.clone();
        if let Some(auth) = &mut auth {
            let kept = auth.keep(kept.auth.as_ref(), elsewhere);
            kept.map_err(|unkept| Error::of_unkept(unkept, "push"))?;
            if let Some(name) =
                headers.keys().find(|name| name.eq_ignore_ascii_case("authorization"))
            {
                return Err(Error::HeaderReserved(format!("push.headers.{name}")));
            }
        }
        let keeps_secrets =
            put.iter().any(SigningSecret::is_kept) || headers != said.headers || auth != said.auth;
        let mut push = Push { headers, secrets, auth, ..said.clone() };
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

/// The secrets as they were put, with each mask replaced by the next stored one.
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
    use super::*;
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
        let request = read(text).unwrap();
        request.keeping(&request.stored(&None).unwrap(), stored)
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
            (r#"{"headers":{"Host":"a"}}"#, "headers.Host"),
            (r#"{"headers":{"a b":"a"}}"#, "headers.a b"),
            (r#"{"secrets":["whsec_"]}"#, "secrets[0]"),
            (r#"{"connect_timeout_ms":99}"#, "connect_timeout_ms"),
            (r#"{"failing_after":-1}"#, "failing_after"),
            (r#"{"failing_after":10001}"#, "failing_after"),
            (r#"{"failing_over_ms":99}"#, "failing_over_ms"),
            (r#"{"failing_over_ms":3600001}"#, "failing_over_ms"),
            (r#"{"retry":["5xx"]}"#, "retry"),
            (r#"{"batch":[]}"#, "batch"),
            (r#"{"batch":{"max_messages":0}}"#, "batch.max_messages"),
            (r#"{"batch":{"max_messages":101}}"#, "batch.max_messages"),
            (r#"{"batch":{"max_wait_ms":60001}}"#, "batch.max_wait_ms"),
            (r#"{"batch":{"max_wait_ms":-1}}"#, "batch.max_wait_ms"),
            (r#"{"batch":{"size":1}}"#, "batch.size"),
            (r#"{"auth":{"kind":"basic","username":"a"}}"#, "auth.password"),
            (r#"{"retry":{"on":["200"]}}"#, "retry.on[0]"),
            (r#"{"secrets":["***","***","***"]}"#, "secrets"),
            (r#"{"paused":true}"#, "paused"),
        ] {
            assert_eq!(read(text).map(drop), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
