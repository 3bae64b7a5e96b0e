#include "server/load/http_get.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::server::load {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

constexpr uint64_t kMaxBytes = 16 << 20;

struct Get : std::enable_shared_from_this<Get> {
  Get(boost::asio::io_context* io, const HttpTarget& target, std::function<void(absl::StatusOr<std::string>)> d)
      : stream(*io), request(http::verb::get, target.path, 11), done(std::move(d)) {
    request.set(http::field::host, target.host);
    request.set(http::field::connection, "close");
    parser.body_limit(kMaxBytes);
  }

  void Run(const HttpTarget& target, int64_t timeout_ms) {
    stream.expires_after(std::chrono::milliseconds(timeout_ms));
    stream.async_connect(target.endpoint, [self = shared_from_this()](error_code error) {
      if (error) return self->End(error);
      http::async_write(self->stream, self->request, [self](error_code write_error, std::size_t) {
        if (write_error) return self->End(write_error);
        http::async_read(self->stream, self->buffer, self->parser,
                         [self](error_code read_error, std::size_t) { self->End(read_error); });
      });
    });
  }

  void End(error_code error) {
    if (error) return done(absl::UnavailableError(error.message()));
    if (parser.get().result() != http::status::ok) {
      return done(absl::UnavailableError(absl::StrCat("HTTP status ", parser.get().result_int())));
    }
    done(std::move(parser.get().body()));
  }

  boost::beast::tcp_stream stream;
  http::request<http::empty_body> request;
  http::response_parser<http::string_body> parser;
  boost::beast::flat_buffer buffer;
  std::function<void(absl::StatusOr<std::string>)> done;
};

}  // namespace

void HttpGet(boost::asio::io_context* io, const HttpTarget& target, int64_t timeout_ms,
             std::function<void(absl::StatusOr<std::string>)> done) {
  std::make_shared<Get>(io, target, std::move(done))->Run(target, timeout_ms);
}

}  // namespace dunlin::server::load
