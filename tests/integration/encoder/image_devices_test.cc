// SPDX-License-Identifier: Apache-2.0
// Encoders of images on a device of its own: rows as close to `transformers` as the CPU's, and the same bits whatever
// is in the batch. On the fake module, and where there is a GPU on the CUDA module's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/encoder/image_goldens.h"
#include "tests/integration/model/request_mix.h"

namespace dunlin::engine {
namespace {

const std::vector<Precision> kPrecisionsOfImages = {Precision::kFp32, Precision::kBf16, Precision::kFp16};
constexpr float kSumsOfImages = 1e-5F;  // of FP32 sums in another order than the CPU's, of the largest value

EngineOptions RoomOnDevice() {
  EngineOptions options;
  options.max_sequences = 8;
  options.max_tokens_per_step = 512;
  options.max_context_tokens = 512;
  return options;
}

// The largest distance from what is expected, of the largest number there; NaN where there is one.
float RowError(const std::vector<float>& values, const std::vector<float>& expected) {
  float worst = values.size() == expected.size() ? 0.0F : NAN;
  float largest = 0.0F;
  for (size_t i = 0; i < std::min(values.size(), expected.size()); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const float error = std::abs(values[i] - expected[i]);
    if (!(error <= worst)) worst = error;
  }
  return worst / largest;
}

class ImageDevices : public ::testing::TestWithParam<std::tuple<Place, std::string>> {
 protected:
  void SetUp() override {
    const auto& [place, name] = GetParam();
    std::string reason;
    auto device = OpenPlace(place, 2, &reason);
    if (device == nullptr) GTEST_SKIP() << reason;
    cpu_ = LoadImageEncoder(name, OpenPlace(BestCpuPlace().front(), 2, &reason), kPrecisionsOfImages);
    test_ = LoadImageEncoder(name, std::move(device), kPrecisionsOfImages);
    images_ = ReadGoldenImages(name);
  }
  EncodeRequest Request(const std::vector<GoldenImage>& images) const {
    return ImageRequest(images, test_.model->config().image);
  }

  TestModel cpu_;
  TestModel test_;
  std::vector<GoldenImage> images_;
};

TEST_P(ImageDevices, RowsAreAsCloseToTransformersAsOnTheCpu) {
  std::vector<float> expected;
  for (const GoldenImage& image : images_) expected.insert(expected.end(), image.values.begin(), image.values.end());
  EncoderClient on_cpu(cpu_.model.get(), RoomOnDevice());
  EncoderClient client(test_.model.get(), RoomOnDevice());
  EncodeRequest request = Request(images_);
  const auto cpu_error = [&](Precision precision) {
    request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, precision};
    return RowError(on_cpu.Run(request), expected);
  };
  const std::vector<ExecutionProfile> profiles = SupportedProfiles(*test_.model, kPrecisionsOfImages);
  ASSERT_GE(profiles.size(), 3U) << "the device takes hardly anything";
  for (const ExecutionProfile& profile : profiles) {
    // A device rounds inputs of FP16 products to BF16 where it has no others (DeviceGoldens).
    const bool wide = profile.precision == Precision::kFp32;
    const float allowed = 2.0F * cpu_error(profile.precision) + (wide ? 0.0F : 2.0F * cpu_error(Precision::kBf16));
    request.profile = profile;
    EXPECT_LE(RowError(client.Run(request), expected), allowed + kSumsOfImages)
        << kernels::Name(profile.attention_backend) << " " << kernels::Name(profile.precision);
  }
}

TEST_P(ImageDevices, RowsEqualThoseOfTheirImageAlone) {
  EncoderClient client(test_.model.get(), RoomOnDevice());
  for (const ExecutionProfile& profile : SupportedProfiles(*test_.model, kPrecisionsOfImages)) {
    const kernels::Device& device = *test_.device;
    if (!device.ops->prefill_matches_decode(device.context, profile.precision, true)) continue;  // by shape
    EncodeRequest both = Request({images_[1], images_[0]});
    both.profile = profile;
    const std::vector<float> together = client.Run(both);
    auto rows = together.begin();
    for (const size_t index : {1, 0}) {
      EncodeRequest one = Request({images_[index]});
      one.profile = profile;
      const std::vector<float> alone = client.Run(one);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), rows))
          << kernels::Name(profile.attention_backend) << " " << kernels::Name(profile.precision) << ", image " << index;
      rows += std::ssize(alone);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fake, ImageDevices,
                         ::testing::Combine(::testing::ValuesIn(FakePlaces()),
                                            ::testing::ValuesIn(GoldenImageEncoderNames())),
                         PlacedModelName);
INSTANTIATE_TEST_SUITE_P(Cuda, ImageDevices,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()),
                                            ::testing::ValuesIn(GoldenImageEncoderNames())),
                         PlacedModelName);

}  // namespace
}  // namespace dunlin::engine
