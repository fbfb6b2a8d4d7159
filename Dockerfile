# bmtools in a container that runs without a network, on processors or on NVIDIA GPUs.
#
#   docker build -t bmtools .
#   docker build -t bmtools:cuda --build-arg TORCH_BACKEND=cu130 .
#   docker run --rm -v "$PWD:/data" --user "$(id -u):$(id -g)" bmtools import text notes.txt -o corpus.jsonl
#   docker run --rm --gpus all -v "$PWD:/data" --user "$(id -u):$(id -g)" bmtools:cuda pretrain ...
#
# EXTRAS lists extras of pyproject.toml; `all` also contains translation engines and Ray. The GPU image contains CUDA,
# but not the driver. To carry an image to a machine without a network, use `docker save` and `docker load`.
ARG PYTHON=3.11
FROM python:${PYTHON}-slim AS build
ARG TORCH_BACKEND=cpu
ARG EXTRAS=cleaning,dedup,documents,gunzip,parquet,plot,translation,web
COPY . /source
WORKDIR /source
RUN python -m venv /opt/bmtools \
    && pip install --no-cache-dir uv==0.13.9 \
    && uv pip install --no-cache --python /opt/bmtools --torch-backend "$TORCH_BACKEND" \
        --constraint constraints.txt "bmtools-lm[$EXTRAS] @ file:///source"

FROM python:${PYTHON}-slim
COPY --from=build /opt/bmtools /opt/bmtools
ENV PATH=/opt/bmtools/bin:$PATH HOME=/tmp HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
RUN useradd --create-home --uid 1000 bmtools && mkdir /data && chown bmtools /data
USER 1000
WORKDIR /data
HEALTHCHECK --interval=5m --timeout=30s CMD ["bmtools", "--version"]
ENTRYPOINT ["bmtools"]
CMD ["--help"]
