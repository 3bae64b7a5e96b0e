// SPDX-License-Identifier: Apache-2.0
// A client's call in a simulated server, from its arrival to its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "tests/simulation/fake_edge.h"
#include "tests/simulation/fake_engine.h"
#include "tests/simulation/recording_sink.h"

namespace dunlin::simulation {

class EdgeSink : public RecordingSink {
 public:
  EdgeSink(size_t room, FakeEngine* fake_engine) : RecordingSink(64, 64, room), engine_(fake_engine) {}
  void OnFinish(const engine::FinishInfo& finish) override {
    RecordingSink::OnFinish(finish);
    engine_->OnEnded();
  }

 private:
  FakeEngine* engine_;
};

struct Call {
  enum class State : uint8_t { kToCome, kTokenised, kSubmitted, kOver };
  const PlannedRequest* planned = nullptr;
  State state = State::kToCome;
  std::optional<Held> held;
  FakeEngine* engine = nullptr;  // which it leases
  std::shared_ptr<EdgeSink> sink;
  engine::RequestId id = 0;  // once it was submitted
  size_t stop_after = 64;    // tokens, with which a stop string ends
  bool cancelled = false;    // by its client
  bool stopped = false;      // by a stop string
  int64_t launches = 0;      // of its engine, when its end was requested first; 0: it was not
};

}  // namespace dunlin::simulation
