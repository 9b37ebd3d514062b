//! The names of spans and attributes, as OpenTelemetry's conventions for messaging and HTTP have them. Those for messaging
//! are still in development, so they are all in this one file; the scope says which version of them it is.

#![allow(missing_docs, reason = "their values say what they are")]

/// Of the conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.36.0";

pub const SYSTEM: &str = "messaging.system";
pub const OPERATION_NAME: &str = "messaging.operation.name";
pub const OPERATION_TYPE: &str = "messaging.operation.type";
pub const DESTINATION: &str = "messaging.destination.name";
pub const MESSAGE_ID: &str = "messaging.message.id";
pub const MESSAGE_COUNT: &str = "messaging.batch.message_count";
pub const BODY_SIZE: &str = "messaging.message.body.size";
pub const ERROR_TYPE: &str = "error.type";
pub const HTTP_METHOD: &str = "http.request.method";
pub const HTTP_ROUTE: &str = "http.route";
pub const HTTP_STATUS: &str = "http.response.status_code";
pub const SERVER_ADDRESS: &str = "server.address";
pub const SERVER_PORT: &str = "server.port";
pub const ATTEMPT: &str = "dueq.attempt";
pub const LATENESS_MS: &str = "dueq.lateness_ms";
pub const SCHEDULE: &str = "dueq.schedule";

/// What is done to messages: its name, and its type among those of the conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagingOperation {
    /// `messaging.operation.name`.
    pub name: &'static str,
    /// `messaging.operation.type`.
    pub kind: &'static str,
}

/// A callback.
pub const CALL: MessagingOperation = MessagingOperation { name: "call", kind: "process" };
/// A schedule's tick, and a publish by a client.
pub const PUBLISH: MessagingOperation = MessagingOperation { name: "publish", kind: "send" };

/// What the operation of the API does to messages; nothing where it looks or configures.
pub fn messaging(operation: &str) -> Option<MessagingOperation> {
    let settle = |name| Some(MessagingOperation { name, kind: "settle" });
    match operation {
        "publishMessage"
        | "publishRaw"
        | "publishBatch"
        | "scheduleCallback"
        | "sqsSendMessage"
        | "sqsSendMessageBatch" => Some(PUBLISH),
        "leaseMessages" | "leaseFromTopics" | "sqsReceiveMessage" => {
            Some(MessagingOperation { name: "lease", kind: "receive" })
        }
        "ackMessage" | "ackBatch" | "sqsDeleteMessage" | "sqsDeleteMessageBatch" => settle("ack"),
        "nackMessage" | "nackBatch" => settle("nack"),
        "extendLease"
        | "extendBatch"
        | "sqsChangeMessageVisibility"
        | "sqsChangeMessageVisibilityBatch" => settle("extend"),
        _ => None,
    }
}
