"""The application that gunicorn's worker loads."""

import os

from vgpu import settings
from webhook.app import create_app
from webhook.config import Config
from webhook.metrics import Metrics
from webhook.worker import draining

app = create_app(settings.read(Config, os.environ), Metrics(), ready=lambda: not draining.is_set())
