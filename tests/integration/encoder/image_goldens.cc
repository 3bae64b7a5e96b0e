// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/encoder/image_goldens.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "engine/base/check.h"
#include "engine/model/load/load_model.h"
#include "nlohmann/json.hpp"

namespace dunlin::engine {
namespace {

nlohmann::json ReadImageGoldens(const std::string& name) {
  std::ifstream file(GoldenImageEncoderPath(name) + "/goldens.json");
  return nlohmann::json::parse(file);
}

// visit(row, column) for every patch, block by block.
template <typename Visit>
void ForEachPatch(const ImageGrid& grid, int32_t merge, const Visit& visit) {
  for (int32_t top = 0; top < grid.rows; top += merge) {
    for (int32_t left = 0; left < grid.columns; left += merge) {
      for (int32_t row = top; row < top + merge; ++row) {
        for (int32_t column = left; column < left + merge; ++column) visit(row, column);
      }
    }
  }
}

}  // namespace

std::vector<std::string> GoldenImageEncoderNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("tests/golden/image_encoders"))) {
    if (std::filesystem::exists(entry.path() / "goldens.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string GoldenImageEncoderPath(const std::string& name) {
  return SourcePath("tests/golden/image_encoders/" + name);
}

std::vector<GoldenImage> ReadGoldenImages(const std::string& name) {
  std::vector<GoldenImage> images;
  const nlohmann::json json = ReadImageGoldens(name);
  for (const nlohmann::json& item : json.at("images")) {
    GoldenImage& image = images.emplace_back();
    item.at("rows").get_to(image.grid.rows);
    item.at("columns").get_to(image.grid.columns);
    item.at("pixels").get_to(image.pixels);
    item.at("hidden").get_to(image.hidden);
    item.at("values").get_to(image.values);
  }
  return images;
}

std::vector<std::vector<size_t>> ReadPromptImages(const std::string& name) {
  std::vector<std::vector<size_t>> images;
  const nlohmann::json json = ReadImageGoldens(name);
  for (const nlohmann::json& item : json.at("prompts")) {
    images.push_back(item.at("images").get<std::vector<size_t>>());
  }
  return images;
}

TestModel LoadImageEncoder(const std::string& name, std::unique_ptr<kernels::Device> device,
                           const std::vector<Precision>& precisions) {
  TestModel test;
  test.device = std::move(device);
  auto model = LoadModel({.path = GoldenImageEncoderPath(name),
                          .random_shape = "",
                          .precisions = precisions,
                          .part = ModelPart::kImageEncoder},
                         test.device.get());
  DUNLIN_CHECK(model.ok(), model.status().ToString().c_str());
  test.model = *std::move(model);
  return test;
}

std::vector<float> PatchesOf(const GoldenImage& image, const ImageSpec& spec) {
  const int32_t patch = spec.patch_size;
  const int64_t height = int64_t{image.grid.rows} * patch;
  const int64_t width = int64_t{image.grid.columns} * patch;
  std::vector<float> patches;
  ForEachPatch(image.grid, spec.merge, [&](int32_t row, int32_t column) {
    for (int64_t channel = 0; channel < kImageChannels; ++channel) {
      for (int64_t y = row * patch; y < (row + 1) * patch; ++y) {
        const auto line = image.pixels.begin() + (channel * height + y) * width;
        patches.insert(patches.end(), line + column * patch, line + (column + 1) * patch);
      }
    }
  });
  return patches;
}

std::vector<float> InBlocks(const std::vector<float>& rows, const ImageGrid& grid, int32_t merge) {
  const int64_t columns = std::ssize(rows) / grid.num_patches();
  std::vector<float> ordered;
  ForEachPatch(grid, merge, [&](int32_t row, int32_t column) {
    const auto first = rows.begin() + (int64_t{row} * grid.columns + column) * columns;
    ordered.insert(ordered.end(), first, first + columns);
  });
  return ordered;
}

EncodeRequest ImageRequest(const std::vector<GoldenImage>& images, const ImageSpec& spec) {
  EncodeRequest request;
  request.dimensions = spec.out_dim;
  for (const GoldenImage& image : images) {
    const std::vector<float> patches = PatchesOf(image, spec);
    request.patches.insert(request.patches.end(), patches.begin(), patches.end());
    request.grids.push_back(image.grid);
    request.lengths.push_back(static_cast<int32_t>(image.grid.num_patches()));
  }
  return request;
}

}  // namespace dunlin::engine
