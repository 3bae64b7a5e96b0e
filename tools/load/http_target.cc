// SPDX-License-Identifier: Apache-2.0
#include "tools/load/http_target.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::tools::load {
namespace {

// Resolves name and service to the first address that the system offers, as numbers.
absl::Status Resolve(const std::string& name, const std::string& service, HttpTarget* target) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  int error = getaddrinfo(name.c_str(), service.c_str(), &hints, &found);
  if (error == 0) {
    char address[NI_MAXHOST];
    char port[NI_MAXSERV];
    error = getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof(address), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV);
    if (error == 0) {
      target->address = address;
      target->port = static_cast<uint16_t>(std::strtoul(port, nullptr, 10));
    }
    freeaddrinfo(found);
  }
  return error == 0 ? absl::OkStatus() : absl::NotFoundError(absl::StrCat(target->host, ": ", gai_strerror(error)));
}

}  // namespace

absl::StatusOr<HttpTarget> ResolveHttp(std::string_view url, std::string_view default_path, const ClientTls& tls) {
  const auto bad = [url](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", engine::AbslView(url), "\" ", why));
  };
  std::string_view rest = url;
  bool encrypted = tls.enabled();
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (rest.rfind(scheme, 0) != 0) continue;
    rest.remove_prefix(scheme.size());
    encrypted = scheme == "https://";
    break;
  }
  HttpTarget target;
  const size_t slash = rest.find('/');
  target.host = std::string(rest.substr(0, slash));
  target.path =
      std::string(slash == std::string_view::npos || slash + 1 == rest.size() ? default_path : rest.substr(slash));
  const size_t colon = target.host.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == target.host.size()) {
    return bad("is not HOST:PORT[/PATH]");
  }
  std::string name = target.host.substr(0, colon);
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  if (absl::Status s = Resolve(name, target.host.substr(colon + 1), &target); !s.ok()) return s;
  if (!encrypted) return target;
  target.name = tls.server_name.empty() ? name : tls.server_name;
  absl::StatusOr<std::shared_ptr<boost::asio::ssl::context>> context = HttpContext(tls);
  if (!context.ok()) return context.status();
  target.tls = *std::move(context);
  return target;
}

}  // namespace dunlin::tools::load
