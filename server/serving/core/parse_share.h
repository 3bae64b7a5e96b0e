// SPDX-License-Identifier: Apache-2.0
// The part of limits.max_value_bytes that a request takes while its message is parsed: values take up to 40 times the
// bytes of their text. Messages that need little take none. One thread, of the text pool; the core outlives it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/core/text_budget.h"

namespace dunlin::server {

class ParseShare {
 public:
  static constexpr absl::Duration kLongestWait = absl::Seconds(2);
  // What is parsed without asking: small messages pass large ones, and may be parsed on a transport's thread, which
  // never waits.
  static constexpr size_t kSmallBytes = size_t{512} << 10;

  // Waits for others. Errors: INVALID_ARGUMENT (more than there is for all), RESOURCE_EXHAUSTED with RetryInfo (it has
  // waited for kLongestWait). What it has is returned when this object ends.
  absl::Status TakeForJson(ServingCore* core, std::string_view body);
  // Of a message of protobuf.
  absl::Status TakeForMessage(ServingCore* core, size_t message_bytes);

 private:
  absl::Status Take(ServingCore* core, size_t bytes);

  std::optional<TextBudget::Share> share_;
};

}  // namespace dunlin::server
