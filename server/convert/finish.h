// How a sequence's end looks on the wire: the Finish of a good end, the status of a bad one.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "dunlin/v1/generation.pb.h"
#include "engine/types.h"

namespace dunlin::server {

// "stop", "length", "cancelled", ...: the word of logs and metrics.
const char* FinishReasonName(engine::FinishReason reason);

// OK for kStop and kLength; what the call ends with for the others.
absl::Status StatusOf(engine::FinishReason reason);

// Usage and timings of a good end. completion_tokens: those that were sent; after a stop string they are fewer than the
// engine made. A stop token goes to matched_stop; a stop string is set by the caller.
// REQUIRES: info.reason is kStop or kLength.
v1::Finish FinishToWire(const engine::FinishInfo& info, int32_t completion_tokens);

// Usage and timings alone, with the reason STOP: the edge matched a stop string and ended the sequence itself.
v1::Finish FinishOfStopString(const engine::FinishInfo& info, int32_t completion_tokens, const std::string& stop);

}  // namespace dunlin::server
