// SPDX-License-Identifier: Apache-2.0
// A record whose fields all have another value, so that two that are swapped where they are shown, or one that is left
// out, are seen.
#pragma once

#include "engine/request/types.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server {

inline constexpr engine::TimeNs kSecond = 1'000'000'000;

// A generation of 2 outputs of 29 tokens each that ended OK.
inline RequestRecord PrimeRecord() {
  RequestRecord record;
  record.model = "m";
  record.profile = engine::ExecutionProfile{};
  record.profile->attention_backend = engine::AttentionBackend::kMath;
  record.profile->precision = engine::Precision::kFp8;
  record.finish_reason = "length";
  record.prompt_tokens = 31;
  record.cached_tokens = 37;
  record.completion_tokens = 58;
  record.max_tokens = 41;
  record.num_outputs = 2;
  record.temperature = 0.5F;
  record.top_p = 0.75F;
  record.preemptions = 43;
  record.arrival = 47 * kSecond;
  record.first_scheduled = record.arrival + 3 * kSecond;
  record.first_token = record.first_scheduled + 7 * kSecond;
  record.finished = record.first_token + 13 * kSecond;
  return record;
}

}  // namespace dunlin::server
