//! Sends spans to an OTLP endpoint, in batches and aside: the end of a span only puts it into a queue. Spans for which the queue
//! has no room, or that the endpoint does not take, are dropped and counted.

use crate::{metrics::Metrics, tls};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use opentelemetry::Context;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter as _, SpanProcessor},
};
use prometheus_client::metrics::counter::Counter;
use std::{env, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

/// Bytes of an endpoint's answer that are read.
const MAX_ANSWER: usize = 64 * 1024;

/// A number that OpenTelemetry's variables set.
fn setting(name: &str, default: u64) -> u64 {
    let value = env::var(name).ok().and_then(|text| text.trim().parse().ok());
    value.filter(|value| *value > 0).unwrap_or(default)
}

/// Where spans go that have ended.
#[derive(Debug)]
pub(super) struct Queue {
    spans: mpsc::Sender<SpanData>,
    dropped: Counter,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    // `Exporting::stop` does both.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The task that sends spans.
#[derive(Debug)]
pub struct Exporting {
    task: JoinHandle<()>,
    stopping: CancellationToken,
}

impl Exporting {
    /// Begins to send what the queue gets. Within a Tokio runtime.
    pub(super) fn start(
        exporter: opentelemetry_otlp::SpanExporter,
        metrics: &Arc<Metrics>,
    ) -> (Queue, Self) {
        let (sender, spans) = mpsc::channel(setting("OTEL_BSP_MAX_QUEUE_SIZE", 2_048) as usize);
        let queue = Queue { spans: sender, dropped: metrics.spans_dropped.clone() };
        let stopping = CancellationToken::new();
        let exporter = Exporter {
            exporter,
            spans,
            stopping: stopping.clone(),
            metrics: metrics.clone(),
            max_batch: setting("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512) as usize,
            delay: Duration::from_millis(setting("OTEL_BSP_SCHEDULE_DELAY", 5_000)),
            failing: false,
        };
        (queue, Self { task: tokio::spawn(exporter.run()), stopping })
    }

    /// Sends what is left, for as long as `within`.
    pub async fn stop(mut self, within: Duration) {
        self.stopping.cancel();
        if timeout(within, &mut self.task).await.is_err() {
            tracing::warn!("spans were left when the time to stop was over");
            self.task.abort();
        }
    }
}

struct Exporter {
    exporter: opentelemetry_otlp::SpanExporter,
    spans: mpsc::Receiver<SpanData>,
    stopping: CancellationToken,
    metrics: Arc<Metrics>,
    max_batch: usize,
    /// How long a span waits for others.
    delay: Duration,
    /// The last batch was not taken.
    failing: bool,
}

impl Exporter {
    async fn run(mut self) {
        loop {
            let batch = self.next_batch().await;
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    /// Waits for a batch; one that is empty is the end.
    async fn next_batch(&mut self) -> Vec<SpanData> {
        let (mut batch, stopping) = (Vec::with_capacity(64), self.stopping.clone());
        let mut end = None;
        while batch.len() < self.max_batch {
            let room = self.max_batch - batch.len();
            let more = async {
                let received = self.spans.recv_many(&mut batch, room);
                match end {
                    Some(end) => timeout_at(end, received).await.unwrap_or(0),
                    None => received.await,
                }
            };
            let received = tokio::select! {
                biased;
                received = more => received,
                () = stopping.cancelled() => 0,
            };
            if received == 0 {
                break;
            }
            end.get_or_insert_with(|| Instant::now() + self.delay);
        }
        batch
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let spans = batch.len() as u64;
        match self.exporter.export(batch).await {
            Ok(()) => {
                self.metrics.spans_exported.inc_by(spans);
                if std::mem::take(&mut self.failing) {
                    tracing::info!("spans are exported again");
                }
            }
            Err(error) => {
                self.metrics.spans_dropped.inc_by(spans);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(%error, "spans could not be exported and are dropped");
                }
            }
        }
    }
}

/// The HTTP client that speaks to the endpoint.
#[derive(Debug)]
pub(super) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
}

impl Client {
    /// Errors: TLS cannot be set up.
    pub fn new() -> Result<Self, rustls::Error> {
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls::to_anyone()?)
            .https_or_http()
            .enable_http1()
            .build();
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .build(https);
        let all = setting("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000);
        let timeout = Duration::from_millis(setting("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", all));
        Ok(Self { http, timeout })
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = async {
            let (head, body) = self.http.request(request.map(Full::from)).await?.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        timeout(self.timeout, answer).await?
    }
}
