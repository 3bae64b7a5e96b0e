// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/parse_share.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/json.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

// An empty message in a repeated field takes 2 bytes on the wire and some 130 as an object.
constexpr size_t kBytesPerMessageByte = 64;

}  // namespace

absl::Status ParseShare::TakeForJson(ServingCore* core, std::string_view body) {
  const size_t bytes = engine::JsonTreeBytes(body);
  const auto limit = static_cast<size_t>(core->limits().max_value_bytes);
  if (bytes > limit) {
    return InvalidField("the body", "holds too many values, lists and objects",
                        absl::StrCat(limit >> 20U, " MiB of memory for them"));
  }
  return Take(core, std::min(bytes + body.size(), limit));
}

absl::Status ParseShare::TakeForMessage(ServingCore* core, size_t message_bytes) {
  return Take(core,
              std::min(kBytesPerMessageByte * message_bytes, static_cast<size_t>(core->limits().max_value_bytes)));
}

absl::Status ParseShare::Take(ServingCore* core, size_t bytes) {
  if (bytes <= kSmallBytes) return absl::OkStatus();
  const absl::Time deadline = absl::Now() + kLongestWait;
  const bool taken = core->value_budget()->TakeUntil(deadline, static_cast<int64_t>(bytes), &share_);
  core->text_pool()->NoteProgress();
  return taken ? absl::OkStatus() : ParseMemoryRefused(bytes, core->limits());
}

}  // namespace dunlin::server
