//! What each command asks for its words, and what it shows for an answer.

use super::testing::{CREATED, NO_CONTENT, answer, asked, asked_in_turn, ok, tried, unparsed};

/// Words, the request that they make, and its body.
#[tokio::test]
async fn each_command_is_a_request() {
    for (words, head, body) in [
        ("publish a {\"z\":1.50}", "POST /topics/a/messages", r#"{"payload":{"z":1.50}}"#),
        ("publish a -5", "POST /topics/a/messages", r#"{"payload":-5}"#),
        ("publish a {a", "POST /topics/a/messages", r#"{"payload":"{a"}"#),
        (
            "publish a 1 --delay 1h30m",
            "POST /topics/a/messages",
            r#"{"payload":1,"delay_ms":5400000}"#,
        ),
        (
            "publish a 1 --at 2026-11-20T18:15:00+01:00 --key k --on-duplicate replace --priority 9 --header b=c=d \
             --header a= --ttl 1h --max-attempts 3 --group g --idempotency-key i --callback http://a/b",
            "POST /topics/a/messages",
            r#"{"payload":1,"deliver_at":"2026-11-20T18:15:00+01:00","priority":9,"headers":{"b":"c=d","a":""},"ttl_ms":3600000,"max_attempts":3,"key":"k","on_duplicate":"replace","group":"g","idempotency_key":"i","callback":{"url":"http://a/b"}}"#,
        ),
        ("callback http://a/b", "POST /callbacks", r#"{"url":"http://a/b"}"#),
        (
            "callback http://a/b 1 --method put --timeout 1m --delay 30m",
            "POST /callbacks",
            r#"{"payload":1,"url":"http://a/b","method":"PUT","timeout_ms":60000,"delay_ms":1800000}"#,
        ),
        (
            "callback http://a/b --connect-timeout 2s --retry-on 5xx,429 --retry-never 501 --auth kind=basic --auth username=7 --callback-cert bank",
            "POST /callbacks",
            r#"{"url":"http://a/b","connect_timeout_ms":2000,"retry":{"on":["5xx","429"],"never":["501"]},"auth":{"kind":"basic","username":"7"},"client_cert":"bank"}"#,
        ),
        (
            "lease a --max 3 --wait 20s --lease 5m",
            "POST /topics/a/lease",
            r#"{"max_messages":3,"wait_ms":20000,"lease_ms":300000}"#,
        ),
        ("lease a b", "POST /lease", r#"{"topics":["a","b"]}"#),
        ("ack 1-2 t", "POST /messages/1-2/ack", r#"{"lease_token":"t"}"#),
        (
            "ack 1-2 t --result {\"n\":1.50}",
            "POST /messages/1-2/ack",
            r#"{"lease_token":"t","result":{"n":1.50}}"#,
        ),
        (
            "callback http://a/b --done-url http://a/c --dead-topic d",
            "POST /callbacks",
            r#"{"url":"http://a/b","on_done":{"url":"http://a/c"},"on_dead":{"topic":"d"}}"#,
        ),
        (
            "schedules put a 1 --every 10s --topic t --done-topic d",
            "PUT /schedules/a",
            r#"{"message":{"payload":1,"on_done":{"topic":"d"}},"every_ms":10000,"topic":"t"}"#,
        ),
        ("nack 1 t --dead", "POST /messages/1/nack", r#"{"lease_token":"t","dead":true}"#),
        (
            "nack 1 t --release --delay 0s --reason no",
            "POST /messages/1/nack",
            r#"{"lease_token":"t","delay_ms":0,"reason":"no","release":true}"#,
        ),
        ("get 1-2", "GET /messages/1-2", ""),
        (
            "publish a 1 --debounce k --quiet 10s --max-wait 1m",
            "POST /topics/a/messages",
            r#"{"payload":1,"debounce":{"key":"k","delay_ms":10000,"max_wait_ms":60000}}"#,
        ),
        (
            "callback http://a/b 1 --throttle k --every 1m",
            "POST /callbacks",
            r#"{"payload":1,"url":"http://a/b","throttle":{"key":"k","every_ms":60000}}"#,
        ),
        (
            "publish a 1 --once k --for 1d",
            "POST /topics/a/messages",
            r#"{"payload":1,"once":{"key":"k","for_ms":86400000}}"#,
        ),
        ("get --topic a --key order/42", "GET /topics/a/keys/order%2F42", ""),
        (
            "update 1-2 --payload {\"a\":1.50} --delay 10m --header b=c --reset ttl,backoff",
            "PATCH /messages/1-2",
            r#"{"payload":{"a":1.50},"delay_ms":600000,"headers":{"b":"c"},"ttl_ms":null,"backoff":null}"#,
        ),
        (
            "update --topic a --key b/c --payload -x",
            "PATCH /topics/a/keys/b%2Fc",
            r#"{"payload":"-x"}"#,
        ),
        ("delete 1-2 --force", "DELETE /messages/1-2?force=true", ""),
        ("delete --topic a --key k", "DELETE /topics/a/keys/k", ""),
        ("topic a", "GET /topics/a", ""),
        ("topic help", "GET /topics/help", ""),
        (
            r#"topic set a max_attempts=5 lease_ms=1m30s ttl_ms=null dead_topic=a=b retention={"dead_ms":1}"#,
            "PATCH /topics/a",
            r#"{"max_attempts":5,"lease_ms":90000,"ttl_ms":null,"dead_topic":"a=b","retention":{"dead_ms":1}}"#,
        ),
        ("topic --json set a max_attempts=5", "PATCH /topics/a", r#"{"max_attempts":5}"#),
        ("dead a", "GET /topics/a/dead/reasons", ""),
        ("redrive --id 1-2", "POST /messages/1-2/redrive", "{}"),
        ("pause a", "POST /topics/a/pause", "{}"),
        ("topics --prefix o/r", "GET /topics?prefix=o%2Fr&limit=1000", ""),
        ("schedules", "GET /schedules?limit=1000", ""),
        ("schedules --json get a", "GET /schedules/a", ""),
        (
            "schedules put a {\"b\":1.50} --cron 0_9_*_*_* --timezone Europe/Berlin --topic t --key k --header x=y \
             --priority 7 --catch-up none",
            "PUT /schedules/a",
            r#"{"message":{"payload":{"b":1.50},"key":"k","headers":{"x":"y"},"priority":7},"cron":"0_9_*_*_*","timezone":"Europe/Berlin","topic":"t","catch_up":"none"}"#,
        ),
        (
            "schedules put a --every 10s --callback http://a/b --method PUT --timeout 15s --retry-on 503 --retry-never 4xx --auth kind=basic",
            "PUT /schedules/a",
            r#"{"every_ms":10000,"callback":{"url":"http://a/b","method":"PUT","timeout_ms":15000,"retry":{"on":["503"],"never":["4xx"]},"auth":{"kind":"basic"}}}"#,
        ),
        ("groups a", "GET /topics/a/groups?limit=1000", ""),
        ("groups --json get a b/c", "GET /topics/a/groups/b%2Fc", ""),
        (
            "groups put a b --concurrency 5 --rate 0.5 --burst 2 --weight 3 --paused",
            "PUT /topics/a/groups/b",
            r#"{"paused":true,"concurrency":5,"rate_per_s":0.5,"burst":2,"weight":3}"#,
        ),
        ("groups put a b", "PUT /topics/a/groups/b", "{}"),
        ("groups pause a b", "POST /topics/a/groups/b/pause", "{}"),
        ("hosts pause [::1]:80", "POST /callbacks/hosts/%5B%3A%3A1%5D%3A80/pause", "{}"),
        ("healthcheck", "GET /readyz", ""),
    ] {
        let sent = asked(&words.split_whitespace().collect::<Vec<_>>(), ok("{}")).await;
        assert_eq!(sent.lines(), (head, body), "{words}");
    }
}

#[tokio::test]
async fn a_file_of_bytes_is_sent_in_base64() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [0xff, 0, 1]).unwrap();
    let sent = asked(&["publish", "a", "--file", file.path().to_str().unwrap()], CREATED).await;
    assert_eq!(sent.body, r#"{"payload_base64":"/wAB"}"#);
}

#[tokio::test]
async fn an_answer_is_shown_or_printed_as_it_came() {
    let schedule = r#"{"paused":true,"next_at":"soon","last_message_id":"1-2"}"#;
    for (words, answer, shown) in [
        ("ack 1-2 t", NO_CONTENT, "acknowledged 1-2\n"),
        ("ack 1-2 t --json", NO_CONTENT, ""),
        ("delete 1-2", NO_CONTENT, "deleted 1-2\n"),
        ("publish a 1", CREATED, "id  1\n"),
        ("topic a --json", &ok(r#"{"name" : "a"}"#), "{\"name\" : \"a\"}\n"),
        ("lease a", &ok(r#"{"messages":[]}"#), "no message is due\n"),
        ("pause a", &ok(r#"{"paused":true}"#), "a is paused\n"),
        ("resume a", &ok(r#"{"paused":false}"#), "a is not paused\n"),
        ("groups resume a b", &ok(r#"{"group":"b"}"#), "b is not paused\n"),
        ("groups reset a b", NO_CONTENT, "b has no settings of its own\n"),
        ("groups a", &ok(r#"{"items":[]}"#), "no groups\n"),
        ("schedules pause a", &ok(schedule), "a is paused\n"),
        ("schedules resume a", &ok(schedule), "a ticks next soon\n"),
        ("schedules trigger a", &ok(schedule), "a published 1-2\n"),
        ("schedules", &ok(r#"{"items":[]}"#), "no schedules\n"),
        ("dead a", &ok(r#"{"items":[],"scanned":0}"#), "no dead messages\n"),
        ("healthcheck", &ok("{}"), "ready\n"),
        (
            "messages a --state ready --json",
            &ok("{\"items\":[{\"id\" :\n\"1\"},{\"n\":1E400}]}"),
            "{\"id\" : \"1\"}\n{\"n\":1E400}\n",
        ),
    ] {
        let sent = asked(&words.split_whitespace().collect::<Vec<_>>(), answer).await;
        assert_eq!(sent.shown, shown, "{words}");
    }
}

/// Others are in `tests/command`, where processes end with 2.
#[tokio::test]
async fn wrong_arguments_are_refused() {
    for words in [
        "get 1 --topic a --key b",
        "publish a 1 --header =b",
        "callback",
        "callback http://a --method TRACE",
        "callback http://a 1 2",
        "update",
        "update 1 2",
        "update 1 --reset payload",
        "update 1 --delay 1m --at 2026-11-20T18:15:00Z",
        "topic set a x",
        "topic set a =5",
        "topic a set b max_attempts=5",
        "messages",
        "messages a --state done",
        "messages a --limit 0",
        "messages a b",
        "search a b --state done",
        "redrive --id 1 --query error:x",
        "redrive --id 1 --dry-run",
        "redrive a --max 0",
        "redrive a b",
        "run a --state dead",
        "run --id 1 --state delayed",
        "purge a --query error:x",
        "purge a --state dead --max 1",
        "hosts stop a",
        "schedules put a 1 --topic t",
        "schedules put a --every 1s --topic t",
        "schedules put a 1 --every 1s --topic t --method PUT",
    ] {
        assert!(unparsed(&words.split_whitespace().collect::<Vec<_>>()), "{words}");
    }
    for (words, reason) in [
        ("update 1", "nothing to change: see dueq update --help"),
        ("update 1 --ttl 1h --reset ttl", "ttl_ms is given twice: see dueq update --help"),
        ("delete 1 2 --force", "--force deletes one message at a time"),
    ] {
        let (outcome, _) = tried(&words.split_whitespace().collect::<Vec<_>>(), &[]).await;
        assert_eq!(outcome.unwrap_err().message(), reason);
    }
}

#[tokio::test]
async fn lists_are_followed_to_the_last_page() {
    let pages = [
        ok(
            r#"{"items":[{"name":"a","every_ms":90000,"topic":"t","paused":true}],"next_cursor":"x=y"}"#,
        ),
        ok(
            r#"{"items":[{"name":"b","cron":"0 9 * * *","timezone":"UTC","callback":{"url":"http://c/"}}]}"#,
        ),
    ];
    let sent = asked_in_turn(&["schedules"], &pages).await;
    assert_eq!(sent[1].head, "GET /schedules?limit=1000&cursor=x%3Dy");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: Vec<_> = sent[1].shown.lines().map(words).collect();
    assert_eq!(shown[1..], ["a every 1m 30s t paused", "b 0 9 * * * (UTC) http://c/ never"]);
}

#[tokio::test]
async fn messages_are_listed_state_by_state_up_to_the_limit() {
    let pages = [
        ok(r#"{"items":[{"id":"1","state":"delayed","due_at":"x"}],"next_cursor":"c"}"#),
        ok(r#"{"items":[{"id":"2","state":"delayed","due_at":"y"}]}"#),
        ok(r#"{"items":[{"id":"3","state":"ready","due_at":"z"}],"next_cursor":"d"}"#),
    ];
    let sent = asked_in_turn(&["messages", "a", "--limit", "3"], &pages).await;
    let asked_for: Vec<&str> = sent.iter().map(|sent| &*sent.head).collect();
    let route = "GET /topics/a/messages";
    let wanted = ["limit=3&state=delayed", "limit=2&state=delayed&cursor=c", "limit=1&state=ready"];
    assert_eq!(asked_for, wanted.map(|query| format!("{route}?{query}")));
    assert_eq!(sent[0].shown.lines().count(), 4, "{}", sent[0].shown);
}

#[tokio::test]
async fn a_search_goes_through_pages_and_states_and_counts_what_it_looked_at() {
    let pages = [
        ok(r#"{"items":[],"scanned":10000,"next_cursor":"c"}"#),
        ok(r#"{"items":[{"id":"1","state":"dead"}],"scanned":7}"#),
        ok(r#"{"items":[{"id":"2","state":"ready"}],"scanned":2}"#),
    ];
    let words = ["search", "a", "error:\"b c\"", "--state", "dead,ready", "--limit", "5"];
    let sent = asked_in_turn(&words, &pages).await;
    let asked_for: Vec<&str> = sent.iter().map(|sent| &*sent.head).collect();
    let q = "q=error%3A%22b+c%22";
    let wanted = [
        format!("5&state=dead&{q}"),
        format!("5&state=dead&{q}&cursor=c"),
        format!("4&state=ready&{q}"),
    ];
    assert_eq!(asked_for, wanted.map(|query| format!("GET /topics/a/messages?limit={query}")));
    let table = "ID  STATE  ATTEMPTS\n1   dead          0\n2   ready         0\n";
    assert_eq!(sent[0].shown, format!("{table}\nfound 2, looked at 10009\n"));
}

#[tokio::test]
async fn several_ids_are_one_request_and_those_that_were_not_changed_are_listed() {
    let answers =
        ok(r#"{"results":[{"id":"1","status":"ok"},{"id":"2","status":"message_not_found"}]}"#);
    for (words, head, done) in [
        (&["redrive", "--id", "1", "2"][..], "POST /messages/redrive", "redriven"),
        (&["run", "--id", "1", "2"], "POST /messages/run", "made due"),
        (&["delete", "1", "2"], "POST /messages/delete", "deleted"),
    ] {
        let (outcome, sent) = tried(words, std::slice::from_ref(&answers)).await;
        assert_eq!(outcome.unwrap_err().message(), format!("not {done} 1 of 2"));
        assert_eq!(sent[0].lines(), (head, r#"{"ids":["1","2"]}"#));
        assert_eq!(sent[0].shown, format!("{done} 1\nID  STATUS\n2   message_not_found\n"));
    }
}

#[tokio::test]
async fn a_bulk_command_is_repeated_to_its_end() {
    let page = |text: &str| ok(text);
    for (words, pages, last, shown) in [
        (
            &["purge", "a", "--state", "dead", "ready,dead"][..],
            &[r#"{"purged":5,"remaining":2}"#, r#"{"purged":2,"remaining":0}"#][..],
            r#"{"states":["dead","ready"]}"#,
            "purged 7, still there 0\n",
        ),
        (
            &["purge", "a", "--state", "dead"],
            &[r#"{"purged":0,"remaining":2}"#],
            r#"{"states":["dead"]}"#,
            "purged 0, still there 2\n",
        ),
        (
            &["redrive", "a"],
            &[r#"{"redriven":2,"remaining":3}"#, r#"{"redriven":3,"remaining":1}"#],
            "{}",
            "redriven 5, still dead 1\n",
        ),
        (
            &["redrive", "a", "--q", "error:x", "--max", "5", "--spread", "10m"],
            &[
                r#"{"redriven":0,"remaining":9,"matched":0,"scanned":10000,"next_cursor":"c"}"#,
                r#"{"redriven":2,"remaining":7,"matched":3,"scanned":70}"#,
            ],
            r#"{"q":"error:x","max_messages":5,"spread_ms":600000,"cursor":"c"}"#,
            "redriven 2 of 3, still dead 7, looked at 10070\n",
        ),
        (
            &["run", "a", "--max", "5"],
            &[
                r#"{"run":3,"matched":3,"scanned":9,"next_cursor":"c"}"#,
                r#"{"run":2,"matched":2,"scanned":9,"next_cursor":"c"}"#,
            ],
            r#"{"max_messages":2,"cursor":"c"}"#,
            "made due 5, looked at 18\n",
        ),
        (
            &["purge", "a", "--state", "dead", "--dry-run"],
            &[r#"{"purged":0,"remaining":9,"matched":4,"scanned":9}"#],
            r#"{"states":["dead"],"dry_run":true}"#,
            "would be purged 4, looked at 9\n",
        ),
    ] {
        let pages: Vec<_> = pages.iter().copied().map(page).collect();
        let sent = asked_in_turn(words, &pages).await;
        let path = format!("POST /topics/a/{}", words[0]);
        assert_eq!(sent.last().unwrap().lines(), (&*path, last), "{words:?}");
        assert_eq!(sent[0].shown, shown);
    }
    let first = ok(r#"{"run":2,"matched":2,"scanned":9,"next_cursor":"c"}"#);
    let broken = answer("503 Service Unavailable", r#"{"detail":"gone","code":"x"}"#);
    let (outcome, sent) = tried(&["run", "a"], &[first, broken]).await;
    assert_eq!(outcome.unwrap_err().message(), "gone (503 x)");
    assert_eq!(
        sent[1].shown, "made due 2, looked at 9\n",
        "a failure does not undo the requests before it"
    );
}

#[tokio::test]
async fn reasons_are_a_table_with_commands_in_words_of_a_shell() {
    let answer = ok(
        r#"{"items":[{"reason":"it's \"late\" by * s","example_id":"1","count":12,"first_at":"x","last_at":"y"},
            {"example_id":"2","count":3,"first_at":"x","last_at":"y"}],"scanned":15}"#,
    );
    let sent = asked(&["dead", "a"], &answer).await;
    let query = r#"'reason:"it'\''s \"late\" by * s"'"#;
    assert_eq!(
        sent.shown,
        format!(
            "COUNT  FIRST  LAST  EXAMPLE  REASON\n   \
             12  x      y     1        it's \"late\" by * s\n    \
             3  x      y     2        (none given)\n\n\
             looked at 15, the newest. The first reason:\n  \
             dueq search a {query} --state dead\n  \
             dueq redrive a --query {query} --spread 10m --dry-run\n  \
             dueq purge a --state dead --query {query} --dry-run\n"
        )
    );
}

#[tokio::test]
async fn hosts_are_a_table() {
    let page = ok(
        r#"{"items":[{"host":"a:443","paused":true,"in_flight":2,"waiting":30,"p99_ms":1500,
            "outcomes":{"delivered":7,"failed":1,"dead":0},"last_error":"answered 503"},{"host":"b:80"}]}"#,
    );
    let sent = asked(&["hosts"], &page).await;
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = sent.shown.lines().map(words).collect();
    assert_eq!(
        lines,
        [
            "HOST IN FLIGHT WAITING LAST 5 MIN P99 LAST ERROR",
            "a:443 paused 2 30 7 delivered, 1 failed 1s 500ms answered 503",
            "b:80 0 0",
        ]
    );
}
