// SPDX-License-Identifier: Apache-2.0
// A collector that takes spans as OTLP over gRPC, with TLS or without.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/observe/tracing/span_sink.h"
#include "server/transport/tls/client_identity.h"

namespace dunlin::server {

struct OtlpClientOptions {
  std::string address;                         // "collector:4317"
  std::optional<ClientIdentity> tls;           // unset: no TLS
  absl::Duration timeout = absl::Seconds(10);  // of one Export
  // Between two attempts to connect: they double from the first to the last.
  absl::Duration min_backoff = absl::Milliseconds(250);
  absl::Duration max_backoff = absl::Seconds(30);
};

// Connects with the first Export, and again whenever the connection is lost. Takes no proxy from the environment.
std::unique_ptr<SpanSink> NewOtlpClient(const OtlpClientOptions& options);

}  // namespace dunlin::server
