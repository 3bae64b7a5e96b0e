// SPDX-License-Identifier: Apache-2.0
#include "tools/load/http_client.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/load/http_exchange.h"
#include "tools/load/openai.h"
#include "tools/load/sse_parser.h"

namespace dunlin::tools::load {
namespace {

constexpr size_t kMaxErrorBytes = 1 << 16;  // of a response that is not a stream

// One streamed completion. Its exchange owns it; the runner holds it too until its call has ended.
class StreamedRequest final : public ActiveRequest,
                              public HttpHandler,
                              public std::enable_shared_from_this<StreamedRequest> {
 public:
  StreamedRequest(int32_t max_tokens, std::shared_ptr<Call> call) : max_tokens_(max_tokens), call_(std::move(call)) {}

  void Start(std::shared_ptr<HttpConnections> connections, const std::string& body, int64_t timeout_ms) {
    call_->OnSent();
    std::string request = PostRequest(connections->target(), body);
    exchange_ = HttpExchange::Start(std::move(connections), std::move(request), timeout_ms, shared_from_this());
  }

  void Cancel() override {
    if (const auto exchange = exchange_.lock()) exchange->Cancel();
  }

 private:
  bool OnBody(const HttpResponseHead& head, std::string_view bytes) override {
    if (head.status == 200) return TakeEvents(bytes);
    error_body_.append(bytes);
    if (error_body_.size() <= kMaxErrorBytes) return true;
    EndWithStatus(head);
    return false;
  }

  bool OnEnd(const HttpResponseHead& head) override {
    if (head.status != 200) {
      EndWithStatus(head);
      return false;
    }
    if (!saw_done_ && finish_reason_.empty()) {
      call_->End(Ending::kFailed, "EARLY_END", "the stream ended without a finish reason or [DONE]");
      return false;
    }
    if (!saw_usage_ && finish_reason_ == "length") call_->SetUsage(0, max_tokens_);
    call_->Complete();
    return true;
  }

  void OnFailure(HttpFailure failure, const std::string& message) override {
    const Ending ending = failure == HttpFailure::kTimedOut ? Ending::kDeadline : Ending::kFailed;
    call_->End(ending, failure == HttpFailure::kTruncated ? "EARLY_END" : "TRANSPORT", message);
  }

  // False: an event has ended the request.
  bool TakeEvents(std::string_view bytes) {
    std::vector<std::string> events;
    if (!events_.Feed(bytes, &events)) {
      call_->End(Ending::kFailed, "BAD_EVENT", "an event is longer than 1 MiB");
      return false;
    }
    for (const std::string& data : events) {
      const absl::StatusOr<OpenAiEvent> event = ParseOpenAiEvent(data);
      if (!event.ok()) {
        call_->End(Ending::kFailed, "BAD_EVENT", std::string(event.status().message()));
        return false;
      }
      saw_done_ |= event->done;
      if (!event->finish_reason.empty()) finish_reason_ = event->finish_reason;
      if (event->has_text && !call_->OnTokens(1)) {
        call_->End(Ending::kFailed, "CANCELLED", "");
        return false;
      }
      if (event->completion_tokens.has_value()) {
        saw_usage_ = true;
        call_->SetUsage(event->prompt_tokens.value_or(0), *event->completion_tokens);
      }
    }
    return true;
  }

  void EndWithStatus(const HttpResponseHead& head) {
    const bool refused = head.status == 429 || head.status == 503;
    call_->End(refused ? Ending::kRefused : Ending::kFailed, absl::StrCat("HTTP_", head.status),
               OpenAiErrorMessage(error_body_), head.has_retry_after);
  }

  const int32_t max_tokens_;
  const std::shared_ptr<Call> call_;
  std::weak_ptr<HttpExchange> exchange_;
  SseParser events_;
  std::string error_body_;
  std::string finish_reason_;
  bool saw_done_ = false;
  bool saw_usage_ = false;
};

class HttpClient final : public LoadClient {
 public:
  HttpClient(boost::asio::io_context* io, const HttpTarget& target, RequestOptions options)
      : options_(std::move(options)), connections_(std::make_shared<HttpConnections>(io, target)) {}

  // Only that a connection opens: OpenAI-compatible servers share no health or model endpoint.
  absl::StatusOr<Target> Connect(int64_t timeout_ms) override {
    if (absl::Status s = connections_->Probe(timeout_ms); !s.ok()) {
      return absl::UnavailableError(absl::StrCat("--address: ", connections_->target().host, ": ", s.message()));
    }
    return Target{};
  }

  std::shared_ptr<ActiveRequest> Start(const Prompt& prompt, const MixEntry&, uint64_t seed,
                                       std::shared_ptr<Call> call) override {
    auto request = std::make_shared<StreamedRequest>(prompt.max_tokens, std::move(call));
    request->Start(connections_, OpenAiBody(options_, prompt, seed), options_.timeout_ms);
    return request;
  }

 private:
  const RequestOptions options_;
  const std::shared_ptr<HttpConnections> connections_;
};

}  // namespace

std::unique_ptr<LoadClient> MakeHttpClient(boost::asio::io_context* io, const HttpTarget& target,
                                           const RequestOptions& options) {
  return std::make_unique<HttpClient>(io, target, options);
}

}  // namespace dunlin::tools::load
