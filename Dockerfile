# One image for the webhook, the plugin and the certificate keeper:
#   docker run IMAGE                       the webhook (the default command)
#   docker run IMAGE plugin | certs        the others
# BASE needs python3 (3.11 or newer) with venv, and CA certificates.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY requirements.lock /
# pip stays in an environment of its own, so that what is copied below holds no build tools.
RUN python3 -m venv /pip \
 && python3 -m venv --without-pip /opt/milligpu \
 && /pip/bin/pip --python /opt/milligpu/bin/python install \
      --no-cache-dir --only-binary :all: --require-hashes -r /requirements.lock

FROM ${BASE}
COPY --from=build /opt/milligpu /opt/milligpu
COPY vgpu /opt/milligpu/app/vgpu
COPY webhook /opt/milligpu/app/webhook
COPY plugin /opt/milligpu/app/plugin
COPY certs /opt/milligpu/app/certs
ENV PATH=/opt/milligpu/bin:$PATH PYTHONPATH=/opt/milligpu/app \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# Compiled here: the file system is read-only where this runs.
RUN python -m compileall -q /opt/milligpu/app
# A number, since runAsNonRoot cannot judge a name. The plugin's manifest asks for uid 0 itself.
USER 65532:65532
ENTRYPOINT ["python", "-m"]
CMD ["gunicorn", "-c", "python:webhook.gunicorn_conf", "webhook.wsgi:app"]
