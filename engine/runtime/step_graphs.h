// SPDX-License-Identifier: Apache-2.0
// Graphs of decode steps. A decode step of a few sequences repeats: one that follows has the same number of rows and
// (StepInputs::RoundShapes) the same bounds, and differs in device memory alone. Such a pass is recorded when its
// inputs are met for the second time, so that the device has run its operations before, and launched as a graph from
// then on; RecordDecodeSteps meets those that steps are rounded up to before READY. One pass of a step is recorded at
// most, so that a step waits for one recording. What cannot be recorded runs as it would without.
//
// The driver keeps graphs in device memory of its own. The plan has room for num_graphs: it is allocated in as many
// pieces, one of which is given back before a graph is recorded. Once there are as many graphs, the one unused for
// longest makes room. Thread rule: the engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/layers/pass_inputs.h"
#include "engine/request/types.h"
#include "engine/runtime/decode_shapes.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

struct MemoryPlan;

inline constexpr int32_t kMaxGraphs = 64;
// Passes that were met and have no graph.
inline constexpr size_t kMaxMet = 64;
// Of one graph: a kernel's parameters may have 4 KB, and a layer launches up to 16 kernels.
constexpr size_t GraphBytes(int32_t num_layers) {
  return (static_cast<size_t>(num_layers) + 1) * 16 * 4096;
}

class StepGraphs {
 public:
  // device: null, or without graphs: every pass runs as it is. It outlives this. Where it has no room for all graphs of
  // the plan, there are fewer.
  StepGraphs(kernels::Device* device, const MemoryPlan& plan);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  bool on() const { return max_graphs_ > 0; }
  int32_t num_graphs() const { return num_graphs_; }
  bool is_full() const { return num_graphs_ == max_graphs_; }
  // Recordings that the device refused.
  int32_t num_failed() const { return num_failed_; }
  // From now on every pass runs as it is. REQUIRES: no graph is in flight.
  void TurnOff();

  // Before the passes of a step.
  void BeginStep() { may_record_ = true; }
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

  void Reserve(size_t bytes_each);
  Entry* Find(const ExecutionProfile& profile, const PassInputs& inputs);
  void Add(const ExecutionProfile& profile, const PassInputs& inputs);
  // The one unused for longest, with a graph or without; null: there is none.
  Entry* Oldest(bool recorded);
  void MakeRoom();
  void Record(Entry* entry, absl::FunctionRef<absl::Status()> pass);
  void Destroy(Entry* entry);

  kernels::Device* device_;
  int32_t max_graphs_ = 0;
  int32_t num_graphs_ = 0;
  int32_t num_failed_ = 0;
  size_t reserve_bytes_ = 0;    // of each piece
  std::vector<void*> reserve_;  // for graphs that were never recorded
  std::vector<Entry> entries_;  // of those met, with and without a graph; never more than reserved
  uint64_t clock_ = 0;          // calls of Run
  bool may_record_ = true;
};

}  // namespace dunlin::engine
