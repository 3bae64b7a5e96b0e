#include "server/load/http_client.h"

#include <utility>
#include <vector>

#include "server/load/http_request.h"

namespace dunlin::server::load {
namespace {

class HttpClient final : public LoadClient {
 public:
  HttpClient(boost::asio::io_context* io, HttpTarget target, RequestOptions options)
      : options_(std::move(options)), pool_(std::make_shared<ConnectionPool>(io, std::move(target))) {}

  // A connection that opens is all that every such server has in common.
  absl::StatusOr<Target> Connect(int64_t) override {
    boost::asio::io_context io;
    boost::asio::ip::tcp::socket socket(io);
    boost::system::error_code error;
    socket.connect(pool_->target().endpoint, error);
    if (error) return absl::UnavailableError("--address: " + pool_->target().host + ": " + error.message());
    return Target{};
  }

  std::shared_ptr<ActiveRequest> Start(const Prompt& prompt, const MixEntry&, uint64_t seed,
                                       std::shared_ptr<Call> call) override {
    return HttpRequest::Start(pool_, OpenAiBody(options_, prompt, seed), prompt.max_tokens, options_.timeout_ms,
                              std::move(call));
  }

 private:
  const RequestOptions options_;
  const std::shared_ptr<ConnectionPool> pool_;
};

}  // namespace

std::unique_ptr<LoadClient> MakeHttpClient(boost::asio::io_context* io, const HttpTarget& target,
                                           const RequestOptions& options) {
  return std::make_unique<HttpClient>(io, target, options);
}

}  // namespace dunlin::server::load
