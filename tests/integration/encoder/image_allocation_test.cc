// SPDX-License-Identifier: Apache-2.0
// A batch of images allocates nothing: not where it is staged, in its layers or in its projector.
#include <gtest/gtest.h>

#include <vector>

#include "engine/encoder/encoder_runtime.h"
#include "tests/integration/encoder/image_goldens.h"
#include "tests/integration/model/allocation_counter.h"

namespace dunlin::engine {
namespace {

class ImageAllocation : public ::testing::TestWithParam<std::string> {};

TEST_P(ImageAllocation, ABatchAllocatesNothing) {
  if (!AllocationCounterWorks()) GTEST_SKIP() << "a sanitizer owns malloc";
  const std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16, Precision::kFp16};
  std::string reason;
  const TestModel test = LoadImageEncoder(GetParam(), OpenPlace(BestCpuPlace().front(), 2, &reason), precisions);
  const ImageSpec& image = test.model->config().image;
  EngineOptions options;
  options.max_context_tokens = 512;
  const auto runtime = *ModelEncoderRuntime::Create(test.model.get(), options);
  const EncodeRequest request = ImageRequest(ReadGoldenImages(GetParam()), image);
  std::vector<float> rows(request.patches.size() / static_cast<size_t>(image.patch_features()) *
                          static_cast<size_t>(image.out_dim));
  for (const AttentionBackend backend : kernels::kAutoOrder) {
    for (const Precision precision : precisions) {
      EncodeBatch batch{.profile = {DeviceKind::kCpu, backend, precision}, .inputs = {}};
      const float* patches = request.patches.data();
      float* vector = rows.data();
      for (size_t i = 0; i < request.grids.size(); ++i) {
        batch.inputs.push_back({.num_tokens = request.lengths[i],
                                .patches = patches,
                                .grid = request.grids[i],
                                .vector = vector,
                                .dimensions = image.out_dim});
        batch.num_tokens += request.lengths[i];
        patches += int64_t{request.lengths[i]} * image.patch_features();
        vector += int64_t{request.lengths[i] / image.patches_per_row()} * image.out_dim;
      }
      const AllocationCounter counter(AllocationCounter::Threads::kAll);
      ASSERT_TRUE(runtime->Run(&batch).ok());
      EXPECT_EQ(counter.count(), 0) << kernels::Name(backend) << " " << kernels::Name(precision);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Images, ImageAllocation, ::testing::ValuesIn(GoldenImageEncoderNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
