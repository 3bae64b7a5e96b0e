// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/changed_golden.h"

#include <fstream>
#include <iterator>
#include <utility>

#include "tests/engine/model/safetensors_writer.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

void GoldenTensors::Drop(const std::string& name) {
  header["unused" + std::to_string(header.size())] = (*this)[name];
  header.erase("model.layers.0." + name);
}

void GoldenTensors::Copy(const std::string& from, const std::string& to) {
  json tensor = (*this)[from];
  const size_t begin = tensor["data_offsets"][0];
  const size_t end = tensor["data_offsets"][1];
  tensor["data_offsets"] = {data.size(), data.size() + end - begin};
  data.append(data, begin, end - begin);
  header["model.layers.0." + to] = std::move(tensor);
}

void WriteChangedGolden(const std::string& golden, const GoldenChange& change, const TempDirectory& directory,
                        const json& config) {
  const std::string folder = DUNLIN_SOURCE_DIR "/tests/golden/quant/" + golden;
  const std::string bytes = ReadFile(folder + "/model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  GoldenTensors tensors{json::parse(bytes.substr(8, header_bytes)), bytes.substr(8 + header_bytes)};
  change(&tensors);
  json merged = json::parse(ReadFile(folder + "/config.json"));
  merged.merge_patch(config);
  directory.Write("config.json", merged.dump());
  directory.Write("model.safetensors", SafetensorsBytes(tensors.header.dump(), tensors.data));
}

}  // namespace dunlin::engine
