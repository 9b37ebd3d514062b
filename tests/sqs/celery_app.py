"""A celery application on SQS as any: the worker and its client find dueq by AWS_ENDPOINT_URL_SQS."""

import os

from celery import Celery

app = Celery("dueq_sqs", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={
        "region": "eu-central-1", "visibility_timeout": 30, "wait_time_seconds": 2, "polling_interval": 0.1,
        "queue_name_prefix": "celery-test-",
    },
    task_ignore_result=True, worker_hijack_root_logger=False, worker_send_task_events=False,
)


@app.task(bind=True, max_retries=3)
def note(self, number):
    if number % 10 == 0 and self.request.retries == 0:
        raise self.retry(countdown=1)
    with open(os.environ["NOTES"], "a", encoding="utf-8") as notes:
        notes.write(f"{number}\n")
