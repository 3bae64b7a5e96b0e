// SPDX-License-Identifier: Apache-2.0
#include "tools/load/http_get.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/load/http_exchange.h"

namespace dunlin::tools::load {
namespace {

constexpr size_t kMaxBytes = 16 << 20;

class Get final : public HttpHandler {
 public:
  explicit Get(std::function<void(absl::StatusOr<std::string>)> done) : done_(std::move(done)) {}

 private:
  bool OnBody(const HttpResponseHead&, std::string_view bytes) override {
    body_.append(bytes);
    if (body_.size() <= kMaxBytes) return true;
    done_(absl::UnavailableError(absl::StrCat("the response is longer than ", kMaxBytes, " bytes")));
    return false;
  }

  bool OnEnd(const HttpResponseHead& head) override {
    if (head.status == 200) {
      done_(std::move(body_));
    } else {
      done_(absl::UnavailableError(absl::StrCat("HTTP status ", head.status)));
    }
    return false;
  }

  void OnFailure(HttpFailure failure, const std::string& message) override {
    done_(absl::UnavailableError(failure == HttpFailure::kTimedOut ? "timed out" : message));
  }

  const std::function<void(absl::StatusOr<std::string>)> done_;
  std::string body_;
};

}  // namespace

void HttpGet(boost::asio::io_context* io, const HttpTarget& target, int64_t timeout_ms,
             std::function<void(absl::StatusOr<std::string>)> done) {
  HttpExchange::Start(std::make_shared<HttpConnections>(io, target), GetRequest(target), timeout_ms,
                      std::make_shared<Get>(std::move(done)));
}

}  // namespace dunlin::tools::load
