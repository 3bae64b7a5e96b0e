// SPDX-License-Identifier: Apache-2.0
// Checkpoints of tests/golden/quant with tensors changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/base/temp_directory.h"

namespace dunlin::engine {

// A golden's file in memory. Names are those of the tensors of its only layer: "mlp.up_proj.scales".
struct GoldenTensors {
  nlohmann::json header;
  std::string data;

  nlohmann::json& operator[](const std::string& name) { return header.at("model.layers.0." + name); }
  // Under another name: a file without the bytes would be malformed.
  void Drop(const std::string& name);
  // Adds a tensor of the same dtype, shape and bytes.
  void Copy(const std::string& from, const std::string& to);
  // Overwrites an element of a tensor of Ts.
  template <class T>
  void Set(const std::string& name, size_t index, T value) {
    const size_t begin = (*this)[name]["data_offsets"][0];
    std::memcpy(&data[begin + index * sizeof(T)], &value, sizeof(T));
  }
  // Gives a tensor another dtype and shape, with these elements.
  template <class T>
  void Replace(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
               const std::vector<T>& elements) {
    Drop(name);
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
    header["model.layers.0." + name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
  }
};

using GoldenChange = std::function<void(GoldenTensors*)>;

// Writes config.json, with `config` merged into it, and the file after `change`.
void WriteChangedGolden(const std::string& golden, const GoldenChange& change, const TempDirectory& directory,
                        const nlohmann::json& config = nlohmann::json::object());

}  // namespace dunlin::engine
