# One image for Airflow and for Spark's workers: the same Python, the same packages, the same library, one Java.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

ENV VIRTUAL_ENV=/opt/venv
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /opt/drystone

# The packages first: they change seldom, and are most of the image.
COPY requirements.txt ./
RUN python -m venv /opt/venv \
    && pip install --no-cache-dir "$(grep '^uv==' requirements.txt)" \
    && uv pip sync --no-cache requirements.txt

COPY pyproject.toml README.md LICENSE ./
COPY include include
COPY spark_jobs spark_jobs
RUN uv pip install --no-cache --no-deps --no-build-isolation .

COPY dags dags
COPY plugins plugins

# Airflow's home and the bucket are volumes; what Docker puts there at first belongs to the one who runs.
RUN useradd --uid 50000 --create-home drystone \
    && mkdir -p /opt/airflow /bucket \
    && chown drystone: /opt/airflow /bucket
USER drystone

ENV AIRFLOW_HOME=/opt/airflow
ENV AIRFLOW__CORE__DAGS_FOLDER=/opt/drystone/dags
ENV AIRFLOW__CORE__PLUGINS_FOLDER=/opt/drystone/plugins
ENV AIRFLOW__CORE__LOAD_EXAMPLES=False
ENV PYSPARK_PYTHON=/opt/venv/bin/python

CMD ["drystone", "--help"]
