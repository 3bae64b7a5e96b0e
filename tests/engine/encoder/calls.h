// SPDX-License-Identifier: Apache-2.0
// Calls for tests: inputs of given lengths whose tokens count up, and a sink that remembers.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "tests/simulation/recording_sink.h"

namespace dunlin::engine {

struct RecordingEncodeSink : EncodeSink {
  void OnFinish(std::unique_ptr<EncodeCall> finished) override {
    call = std::move(finished);
    num_finishes.fetch_add(1);
  }
  bool Wait() const {
    return simulation::RecordingSink::WaitUntil([this] { return num_finishes.load() > 0; });
  }
  std::unique_ptr<EncodeCall> call;  // once num_finishes is 1
  std::atomic<int> num_finishes{0};
};

inline constexpr int32_t kTestDimensions = 2;

inline std::unique_ptr<EncodeCall> TestCall(const std::vector<int32_t>& lengths,
                                            AttentionBackend backend = AttentionBackend::kFlash,
                                            TenantId tenant = kSharedTenant) {
  auto call = std::make_unique<EncodeCall>();
  call->request.lengths = lengths;
  for (const int32_t length : lengths) {
    for (int32_t i = 0; i < length; ++i) call->request.tokens.push_back(i);
  }
  call->request.dimensions = kTestDimensions;
  call->request.profile.attention_backend = backend;
  call->request.tenant = tenant;
  call->vectors.resize(lengths.size() * static_cast<size_t>(kTestDimensions));
  return call;
}

}  // namespace dunlin::engine
