# The production server: one static binary with no shell, no runner and no demo beside it.
#
#   docker build -t stackorder .

FROM rust:1.95-slim-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# With --target, build scripts and procedural macros are left out of RUSTFLAGS: they cannot be static.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --locked --profile dist --target x86_64-unknown-linux-gnu --no-default-features --features server \
        --package stackorder --bin stackorder \
    && cp target/x86_64-unknown-linux-gnu/dist/stackorder /stackorder

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /stackorder /stackorder
USER 65532:65532
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["/stackorder", "healthcheck"]
ENTRYPOINT ["/stackorder"]
CMD ["serve"]
