"""The application that gunicorn's worker loads."""

import os
from datetime import UTC, datetime

from vgpu import settings
from webhook.app import create_app
from webhook.config import Config
from webhook.gunicorn_conf import certificate
from webhook.metrics import Metrics
from webhook.worker import draining


def ready() -> tuple[bool, str]:
    """Return whether reviews should come here, and a sentence about it."""
    if draining.is_set():
        return False, "not ready: ending"
    return certificate.state(datetime.now(UTC))


metrics = Metrics(lambda: certificate.end.timestamp())
app = create_app(settings.read(Config, os.environ), metrics, ready)
