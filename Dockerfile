# Holdfast with its extras for Postgres and the dashboard, and the program examples/orders.py. For your own program,
# replace the last COPY and CMD.
FROM python:3.13-slim AS wheels
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --wheel-dir /wheels ".[postgres,web]"

FROM python:3.13-slim
# The version is the one that was just built.
# hadolint ignore=DL3013
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels "holdfast[postgres,web]" \
    && useradd --system --uid 10001 --no-create-home holdfast \
    && install --directory --owner holdfast /data
WORKDIR /program
COPY examples/orders.py examples/orders.py
# For a SQLite file; with Postgres nothing is written.
VOLUME /data
ENV HOLDFAST_STORE=/data/orders.db \
    HOLDFAST_LOG_FORMAT=json \
    PYTHONDONTWRITEBYTECODE=1
USER 10001
ENTRYPOINT ["holdfast"]
CMD ["worker", "examples.orders:app"]
