//! A client that writes down every request it makes and what came of it. What it can do is in
//! `clients/{publishing,holding,managing}.rs`.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::clients::dice::dice;
pub use super::clients::drafts::Options;
use super::history::{Ms, Outcome, What};
use super::record::Recorder;
use crate::harness::{Answer, Client};

/// Nothing may take longer: longer than any wait that the clients ask for.
const LIMIT: Duration = Duration::from_secs(20);

/// The instances that clients talk to; a scenario replaces them as it kills them. All clients of a
/// run share the connections to an instance, which are kept alive.
#[derive(Clone)]
pub struct Fleet(Arc<RwLock<Vec<Client>>>);

impl Fleet {
    /// These instances.
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Fleet {
        Fleet(Arc::new(RwLock::new(clients.into_iter().collect())))
    }

    /// Another instance in the place of number `index`.
    pub fn replace(&self, index: usize, client: Client) {
        self.0.write().unwrap()[index] = client;
    }

    /// One of them by chance, and its number.
    pub fn any(&self, random: &mut StdRng) -> (usize, Client) {
        let clients = self.0.read().unwrap();
        let index = random.random_range(0..clients.len());
        (index, clients[index].clone())
    }

    /// The one in place `index`.
    pub fn at(&self, index: usize) -> Client {
        self.0.read().unwrap()[index].clone()
    }
}

/// One recorded client of one topic, which makes one request after another.
pub struct Actor {
    pub recorder: Arc<Recorder>,
    pub topic: String,
    /// Chooses the instances; choices of a plan come from [`dice`].
    pub random: StdRng,
    /// Its number in the record.
    pub number: u64,
    fleet: Fleet,
    /// The only instance that it talks to.
    pinned: Option<usize>,
    /// The instance that the last request went to.
    instance: usize,
    /// It waits after each change until whatever comes next is certain to come later: the record knows milliseconds.
    careful: bool,
    /// A seeded bug: it hears `redis_unavailable` for `outcome_unknown`.
    deaf: bool,
    /// How many payloads it has made.
    pub(super) payloads: u64,
}

impl Actor {
    /// Client `number` of a run; its choices follow from the run's seed and that number.
    pub fn new(recorder: &Arc<Recorder>, fleet: &Fleet, topic: &str, number: u64) -> Actor {
        Actor {
            recorder: recorder.clone(),
            topic: topic.to_owned(),
            random: dice(recorder.seed, ("client", number)),
            number,
            fleet: fleet.clone(),
            pinned: None,
            instance: 0,
            careful: false,
            deaf: false,
            payloads: 0,
        }
    }

    /// The same, but it only talks to instance `index` of the fleet.
    pub fn pinned(mut self, index: usize) -> Actor {
        self.pinned = Some(index);
        self
    }

    /// The same, but it waits after each change until whatever comes next is certain to come later.
    pub fn careful(self) -> Actor {
        Actor { careful: true, ..self }
    }

    /// The same, but it hears `redis_unavailable` for `outcome_unknown`.
    pub fn deaf(self, deaf: bool) -> Actor {
        Actor { deaf, ..self }
    }

    /// getTopic, which is not recorded.
    pub async fn topic(&mut self) -> Outcome<Value> {
        let path = format!("/topics/{}", self.topic);
        self.ask("GET", &path, None, None).await.map(|answer| answer.json())
    }

    pub(super) async fn note(&self, sent: Ms, what: What) {
        let holds = matches!(
            what,
            What::Lease { .. } | What::Ack { .. } | What::Nack { .. } | What::Extend { .. }
        );
        self.recorder.add(&self.topic, self.number, self.instance, sent, what);
        if self.careful && !holds {
            moment().await;
        }
    }

    /// Sends JSON and reads the answer's.
    pub(super) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Outcome<T> {
        let body = serde_json::to_vec(body).expect("JSON");
        self.ask("POST", path, Some(body), None).await.map(read)
    }

    /// Any request; with `leave` the client is gone after this long, and its connection with it.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<Vec<u8>>,
        leave: Option<Duration>,
    ) -> Outcome<Answer> {
        let (instance, client) = match self.pinned {
            Some(index) => (index, self.fleet.at(index)),
            None => self.fleet.any(&mut self.random),
        };
        self.instance = instance;
        let json = [("content-type", "application/json")];
        let headers: &[_] = if body.is_some() { &json } else { &[] };
        let answer = client.try_send(method, path, headers, body);
        match tokio::time::timeout(leave.unwrap_or(LIMIT), answer).await {
            Ok(answer) => match classify(answer) {
                Outcome::Unknown if self.deaf => Outcome::Never,
                outcome => outcome,
            },
            Err(_) if leave.is_some() => Outcome::Unknown,
            // Its process is gone, and the port may be another client's by now.
            Err(_) if self.fleet.at(instance).addr() != client.addr() => Outcome::Unknown,
            Err(_) => {
                let addr = client.addr();
                panic!("I12 liveness: {path} of {addr} hangs: no answer in {LIMIT:?}")
            }
        }
    }
}

/// What comes next is certain to come later: the record knows milliseconds.
pub async fn moment() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

/// The body of an answer that was 2xx.
///
/// # Panics
/// When it is not what the contract says.
pub(super) fn read<T: DeserializeOwned>(answer: Answer) -> T {
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error} in {answer}"))
}

/// What an answer, or its absence, says about whether the request ran.
fn classify(answer: Result<Answer, reqwest::Error>) -> Outcome<Answer> {
    let answer = match answer {
        Err(error) if error.is_connect() => return Outcome::Never,
        Err(_) => return Outcome::Unknown,
        Ok(answer) => answer,
    };
    if answer.status < 300 {
        return Outcome::Ok(answer);
    }
    let code = answer.text("code");
    match code.as_str() {
        "redis_unavailable" => {
            assert!(!answer.header("retry-after").is_empty(), "no Retry-After: {answer}");
            Outcome::Never
        }
        "outcome_unknown" => Outcome::Unknown,
        _ => Outcome::Refused(answer.status, code),
    }
}
