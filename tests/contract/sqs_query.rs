//! SQS's query protocol: forms and query strings come, XML goes. What the actions do is the same as in JSON.

use crate::access::scopes::KeyFile;
use crate::harness::*;
use crate::sqs_paths::action;
use serde_json::json;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded; charset=utf-8");

/// Sends a form.
async fn post(client: &Client, path: &str, form: &str) -> Answer {
    client.send("POST", path, &[FORM], Some(form.as_bytes().to_vec())).await
}

/// The document of an answer of this status.
#[track_caller]
fn xml(answer: Answer, status: u16) -> String {
    String::from_utf8(answer.expect(status).body).unwrap()
}

/// What the first element of this name has in it.
fn text<'a>(xml: &'a str, name: &str) -> &'a str {
    let begun = xml.split_once(&format!("<{name}>")).unwrap_or_else(|| panic!("{name}: {xml}")).1;
    begun.split_once(&format!("</{name}>")).unwrap().0
}

#[tokio::test]
async fn parameters_that_are_no_text_are_refused_and_nothing_is_sent() {
    let (client, queue) = (client().await, topic("sqs-query"));
    client.configure(&queue, json!({})).await;
    let path = format!("/sqs/{queue}");
    for form in ["Action=SendMessage&MessageBody=caf%E9", "Action=SendMessage&MessageBody=m&%FF=1"]
    {
        let refused = xml(post(&client, &path, form).await, 404);
        assert_eq!(text(&refused, "Code"), "SerializationException");
        assert!(text(&refused, "Message").contains("UTF-8"), "{refused}");
    }
    assert_eq!(client.total(&queue, "published").await, 0);
}

#[tokio::test]
async fn a_message_goes_through_forms_and_xml_and_is_the_same_in_json() {
    let (client, queue) = (client().await, topic("sqs-query"));
    let form = format!(
        "Action=CreateQueue&QueueName={queue}&Attribute.2.Name=DelaySeconds&Attribute.2.Value=0\
            &Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=7&Tag.1.Key=a&Tag.1.Value=%3Cb%3E&Version=2012-11-05"
    );
    let created = xml(post(&client, "/sqs", &form).await, 200);
    let url = text(&created, "QueueUrl").to_owned();
    assert!(url.ends_with(&format!("/sqs/000000000000/{queue}")), "{created}");
    assert!(created.starts_with("<?xml"), "{created}");
    let path = format!("/sqs/{queue}");
    let tags = xml(post(&client, &path, "Action=ListQueueTags").await, 200);
    assert!(tags.contains("<Tag><Key>a</Key><Value>&lt;b&gt;</Value></Tag>"), "{tags}");
    // The entries as most clients number them, and as some write lists.
    for member in ["", "member."] {
        let entry = |n: usize, name: &str, value: &str| {
            format!("&SendMessageBatchRequestEntry.{member}{n}.{name}={value}")
        };
        let form = [
            "Action=SendMessageBatch".to_owned(),
            entry(2, "Id", "b"),
            entry(2, "MessageBody", ""),
            entry(10, "Id", "c"),
            entry(10, "MessageBody", "later"),
            entry(10, "DelaySeconds", "900"),
            entry(1, "Id", "a"),
            entry(1, "MessageBody", "%3C%26%3E%0D%0A+%C3%BC"),
            entry(1, "MessageAttribute.1.Name", "n"),
            entry(1, "MessageAttribute.1.Value.DataType", "Number"),
            entry(1, "MessageAttribute.1.Value.StringValue", "15"),
            entry(1, "MessageAttribute.2.Name", "b"),
            entry(1, "MessageAttribute.2.Value.DataType", "Binary"),
            entry(1, "MessageAttribute.2.Value.BinaryValue", "AP8%3D"),
        ];
        let sent = xml(post(&client, &path, &form.concat()).await, 200);
        let ids: Vec<_> = sent.split("<Id>").skip(1).map(|it| &it[..1]).collect();
        assert_eq!(ids, ["b", "a", "c"], "the failed one, and the others in order: {sent}");
        assert_eq!(text(&sent, "SenderFault"), "true", "{sent}");
        let get = format!(
            "{path}?Action=ReceiveMessage&MaxNumberOfMessages=10&AttributeName=All&MessageAttributeName.1=All"
        );
        let signed = [("authorization", "AWS4-HMAC-SHA256 Credential=any/1/2/sqs/aws4_request")];
        let received = xml(client.send("GET", &get, &signed, None).await, 200);
        assert_eq!(text(&received, "Body"), "&lt;&amp;&gt;&#xD;\n ü", "{received}");
        for has in [
            "<Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute>",
            "<MessageAttribute><Name>n</Name><Value><DataType>Number</DataType><StringValue>15</StringValue></Value>",
            "<Name>b</Name><Value><BinaryValue>AP8=</BinaryValue><DataType>Binary</DataType></Value>",
        ] {
            assert!(received.contains(has), "{has}: {received}");
        }
        let form = format!(
            "Action=DeleteMessageBatch&DeleteMessageBatchRequestEntry.1.Id=x\
                &DeleteMessageBatchRequestEntry.1.ReceiptHandle={}",
            text(&received, "ReceiptHandle")
        );
        let deleted = xml(post(&client, &path, &form).await, 200);
        assert!(deleted.contains("<DeleteMessageBatchResultEntry><Id>x</Id>"), "{deleted}");
    }
    let all = json!({"QueueUrl": queue, "AttributeNames": ["All"]});
    let all = action(&client, "/sqs", "GetQueueAttributes", all).await.expect(200).json();
    let all = &all["Attributes"];
    assert_eq!((&all["VisibilityTimeout"], &all["DelaySeconds"]), (&json!("7"), &json!("0")));
    assert_eq!(all["ApproximateNumberOfMessagesDelayed"], "2", "{all}");
    // What dueq's own API takes and XML cannot have is replaced.
    let bytes = json!({"payload_base64": "YQFi", "content_type": "text/plain"});
    client.published(&queue, bytes).await;
    let received = xml(post(&client, &path, "Action=ReceiveMessage").await, 200);
    assert_eq!(text(&received, "Body"), "a\u{fffd}b", "{received}");
}

#[tokio::test]
async fn bad_forms_get_the_errors_of_sqs_in_xml() {
    let (client, queue) = (client().await, topic("sqs-query"));
    post(&client, "/sqs", &format!("Action=CreateQueue&QueueName={queue}")).await.expect(200);
    let entries = |n: usize| {
        let entry = |i| {
            format!(
                "&SendMessageBatchRequestEntry.{i}.Id=x{i}&SendMessageBatchRequestEntry.{i}.MessageBody=b"
            )
        };
        format!("Action=SendMessageBatch{}", (1..=n).map(entry).collect::<String>())
    };
    for (form, code) in [
        ("Action=Nope", "InvalidAction"),
        ("Action=ListQueues", "InvalidAction"),
        ("Action=SendMessage", "MissingParameter"),
        ("Action=SendMessage&MessageBody=%01", "InvalidMessageContents"),
        ("Action=SendMessage&MessageBody.1=x", "SerializationException"),
        ("Action=SendMessage&MessageBody=x&DelaySeconds=soon", "SerializationException"),
        ("Action=SendMessage&MessageBody=x&DelaySeconds=-1", "InvalidParameterValue"),
        ("Action=SendMessage&MessageBody=x&MessageAttribute.1.Name=a", "InvalidParameterValue"),
        (
            "Action=SendMessageBatch&SendMessageBatchRequestEntry=",
            "AWS.SimpleQueueService.EmptyBatchRequest",
        ),
        (&entries(11), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"),
        (&entries(2_000), "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"),
        ("Action=PurgeQueue&QueueUrl=sqs-no-such", "AWS.SimpleQueueService.NonExistentQueue"),
        ("Action=SetQueueAttributes&Attribute.1.Value=5", "InvalidAttributeName"),
        ("Action=SetQueueAttributes&Attribute.1.2.3.4.5.6.7.8.9.10=5", "SerializationException"),
        ("Action=TagQueue&Tag.1.Key=&Tag.1.Value=x", "InvalidParameterValue"),
        ("Action=DeleteMessage&ReceiptHandle=%3C%26", "ReceiptHandleIsInvalid"),
    ] {
        let answer = post(&client, &format!("/sqs/0/{queue}"), form).await;
        assert_eq!(answer.header("content-type"), "text/xml", "{form}: {answer}");
        let id = answer.header("x-amzn-requestid").to_owned();
        let xml = xml(answer, 400);
        assert_eq!((text(&xml, "Code"), text(&xml, "Type")), (code, "Sender"), "{form}: {xml}");
        assert_eq!(text(&xml, "RequestId"), id, "{form}");
    }
    for form in ["", "Action=%00%0D<x>"] {
        let unknown = xml(post(&client, "/sqs", form).await, 404);
        assert_eq!(unknown, "<UnknownOperationException/>\n", "{form}");
    }
    let counted = client.topic(&queue).await.expect(200).json();
    assert_eq!(counted["counts"]["ready"], 0, "{counted}");
    // A page that a browser shows may have an image of any address.
    let path = format!("/sqs/{queue}?Action=DeleteQueue");
    for page in [&[("accept-language", "de")][..], &[]] {
        assert_ne!(client.send("GET", &path, page, None).await.status, 200);
    }
    let read = format!("/sqs?Action=GetQueueUrl&QueueName={queue}");
    xml(client.send("GET", &read, &[], None).await, 200);
    let page = [FORM, ("origin", "https://example.com")];
    let refused = xml(client.send("POST", &path, &page, Some(Vec::new())).await, 403);
    assert_eq!(text(&refused, "Code"), "AccessDenied", "{refused}");
    client.topic(&queue).await.expect(200);
}

#[tokio::test]
async fn a_signature_names_the_key_in_the_header_or_the_query_and_the_key_does_what_its_scopes_say()
{
    let queue = topic("sqs-query");
    let file = KeyFile::of(&[("sender", &format!("publish:{queue}"))]);
    let dueq = file.start().await;
    shared().await.dueq.client().put_topic(&queue, json!({})).await.expect(201);
    let client = dueq.client();
    let path = format!("/000000000000/{queue}");
    let credential = |key: &str| format!("{key}/20261126/eu-west-1/sqs/aws4_request");
    let (good, bad) = (credential(file.key("sender")), credential("dq_wrong-key-of-no-one"));
    // The body of an unknown sender is not read.
    let large = "x".repeat(100_000);
    let many = "&a".repeat(2_000);
    for (form, known, wrong) in [
        ("Action=SendMessage", "200", "InvalidClientTokenId"),
        ("Action=ReceiveMessage", "AccessDenied", "InvalidClientTokenId"),
        ("Action=Nonsense", "InvalidAction", "InvalidClientTokenId"),
    ] {
        for (credential, wanted, text_sent, more) in
            [(&good, known, &large[..], ""), (&bad, wrong, "x", &many)]
        {
            let body = format!("{form}&MessageBody={text_sent}");
            let header = format!(
                "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders=host, Signature=0"
            );
            let signed = [FORM, ("authorization", &header)];
            let encoded = credential.replace('/', "%2F").replace('+', "%2B");
            let get = format!("{path}?{form}&MessageBody=x&X-Amz-Credential={encoded}{more}");
            for answer in [
                client.send("POST", &path, &signed, Some(body.into_bytes())).await,
                client.send("GET", &get, &[], None).await,
            ] {
                let (status, xml) = (answer.status, String::from_utf8(answer.body).unwrap());
                let got = if status == 200 { "200" } else { text(&xml, "Code") };
                assert_eq!(got, wanted, "{form} {status} {xml}");
            }
        }
    }
}
