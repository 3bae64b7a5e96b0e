#include "server/load/http_target.h"

#include <boost/asio/io_context.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::server::load {

absl::StatusOr<HttpTarget> ResolveHttp(std::string_view url, std::string_view default_path) {
  const auto bad = [url](const char* why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", engine::AbslView(url), "\" ", why));
  };
  std::string_view rest = url;
  constexpr std::string_view kScheme = "http://";
  if (rest.rfind("https://", 0) == 0) return bad("is https; only http is spoken");
  if (rest.rfind(kScheme, 0) == 0) rest.remove_prefix(kScheme.size());
  HttpTarget target;
  const size_t slash = rest.find('/');
  target.host = std::string(rest.substr(0, slash));
  target.path =
      std::string(slash == std::string_view::npos || slash + 1 == rest.size() ? default_path : rest.substr(slash));
  const size_t colon = target.host.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == target.host.size())
    return bad("is not HOST:PORT[/PATH]");
  std::string name = target.host.substr(0, colon);
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  boost::asio::io_context io;
  boost::system::error_code error;
  const auto found = boost::asio::ip::tcp::resolver(io).resolve(name, target.host.substr(colon + 1), error);
  if (error || found.empty()) return absl::NotFoundError(absl::StrCat(target.host, ": ", error.message()));
  target.endpoint = found.begin()->endpoint();
  return target;
}

}  // namespace dunlin::server::load
