// SPDX-License-Identifier: Apache-2.0
// Calls for tests: inputs of given lengths whose tokens count up, and a sink that remembers.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "engine/model/spec/image_spec.h"
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

// Images of an encoder of kTestImage, each with as many patches as it says; patch i has the value i.
inline constexpr ImageSpec kTestImage = {.patch_size = 1, .merge = 2, .out_dim = kTestDimensions};

inline std::unique_ptr<EncodeCall> TestImages(const std::vector<ImageGrid>& grids) {
  auto call = std::make_unique<EncodeCall>();
  EncodeRequest& request = call->request;
  request.grids = grids;
  request.dimensions = kTestDimensions;
  int64_t num_patches = 0;
  for (const ImageGrid& grid : grids) {
    request.lengths.push_back(static_cast<int32_t>(grid.num_patches()));
    num_patches += grid.num_patches();
  }
  for (int64_t i = 0; i < num_patches; ++i) {
    request.patches.insert(request.patches.end(), static_cast<size_t>(kTestImage.patch_features()),
                           static_cast<float>(i));
  }
  call->vectors.resize(static_cast<size_t>(num_patches / kTestImage.patches_per_row() * kTestDimensions));
  return call;
}

}  // namespace dunlin::engine
