// SPDX-License-Identifier: Apache-2.0
// The bit contract for encoders of images: the rows of an image do not depend on its batch neighbours. Random calls, on
// engines with small and large batches, give image by image the bits that the same image gives alone, on one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>

#include "tests/integration/encoder/encoder_client.h"
#include "tests/integration/encoder/image_goldens.h"

namespace dunlin::engine {
namespace {

constexpr int kImageMixes = 30;
constexpr int kImagesPerProfile = 6;
constexpr Precision kWidePrecisions[] = {Precision::kFp32, Precision::kBf16, Precision::kFp16};

// Some encoders have no largest image of their own.
const EngineOptions kSmallImages = [] {
  EngineOptions options;
  options.max_context_tokens = 1024;
  return options;
}();

struct ImageEntry {
  EncodeRequest request;  // one image
  std::vector<float> alone;
};

class ImageDraws {
 public:
  explicit ImageDraws(uint32_t seed) : random_(seed) {}
  int32_t Draw(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }

  EncodeRequest Request(const ModelConfig& config, const ExecutionProfile& profile) {
    EncodeRequest request;
    request.profile = profile;
    request.dimensions = config.image.out_dim;
    const int32_t merge = config.image.merge;
    const ImageGrid grid{merge * Draw(1, 4), merge * Draw(1, 4)};
    request.grids = {grid};
    request.lengths = {static_cast<int32_t>(grid.num_patches())};
    std::normal_distribution<float> pixel;
    request.patches.resize(static_cast<size_t>(grid.num_patches() * config.image.patch_features()));
    std::generate(request.patches.begin(), request.patches.end(), [&] { return pixel(random_); });
    return request;
  }

 private:
  std::mt19937 random_;
};

// A call of all these images.
EncodeRequest Joined(const std::vector<const ImageEntry*>& entries) {
  EncodeRequest request = entries.front()->request;
  for (size_t i = 1; i < entries.size(); ++i) {
    const EncodeRequest& more = entries[i]->request;
    request.patches.insert(request.patches.end(), more.patches.begin(), more.patches.end());
    request.grids.push_back(more.grids.front());
    request.lengths.push_back(more.lengths.front());
  }
  return request;
}

class ImageBits : public ::testing::TestWithParam<std::tuple<std::string, Place>> {
 protected:
  TestModel Load(int num_threads) const {
    std::string reason;
    return LoadImageEncoder(std::get<0>(GetParam()), OpenPlace(std::get<1>(GetParam()), num_threads, &reason),
                            {std::begin(kWidePrecisions), std::end(kWidePrecisions)});
  }
};

TEST_P(ImageBits, RowsEqualThoseOfTheirImageAlone) {
  const TestModel one = Load(1);
  const TestModel two = Load(2);
  ImageDraws draws(11);
  std::vector<std::vector<ImageEntry>> library;  // by profile
  {
    EncoderClient alone(one.model.get(), kSmallImages);
    for (const AttentionBackend backend : kernels::kAutoOrder) {
      for (const Precision precision : kWidePrecisions) {
        std::vector<ImageEntry>& entries = library.emplace_back(kImagesPerProfile);
        for (ImageEntry& entry : entries) {
          entry.request = draws.Request(one.model->config(), {DeviceKind::kCpu, backend, precision});
          entry.alone = alone.Run(entry.request);
        }
      }
    }
  }
  int64_t compared = 0;
  for (int mix = 0; mix < kImageMixes && !HasFailure(); ++mix) {
    EngineOptions options = kSmallImages;
    options.max_tokens_per_step = draws.Draw(1, 800);
    options.max_sequences = draws.Draw(1, 12);
    EncoderClient client(two.model.get(), options);
    std::vector<std::pair<std::vector<const ImageEntry*>, std::shared_ptr<WaitingSink>>> calls(6);
    for (auto& [entries, sink] : calls) {
      const auto& of_profile = library[static_cast<size_t>(draws.Draw(0, static_cast<int32_t>(library.size()) - 1))];
      for (int32_t i = draws.Draw(1, 8); i > 0; --i) {
        entries.push_back(&of_profile[static_cast<size_t>(draws.Draw(0, kImagesPerProfile - 1))]);
      }
      sink = client.Submit(Joined(entries));
    }
    for (const auto& [entries, sink] : calls) {
      const std::unique_ptr<EncodeCall> call = sink->Wait();
      ASSERT_EQ(call->reason, FinishReason::kStop);
      auto rows = call->vectors.begin();
      for (const ImageEntry* entry : entries) {
        ASSERT_TRUE(std::equal(entry->alone.begin(), entry->alone.end(), rows))
            << kernels::Name(entry->request.profile.attention_backend) << " "
            << kernels::Name(entry->request.profile.precision) << ", " << entry->request.lengths.front() << " patches";
        rows += std::ssize(entry->alone);
        ++compared;
      }
      EXPECT_EQ(rows, call->vectors.end());
    }
  }
  std::printf("%lld images compared\n", static_cast<long long>(compared));
}

INSTANTIATE_TEST_SUITE_P(Images, ImageBits,
                         ::testing::Combine(::testing::ValuesIn(GoldenImageEncoderNames()),
                                            ::testing::ValuesIn(CpuPlaces())),
                         [](const auto& test) { return std::get<0>(test.param) + "_" + std::get<1>(test.param).name; });

}  // namespace
}  // namespace dunlin::engine
