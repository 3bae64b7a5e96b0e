// SPDX-License-Identifier: Apache-2.0
// The files that a processor is read from: which of them, their defaults, and every limit.
#include "text/images/image_processor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dunlin::text {
namespace {

constexpr char kOuter[] = "processor_config.json";
constexpr char kOwn[] = "preprocessor_config.json";

using Files = std::map<std::string, std::string, std::less<>>;

absl::StatusOr<ImageProcessor> Loaded(Files files) {
  return LoadImageProcessor(engine::MemoryFiles(std::move(files)));
}

// A preprocessor_config.json with these fields.
Files Own(const std::string& fields) {
  return {{kOwn, R"({"image_processor_type": "PixtralImageProcessorFast")" + fields + "}"}};
}

Files OwnOfQwen(const std::string& fields) {
  return {{kOwn, R"({"image_processor_type": "Qwen2VLImageProcessorFast")" + fields + "}"}};
}

void ExpectProcessorRefused(Files files, absl::StatusCode code, const std::string& message) {
  const auto processor = Loaded(std::move(files));
  EXPECT_EQ(processor.status().code(), code);
  EXPECT_EQ(std::string(processor.status().message()), message);
}

TEST(ImageProcessor, HasTransformersDefaults) {
  for (const char* type : {"PixtralImageProcessor", "PixtralImageProcessorFast", "PixtralImageProcessorPil"}) {
    const auto processor = Loaded({{kOwn, R"({"image_processor_type": ")" + std::string(type) + "\"}"}});
    ASSERT_TRUE(processor.ok()) << processor.status();
    EXPECT_STREQ(processor->sizing->type, type);
    EXPECT_EQ(processor->patch_size, 16);
    EXPECT_EQ(processor->merge_size, 1);
    EXPECT_EQ(processor->longest_edge, 1024);
    EXPECT_TRUE(processor->do_resize && processor->do_rescale && processor->do_normalize);
    EXPECT_EQ(processor->resample, ResizeFilter::kBicubic);
    EXPECT_DOUBLE_EQ(processor->rescale_factor, 1.0 / 255.0);
    EXPECT_DOUBLE_EQ(processor->image_mean[2], 0.40821073);
    EXPECT_DOUBLE_EQ(processor->image_std[0], 0.26862954);
  }
}

TEST(ImageProcessor, OfQwenHasTransformersDefaults) {
  for (const char* type : {"Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast", "Qwen2VLImageProcessorPil"}) {
    const auto processor = Loaded({{kOwn, R"({"image_processor_type": ")" + std::string(type) + "\"}"}});
    ASSERT_TRUE(processor.ok()) << processor.status();
    EXPECT_STREQ(processor->sizing->type, type);
    EXPECT_EQ(processor->patch_size, 14);
    EXPECT_EQ(processor->merge_size, 2);
    EXPECT_EQ(processor->min_pixels, 3136);
    EXPECT_EQ(processor->max_pixels, 1003520);
    EXPECT_DOUBLE_EQ(processor->image_mean[2], 0.40821073);
    EXPECT_EQ(MaxPatches(*processor), 1003520 / 196);
  }
}

// As Qwen 3.5 has them; a field of its own counts before size.
TEST(ImageProcessor, OfQwenIsReadFromItsFile) {
  const std::string fields = R"(, "size": {"longest_edge": 16777216, "shortest_edge": 65536}, "patch_size": 16,
      "temporal_patch_size": 2, "merge_size": 2, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5])";
  auto processor = Loaded(OwnOfQwen(fields));
  ASSERT_TRUE(processor.ok()) << processor.status();
  EXPECT_EQ(processor->min_pixels, 65536);
  EXPECT_EQ(processor->max_pixels, 16777216);
  EXPECT_EQ(processor->patch_size, 16);
  EXPECT_EQ(MaxPatches(*processor), 65536);
  processor = Loaded(OwnOfQwen(fields + R"(, "min_pixels": 1, "max_pixels": 1000000)"));
  ASSERT_TRUE(processor.ok()) << processor.status();
  EXPECT_EQ(processor->min_pixels, 1);
  EXPECT_EQ(processor->max_pixels, 1000000);
  processor = Loaded(OwnOfQwen(R"(, "size": {"longest_edge": 5000}, "min_pixels": 7)"));
  ASSERT_TRUE(processor.ok()) << processor.status();
  EXPECT_EQ(processor->min_pixels, 7);
}

// As Mistral Small 3.1 has them.
TEST(ImageProcessor, IsReadFromBothFiles) {
  Files files = Own(R"(, "patch_size": {"height": 14, "width": 14}, "size": {"longest_edge": 1540}, "resample": 2,
      "image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 3], "rescale_factor": 0.5, "do_resize": false,
      "do_rescale": false, "do_normalize": false, "do_convert_rgb": true)");
  files[kOuter] = R"({"patch_size": 28, "spatial_merge_size": 2, "processor_class": "PixtralProcessor"})";
  const auto processor = Loaded(files);
  ASSERT_TRUE(processor.ok()) << processor.status();
  EXPECT_EQ(processor->patch_size, 28);
  EXPECT_EQ(processor->merge_size, 2);
  EXPECT_EQ(processor->longest_edge, 1540);
  EXPECT_EQ(processor->resample, ResizeFilter::kBilinear);
  EXPECT_EQ(processor->image_mean, (std::array<double, 3>{0.1, 0.2, 0.3}));
  EXPECT_EQ(processor->image_std, (std::array<double, 3>{1, 2, 3}));
  EXPECT_DOUBLE_EQ(processor->rescale_factor, 0.5);
  EXPECT_FALSE(processor->do_resize || processor->do_rescale || processor->do_normalize);
  files.erase(kOuter);
  EXPECT_EQ(Loaded(files)->patch_size, 14);
}

TEST(ImageProcessor, OfTheOuterFileWins) {
  Files files = Own(R"(, "size": {"longest_edge": 100})");
  files[kOuter] =
      R"({"image_processor": {"image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": 200}}})";
  EXPECT_EQ(Loaded(files)->longest_edge, 200);
  files.erase(kOwn);
  EXPECT_EQ(Loaded(files)->longest_edge, 200);
}

TEST(ImageProcessor, IsNotFoundWhereThereIsNone) {
  EXPECT_EQ(Loaded({}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Loaded({{kOuter, "{}"}}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadImageProcessor("/nonexistent/model").status().code(), absl::StatusCode::kNotFound);
}

TEST(ImageProcessor, IsReadFromADirectory) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("image_processor_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / kOwn) << Own("").begin()->second;
  EXPECT_TRUE(LoadImageProcessor(folder.string()).ok());
  fs::create_symlink("nowhere", folder / kOuter);
  EXPECT_EQ(LoadImageProcessor(folder.string()).status().code(), absl::StatusCode::kInvalidArgument);
  fs::remove_all(folder);
}

TEST(ImageProcessor, OfAnUnknownTypeIsNamed) {
  const std::string known =
      "; supported are PixtralImageProcessor, PixtralImageProcessorFast, PixtralImageProcessorPil, "
      "Qwen2VLImageProcessor, Qwen2VLImageProcessorFast, Qwen2VLImageProcessorPil";
  ExpectProcessorRefused({{kOwn, R"({"image_processor_type": "SiglipImageProcessor"})"}},
                         absl::StatusCode::kFailedPrecondition,
                         R"(preprocessor_config.json: image_processor_type is "SiglipImageProcessor")" + known);
  ExpectProcessorRefused({{kOuter, R"({"image_processor": {}})"}}, absl::StatusCode::kFailedPrecondition,
                         R"(processor_config.json: image_processor: image_processor_type is "")" + known);
  ExpectProcessorRefused(Own(R"(, "do_center_crop": true)"), absl::StatusCode::kFailedPrecondition,
                         "preprocessor_config.json: do_center_crop is true; images are not cropped");
}

TEST(ImageProcessor, RefusesFieldsOutsideTheirLimits) {
  const std::pair<const char*, const char*> rows[] = {
      {R"(, "size": {"longest_edge": 0})", "size: longest_edge is 0; limit is [1, 16384]"},
      {R"(, "size": {"longest_edge": 16385})", "size: longest_edge is 16385; limit is [1, 16384]"},
      {R"(, "size": {"height": 5, "width": 5})", "size: longest_edge is missing"},
      {R"(, "size": 5)", "size is 5; must be an object"},
      {R"(, "patch_size": 0)", "patch_size is 0; limit is [1, 256]"},
      {R"(, "patch_size": {"height": 14, "width": 257})", "patch_size: width is 257; limit is [1, 256]"},
      {R"(, "patch_size": {"height": 14, "width": 16})", "patch_size: height is 14 and width 16; must be equal"},
      {R"(, "resample": 0)", "resample is 0; limit is [1, 3]"},
      {R"(, "resample": 4)", "resample is 4; limit is [1, 3]"},
      {R"(, "rescale_factor": 0)", "rescale_factor is 0; limit is [1e-06, 1]"},
      {R"(, "image_mean": [1, 2])", "image_mean has 2 entries; must be 3"},
      {R"(, "image_std": [1, 1, 0])", "image_std is [1,1,0]; must be a list of at most 3 numbers in [1e-06, 256]"},
      {R"(, "do_resize": 3)", "do_resize is 3; must be true or false"},
      {R"(, "do_convert_rgb": "no")", "do_convert_rgb is \"no\"; must be true or false"},
  };
  for (const auto& [fields, message] : rows) {
    ExpectProcessorRefused(Own(fields), absl::StatusCode::kInvalidArgument, std::string(kOwn) + ": " + message);
  }
  const std::pair<const char*, const char*> of_qwen[] = {
      {R"(, "size": {"longest_edge": 5})", "size: shortest_edge is missing"},
      {R"(, "size": {"shortest_edge": 5})", "size: longest_edge is missing"},
      {R"(, "size": {"shortest_edge": 0, "longest_edge": 9})", "size: shortest_edge is 0; limit is [1, 268435456]"},
      {R"(, "size": {"shortest_edge": 1, "longest_edge": 268435457})",
       "size: longest_edge is 268435457; limit is [1, 268435456]"},
      {R"(, "min_pixels": 0)", "min_pixels is 0; limit is [1, 268435456]"},
      {R"(, "max_pixels": 0)", "max_pixels is 0; limit is [1, 268435456]"},
      {R"(, "min_pixels": 9, "max_pixels": 8)",
       "size: shortest_edge (min_pixels) is 9 and longest_edge (max_pixels) 8; must not be less"},
      {R"(, "merge_size": 17)", "merge_size is 17; limit is [1, 16]"},
      {R"(, "temporal_patch_size": 0)", "temporal_patch_size is 0; limit is [1, 16]"},
  };
  for (const auto& [fields, message] : of_qwen) {
    ExpectProcessorRefused(OwnOfQwen(fields), absl::StatusCode::kInvalidArgument, std::string(kOwn) + ": " + message);
  }
  Files files = Own("");
  files[kOuter] = R"({"spatial_merge_size": 17})";
  ExpectProcessorRefused(files, absl::StatusCode::kInvalidArgument,
                         "processor_config.json: spatial_merge_size is 17; limit is [1, 16]");
  files[kOuter] = R"({"image_processor": 3})";
  ExpectProcessorRefused(files, absl::StatusCode::kInvalidArgument,
                         "processor_config.json: image_processor is 3; must be an object");
}

TEST(ImageProcessor, RefusesWhatIsNoJson) {
  EXPECT_EQ(Loaded({{kOwn, "{"}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Loaded({{kOuter, "[]"}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Loaded({{kOwn, std::string(kMaxImageProcessorBytes + 1, ' ')}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dunlin::text
