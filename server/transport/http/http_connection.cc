// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/http_connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/assert.hpp>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/transport/http/posted_exchange.h"
#include "server/transport/http/unrouted_reply.h"

#ifdef BOOST_ENABLE_ASSERT_HANDLER
// Of the code of Boost that this library compiles; HttpConnection::Put catches it.
void boost::assertion_failed(const char* expression, const char* /*function*/, const char* file, long line) {
  throw std::logic_error(absl::StrCat(file, ":", line, ": ", expression));
}
void boost::assertion_failed_msg(const char* expression, const char* message, const char* function, const char* file,
                                 long line) {
  assertion_failed(absl::StrCat(expression, ": ", message).c_str(), function, file, line);
}
#endif

namespace dunlin::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::beast::error_code;

constexpr std::chrono::nanoseconds kTimePerBodyByte{62'500};  // 16 KB/s: 4 MiB in 4.4 minutes
constexpr size_t kMaxAheadBytes = size_t{16} << 10;           // of pipelined requests
constexpr size_t kMaxLingerBytes = size_t{1} << 20;           // thrown away after the last response
constexpr std::chrono::milliseconds kLinger{1000};
constexpr unsigned kHttp11 = 11;
constexpr size_t kLastChunkBytes = 5;  // "0", and the ends of its line and of an empty one

HttpReply BodyTooLong(const std::string& length, const HttpRoute& route) {
  const std::string key = route.max_body_key == nullptr ? "" : absl::StrCat(" (", route.max_body_key, ")");
  return TextReply(413, absl::StrCat("the body has ", length, " bytes; limit is ", route.max_body_bytes, key));
}

}  // namespace

HttpConnection::HttpConnection(std::unique_ptr<ByteStream> stream, std::string peer, HttpShared* shared,
                               std::function<void(HttpConnection*)> on_closed)
    : stream_(std::move(stream)), peer_(std::move(peer)), shared_(shared), on_closed_(std::move(on_closed)) {}

HttpConnection::~HttpConnection() {
  if (state_ != State::kClosed) on_closed_(this);
}

void HttpConnection::Start() {
  AwaitRequest();
  deadline_ = Clock::now() + shared_->timeouts.read;
}

void HttpConnection::AwaitRequest() {
  parser_.emplace();
  parser_->header_limit(2 * kMaxHttpHeaderBytes);  // Parse holds the limit; the parser's begins anew with each piece
  parser_->body_limit(UINT64_MAX);  // the route's, once it is known; with boost::none, Boost 1.74 takes no body
  any_parsed_ = false;
  header_bytes_ = 0;
  cors_headers_.clear();
  route_ = nullptr;
  state_ = State::kHeader;
  deadline_ = Clock::now() + (input_.empty() ? shared_->timeouts.idle : shared_->timeouts.read);
  Parse();
  Read();
}

void HttpConnection::Sweep(Clock::time_point now) {
  if (deadline_.has_value() && now >= *deadline_) return OnTimeout();
  const std::chrono::milliseconds limit = shared_->timeouts.stream_idle;
  if (!output_.streaming() || idle_text_.empty() || writing_ || broken_ || limit.count() == 0) return;
  if (now - last_write_ < limit) return;
  output_.AppendPiece(idle_text_);
  Flush();
}

void HttpConnection::CloseIfIdle() {
  if (any_served_ && state_ == State::kHeader && input_.empty() && !any_parsed_) Close();
}

void HttpConnection::Read() {
  if (reading_ || input_ended_ || state_ == State::kClosed) return;
  if (state_ == State::kResponding && input_.size() >= kMaxAheadBytes) return;
  reading_ = true;
  stream_->ReadSome(asio::buffer(incoming_), [self = shared_from_this()](error_code error, size_t size) {
    self->reading_ = false;
    self->OnRead(error, size);
  });
}

void HttpConnection::OnRead(error_code error, size_t size) {
  if (state_ == State::kClosed || broken_) return;
  if (error) return OnInputEnd();
  if (state_ == State::kLingering) {
    lingered_bytes_ += size;
    return lingered_bytes_ > kMaxLingerBytes ? Close() : Read();
  }
  if (state_ == State::kHeader && input_.empty() && !any_parsed_) deadline_ = Clock::now() + shared_->timeouts.read;
  input_.append(incoming_.data(), size);
  Parse();
  Read();
}

// A client that closes only its own side of the connection cannot be told from one that is gone.
void HttpConnection::OnInputEnd() {
  input_ended_ = true;
  if (state_ != State::kResponding) return Close();
  if (handler_ != nullptr) Break();
}

void HttpConnection::OnTimeout() {
  deadline_.reset();
  const bool is_idle = state_ == State::kHeader && input_.empty() && !any_parsed_;
  if (is_idle || state_ == State::kLingering) return Close();
  if (state_ == State::kResponding) return Abort();
  Refuse(TextReply(408, "the request did not come in time"));
}

size_t HttpConnection::Put(error_code* error) {
  try {
    return parser_->put(asio::buffer(input_), *error);
  } catch (const std::logic_error& assertion) {
    spdlog::error("HTTP: a request of {} does not fit what the parser asserts, {}: refused", peer_, assertion.what());
    *error = http::make_error_code(http::error::bad_chunk);
    return 0;
  }
}

void HttpConnection::Parse() {
  while ((state_ == State::kHeader || state_ == State::kBody) && !input_.empty()) {
    // As much as that is still to come of every chunked body, and Boost 1.74 asserts that it has it once it has seen
    // the size of the last chunk.
    if (state_ == State::kBody && parser_->chunked() && input_.size() < kLastChunkBytes) return;
    error_code error;
    const size_t used = Put(&error);
    input_.erase(0, used);
    if (error == http::error::body_limit) return Refuse(BodyTooLong("too many", *route_));
    if (state_ == State::kHeader) header_bytes_ += used;
    const size_t unparsed_header_bytes = parser_->is_header_done() ? 0 : input_.size();
    if (header_bytes_ + unparsed_header_bytes > kMaxHttpHeaderBytes) error = http::error::header_limit;
    if (error && error != http::error::need_more) return Refuse(RefusalOf(error, !any_parsed_));
    any_parsed_ = any_parsed_ || used > 0;
    if (state_ == State::kHeader && parser_->is_header_done()) OnHeader();
    if (state_ == State::kBody && !OnBody()) return;
    if (state_ == State::kBody && parser_->is_done()) OnRequest();
    if (!error) continue;
    // The parser takes the head of a chunk, and the fields after the last one, in whole.
    if (state_ == State::kBody && input_.size() > kMaxHttpHeaderBytes)
      Refuse(RefusalOf(http::error::header_limit, false));
    return;
  }
}

void HttpConnection::OnHeader() {
  const HttpParsedHead& head = parser_->get();
  output_.Start({.http10 = head.version() == kHttp10,
                 .head_only = head.method() == http::verb::head,
                 .keep_alive = head.keep_alive() && !shared_->draining});
  cors_headers_ = CorsHeaders();
  if (std::optional<HttpReply> refusal = CheckHead(head)) return Refuse(*refusal);
  request_ = RequestOf(head);
  request_.peer = peer_;
  request_.caller.address = TenantOfAddress(peer_);
  HttpRouteTable::Match match = shared_->routes.Find(request_.method, request_.path);
  request_.parameter = std::move(match.parameter);
  route_ = match.route;
  if (std::optional<HttpReply> refusal = CheckBrowser()) return Answer(RefusalOfRoute(*std::move(refusal)));
  if (match.route == nullptr || match.malformed)
    return Answer(UnroutedReply(shared_->routes, shared_->cors, request_, match));
  if (match.route->guard != nullptr) {
    if (std::optional<HttpReply> refusal = match.route->guard(&request_)) return Answer(*std::move(refusal));
  }
  if (match.route->open != nullptr) return OpenHandler(*match.route);
  if (parser_->chunked() || parser_->content_length().value_or(0) > 0) {
    return Answer(RefusalOfRoute(TextReply(413, "this path takes no body")));
  }
  Answer(match.route->answer(request_));
}

std::optional<HttpReply> HttpConnection::CheckBrowser() const {
  if (shared_->has_keys != nullptr && shared_->has_keys()) return std::nullopt;
  std::optional<HttpReply> refusal = shared_->browsers.CheckCaller(request_);
  const bool takes_body = route_ != nullptr && route_->open != nullptr;
  if (!refusal.has_value() && takes_body) refusal = shared_->browsers.CheckBodyType(request_, route_->takes_binary);
  return refusal;
}

void HttpConnection::OpenHandler(const HttpRoute& route) {
  const auto coding = parser_->get()[http::field::content_encoding];
  if (!coding.empty() && !boost::beast::iequals(coding, "identity")) {
    return Answer(RefusalOfRoute(TextReply(kUnsupportedMediaType, "Content-Encoding is not \"identity\"")));
  }
  const uint64_t length = parser_->content_length().value_or(0);
  if (length > route.max_body_bytes) return Answer(RefusalOfRoute(BodyTooLong(absl::StrCat(length), route)));
  handler_ = route.open();
  if (std::optional<HttpReply> refusal = handler_->Admit(request_, length)) {
    handler_.reset();
    return Answer(*std::move(refusal));
  }
  parser_->body_limit(static_cast<uint64_t>(route.max_body_bytes));
  state_ = State::kBody;
  body_bytes_ = 0;
  deadline_ = Clock::now() + shared_->timeouts.read;
  if ((length > 0 || parser_->chunked()) && input_.empty() && parser_->get().count(http::field::expect) > 0 &&
      parser_->get().version() == kHttp11) {
    output_.AppendContinue();
    Flush();
  }
}

// A client that has sent fast may not rest on that: else a body could be held for minutes with its last byte to come.
bool HttpConnection::OnBody() {
  const size_t more = parser_->get().body().size() - body_bytes_;
  if (more == 0) return true;
  body_bytes_ += more;
  deadline_ = std::min<Clock::time_point>(*deadline_ + static_cast<int64_t>(more) * kTimePerBodyByte,
                                          Clock::now() + shared_->timeouts.read);
  std::optional<HttpReply> refusal = handler_->OnBodyBytes(more);
  if (!refusal.has_value()) return true;
  handler_.reset();
  output_.DenyKeepAlive();  // what else comes of the body is no request
  SendWhole(*std::move(refusal));
  return false;
}

void HttpConnection::OnRequest() {
  state_ = State::kResponding;
  deadline_.reset();
  started_ = true;
  auto exchange = std::make_shared<PostedExchange>(shared_from_this(), ++exchange_, std::move(request_));
  std::string body = std::move(parser_->get().body());
  parser_.reset();
  handler_->Start(std::move(exchange), std::move(body));
}

void HttpConnection::Answer(HttpReply reply) {
  const uint64_t length = parser_->content_length().value_or(0);
  if (parser_->chunked() || length > input_.size()) {
    output_.DenyKeepAlive();  // the body would have to be read before the next request
  } else {
    input_.erase(0, length);
  }
  SendWhole(std::move(reply));
}

void HttpConnection::Refuse(const HttpReply& reply) {
  handler_.reset();
  if (!parser_->is_header_done() || header_bytes_ > kMaxHttpHeaderBytes) {
    output_.Start({});
    cors_headers_ = CorsHeaders();
  }
  output_.DenyKeepAlive();
  SendWhole(RefusalOfRoute(reply));
}

std::vector<HttpHeader> HttpConnection::CorsHeaders() const {
  const auto origin = parser_->get()[http::field::origin];
  return shared_->cors.HeadersFor({origin.data(), origin.size()});
}

HttpReply HttpConnection::RefusalOfRoute(HttpReply reply) const {
  return InTheFormOf(route_, std::move(reply));
}

void HttpConnection::SendWhole(HttpReply reply) {
  state_ = State::kResponding;
  deadline_ = Clock::now() + shared_->timeouts.write;
  AppendHeaders(&reply);
  output_.AppendWhole(reply);
  Flush();
}

void HttpConnection::AppendHeaders(HttpReply* reply) {
  if (shared_->on_response) shared_->on_response(route_ == nullptr ? "other" : route_->path, reply->status);
  if (shared_->draining) output_.DenyKeepAlive();
  reply->headers.insert(reply->headers.end(), cors_headers_.begin(), cors_headers_.end());
  if (handler_ != nullptr) handler_->AddHeaders(reply);
}

void HttpConnection::Respond(uint64_t exchange, HttpReply reply) {
  if (!IsCurrent(exchange)) return;
  if (!broken_) return SendWhole(std::move(reply));
  output_.Drop();
  FinishIfOver();
}

void HttpConnection::Begin(uint64_t exchange, HttpReply head, std::string idle_text) {
  if (!IsCurrent(exchange)) return;
  if (broken_) return handler_->OnWriteDone(false);
  const std::string first = std::exchange(head.body, "");
  AppendHeaders(&head);
  output_.AppendHead(head);
  idle_text_ = std::move(idle_text);
  if (!first.empty()) output_.AppendPiece(first);
  write_pending_ = true;
  Flush();
}

void HttpConnection::Write(uint64_t exchange, const std::string& bytes) {
  if (!IsCurrent(exchange)) return;
  if (broken_ || output_.head_only()) return handler_->OnWriteDone(!broken_);
  output_.AppendPiece(bytes);
  write_pending_ = true;
  Flush();
}

void HttpConnection::End(uint64_t exchange, const std::string& bytes) {
  if (!IsCurrent(exchange)) return;
  if (broken_) {
    output_.Drop();
  } else {
    deadline_ = Clock::now() + shared_->timeouts.write;
    if (!bytes.empty()) output_.AppendPiece(bytes);
    output_.AppendEnd();
    Flush();
  }
  FinishIfOver();  // of HEAD, nothing may be left to send
}

void HttpConnection::AbortExchange(uint64_t exchange) {
  if (IsCurrent(exchange)) Abort();
}

void HttpConnection::AbortIfAdmitted() {
  if (started_) return Abort();
  if (handler_ != nullptr) Close();
}

void HttpConnection::Flush() {
  if (writing_ || broken_ || output_.empty()) return;
  writing_ = true;
  outgoing_ = output_.Take();
  write_outgoing_ = std::exchange(write_pending_, false);
  last_write_ = Clock::now();
  stream_->Write(asio::buffer(outgoing_), [self = shared_from_this()](error_code error) { self->OnWritten(error); });
}

void HttpConnection::OnWritten(error_code error) {
  writing_ = false;
  if (std::exchange(write_outgoing_, false)) handler_->OnWriteDone(!error);
  if (state_ == State::kClosed) return;
  if (error && state_ != State::kResponding) return Close();
  if (error) Break();
  Flush();
  FinishIfOver();
}

void HttpConnection::FinishIfOver() {
  if (state_ != State::kResponding || !output_.ended() || writing_ || !output_.empty()) return;
  any_served_ = true;
  started_ = false;
  if (const std::shared_ptr<HttpHandler> handler = std::move(handler_)) handler->OnDone();
  if (broken_) return Close();
  if (!output_.keep_alive() || shared_->draining || input_ended_) return Linger();
  AwaitRequest();
}

void HttpConnection::Abort() {
  stream_->ResetOnClose();  // nothing more is worth sending
  Break();
}

void HttpConnection::Break() {
  if (std::exchange(broken_, true)) return;
  deadline_.reset();
  stream_->Close();
  output_.Clear();
  if (started_ && !output_.ended()) handler_->OnCancel();
  if (std::exchange(write_pending_, false)) handler_->OnWriteDone(false);
  FinishIfOver();
}

void HttpConnection::Linger() {
  if (input_ended_) return Close();
  state_ = State::kLingering;
  deadline_ = Clock::now() + kLinger;
  input_.clear();
  stream_->FinishSending();
  Read();
}

void HttpConnection::Close() {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  on_closed_(this);
  deadline_.reset();
  handler_.reset();
  stream_->Close();
}

}  // namespace dunlin::server
