#include "server/load/http_request.h"

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dunlin::server::load {
namespace {

namespace http = boost::beast::http;

constexpr size_t kMaxErrorBytes = 1 << 16;  // of an answer that is no stream

}  // namespace

std::unique_ptr<boost::beast::tcp_stream> ConnectionPool::Take() {
  if (idle_.empty()) return nullptr;
  std::unique_ptr<boost::beast::tcp_stream> stream = std::move(idle_.back());
  idle_.pop_back();
  return stream;
}

std::shared_ptr<HttpRequest> HttpRequest::Start(std::shared_ptr<ConnectionPool> pool, std::string body,
                                                int32_t max_tokens, int64_t timeout_ms, std::shared_ptr<Call> call) {
  auto request = std::make_shared<HttpRequest>(std::move(pool), std::move(body), max_tokens, std::move(call));
  request->Begin(timeout_ms);
  return request;
}

HttpRequest::HttpRequest(std::shared_ptr<ConnectionPool> pool, std::string body, int32_t max_tokens,
                         std::shared_ptr<Call> call)
    : pool_(std::move(pool)), max_tokens_(max_tokens), call_(std::move(call)), deadline_(*pool_->io()) {
  const HttpTarget& target = pool_->target();
  request_ = {http::verb::post, target.path, 11};
  request_.set(http::field::host, target.host);
  request_.set(http::field::content_type, "application/json");
  request_.set(http::field::accept, "text/event-stream");
  request_.body() = std::move(body);
  request_.prepare_payload();
}

void HttpRequest::Begin(int64_t timeout_ms) {
  call_->OnSent();
  if (timeout_ms > 0) {
    deadline_.expires_after(std::chrono::milliseconds(timeout_ms));
    deadline_.async_wait([self = shared_from_this()](Error error) {
      if (error || self->ended_) return;
      self->timed_out_ = true;
      self->Cancel();
    });
  }
  stream_ = pool_->Take();
  kept_connection_ = stream_ != nullptr;
  if (kept_connection_) return Send();
  Connect();
}

void HttpRequest::Cancel() {
  Error ignored;
  if (!ended_ && stream_ != nullptr) stream_->socket().close(ignored);
}

void HttpRequest::Connect() {
  kept_connection_ = false;
  stream_ = pool_->New();
  stream_->async_connect(pool_->target().endpoint, [self = shared_from_this()](Error error) {
    if (error) return self->FailTransport(error);
    Error ignored;
    self->stream_->socket().set_option(boost::asio::ip::tcp::no_delay(true), ignored);
    self->Send();
  });
}

void HttpRequest::Send() {
  http::async_write(*stream_, request_, [self = shared_from_this()](Error error, std::size_t) {
    if (error && self->kept_connection_ && !self->timed_out_) return self->Connect();
    if (error) return self->FailTransport(error);
    self->ReadHeader();
  });
}

void HttpRequest::ReadHeader() {
  parser_.emplace();
  // A number: Boost 1.74 refuses every Content-Length when there is no limit.
  parser_->body_limit(std::numeric_limits<uint64_t>::max());
  http::async_read_header(*stream_, buffer_, *parser_,
                          [self = shared_from_this()](Error error, std::size_t) { self->OnHeader(error); });
}

void HttpRequest::OnHeader(Error error) {
  // A kept connection that its server closed while it lay idle: nothing of this request was answered yet.
  const bool closed = error == http::error::end_of_stream || error == boost::asio::error::connection_reset;
  if (closed && kept_connection_ && !timed_out_) return Connect();
  if (error) return FailTransport(error);
  ReadBody();
}

void HttpRequest::ReadBody() {
  if (parser_->is_done()) return EndOfBody();
  http::async_read_some(*stream_, buffer_, *parser_,
                        [self = shared_from_this()](Error error, std::size_t) { self->OnBody(error); });
}

void HttpRequest::OnBody(Error error) {
  const bool ended = error == http::error::end_of_stream || error == http::error::partial_message;
  if (error && !ended) return FailTransport(error);
  std::string& body = parser_->get().body();
  if (parser_->get().result() == http::status::ok) {
    if (!TakeEvents(body)) return;
    body.clear();
  } else if (body.size() > kMaxErrorBytes) {
    return EndOfBody();
  }
  if (error == http::error::partial_message) return FailTransport(error);
  if (ended) return EndOfBody();
  ReadBody();
}

bool HttpRequest::TakeEvents(const std::string& bytes) {
  std::vector<std::string> events;
  if (!events_.Feed(bytes, &events)) {
    Fail(Ending::kFailed, "BAD_EVENT", "an event is longer than 1 MiB");
    return false;
  }
  for (const std::string& data : events) {
    const absl::StatusOr<OpenAiEvent> event = ParseOpenAiEvent(data);
    if (!event.ok()) {
      Fail(Ending::kFailed, "BAD_EVENT", std::string(event.status().message()));
      return false;
    }
    saw_done_ |= event->done;
    if (!event->finish_reason.empty()) finish_reason_ = event->finish_reason;
    if (event->has_text && !call_->OnTokens(1)) {
      Fail(Ending::kFailed, "CANCELLED", "");
      return false;
    }
    if (event->completion_tokens.has_value()) {
      saw_usage_ = true;
      call_->SetUsage(event->prompt_tokens.value_or(0), *event->completion_tokens);
    }
  }
  return true;
}

void HttpRequest::EndOfBody() {
  const auto& response = parser_->get();
  const unsigned status = response.result_int();
  if (status != 200) {
    const bool refused = status == 429 || status == 503;
    return Fail(refused ? Ending::kRefused : Ending::kFailed, absl::StrCat("HTTP_", status),
                OpenAiErrorMessage(response.body()), response.count(http::field::retry_after) > 0);
  }
  if (!saw_done_ && finish_reason_.empty())
    return Fail(Ending::kFailed, "EARLY_END", "the stream ended without an end");
  if (!saw_usage_ && finish_reason_ == "length") call_->SetUsage(0, max_tokens_);
  ended_ = true;
  deadline_.cancel();
  if (parser_->keep_alive() && parser_->is_done()) pool_->GiveBack(std::move(stream_));
  call_->Complete();
}

void HttpRequest::Fail(Ending ending, const std::string& reason, const std::string& message, bool retry_info) {
  if (std::exchange(ended_, true)) return;
  deadline_.cancel();
  stream_.reset();
  call_->End(timed_out_ ? Ending::kDeadline : ending, reason, message, retry_info);
}

void HttpRequest::FailTransport(Error error) {
  const char* reason = error == http::error::partial_message ? "EARLY_END" : "TRANSPORT";
  Fail(Ending::kFailed, reason, error.message());
}

}  // namespace dunlin::server::load
