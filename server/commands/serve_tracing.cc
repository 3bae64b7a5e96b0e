// SPDX-License-Identifier: Apache-2.0
#include "server/commands/serve_tracing.h"

#include <utility>

#include "absl/time/time.h"
#include "server/observe/tracing/otlp_client.h"
#include "server/process/version.h"
#include "server/transport/tls/client_identity.h"

namespace dunlin::server {

absl::StatusOr<std::unique_ptr<SpanExporter>> OpenSpanExporter(const TracingSettings& settings) {
  if (settings.otlp_endpoint.empty()) return nullptr;
  OtlpClientOptions client;
  client.address = settings.otlp_endpoint;
  client.timeout = absl::Milliseconds(settings.export_timeout_ms);
  if (settings.tls) {
    absl::StatusOr<ClientIdentity> identity =
        ReadClientIdentity({"tracing.ca_file", settings.ca_file}, {"tracing.cert_file", settings.cert_file},
                           {"tracing.key_file", settings.key_file});
    if (!identity.ok()) return identity.status();
    client.tls = *std::move(identity);
  }
  SpanExporterOptions options;
  options.service_name = settings.service_name;
  options.version = kVersion;
  options.max_queued = settings.queue_spans;
  options.sample_per_million = settings.sample_per_million;
  return std::make_unique<SpanExporter>(options, NewOtlpClient(client));
}

}  // namespace dunlin::server
