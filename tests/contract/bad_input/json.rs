//! Bodies that are no JSON, no object, or of another media type, wherever JSON is read.

use serde_json::json;

use super::{Ground, Place};
use crate::facts::unprocessable;
use crate::harness::*;

const JSON: Option<&str> = Some("application/json");

/// What is no JSON.
const NOT_JSON: &str = r#" |{|}|{"|nul|{'a':1}|{"a"}|{"a":}|{"a":1,}|{a:1}|{"a":01}|{"a":+1}|{"a":.5}|{"a":1.}|{"a":0x1}|{"a":NaN}\
|{"a":Infinity}|{"a":"\x"}|{"a":"\u12"}|{"a":"open}|{"a":[1}|/**/{}|{}//|[|{"states":}|{}x|{}{}|{},|{}null"#;

impl Ground {
    /// Demands this status for each of these bodies, of this media type, at every place that reads JSON.
    async fn refuses_bodies(
        &self,
        status: u16,
        kind: Option<&str>,
        bodies: impl Fn(&Place) -> Vec<Vec<u8>>,
    ) {
        for place in self.with_json() {
            for body in bodies(&place) {
                if place.id == "createSession" && body.len() > 4096 {
                    continue; // larger than may come without a key
                }
                let headers: Vec<_> = kind.map(|kind| ("content-type", kind)).into_iter().collect();
                let sent = body[..body.len().min(200)].escape_ascii().to_string();
                let mut answer =
                    self.client.send(&place.method, &place.path, &headers, Some(body)).await;
                answer.request.push_str(&format!(" as {kind:?} with {sent}"));
                answer.refused(status);
            }
        }
        self.unchanged().await;
    }
}

/// The shortest body that would be accepted, and the same without its last brace.
fn good(place: &Place) -> (String, String) {
    let good = place.good.as_ref().unwrap().to_string();
    let open = good[..good.len() - 1].to_owned();
    (good, open)
}

#[tokio::test]
async fn what_is_not_json_is_400() {
    let ground = Ground::new().await;
    let bodies = |place: &Place| {
        let (good, open) = good(place);
        let mut bodies: Vec<Vec<u8>> =
            NOT_JSON.split('|').map(|it| it.as_bytes().to_vec()).collect();
        bodies.extend(
            ["x", "}", "{}", ",", "\0", "null"].map(|more| format!("{good}{more}").into_bytes()),
        );
        bodies.extend(["\u{feff}{}", "{\"a\":\"\n\"}", &open].map(|text| text.as_bytes().to_vec()));
        if !place.needs_no_body() {
            bodies.push(Vec::new());
        }
        bodies
    };
    ground.refuses_bodies(400, JSON, bodies).await;
}

#[tokio::test]
async fn what_is_not_utf8_is_400() {
    let ground = Ground::new().await;
    let broken: [&[u8]; 6] =
        [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\x80"];
    let bodies = |place: &Place| {
        let (_, open) = good(place);
        let comma = if open == "{" { "" } else { "," };
        let around = [("\"x\":\"", "\""), ("\"", "\":1"), ("\"payload\":\"", "\"")];
        let body = |bytes: &[u8], (before, after): (&str, &str)| {
            [format!("{open}{comma}{before}").as_bytes(), bytes, after.as_bytes(), b"}"].concat()
        };
        broken.iter().flat_map(|bytes| around.map(|around| body(bytes, around))).collect()
    };
    ground.refuses_bodies(400, JSON, bodies).await;
}

#[tokio::test]
async fn nesting_deeper_than_64_is_400() {
    let ground = Ground::new().await;
    let bodies = |place: &Place| {
        let (_, open) = good(place);
        let comma = if open == "{" { "" } else { "," };
        let deep = |levels: usize| {
            let lists = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            let objects = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
            [lists, objects].map(|deep| format!("{open}{comma}\"x\":{deep}}}").into_bytes())
        };
        [64, 65, 200, 20_000].into_iter().flat_map(deep).collect()
    };
    ground.refuses_bodies(400, JSON, bodies).await;
    let path = format!("/topics/{}/messages", ground.absent);
    let payload = format!("{{\"payload\":{}{}}}", "[".repeat(64), "]".repeat(64));
    ground.client.post_text(&path, &payload).await.refused(400);
}

#[tokio::test]
async fn json_that_is_no_object_is_422() {
    let ground = Ground::new().await;
    for place in ground.with_json() {
        for body in ["[]", "[{}]", "\"x\"", "1", "-0.5", "true", "null", " null ", "[1,2]"] {
            if !place.needs_no_body() || !body.contains("null") {
                let mut answer = ground.send(&place, "", body).await;
                answer.request.push_str(body);
                unprocessable(answer, "(body)");
            }
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn null_is_no_body_where_the_body_may_be_left_out() {
    let (client, topic) = (client().await, topic("null"));
    for tail in ["lease", "pause", "resume", "redrive"] {
        let path = format!("/topics/{topic}/{tail}");
        for body in ["null", " null\r\n\t", "{}", ""] {
            client.published(&topic, json!({"payload": 1})).await;
            client.post_text(&path, body).await.expect(200);
        }
        for body in ["nul", "nullx", "null,", "null null", "NULL", "\u{c}null", "\u{feff}null"] {
            client.post_text(&path, body).await.refused(400);
        }
        for body in ["[]", "[null]", "\"null\"", "false", "0"] {
            unprocessable(client.post_text(&path, body).await, "(body)");
        }
        client.post_bytes(&path, Some("text/plain"), b"null".to_vec()).await.refused(415);
    }
    assert_eq!(client.total(&topic, "granted").await, 4, "a lease of one each");
}

#[tokio::test]
async fn another_content_type_or_none_is_415() {
    let kinds = "text/plain|application/x-www-form-urlencoded|text/json|application/jsonp|application/json-seq|\
        application/json; charset=latin1|application/json, text/plain|json||image/svg+xml|text/x+json|application/x-yaml";
    for kind in kinds.split('|').map(Some).chain([None]) {
        let ground = Ground::new().await;
        ground.refuses_bodies(415, kind, |place| vec![good(place).0.into_bytes()]).await;
    }
}
