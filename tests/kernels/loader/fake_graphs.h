// SPDX-License-Identifier: Apache-2.0
// The fake device's graphs: lists of work that runs again as often as a graph is launched, with the parameters that it
// was recorded with, so that a step that changes one of them shows in its results.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "tests/kernels/loader/fake_context.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::kernels {

struct FakeGraph {
  std::shared_ptr<const std::vector<FakeStream::Work>> work;
};

inline bool SupportsGraphs(const DeviceContext* context) {
  return reinterpret_cast<const FakeContext*>(context)->graphs;
}

inline bool BeginGraph(DeviceContext* context) {
  return SupportsGraphs(context) && !Of(context).failed && Of(context).stream.Begin();
}

inline DeviceGraph* EndGraph(DeviceContext* context) {
  auto work = Of(context).stream.End();
  if (work == nullptr || Of(context).failed || std::getenv(kFakeRefusesGraphs) != nullptr) return nullptr;
  if (const char* text = std::getenv(kFakeGraphsLack); text != nullptr) {
    const auto lacking = static_cast<size_t>(std::atoi(text));
    if (lacking < work->size()) work->erase(work->begin() + static_cast<std::ptrdiff_t>(lacking));
  }
  return reinterpret_cast<DeviceGraph*>(new FakeGraph{std::move(work)});
}

inline KernelStatus LaunchGraph(DeviceContext* context, DeviceGraph* graph) {
  if (Of(context).failed) return KernelStatus::kDeviceError;
  const auto work = reinterpret_cast<FakeGraph*>(graph)->work;
  if (const char* file = std::getenv(kFakeGraphsFile); file != nullptr) {
    std::ofstream(file, std::ios::app) << work->size() << "\n";
  }
  Of(context).stream.Add([work] {
    KernelStatus first_bad = KernelStatus::kOk;
    for (const FakeStream::Work& operation : *work) {
      const KernelStatus status = operation();
      if (first_bad == KernelStatus::kOk) first_bad = status;
    }
    return first_bad;
  });
  return KernelStatus::kOk;
}

inline void DestroyGraph(DeviceContext* /*context*/, DeviceGraph* graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
}

}  // namespace dunlin::kernels
