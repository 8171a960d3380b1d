# One image for the webhook, the plugin and the certificate keeper:
#   docker run IMAGE                       the webhook (the default command)
#   docker run IMAGE plugin | certs        the others
# BASE needs python3 (3.11 or newer) with venv, and CA certificates.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
COPY requirements.lock /
# pip stays in an environment of its own, so that what is copied below holds no build tools.
# Nothing is compiled yet: what pip writes would depend on the time.
RUN python3 -m venv /pip \
 && python3 -m venv --without-pip /opt/milligpu \
 && /pip/bin/pip --python /opt/milligpu/bin/python install \
      --no-cache-dir --no-compile --only-binary :all: --require-hashes -r /requirements.lock
# A third of all that is installed, and nobody here has an event loop that calls the API server.
RUN rm -r /opt/milligpu/lib/python3*/site-packages/kubernetes/aio
# Compiled here, since the file system is read-only where this runs; by content, so that the same
# files come of the same sources, and unchecked, since nobody changes a source file there.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/milligpu

FROM ${BASE} AS app
COPY vgpu /opt/milligpu/app/vgpu
COPY webhook /opt/milligpu/app/webhook
COPY plugin /opt/milligpu/app/plugin
COPY certs /opt/milligpu/app/certs
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/milligpu

FROM ${BASE}
LABEL org.opencontainers.image.title="milligpu" \
      org.opencontainers.image.description="GPU shares for ordinary Kubernetes manifests: webhook, device plugin, certificate keeper" \
      org.opencontainers.image.version="0.1.0"
# What others wrote first: that layer stays the same from one version of ours to the next.
COPY --from=build /opt/milligpu /opt/milligpu
COPY --from=app /opt/milligpu/app /opt/milligpu/app
ENV PATH=/opt/milligpu/bin:$PATH PYTHONPATH=/opt/milligpu/app \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, since runAsNonRoot cannot judge a name. The plugin's manifest asks for uid 0 itself.
USER 65532:65532
ENTRYPOINT ["python", "-m"]
CMD ["gunicorn", "-c", "python:webhook.gunicorn_conf", "webhook.wsgi:app"]
