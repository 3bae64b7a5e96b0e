// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/trace_headers.h"

#include <string_view>
#include <vector>

#include "absl/strings/match.h"

namespace dunlin::server {
namespace {

std::vector<std::string_view> ValuesOf(const HttpRequest& request, const char* name) {
  std::vector<std::string_view> values;
  for (const HttpHeader& header : request.headers) {
    if (absl::EqualsIgnoreCase(header.name, name)) values.emplace_back(header.value);
  }
  return values;
}

}  // namespace

std::optional<TraceContext> TraceOf(const ServingCore& core, const HttpRequest& request) {
  if (!core.traces()) return std::nullopt;
  return ReadTraceContext(ValuesOf(request, kTraceParentHeader), ValuesOf(request, kTraceStateHeader));
}

}  // namespace dunlin::server
