// Writes safetensors bytes for tests. Values are a function of the tensor's name and the element's index, and exact in
// FP32, FP16 and BF16 (rounded in F8_E4M3), so that a test can say what any element must be without keeping it.
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

// A header of that text behind its 8-byte length, then `data`.
std::string SafetensorsBytes(std::string_view header, std::string_view data);
// A well-formed file.
std::string SafetensorsBytes(const std::vector<TestTensor>& tensors);

}  // namespace dunlin::engine
