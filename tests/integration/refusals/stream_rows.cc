// SPDX-License-Identifier: Apache-2.0
// Limits of the server that others' requests fill, and clients that leave, wait and do not read, at every stage.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

using enum Step;
using grpc::StatusCode;
using std::chrono::milliseconds;

constexpr char kNarrowConfig[] = "narrow.json";

// A prompt of thousands of tokens, which takes many steps.
Sent LongPrompt(int max_tokens = 10) {
  return GenerateSlowly(max_tokens, absl::StrCat("token_ids { ", Times(4500, "ids: 7 "), "}"));
}

}  // namespace

Group QueueRows() {
  const char* slow = kSlowModel;
  return {
      "Queues",
      kNarrowConfig,
      {
          {"a queue full of requests", WithHeld(GenerateSlowly(4), {slow, slow, slow, slow}),
           Overloaded("QUEUE_FULL", "scheduler.max_queued_requests",
                      "queue has 3 requests; limit is 3 (scheduler.max_queued_requests)")},
          {"more outputs than the queue takes", WithHeld(GenerateSlowly(4, "sampling { n: 4 }"), {slow}),
           Overloaded("QUEUE_FULL", "scheduler.max_queued_requests",
                      "queue has 3 requests; limit is 3 (scheduler.max_queued_requests)")},
          {"a queue full of tokens",
           WithHeld(GenerateSlowly(4, absl::StrCat("token_ids { ", Times(4996, "ids: 7 "), "}")), {slow, slow}),
           Overloaded("QUEUE_FULL", "scheduler.max_queued_tokens",
                      "queue has 3 prompt tokens and the request 4999; limit is 5000 (scheduler.max_queued_tokens)")},
          {"a prompt over the whole queue",
           GenerateSlowly(4, absl::StrCat("token_ids { ", Times(5001, "ids: 7 "), "}")),
           Invalid("token_ids.ids", "has 5004 tokens; limit is 5000 (scheduler.max_queued_tokens)")},
          {"requests in flight", WithHeld(GenerateSlowly(4), {slow, slow, slow, slow, "slow too", "slow too"}),
           Overloaded("TOO_MANY_REQUESTS", "limits.max_concurrent_requests",
                      "6 requests are in flight; limit is 6 (limits.max_concurrent_requests)")},
          {"tokenize beside requests in flight",
           WithHeld(Tokenize("model: 'demo' text: 'x'"), {slow, slow, slow, slow, "slow too", "slow too"}),
           Overloaded("TOO_MANY_REQUESTS", "limits.max_concurrent_requests",
                      "6 requests are in flight; limit is 6 (limits.max_concurrent_requests)")},
          {"embed beside requests in flight", WithHeld(Embed(""), {slow, slow, slow, slow, "slow too", "slow too"}),
           Overloaded("TOO_MANY_REQUESTS", "limits.max_concurrent_requests",
                      "6 requests are in flight; limit is 6 (limits.max_concurrent_requests)")},
          {"bytes to tokenise", Generate(absl::StrCat("text: '", Times(70000, "a"), "'")),
           Overloaded("TOO_MANY_QUEUED_BYTES", "limits.max_queued_bytes",
                      "the request exceeds the memory for requests waiting to be tokenised; limit is 65536 bytes "
                      "(limits.max_queued_bytes)")},
          {"bytes of log-probabilities", GenerateSlowly(2000, "sampling { n: 8 } output { logprobs: 20 }"),
           Overloaded(
               "TOO_MANY_OUTPUT_BYTES", "limits.max_output_bytes",
               "the buffers for the tokens, log-probabilities and grammar of the request take ~ bytes, more than the "
               "others leave; limit is 1048576 bytes for all (limits.max_output_bytes)")},
          {"inputs of a narrow server", Embed(Times(4, "inputs { text: 'x' } ")),
           Invalid("inputs", "has 5 entries; limit is 1 to 4 (limits.max_embedding_inputs)")},
          {"a message over a narrow limit", Bytes(kGenerateMethod, Times(262145, "x")),
           OfGrpc(StatusCode::RESOURCE_EXHAUSTED, "Received message larger than max (262145 vs. 262144)")},
          {"a text that takes no bytes but the limit's", Generate(absl::StrCat("text: '", Times(60000, "a"), "'")),
           Invalid(
               "text",
               "has more than 2046 tokens; limit is 1023, one less than the context (models[].max_context_tokens)")},
      },
      {},
      /*fills_the_server=*/true};
}

Group StreamRows() {
  const Answer cancelled = OfGrpc(StatusCode::CANCELLED, "CANCELLED");
  const Answer late = OfGrpc(StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded");
  const Answer slow_reader = Refused(
      StatusCode::RESOURCE_EXHAUSTED, "SLOW_READER",
      "the client reads too slowly; limit is 1024 tokens that wait for it (limits.max_unsent_tokens) and 1000 ms "
      "for a message (limits.slow_reader_timeout_ms)");
  const Sent endless = GenerateSlowly(30000);
  const Sent short_one = GenerateSlowly(8);
  return {
      "Streams",
      kNarrowConfig,
      {
          {"half-closed without a message", WithSteps(short_one, {kHalfClose}),
           Refused(
               StatusCode::INVALID_ARGUMENT, "MALFORMED_MESSAGE",
               "the message is not a dunlin.v1.GenerateRequest: it is malformed, or one of its strings is not UTF-8")},
          {"never half-closed", WithSteps(short_one, {kSend}), Ok()},
          {"two messages", WithSteps(short_one, {kSend, kSend, kHalfClose}), Ok()},
          {"a hundred messages", WithSteps(short_one, std::vector<Step>(100, kSend)), Ok()},
          {"cancelled before the message", WithSteps(short_one, {kCancel}), cancelled},
          {"cancelled before it is read", WithSteps(endless, {kSend, kCancel}), cancelled},
          {"cancelled after the half-close", WithSteps(endless, {kSend, kHalfClose, kCancel}), cancelled},
          {"cancelled while it waits",
           WithHeld(WithSteps(endless, {kSend, kHalfClose, kAwaitWaiting, kCancel, kAwaitNoneWaiting}), {kSlowModel}),
           cancelled},
          // So many tokens that it still runs where the machine is too busy to see the prefill.
          {"cancelled in the prefill",
           WithSteps(LongPrompt(20000), {kSend, kHalfClose, kAwaitRunning, kCancel, kAwaitIdle}), cancelled},
          {"cancelled between tokens", WithSteps(endless, {kSend, kHalfClose, kRead, kRead, kCancel, kAwaitIdle}),
           cancelled},
          {"cancelled between tokens without a half-close",
           WithSteps(endless, {kSend, kRead, kRead, kCancel, kAwaitIdle}), cancelled},
          {"cancelled with four outputs",
           WithSteps(GenerateSlowly(3000, "sampling { n: 4 }"), {kSend, kHalfClose, kRead, kRead, kCancel, kAwaitIdle}),
           cancelled},
          {"cancelled after the end", WithSteps(short_one, {kSend, kHalfClose, kReadAll, kCancel}), cancelled},
          {"a deadline that has passed", WithDeadline(short_one, milliseconds(-1000)), late},
          {"a deadline of a nanosecond", WithDeadline(short_one, std::chrono::nanoseconds(1)), late},
          {"a deadline of nothing", WithDeadline(short_one, milliseconds(0)), late},
          {"a deadline of a hundred years", WithDeadline(short_one, std::chrono::hours(100 * 365 * 24)), Ok()},
          {"a deadline in the queue", WithHeld(WithDeadline(GenerateSlowly(2), milliseconds(150)), {kSlowModel}), late},
          {"a deadline that the output would miss",
           WithHeld(WithDeadline(endless, milliseconds(150)), {kSlowModel}),
           {.code = StatusCode::RESOURCE_EXHAUSTED,
            .message = "the output would be complete after ~ ms, beside ~ sequences that run and behind ~ that wait; "
                       "the deadline is in ~ ms",
            .reason = "WOULD_MISS_DEADLINE",
            .retry_info = true}},
          {"a deadline in the prefill", WithDeadline(LongPrompt(), milliseconds(60)), late},
          {"a deadline between tokens", WithDeadline(endless, milliseconds(200)), late},
          {"a client that never reads",
           WithSteps(GenerateSlowly(20000, "output { logprobs: 20 }"), {kSend, kHalfClose, kAwaitRunning, kAwaitIdle}),
           slow_reader},
          {"a client that reads once",
           WithSteps(GenerateSlowly(20000, "output { logprobs: 20 }"), {kSend, kHalfClose, kRead, kAwaitIdle}),
           slow_reader},
      }};
}

}  // namespace dunlin::integration
