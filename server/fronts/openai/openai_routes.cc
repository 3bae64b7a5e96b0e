// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/openai_routes.h"

#include <nlohmann/json.hpp>

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

HttpReply Health(const std::string& unready_reason) {
  if (unready_reason.empty()) return {200, kJsonText, Json{{"status", "ok"}}.dump()};
  return {503, kJsonText, Json{{"status", "unavailable"}, {"reason", unready_reason}}.dump()};
}

}  // namespace

std::vector<HttpRoute> OpenAiRoutes(const OpenAiSources& sources) {
  HttpRoute health{"GET", "/health",
                   [reason = sources.unready_reason](const HttpRequest&) { return Health(reason()); }};
  HttpRoute version{"GET", "/version", [body = Json{{"version", sources.version}}.dump()](const HttpRequest&) {
                      return HttpReply{200, kJsonText, body};
                    }};
  health.cors = version.cors = true;
  return {health, version};
}

}  // namespace dunlin::server
