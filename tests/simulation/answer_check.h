// SPDX-License-Identifier: Apache-2.0
// What a client was told against what its request gives alone (reference.h).
#pragma once

#include <cstddef>
#include <string>

#include "engine/request/types.h"
#include "tests/simulation/recording_sink.h"
#include "tests/simulation/reference.h"

namespace dunlin::simulation {

struct Told {
  const engine::Request* request;
  const RecordingSink* sink;  // has had its OnFinish
  size_t sink_room;           // tokens after which its reader is too slow
  bool ended_from_outside;    // cancelled, stopped by a stop string, or with its engine
};

// "" or the first contradiction to the request run alone. One with a fault in its prompt need not meet it, because it
// may be given pages that others have computed, and meets it later if it is preempted.
std::string CheckAnswer(const Told& told, const ReferenceModel& model);

}  // namespace dunlin::simulation
