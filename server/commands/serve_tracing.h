// SPDX-License-Identifier: Apache-2.0
// The exporter of spans of `dunlin serve`, made from the config.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/config/config.h"
#include "server/observe/tracing/span_exporter.h"

namespace dunlin::server {

// Null if the config has no collector. Errors: as ReadClientIdentity.
absl::StatusOr<std::unique_ptr<SpanExporter>> OpenSpanExporter(const TracingSettings& settings);

}  // namespace dunlin::server
