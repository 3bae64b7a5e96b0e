// SPDX-License-Identifier: Apache-2.0
// The rows that encoders of images give, and the hidden states before their projector, against `transformers`: for
// every backend and CPU variant in FP32, in BF16 and FP16, eager and on a device of a module.
#include "tests/integration/encoder/image_goldens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/encoder/encoder_runtime.h"
#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/model/request_mix.h"

namespace dunlin::engine {
namespace {

const std::vector<Precision> kImagePrecisions = {Precision::kFp32, Precision::kBf16, Precision::kFp16};

// Of the largest golden value. The goldens themselves differ from float64 by up to 5e-6 of it.
constexpr float kFp32Error = 1e-5F;
// Two or three layers and a projector: up to 15 products one after another, whose inputs are rounded by up to 2^-9 or
// 2^-12 of each, and attention that is peaked; the weights are exact in both. Seen: 2.9e-2 and 1.1e-3.
constexpr float kBf16Error = 4e-2F;
constexpr float kFp16Error = 4e-3F;

EngineOptions RoomForImages() {
  EngineOptions options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 1024;
  options.max_context_tokens = 1024;
  return options;
}

float ImageError(const std::vector<float>& values, const std::vector<float>& golden) {
  EXPECT_EQ(values.size(), golden.size());
  float largest = 0.0F;
  float worst = 0.0F;
  for (size_t i = 0; i < std::min(values.size(), golden.size()); ++i) {
    largest = std::max(largest, std::abs(golden[i]));
    const float error = std::abs(values[i] - golden[i]);
    if (!(error <= worst)) worst = error;  // NaN too
  }
  return worst / largest;
}

class ImageGoldens : public ::testing::TestWithParam<std::string> {
 protected:
  // Runs images as one batch, and looks at all rows.
  void CheckBatch(const Model& model, const ExecutionProfile& profile, const std::vector<size_t>& indices) {
    const ImageSpec& spec = model.config().image;
    auto runtime = *ModelEncoderRuntime::Create(&model, RoomForImages());
    std::vector<std::vector<float>> patches(indices.size());
    std::vector<std::vector<float>> rows(indices.size());
    EncodeBatch batch;
    batch.profile = profile;
    for (size_t i = 0; i < indices.size(); ++i) {
      const GoldenImage& golden = images_[indices[i]];
      patches[i] = PatchesOf(golden, spec);
      rows[i].resize(golden.values.size());
      batch.inputs.push_back({.num_tokens = static_cast<int32_t>(golden.grid.num_patches()),
                              .patches = patches[i].data(),
                              .grid = golden.grid,
                              .vector = rows[i].data(),
                              .dimensions = spec.out_dim});
      batch.num_tokens += batch.inputs.back().num_tokens;
    }
    ASSERT_TRUE(runtime->Run(&batch).ok());
    const float* hidden = *runtime->HostHidden();
    for (size_t i = 0; i < indices.size(); ++i) {
      const GoldenImage& golden = images_[indices[i]];
      const float* first = hidden + int64_t{runtime->first_row(i)} * model.config().hidden_dim;
      EXPECT_TRUE(batch.inputs[i].finite);
      EXPECT_LE(ImageError(std::vector<float>(first, first + golden.hidden.size()),
                           InBlocks(golden.hidden, golden.grid, spec.merge)),
                kFp32Error)
          << "hidden states of image " << indices[i];
      const float error = ImageError(rows[i], golden.values);
      EXPECT_LE(error, kFp32Error) << "rows of image " << indices[i];
      worst_ = std::max(worst_, error);
    }
  }
  std::vector<float> AllValues() const {
    std::vector<float> all;
    for (const GoldenImage& image : images_) all.insert(all.end(), image.values.begin(), image.values.end());
    return all;
  }
  std::unique_ptr<kernels::Device> OpenBestCpu() const {
    std::string reason;
    return OpenPlace(BestCpuPlace().front(), 2, &reason);
  }

  const std::vector<GoldenImage> images_ = ReadGoldenImages(GetParam());
  float worst_ = 0.0F;
};

TEST_P(ImageGoldens, RowsMatchTransformersInEveryBackendAndVariant) {
  for (const Place& place : CpuPlaces()) {
    std::string reason;
    const TestModel test = LoadImageEncoder(GetParam(), OpenPlace(place, 2, &reason), {Precision::kFp32});
    EXPECT_TRUE(test.model->warnings().empty()) << test.model->warnings().front();
    for (const AttentionBackend backend : kernels::kAutoOrder) {
      SCOPED_TRACE(place.name + " " + kernels::Name(backend));
      const ExecutionProfile profile{DeviceKind::kCpu, backend, Precision::kFp32};
      for (const std::vector<size_t>& batch : {std::vector<size_t>{0}, {1}, {0, 1}, {1, 0}}) {
        CheckBatch(*test.model, profile, batch);
      }
    }
  }
  std::printf("largest error %g of the largest value\n", static_cast<double>(worst_));
}

TEST_P(ImageGoldens, RowsOfNarrowPrecisionsAreNear) {
  const TestModel test = LoadImageEncoder(GetParam(), OpenBestCpu(), kImagePrecisions);
  EncoderClient client(test.model.get(), RoomForImages());
  EncodeRequest request = ImageRequest(images_, test.model->config().image);
  for (const AttentionBackend backend : kernels::kAutoOrder) {
    for (const auto& [precision, allowed] : {std::pair(Precision::kBf16, kBf16Error), {Precision::kFp16, kFp16Error}}) {
      request.profile = {DeviceKind::kCpu, backend, precision};
      const float error = ImageError(client.Run(request), AllValues());
      std::printf("%s %s: %g\n", kernels::Name(backend), kernels::Name(precision), static_cast<double>(error));
      EXPECT_LE(error, allowed) << kernels::Name(backend) << " " << kernels::Name(precision);
      EXPECT_GT(error, kFp32Error) << "that would be FP32's";
    }
  }
}

TEST_P(ImageGoldens, EagerGivesTheBitsOfFused) {
  const TestModel test = LoadImageEncoder(GetParam(), OpenBestCpu(), kImagePrecisions);
  EngineOptions options = RoomForImages();
  EncoderClient fused(test.model.get(), options);
  options.execution = ExecutionMode::kEager;
  EncoderClient eager(test.model.get(), options);
  EncodeRequest request = ImageRequest(images_, test.model->config().image);
  for (const Precision precision : kImagePrecisions) {
    request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, precision};
    EXPECT_EQ(eager.Run(request), fused.Run(request)) << kernels::Name(precision);
  }
}

TEST_P(ImageGoldens, AnImageThatGivesNoNumbersEndsItsCallAlone) {
  const TestModel test = LoadImageEncoder(GetParam(), OpenBestCpu(), {Precision::kFp32});
  EncoderClient client(test.model.get(), RoomForImages());
  EncodeRequest request = ImageRequest(images_, test.model->config().image);
  request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32};
  const std::vector<float> good = client.Run(request);
  EncodeRequest broken = request;
  broken.patches.back() = std::numeric_limits<float>::infinity();
  EXPECT_EQ(client.Submit(broken)->Wait()->reason, FinishReason::kNumerical);
  EXPECT_EQ(client.Run(request), good);
}

INSTANTIATE_TEST_SUITE_P(Images, ImageGoldens, ::testing::ValuesIn(GoldenImageEncoderNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
