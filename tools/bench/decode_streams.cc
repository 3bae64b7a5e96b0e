// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/decode_streams.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tools/bench/timing.h"

namespace dunlin::tools::bench {
namespace {

using engine::FinishReason;

// The tokens of one stream, with the time of each. Written by the engine thread, read after the end.
class Stream : public engine::OutputSink {
 public:
  explicit Stream(int32_t new_tokens) {
    tokens_.reserve(static_cast<size_t>(new_tokens));
    times_.reserve(static_cast<size_t>(new_tokens));
  }
  bool OnToken(const engine::TokenOutput& token) override {
    tokens_.push_back(token.token_id);
    times_.push_back(Now());
    return true;
  }
  void OnPromptToken(int32_t /*position*/, const engine::TokenOutput& /*token*/) override {}
  void OnFinish(const engine::FinishInfo& info) override {
    info_ = info;
    ended_.store(true);
    ended_.notify_all();
  }

  // As long as the engine runs; a failed device ends it too.
  const engine::FinishInfo& WaitForEnd() const {
    ended_.wait(false);
    return info_;
  }
  const std::vector<engine::TokenId>& tokens() const { return tokens_; }
  const std::vector<double>& times() const { return times_; }

 private:
  std::vector<engine::TokenId> tokens_;
  std::vector<double> times_;
  engine::FinishInfo info_;
  std::atomic<bool> ended_{false};
};

}  // namespace

engine::TimeNs StreamClock() {
  return static_cast<engine::TimeNs>(Now() * 1e9);
}

absl::StatusOr<StreamsDecode> DecodeStreams(const std::vector<engine::Request>& requests, engine::Engine* engine) {
  std::vector<std::shared_ptr<Stream>> streams;
  for (const engine::Request& request : requests) {
    if (absl::Status status = engine->Validate(request); !status.ok()) return status;
    streams.push_back(std::make_shared<Stream>(request.stopping.max_tokens));
    const auto id = engine->Submit(request, streams.back());
    if (!id.ok()) return id.status();
  }
  StreamsDecode decode;
  double begin = 0.0;
  double end = 0.0;
  for (const auto& stream : streams) {
    const engine::FinishInfo& info = stream->WaitForEnd();
    if (info.reason != FinishReason::kLength) {
      return absl::DataLossError(absl::StrCat("a stream ended after ", stream->tokens().size(), " tokens, by reason ",
                                              static_cast<int>(info.reason)));
    }
    begin = std::max(begin, stream->times().front());
    end = end == 0.0 ? stream->times().back() : std::min(end, stream->times().back());
    decode.tokens.insert(decode.tokens.end(), stream->tokens().begin(), stream->tokens().end());
    decode.drafted += info.drafted_tokens;
    decode.accepted += info.accepted_tokens;
  }
  int64_t drawn = 0;
  for (const auto& stream : streams) {
    drawn += std::count_if(stream->times().begin(), stream->times().end(),
                           [begin, end](double time) { return time > begin && time <= end; });
  }
  if (end <= begin) return absl::FailedPreconditionError("--new-tokens are too few: the streams never decode together");
  decode.tokens_per_s = static_cast<double>(drawn) / (end - begin);
  return decode;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

}  // namespace dunlin::tools::bench
