// SPDX-License-Identifier: Apache-2.0
// Reads the goldens.json of a model with an encoder of images; its format stands at the head of
// tests/golden/image_encoders/make_image_goldens.py.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "engine/model/spec/image_spec.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {

struct GoldenImage {
  ImageGrid grid;
  std::vector<float> pixels;  // [3, rows * patch_size, columns * patch_size]
  std::vector<float> hidden;  // [rows * columns, hidden_dim], in order of rows and columns
  std::vector<float> values;  // [rows * columns / patches_per_row, out_dim]
};

// Every model of tests/golden/image_encoders, in order of name, and its directory.
std::vector<std::string> GoldenImageEncoderNames();
std::string GoldenImageEncoderPath(const std::string& name);
std::vector<GoldenImage> ReadGoldenImages(const std::string& name);
// Of each prompt, as ReadGoldens has them, the images that its image tokens stand for.
std::vector<std::vector<size_t>> ReadPromptImages(const std::string& name);

// The encoder of such a directory, with its device. Dies when it cannot be loaded.
TestModel LoadImageEncoder(const std::string& name, std::unique_ptr<kernels::Device> device,
                           const std::vector<Precision>& precisions);

// Cut into patches as EncodeRequest::patches has them.
std::vector<float> PatchesOf(const GoldenImage& image, const ImageSpec& spec);
// Rows in order of rows and columns, in the order of EncodeRequest::patches.
std::vector<float> InBlocks(const std::vector<float>& rows, const ImageGrid& grid, int32_t merge);

// A call with these images, whose profile is to be set.
EncodeRequest ImageRequest(const std::vector<GoldenImage>& images, const ImageSpec& spec);

}  // namespace dunlin::engine
