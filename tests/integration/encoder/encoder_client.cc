// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/encoder/encoder_client.h"

#include <chrono>
#include <numeric>
#include <utility>

#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

TimeNs Now() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

std::unique_ptr<EncodeCall> MakeCall(EncodeRequest request, const ImageSpec& image) {
  auto call = std::make_unique<EncodeCall>();
  call->request = std::move(request);
  const std::vector<int32_t>& lengths = call->request.lengths;
  const int64_t num_patches = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const auto num_vectors =
      call->request.grids.empty() ? lengths.size() : static_cast<size_t>(num_patches / image.patches_per_row());
  call->vectors.resize(num_vectors * static_cast<size_t>(call->request.dimensions));
  return call;
}

EncoderClient::EncoderClient(const Model* model, const EngineOptions& options) : image_(model->config().image) {
  auto runtime = ModelEncoderRuntime::Create(model, options);
  DUNLIN_CHECK(runtime.ok(), "the test's encoder memory");
  engine_ = std::make_unique<EncoderEngine>(options, model->config(), *std::move(runtime), &Now, nullptr);
}

std::shared_ptr<WaitingSink> EncoderClient::Submit(const EncodeRequest& request) {
  DUNLIN_CHECK(engine_->Validate(request).ok(), "the test's request");
  auto sink = std::make_shared<WaitingSink>();
  DUNLIN_CHECK(engine_->Submit(MakeCall(request, image_), sink).ok(), "the test's queue");
  return sink;
}

std::vector<float> EncoderClient::Run(const EncodeRequest& request) {
  const std::unique_ptr<EncodeCall> call = Submit(request)->Wait();
  DUNLIN_CHECK(call->reason == FinishReason::kStop, "the test's call");
  return call->vectors;
}

}  // namespace dunlin::engine
