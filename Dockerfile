# The server over HTTP, for those who know its token. How to run it: docs/container.md
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY mcp_subagents ./mcp_subagents
RUN python -m venv /opt/subagents && /opt/subagents/bin/pip install --no-cache-dir ".[anthropic,google,openai,otel]"

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin subagents && \
    install --directory --owner 10001 --group 10001 --mode 700 /data && \
    mkdir /config
COPY --from=build /opt/subagents /opt/subagents
ENV PATH=/opt/subagents/bin:$PATH \
    HOME=/data \
    MCP_SUBAGENTS_STORE=sqlite:////data/tasks.db
# Where subagents.yaml is looked for: mount it here.
WORKDIR /config
VOLUME /data
EXPOSE 8000
USER 10001
# The token (MCP_SUBAGENTS_TOKEN) and the keys of model providers are given when it is run, and are never in the image.
# Without the token it does not start.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["mcp-subagents"]
CMD ["--transport", "http", "--host", "0.0.0.0", "--port", "8000"]
