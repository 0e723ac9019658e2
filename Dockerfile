# slsgd-mx on Debian 12 and its Python 3.11. docs/containers.md: how to build and run it, what was tried.
FROM debian:12.12-slim AS build
# Debian keeps only the newest build of a package, so a fixed one could not be installed later.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates gcc libc6-dev python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY constraints.txt ./
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# hadolint ignore=DL3013
RUN python3 -m venv /opt/slsgd-mx && /opt/slsgd-mx/bin/pip install --upgrade pip
COPY requirements.txt ./
RUN /opt/slsgd-mx/bin/pip install --requirement requirements.txt
COPY setup.py pyproject.toml MANIFEST.in README.md LICENSE ./
COPY docs/paper-vs-code.md ./docs/
COPY slsgd_mx ./slsgd_mx
RUN /opt/slsgd-mx/bin/pip install ".[report]"

FROM debian:12.12-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libgomp1 libquadmath0 python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home slsgd
COPY --from=build /opt/slsgd-mx /opt/slsgd-mx
# Also for a user without a home: docker run --user
ENV PATH=/opt/slsgd-mx/bin:/usr/local/bin:/usr/bin:/bin MPLCONFIGDIR=/tmp/matplotlib SLSGD_MX_DATA=/home/slsgd/data
USER 1000
WORKDIR /home/slsgd
ENTRYPOINT ["slsgd-mx"]
CMD ["demo"]
