// SPDX-License-Identifier: Apache-2.0
// Graphs of decode steps. A decode step of a few sequences repeats: one that follows has the same number of rows and
// (StepInputs::RoundBounds) the same bounds, and differs in device memory alone. Such a pass is recorded when its
// inputs are met for the second time, so that the device has run its operations before, and launched as a graph from
// then on. At most kMaxGraphs are kept; the one unused for longest makes room. What cannot be recorded runs as it would
// without. Thread rule: the engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/layers/pass_inputs.h"
#include "engine/request/types.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Rows of a pass that is recorded. With more of them the device computes longer than the host enqueues.
inline constexpr int32_t kMaxGraphRows = 64;
// The driver keeps a graph's operations, with up to 1 KB of parameters each, in memory of its own: of 32 layers some
// 330.
inline constexpr size_t kMaxGraphs = 64;

class StepGraphs {
 public:
  // device: null, or without graphs: every pass runs as it is. It outlives this.
  explicit StepGraphs(kernels::Device* device);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  bool on() const { return device_ != nullptr; }

  // Enqueues the operations of `pass`, by a graph of them where there is one. pass: enqueues what depends on the
  // profile and the inputs alone, any number of times; its status is returned unless its operations are launched as a
  // graph.
  absl::Status Run(const ExecutionProfile& profile, const PassInputs& inputs, absl::FunctionRef<absl::Status()> pass);

 private:
  struct Entry {
    ExecutionProfile profile;
    PassInputs inputs;
    kernels::DeviceGraph* graph = nullptr;
    bool refused = false;    // it could not be recorded
    uint64_t last_used = 0;  // of clock_
  };

  Entry* Find(const ExecutionProfile& profile, const PassInputs& inputs);
  void Add(const ExecutionProfile& profile, const PassInputs& inputs);
  void Record(Entry* entry, absl::FunctionRef<absl::Status()> pass);
  void Destroy(Entry* entry);

  kernels::Device* device_;
  std::vector<Entry> entries_;  // of those met, with and without a graph; never more than reserved
  uint64_t clock_ = 0;          // calls of Run
};

}  // namespace dunlin::engine
