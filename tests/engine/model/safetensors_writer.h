// SPDX-License-Identifier: Apache-2.0
// Writes safetensors bytes for tests. Values are a function of the tensor's name and the element's index, and exact in
// FP32, FP16 and BF16 (rounded in F8_E4M3), so that a test can compute any element's expected value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dunlin::engine {

struct TestTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";       // F32, F16, BF16, F8_E4M3: filled with ValueOf; anything else: zeros of its size
  std::vector<float> values = {};  // instead of ValueOf, repeated; empty for ValueOf
};

float ValueOf(std::string_view tensor, int64_t index);

// The 8-byte length of `header`, `header`, then `data`.
std::string SafetensorsBytes(std::string_view header, std::string_view data);
// A valid file.
std::string SafetensorsBytes(const std::vector<TestTensor>& tensors);

}  // namespace dunlin::engine
