//! `auth`: how calls prove who is calling, by a name and a password or by a token of client credentials.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::facts::{
    a_while, alone, becomes, called, fixed, gone, patient, pushed, pushed_with, ready, schedule,
    scheduled, with,
};
use crate::harness::*;

const SECRET: &str = "very-secret+1";

fn basic(name: &str) -> Value {
    json!({"kind": "basic", "username": name, "password": SECRET})
}

/// `authorization` of these.
fn header(name: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{secret}")))
}

fn oauth2(tokens: &Receiver) -> Value {
    json!({"kind": "oauth2", "token_url": tokens.url("/token"), "client_id": "dueq", "client_secret": SECRET, "scope": "hooks"})
}

fn token(name: &str, more: Value) -> Reply {
    let body =
        with(json!({"access_token": name, "token_type": "Bearer", "expires_in": 3600}), more);
    Reply::status(200).body(body.to_string())
}

/// A receiver and a token server, which gives out `t1`, `t2` and then `t3`.
async fn places() -> (Client, Receiver, Receiver) {
    let ((client, receiver), tokens) = (ready().await, Receiver::start().await);
    tokens.answer(token("t3", json!({})));
    tokens.answer_next("/token", [token("t1", json!({})), token("t2", json!({}))]);
    (client, receiver, tokens)
}

#[tokio::test]
async fn a_name_and_a_password_go_to_the_origin_that_they_are_for() {
    let ((client, own), other) = (ready().await, Receiver::start().await);
    let topic = pushed(&client, "auth", json!({"url": own.url("/"), "auth": basic("tópic")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    assert_eq!(own.wait_for(1).await[0].header("authorization"), header("tópic", SECRET));
    for (path, auth, headers, sent) in [
        ("/own", Some(basic("own")), json!({}), header("own", SECRET)),
        ("/same", None, json!({}), header("tópic", SECRET)),
        ("/header", None, json!({"Authorization": "Bearer b"}), "Bearer b".to_owned()),
    ] {
        let callback = json!({"url": own.url(path), "auth": auth});
        let message = json!({"payload": 1, "headers": headers, "callback": callback});
        client.published(&topic, message).await;
        let call = own.wait_at(path).await;
        assert_eq!((call.header("authorization"), call.count("authorization")), (&*sent, 1));
    }
    client.published(&topic, json!({"payload": 1, "callback": {"url": other.url("/")}})).await;
    assert!(!other.wait_for(1).await[0].has("authorization"));
}

#[tokio::test]
async fn a_token_is_fetched_once_for_all_that_wait() {
    let (client, receiver, tokens) = places().await;
    tokens.answer_next("/slow", [token("slow", json!({})).after(Duration::from_millis(400))]);
    let auth = with(oauth2(&tokens), json!({"token_url": tokens.url("/slow"), "audience": "a&b"}));
    let topic = pushed(&client, "auth", json!({"url": receiver.url("/"), "auth": auth})).await;
    let messages: Vec<_> = (0..40).map(|n| json!({"payload": n})).collect();
    client.published_batch(&topic, &messages).await;
    // The same client of a callback shares it.
    scheduled(&client, &receiver.url("/"), json!({"auth": auth})).await;
    for call in receiver.wait_for(41).await {
        assert_eq!(call.header("authorization"), "Bearer slow");
        assert!(call.has("webhook-id"), "{call:?}");
    }
    let fetched = tokens.calls();
    assert_eq!(fetched.len(), 1, "{fetched:?}");
    let ask = &fetched[0];
    assert_eq!((ask.method.as_str(), ask.path.as_str()), ("POST", "/slow"));
    assert_eq!(ask.header("authorization"), header("dueq", "very-secret%2B1"));
    assert_eq!(ask.header("content-type"), "application/x-www-form-urlencoded");
    assert_eq!(ask.body, b"grant_type=client_credentials&scope=hooks&audience=a%26b");
}

#[tokio::test]
async fn a_refused_token_is_replaced_once_and_the_call_repeated() {
    let (client, receiver, tokens) = places().await;
    // Not before all have been called with the first token.
    let gate = watch::Sender::new(false);
    let unauthorized = || Reply::status(401).once(&gate);
    receiver.answer_next("/", (0..6).map(|_| unauthorized()));
    let push =
        json!({"url": receiver.url("/"), "auth": oauth2(&tokens), "retry": {"never": ["4xx"]}});
    let more = json!({"retention": {"acked_ms": 60_000}});
    let topic = pushed_with(&client, "auth", push, more).await;
    let messages: Vec<_> = (0..6).map(|n| json!({"payload": n})).collect();
    let published = client.published_batch(&topic, &messages).await;
    receiver.wait_for(6).await;
    gate.send_replace(true);
    for message in &published {
        let id = message["message"]["id"].as_str().unwrap();
        let seen = becomes(&client, id, "acked", 1).await;
        assert_eq!(called(&seen)[0]["status"], 200, "{seen}");
    }
    let sent: Vec<_> =
        receiver.calls().iter().map(|call| call.header("authorization").to_owned()).collect();
    let of = |token: &str| sent.iter().filter(|it| **it == format!("Bearer {token}")).count();
    assert_eq!((of("t1"), of("t2"), sent.len()), (6, 6, 12), "{sent:?}");
    assert_eq!(tokens.count(), 2);
    // A receiver that takes no token at all gets each message twice at most, and no flood of tokens is fetched.
    a_while(1_000).await;
    receiver.answer(Reply::status(401));
    let id = client.published(&topic, json!({"payload": 1})).await;
    let seen = becomes(&client, &id, "dead", 1).await;
    assert_eq!(text(&seen, "last_error"), "answered 401");
    assert_eq!((receiver.count(), tokens.count()), (14, 3));
    let id = client.published(&topic, json!({"payload": 1})).await;
    becomes(&client, &id, "dead", 1).await;
    assert_eq!((receiver.count(), tokens.count()), (15, 3));
}

#[tokio::test]
async fn a_token_is_used_until_shortly_before_its_end() {
    let (client, receiver, tokens) = places().await;
    tokens.answer_next("/short", [token("s1", json!({"expires_in": "2"})), token("s2", json!({}))]);
    let auth = with(oauth2(&tokens), json!({"token_url": tokens.url("/short")}));
    let topic = pushed(&client, "auth", json!({"url": receiver.url("/"), "auth": auth})).await;
    let sent = async |n: usize| {
        client.published(&topic, json!({"payload": n})).await;
        receiver.wait_for(n).await[n - 1].header("authorization").to_owned()
    };
    assert_eq!((sent(1).await, sent(2).await), ("Bearer s1".to_owned(), "Bearer s1".to_owned()));
    a_while(1_900).await;
    assert_eq!(sent(3).await, "Bearer s2");
    assert_eq!(tokens.count(), 2);
}

#[tokio::test]
async fn a_fetch_that_fails_is_a_failed_attempt_that_tells_no_secret() {
    let (client, receiver, tokens) = places().await;
    let host = tokens.addr();
    let told = json!({"error": "invalid_client", "error_description": SECRET}).to_string();
    let other = json!({"error": SECRET}).to_string();
    for (at, (reply, error)) in [
        (Reply::status(401).body(told), "answered 401 (invalid_client)"),
        (Reply::status(400).body(other), "answered 400"),
        (Reply::status(302).header("location", &tokens.url("/token")), "answered 302"),
        (Reply::status(200).body("{}"), "the answer has no bearer token"),
        (token("t", json!({"token_type": "mac"})), "the answer has no bearer token"),
        (token("a\nb", json!({})), "it cannot be sent in a header"),
        (Reply::status(200).body(vec![b'x'; 70_000]), "the answer broke off or is too long"),
        (Reply::dropped(), "the connection was closed before an answer came"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{at}");
        tokens.answer_at(&path, reply);
        let auth = with(oauth2(&tokens), json!({"token_url": tokens.url(&path)}));
        // Lists judge receivers, and nothing reached this one.
        let more = json!({"auth": auth, "backoff": patient(), "retry": {"on": ["503"]}});
        let id = scheduled(&client, &receiver.url("/"), more).await;
        let seen = becomes(&client, &id, "delayed", 1).await;
        assert_eq!(text(&seen, "last_error"), format!("no token from {host}: {error}"));
        assert!(!seen.to_string().contains(SECRET), "{seen}");
    }
    tokens.answer_at("/never", Reply::never());
    let auth = with(oauth2(&tokens), json!({"token_url": tokens.url("/never")}));
    let more = json!({"auth": auth, "backoff": patient(), "timeout_ms": 300});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert_eq!(text(&seen, "last_error"), "timed out after 300 ms without a token");
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn tokens_are_fetched_only_where_calls_may_go() {
    let (client, receiver, tokens) = places().await;
    let auth = |url: &str| with(oauth2(&tokens), json!({"token_url": url}));
    let refused = |answer: Answer, field: &str| {
        answer.problem(422, "callback_address_refused").field(field);
    };
    let private = auth("http://10.1.2.3/token");
    let push = json!({"url": receiver.url("/"), "auth": private});
    refused(client.put_topic(&topic("auth"), json!({"push": push})).await, "push.auth.token_url");
    let own = json!({"auth": private});
    refused(schedule(&client, &receiver.url("/"), own).await, "auth.token_url");
    // A name is judged when it is called.
    let more = json!({"auth": auth("http://localhost.invalid/token"), "backoff": patient()});
    let id = scheduled(&client, &receiver.url("/"), more).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert!(
        text(&seen, "last_error").starts_with("no token from localhost.invalid:80: "),
        "{seen}"
    );
    assert_eq!(receiver.count(), 0);
}

#[tokio::test]
async fn secrets_are_shown_as_stars_kept_for_their_places_and_never_logged() {
    let (_redis, dueq) = alone(&["--log", "debug"]).await;
    let (client, receiver, tokens) =
        (dueq.client(), Receiver::start().await, Receiver::start().await);
    tokens.answer(token("tok-very-secret", json!({})));
    // What a receiver says back.
    let echo = |of: &str| Reply::status(500).body(format!("no: {SECRET} {of}"));
    receiver.answer_at("/2", echo("tok-very-secret"));
    receiver.answer_at("/own", echo(&header("c", SECRET)));
    let shown = with(oauth2(&tokens), json!({"client_secret": "***"}));
    let push = |path: &str, auth: &Value| json!({"push": {"url": receiver.url(path), "auth": auth}, "backoff": fixed(20), "max_attempts": 2});
    let name = topic("auth");
    client.new_topic(&name, push("/1", &oauth2(&tokens))).await;
    let seen = client.put_topic(&name, push("/2", &shown)).await.expect(200).json();
    assert_eq!(seen["config"]["push"]["auth"], shown, "{seen}");
    let id = client.published(&name, json!({"payload": 1})).await;
    assert_eq!(receiver.wait_at("/2").await.header("authorization"), "Bearer tok-very-secret");
    // Other places, another kind, a name that nothing is stored for.
    let elsewhere = json!({"push": {"url": tokens.url("/"), "auth": shown}});
    let secret = "push.auth.client_secret";
    client.put_topic(&name, elsewhere).await.problem(422, "secret_required").field(secret);
    let token_url = with(shown.clone(), json!({"token_url": receiver.url("/token")}));
    let other = push("/2", &token_url);
    client.put_topic(&name, other).await.problem(422, "secret_required").field(secret);
    let stars = json!({"kind": "basic", "username": "a", "password": "***"});
    let none = push("/2", &stars);
    client.put_topic(&name, none).await.problem(422, "invalid_input").field("push.auth.password");
    let new = schedule(&client, &receiver.url("/"), json!({"auth": stars})).await;
    new.problem(422, "invalid_input").field("auth.password");
    // The header that it would set.
    let mut both = push("/2", &shown);
    both["push"]["headers"] = json!({"Authorization": "x"});
    client.put_topic(&name, both).await.refused(422).field("push.headers.Authorization");
    let both = json!({"auth": basic("a"), "headers": {"authorization": "x"}});
    schedule(&client, &receiver.url("/"), both.clone())
        .await
        .refused(422)
        .field("headers.authorization");
    let every =
        json!({"every_ms": 3_600_000, "callback": {"url": receiver.url("/"), "auth": basic("a")}});
    let bad = with(every.clone(), json!({"message": {"headers": {"authorization": "x"}}}));
    let path = format!("/schedules/{name}");
    client.send_json("PUT", &path, &bad).await.refused(422).field("message.headers.authorization");
    client.send_json("PUT", &path, &every).await.expect(201);
    let mut kept = every;
    kept["callback"]["auth"]["password"] = json!("***");
    let kept = client.send_json("PUT", &path, &kept).await.expect(200).json();
    assert_eq!(kept["callback"]["auth"]["password"], "***");
    client.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    let call = receiver.wait_at("/").await;
    assert_eq!(call.header("authorization"), header("a", SECRET));
    // A message's own, changed with the mask.
    let more = json!({"auth": basic("b"), "delay_ms": 600_000, "backoff": patient()});
    let own = scheduled(&client, &receiver.url("/own"), more).await;
    let mut callback = client.get(&own).await.expect(200).json()["callback"].clone();
    callback["auth"]["username"] = json!("c");
    client.update(&own, json!({"callback": callback, "delay_ms": 0})).await.expect(200);
    assert_eq!(receiver.wait_at("/own").await.header("authorization"), header("c", SECRET));
    let listed =
        client.list("_callbacks", "state=delayed&payload=true&limit=1000").await.expect(200).json();
    for seen in [
        client.topic(&name).await.expect(200).json(),
        client.get_path(&path).await.expect(200).json(),
        becomes(&client, &id, "dead", 2).await,
        client.get(&own).await.expect(200).json(),
        listed,
    ] {
        let seen = seen.to_string();
        assert!(
            !seen.contains("very-secret") && !seen.contains(&STANDARD.encode(SECRET)[..8]),
            "{seen}"
        );
    }
    let log = dueq.log();
    assert!(!log.contains("very-secret") && !log.contains(&header("c", SECRET)[6..]));
    client.delete(&id).await;
    gone(&client, &id).await;
}

#[tokio::test]
async fn calls_leave_by_the_servers_proxy_and_name_its_certificates() {
    let (receiver, proxy, authority) =
        (Receiver::start().await, Receiver::start().await, Authority::new());
    let days = |days: u64| Duration::from_secs(days * 24 * 3600);
    let identity = authority.sign_for("client", &["a.test"], days(6));
    let cert = format!("bank={},{}", identity.cert.display(), identity.key.display());
    let by = format!("http://user:{SECRET}@{}", proxy.addr());
    let flags = ["--callback-proxy", &by, "--callback-client-cert", &cert, "--log", "debug"];
    let (_redis, dueq) =
        alone(&[&flags[..], &["--callback-no-proxy", "127.0.0.0/8"]].concat()).await;
    let client = dueq.client();
    proxy.answer(Reply::status(407));
    let push = json!({"url": "http://hooks.invalid/", "client_cert": "bank"});
    let topic = pushed_with(&client, "proxy", push, json!({"backoff": patient()})).await;
    let id = client.published(&topic, json!({"payload": 1})).await;
    let seen = becomes(&client, &id, "delayed", 1).await;
    assert_eq!(text(&seen, "last_error"), "cannot connect: the proxy answered 407");
    let asked = proxy.calls().remove(0);
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("CONNECT", "hooks.invalid:80"));
    assert_eq!(asked.header("proxy-authorization"), header("user", SECRET));
    let own = json!({"client_cert": "bank", "delay_ms": 0, "backoff": patient()});
    scheduled(&client, &receiver.url("/"), own).await;
    assert!(!receiver.wait_for(1).await[0].has("proxy-authorization"));
    let shown = client.topic(&topic).await.expect(200).json();
    assert_eq!(shown["config"]["push"]["client_cert"], "bank");
    let unknown = json!({"client_cert": "shop"});
    schedule(&client, &receiver.url("/"), unknown).await.refused(422).field("client_cert");
    let warnings = async || client.get_path("/readyz").await.expect(200).json()["warnings"].clone();
    let said = warnings().await[0].as_str().unwrap().to_owned();
    assert!(said.starts_with("a client certificate of callbacks expires at 20"), "{said}");
    authority.sign_for("client", &["a.test"], days(8));
    eventually("the certificate is read again", || async {
        warnings().await.is_null().then_some(())
    })
    .await;
    let log = dueq.log();
    assert!(log.contains("callbacks go through a proxy"), "{log}");
    assert!(!log.contains(SECRET) && !log.contains(&header("user", SECRET)[6..]), "{log}");
}
