// SPDX-License-Identifier: Apache-2.0
// Calls that an encoder refuses: each names its field, its value and the limit.
#include "engine/encoder/validate_encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/engine/encoder/calls.h"

namespace dunlin::engine {
namespace {

constexpr EncodeLimits kLimits{.vocab_size = 50, .hidden_dim = 8, .max_input_tokens = 16, .max_queued_tokens = 40};

TEST(ValidateEncode, TakesWhatFits) {
  EXPECT_TRUE(ValidateEncode(TestCall({1, 16, 16, 7})->request, kLimits).ok());
}

constexpr EncodeLimits kImageLimits{
    .hidden_dim = 8, .image = kTestImage, .max_input_tokens = 16, .max_queued_tokens = 40};

TEST(ValidateEncode, TakesImagesThatFit) {
  EXPECT_TRUE(ValidateEncode(TestImages({{2, 2}, {4, 4}, {2, 8}, {2, 2}})->request, kImageLimits).ok());
}

TEST(ValidateEncode, NamesWhatIsWrongWithImages) {
  const struct {
    std::vector<ImageGrid> grids;
    const char* message;
  } cases[] = {
      {{}, "inputs has 0 images; limit is 1 or more"},
      {{{2, 2}, {3, 4}}, "inputs[1] has 3 x 4 patches; limit is multiples of 2 above 0"},
      {{{2, 5}}, "inputs[0] has 2 x 5 patches; limit is multiples of 2 above 0"},
      {{{0, 2}}, "inputs[0] has 0 x 2 patches; limit is multiples of 2 above 0"},
      {{{-2, -2}}, "inputs[0] has -2 x -2 patches; limit is multiples of 2 above 0"},
      {{{2, 2}, {6, 4}}, "inputs[1] has 24 patches; limit is 16"},
      {{{4, 4}, {4, 4}, {2, 6}}, "inputs has 44 patches; limit is 40 (scheduler.max_queued_tokens)"},
  };
  for (const auto& c : cases) {
    EncodeRequest request;
    request.grids = c.grids;
    request.dimensions = kTestDimensions;
    int64_t num_patches = 0;
    for (const ImageGrid& grid : c.grids) {
      request.lengths.push_back(static_cast<int32_t>(grid.num_patches()));
      num_patches += std::max<int64_t>(0, grid.num_patches());
    }
    request.patches.resize(static_cast<size_t>(num_patches * kTestImage.patch_features()));
    const absl::Status status = ValidateEncode(request, kImageLimits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(c.message));
  }
}

TEST(ValidateEncode, NamesFieldValueAndLimit) {
  const struct {
    std::function<void(EncodeRequest*)> bend;
    const char* message;
  } cases[] = {
      {[](EncodeRequest* r) { *r = EncodeRequest(); }, "inputs has 0 entries; limit is 1 or more"},
      {[](EncodeRequest* r) {
         *r = TestCall({3, 17})->request;
       },
       "inputs[1] has 17 tokens; limit is 1 to 16 (models[].max_context_tokens)"},
      {[](EncodeRequest* r) {
         r->lengths = {3, 0};
       },
       "inputs[1] has 0 tokens; limit is 1 to 16"},
      {[](EncodeRequest* r) {
         *r = TestCall({16, 16, 9})->request;
       },
       "inputs has 41 tokens; limit is 40 (scheduler.max_queued_tokens)"},
      {[](EncodeRequest* r) { r->dimensions = 9; }, "dimensions is 9; limit is [1, 8]"},
      {[](EncodeRequest* r) { r->dimensions = 0; }, "dimensions is 0; limit is [1, 8]"},
      {[](EncodeRequest* r) { r->tokens[2] = 50; }, "inputs[0][2] is 50; limit is [0, 50)"},
      {[](EncodeRequest* r) {
         *r = TestCall({2, 3})->request;
         r->tokens[3] = -1;
       },
       "inputs[1][1] is -1; limit is [0, 50)"},
  };
  for (const auto& c : cases) {
    EncodeRequest request = TestCall({3})->request;
    c.bend(&request);
    const absl::Status status = ValidateEncode(request, kLimits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace dunlin::engine
