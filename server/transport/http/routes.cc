// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/routes.h"

namespace dunlin::server {
namespace {

constexpr char kText[] = "text/plain; charset=utf-8";

HttpReply Probe(const std::string& reason) {
  if (reason.empty()) return {200, kText, "ok\n"};
  return {503, kText, reason + "\n"};
}

}  // namespace

HttpReply Route(const HttpSources& sources, std::string_view method, std::string_view target) {
  if (method != "GET" && method != "HEAD") return {405, kText, "only GET and HEAD\n"};
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == "/metrics") return {200, "text/plain; version=0.0.4; charset=utf-8", sources.metrics()};
  if (path == "/healthz") return Probe(sources.sick_reason());
  if (path == "/readyz") return Probe(sources.unready_reason());
  return {404, kText, "not found; try /metrics, /healthz, /readyz\n"};
}

}  // namespace dunlin::server
