// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/process/adapter_files.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace dunlin::integration {
namespace {

// Of models/demo.
constexpr int kLayers = 6;
constexpr int kHidden = 192;
constexpr float kLargest = 0.5F;

struct Matrix {
  std::string name;
  int rows;
  int columns;
};

std::vector<Matrix> MatricesOf(int rank) {
  std::vector<Matrix> matrices;
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string module = "base_model.model.transformer.h." + std::to_string(layer) + ".attn.c_attn.";
    matrices.push_back({module + "lora_A.weight", rank, kHidden});
    matrices.push_back({module + "lora_B.weight", 3 * kHidden, rank});
  }
  return matrices;
}

}  // namespace

std::string WriteAdapter(const std::string& folder, uint64_t seed, int rank) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/adapter_config.json")
      << nlohmann::ordered_json{{"peft_type", "LORA"},    {"task_type", "CAUSAL_LM"},    {"r", rank},
                                {"lora_alpha", 2 * rank}, {"lora_dropout", 0.0},         {"bias", "none"},
                                {"fan_in_fan_out", true}, {"target_modules", {"c_attn"}}}
             .dump(1);
  nlohmann::ordered_json header;
  std::vector<float> values;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> value(-kLargest, kLargest);
  for (const Matrix& matrix : MatricesOf(rank)) {
    const size_t begin = values.size() * sizeof(float);
    for (int i = 0; i < matrix.rows * matrix.columns; ++i) values.push_back(value(random));
    header[matrix.name] = {{"dtype", "F32"},
                           {"shape", {matrix.rows, matrix.columns}},
                           {"data_offsets", {begin, values.size() * sizeof(float)}}};
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  const std::string path = folder + "/adapter_model.safetensors";
  std::ofstream file(path + ".new", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof(size));
  file << text;
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  file.close();
  std::filesystem::rename(path + ".new", path);
  return folder;
}

}  // namespace dunlin::integration
