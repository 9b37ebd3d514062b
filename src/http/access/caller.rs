//! The sender of a request that was let in, and what they may do. The guard notes the key and what the operation needs of it; paths are
//! judged as they are read (`path.rs`), and what the body names by the handler.

use super::{
    audit::Facts,
    key_file::Digest,
    keys::Key,
    room::{Full, Publishing},
    rules::Need,
    scopes::Verb,
};
use crate::{
    AppState,
    problem::{Code, Problem},
};
use axum::{
    extract::FromRequestParts,
    http::{HeaderName, HeaderValue, request::Parts},
};
use dueq_model::{MessageId, TopicName, TopicPattern, error::Error};
use dueq_store::{Maker, NewMessage, Store};
use futures_util::future::join_all;
use std::{collections::HashMap, future::Future, sync::Arc};

/// Who sent the request, and what it needs.
#[derive(Clone, Debug)]
pub struct Caller {
    key: Arc<Key>,
    need: Need,
    /// For the audit log, if it may keep the request.
    facts: Option<Arc<Facts>>,
}

impl Caller {
    /// The owner of this key, whose request needs this, and may be kept in the audit log or not.
    pub fn new(key: Arc<Key>, need: Need, facts: Option<Arc<Facts>>) -> Self {
        Self { key, need, facts }
    }

    /// The name of their key.
    pub fn name(&self) -> &str {
        &self.key.entry.name
    }

    /// Whose the callbacks are that they publish, and the names in these: the name of their key; empty for a key that has none,
    /// and without keys.
    pub fn owner(&self) -> &str {
        let is_anonymous = self.key.entry.digest == Digest::default();
        if is_anonymous || self.name().starts_with('(') { "" } else { self.name() }
    }

    /// May they see to names of callbacks that belong to the API key of this name?
    pub fn may_as(&self, owner: &str) -> bool {
        owner == self.owner() || self.key.entry.scopes.is_admin()
    }

    /// As [`Caller::may_as`]. Errors: `NotAllowed`.
    pub fn check_owner(&self, owner: &str) -> Result<(), Error> {
        if self.may_as(owner) { Ok(()) } else { Err(self.lacks("admin")) }
    }

    /// The scopes of their key, as its line has them.
    pub fn scopes(&self) -> Vec<String> {
        self.key.entry.scopes.words()
    }

    /// What is known of the request's effect, if it may be kept.
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.as_deref()
    }

    /// Notes how many messages the request has changed.
    pub fn changed(&self, messages: i64) {
        self.facts().inspect(|facts| facts.count(messages));
    }

    /// What the guard noted.
    pub fn of(parts: &Parts) -> Result<&Self, Problem> {
        parts.extensions.get().ok_or_else(|| Error::Internal.into())
    }

    /// Comes back once the key is not let in any more, or may do something else.
    pub async fn revoked(&self) {
        self.key.revoked.cancelled().await;
    }

    /// Waits for what they send, for as long as the key is let in.
    ///
    /// Errors: those of `sent`, and of [`Caller::check_let_in`].
    pub async fn while_let_in<T>(
        &self,
        sent: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let sent = tokio::select! {
            // Mostly all of it is there.
            biased;
            sent = sent => sent,
            () = self.revoked() => Err(revoked()),
        };
        self.check_let_in()?;
        sent
    }

    /// Is the key still let in, as it was when the request began?
    ///
    /// Errors: 401 `unauthorized`.
    pub fn check_let_in(&self) -> Result<(), Problem> {
        if self.key.revoked.is_cancelled() { Err(revoked()) } else { Ok(()) }
    }

    fn spend_rate(&self, messages: usize) -> Result<(), Problem> {
        let Some(quota) = &self.key.quota else { return Ok(()) };
        quota.take(messages).map_err(|wait| {
            let (rate, seconds) = (quota.per_second(), wait.as_secs_f64().ceil().max(1.0) as u32);
            let detail = format!("the key {} may publish {rate} messages a second", self.name());
            let limit =
                |name, text: String| (HeaderName::from_static(name), HeaderValue::try_from(text));
            let headers = [
                limit("ratelimit-policy", format!("\"publish\";q={rate};w=1")),
                limit("ratelimit", format!("\"publish\";r=0;t={seconds}")),
            ];
            let problem = Problem::new(Code::RateLimited, detail).retry_after(seconds);
            headers.into_iter().fold(problem, |problem, (name, value)| match value {
                Ok(value) => problem.header(name, value),
                Err(_) => problem,
            })
        })
    }

    /// The key as one that makes topics, if it may not make any number.
    pub fn maker(&self) -> Option<&Maker> {
        self.key.maker.as_ref()
    }

    /// Takes what these messages need of what the key may publish now, and of what it may store. To be kept until they are
    /// published.
    ///
    /// Errors: 429 `rate_limited`, `too_many_messages`, `too_many_bytes`.
    pub async fn spend(
        &self,
        store: &Store,
        topic: &TopicName,
        messages: &[NewMessage],
    ) -> Result<Option<Publishing>, Problem> {
        self.spend_rate(messages.len())?;
        let Some(room) = self.key.room.as_ref().filter(|_| !topic.is_callbacks()) else {
            return Ok(None);
        };
        let with_bytes = room.most[1].is_some();
        let bytes = |message: &NewMessage| match with_bytes {
            true => message.body.encode().len() as i64 - 1,
            false => 0,
        };
        let wanted = |new: &[&NewMessage]| [new.len() as i64, new.iter().copied().map(bytes).sum()];
        let count = || {
            let (store, key) = (store.clone(), self.key.clone());
            let ranges = key.entry.scopes.ranges(Verb::Publish, "");
            async move { store.stored(&ranges, with_bytes).await }
        };
        let all: Vec<_> = messages.iter().collect();
        // Seldom needed, and large.
        let mut taken = Box::pin(room.take(wanted(&all), count)).await;
        if taken.is_err() {
            // What is there answers for a repeat, which stores nothing.
            let looks = all.iter().map(|message| store.is_answered(topic, message));
            let answered = Box::pin(join_all(looks)).await;
            let new = all.into_iter().zip(answered).filter(|(_, is)| !matches!(is, Ok(true)));
            let new: Vec<_> = new.map(|(message, _)| message).collect();
            taken = Box::pin(room.take(wanted(&new), count)).await;
        }
        taken.map(Some).map_err(|Full { of, held, .. }| {
            let all = [(Code::TooManyMessages, "messages"), (Code::TooManyBytes, "bytes")];
            let (name, most, (code, word)) =
                (self.name(), room.most[of].unwrap_or_default(), all[of]);
            let detail = format!(
                "the topics that the key {name} may publish to hold {held} {word}, and it may store {most}"
            );
            Problem::new(code, detail).retry_after(1)
        })
    }

    /// May the operation go on, as far as it needs no topic to tell?
    ///
    /// Errors: `NotAllowed`.
    pub fn check(&self) -> Result<(), Error> {
        let scopes = &self.key.entry.scopes;
        let refused = match self.need {
            Need::Admin => (!scopes.is_admin()).then(|| "admin".to_owned()),
            Need::All(verb) => (!scopes.may_to_all(verb)).then(|| format!("{}:*", verb.word())),
            Need::Metrics => (!scopes.may_see_metrics()).then(|| "read:*".to_owned()),
            Need::Some(verb) => {
                (!scopes.may_to_some(verb)).then(|| format!("{} on any topic", verb.word()))
            }
            Need::Callbacks(_) => return self.check_topic(&TopicName::callbacks()),
            _ => None,
        };
        refused.map_or(Ok(()), |scope| Err(self.lacks(&scope)))
    }

    /// May they do to this topic what the operation does?
    pub fn may(&self, topic: &TopicName) -> bool {
        self.need.verbs().all(|verb| self.key.entry.scopes.may(verb, topic))
    }

    /// As [`Caller::may`], of a topic by its name; without one it may be any.
    pub fn may_to_named(&self, topic: &str) -> bool {
        self.may_to_all() || TopicName::parse(topic).is_ok_and(|topic| self.may(&topic))
    }

    /// May they do to every topic what the operation does?
    pub fn may_to_all(&self) -> bool {
        self.need.verbs().all(|verb| self.key.entry.scopes.may_to_all(verb))
    }

    /// May they do to this topic what the operation does?
    ///
    /// Errors: `NotAllowed`.
    pub fn check_topic(&self, topic: &TopicName) -> Result<(), Error> {
        self.facts().inspect(|facts| facts.is_about(topic));
        let scopes = &self.key.entry.scopes;
        if self.need == Need::Secret && topic.is_callbacks() && scopes.may(Verb::Publish, topic) {
            return Ok(());
        }
        self.need.verbs().try_for_each(|verb| self.check_verb(verb, topic))
    }

    /// As [`Caller::check_topic`], for a topic that the request does not name, but what belongs to it. A key that may do nothing to
    /// the topic does not learn its name, only what it is `called`.
    ///
    /// Errors: `NotAllowed`.
    pub fn check_topic_of(&self, called: &str, topic: &TopicName) -> Result<(), Error> {
        let scopes = &self.key.entry.scopes;
        self.check_topic(topic).map_err(|error| {
            let lacked =
                self.need.verb().filter(|_| !Verb::ALL.iter().any(|v| scopes.may(*v, topic)));
            lacked.map_or(error, |verb| self.lacks(&format!("{} on {called}", verb.word())))
        })
    }

    /// Why they do not get what is not there, of a topic that would be `called` so: a key that may not do it to all topics does
    /// not learn whether there is such a name.
    pub fn not_found(&self, called: &str, error: Error) -> Error {
        match self.need.verb().filter(|_| !self.may_to_all()) {
            Some(verb) => self.lacks(&format!("{} on {called}", verb.word())),
            None => error,
        }
    }

    /// May they do this to this topic, besides what the operation needs anyway?
    ///
    /// Errors: `NotAllowed`.
    pub fn check_verb(&self, verb: Verb, topic: &TopicName) -> Result<(), Error> {
        if self.key.entry.scopes.may(verb, topic) {
            return Ok(());
        }
        Err(self.lacks(&format!("{}:{topic}", verb.word())))
    }

    /// The topics that they may do this to; `None`: all.
    pub fn limits(&self, verb: Verb) -> Option<Vec<TopicPattern>> {
        self.key.entry.scopes.limits(verb)
    }

    /// May they change messages of this topic, which the operation need not do? If so, the audit log keeps that they may have.
    ///
    /// Errors: `NotAllowed`.
    pub fn check_change(&self, topic: &TopicName) -> Result<(), Error> {
        self.check_verb(Verb::Operate, topic)?;
        self.facts().inspect(|facts| facts.is_change());
        Ok(())
    }

    /// May they do to this message's topic what the operation does? Looks at the registry unless they may do it to all.
    ///
    /// Errors: `NotAllowed`; `MessageNotFound` where there is no such topic; `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn check_message(&self, store: &Store, id: &MessageId) -> Result<(), Error> {
        if !self.must_know_topic() {
            return Ok(());
        }
        match store.partition_of(*id).await {
            Ok(found) => self.check_topic_of("the message's topic", &found.topic.name),
            // A key that may do it to all gets errors in the usual order.
            Err(_) if self.may_to_all() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Does it depend on the topic what happens: whether it is allowed, or what is kept of it?
    pub fn must_know_topic(&self) -> bool {
        self.facts.is_some() || !self.may_to_all()
    }

    /// Has `work` done on those of the messages whose topic they may do it to. The others are `NotAllowed` in what came of
    /// each, or what the registry says.
    pub async fn on_permitted<I, T, F>(
        &self,
        store: &Store,
        items: Vec<I>,
        id: impl Fn(&I) -> MessageId,
        work: impl FnOnce(Vec<I>) -> F,
    ) -> Vec<Result<T, Error>>
    where
        F: Future<Output = Vec<Result<T, Error>>>,
    {
        if self.may_to_all() {
            return work(items).await;
        }
        // What is not in the registry's cache costs a look into Redis: once for all messages of a topic, and for all topics
        // at once.
        let topics: HashMap<_, _> = items.iter().map(&id).map(|id| (id.route(), id)).collect();
        let looks = topics
            .into_iter()
            .map(async |(route, id)| (route, self.check_message(store, &id).await));
        let checked: HashMap<_, _> = join_all(looks).await.into_iter().collect();
        let (mut permitted, mut refused) = (Vec::new(), Vec::with_capacity(items.len()));
        for item in items {
            let outcome = checked.get(&id(&item).route()).cloned().unwrap_or(Err(Error::Internal));
            refused.push(outcome.map(|()| permitted.push(item)).err());
        }
        let mut done = work(permitted).await.into_iter();
        let outcome = |refused: Option<Error>| match refused {
            Some(error) => Err(error),
            None => done.next().unwrap_or(Err(Error::Internal)),
        };
        refused.into_iter().map(outcome).collect()
    }

    /// Where the names are of topics that the caller may do it to, in order: what they begin with, and whether that is one
    /// name as a whole. Of those, only what begins with `prefix`.
    pub fn ranges(&self, prefix: &str) -> Vec<(String, bool)> {
        let verb = self.need.verb();
        verb.map_or_else(Vec::new, |verb| self.key.entry.scopes.ranges(verb, prefix))
    }

    fn lacks(&self, scope: &str) -> Error {
        Error::NotAllowed(format!("the key {} lacks {scope}", self.name()))
    }
}

fn revoked() -> Problem {
    let detail = "the API key was revoked or changed before the request was carried out";
    Problem::new(Code::Unauthorized, detail)
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, Problem> {
        Self::of(parts).cloned()
    }
}
