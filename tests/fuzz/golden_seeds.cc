// SPDX-License-Identifier: Apache-2.0
// Seeds from the files of tests/golden and configs, cut to what a target reads.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "absl/strings/escaping.h"
#include "engine/model/checkpoint/gguf/ggml_types.h"
#include "engine/model/checkpoint/gguf/gguf_file.h"
#include "engine/model/checkpoint/torch/zip_entries.h"
#include "tests/engine/model/torch/zip_writer.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/golden_tokenizer.h"
#include "tests/text/chat_output/samples.h"

namespace dunlin::fuzz {
namespace {

using Json = nlohmann::ordered_json;
using Inputs = std::vector<CorpusInput>;
constexpr char kPartEnd = '\xFF';  // InputBytes::Part

std::string Pickled(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(DUNLIN_SOURCE_DIR) / path;
  const auto directory = engine::Directory::Open(whole.parent_path().string());
  DUNLIN_FUZZ_CHECK(directory.ok(), path);
  const auto file = directory->OpenFile(whole.filename().string());
  DUNLIN_FUZZ_CHECK(file.ok(), path);
  const auto entries = engine::ListZipEntries(*file);
  DUNLIN_FUZZ_CHECK(entries.ok(), path);
  for (const auto& [name, entry] : *entries) {
    if (!name.ends_with("data.pkl")) continue;
    std::string bytes(entry.bytes, '\0');
    const auto offset = engine::ZipDataOffset(*file, name, entry);
    DUNLIN_FUZZ_CHECK(offset.ok() && file->ReadAt(*offset, std::as_writable_bytes(std::span(bytes))).ok(), path);
    return bytes;
  }
  Fail(__FILE__, __LINE__, path);
}

// As FuzzSafetensors reads it: the bytes of data, no error in the header's length, the header.
std::string SafetensorsHeader(const std::string& path) {
  const std::string file = ReadTreeFile(path);
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<uint8_t>(file[i]);
  const uint64_t data_bytes = file.size() - 8 - length;
  std::string input;
  for (size_t i = 0; i < 4; ++i) input += static_cast<char>(data_bytes >> (8 * i));
  return input + '\0' + file.substr(8, length);
}

// All that stands before the first tensor.
std::string GgufHead(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::path(DUNLIN_SOURCE_DIR) / path;
  const auto directory = engine::Directory::Open(whole.parent_path().string());
  DUNLIN_FUZZ_CHECK(directory.ok(), path);
  const auto file = engine::GgufFile::Open(*directory, whole.filename().string());
  DUNLIN_FUZZ_CHECK(file.ok(), path);
  return ReadTreeFile(path).substr(0, file->header().tensors.front().offset);
}

// The files of a folder of the tree with this ending, `step` apart.
struct Files {
  const char* target;
  const char* folder;
  const char* ending;
  std::string (*input)(const std::string& path);
  size_t step = 1;
};

const Files kFiles[] = {
    {"safetensors", "tests/golden/models", "model.safetensors", &SafetensorsHeader, 8},
    {"gguf", "tests/golden/gguf", ".gguf", &GgufHead, 4},
    {"pickle", "tests/golden/torch", ".pt", &Pickled},
    {"pickle", "tests/golden/torch", ".bin",
     [](const std::string& path) { return path.ends_with("legacy.bin") ? ReadTreeFile(path) : Pickled(path); }},
    {"torch_zip", "tests/golden/torch", ".pt",
     [](const std::string& path) { return engine::TorchBytes(Pickled(path), std::string(64, '\0')); }},
    {"model_config", "tests/golden", "/config.json", &ReadTreeFile},
    {"tokenizer_json", "tests/golden/text", "tokenizer.json", &ReadTreeFile},
    {"sentencepiece", "tests/golden/text", "tokenizer.model", &ReadTreeFile},
    {"tiktoken", "tests/golden/text", "tiktoken.model", &ReadTreeFile},
    {"vocabulary", "tests/golden/text", "vocabulary.json", &ReadTreeFile},
    {"chat_template", "tests/golden/chat/templates", ".jinja", &ReadTreeFile},
    {"config", "configs", ".json", &ReadTreeFile},
};

void AddFiles(const Files& files, Inputs* inputs) {
  namespace fs = std::filesystem;
  const fs::path root = DUNLIN_SOURCE_DIR;
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(root / files.folder)) {
    const std::string path = fs::relative(entry.path(), root).string();
    if (entry.is_regular_file() && path.ends_with(files.ending)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  for (size_t i = 0; i < paths.size(); i += files.step) inputs->push_back({paths[i], files.input(paths[i])});
}

// As FuzzAdapterFiles reads them.
Inputs AdapterFiles() {
  const std::string folder = "tests/golden/adapters/";
  Inputs inputs = {{"llama_gqa.gguf", '\1' + ReadTreeFile(folder + "llama_gqa.gguf")}};
  for (const char* name : {"llama_gqa", "llama_gqa_second", "llama_gqa_third", "qwen3_qk_norm"}) {
    const std::string path = folder + name + "/";
    const std::string header = SafetensorsHeader(path + "adapter_model.safetensors");
    const std::string weights = ReadTreeFile(path + "adapter_model.safetensors");
    const std::string json = header.substr(5);  // after the bytes of data and the error in its length
    std::string input = '\0' + header.substr(0, 4) + ReadTreeFile(path + "adapter_config.json") + kPartEnd;
    input += json + kPartEnd + weights.substr(sizeof(uint64_t) + json.size());
    inputs.push_back({name, input});
  }
  return inputs;
}

// Two blocks of each type, of bytes that differ.
Inputs GgmlBlocks() {
  Inputs inputs;
  for (uint32_t id = 0; id < 64; ++id) {
    const engine::GgmlType* type = engine::FindGgmlType(id);
    if (type == nullptr || type->dequantize == nullptr) continue;
    std::string input(1, static_cast<char>(id));
    for (uint32_t i = 0; i < 2 * type->block_bytes; ++i) input += static_cast<char>(37U * i + id);
    inputs.push_back({type->presented.name + std::to_string(id), input});
  }
  return inputs;
}

Inputs Schemas() {
  std::istringstream lines(ReadTreeFile("tests/golden/grammar/schemas.json"));
  Inputs inputs;
  for (const Json& row : Json::parse(lines)) inputs.push_back({"schema", '\1' + row["schema"].dump()});
  return inputs;
}

Inputs Conversations() {
  Inputs inputs;
  for (const Json& row : Json::parse(ReadTreeFile("tests/golden/chat/conversations.json"))) {
    std::string input(1, row.value("continue_final_message", false) ? '\2' : '\1');
    input += row["messages"].dump() + kPartEnd;
    input += row.contains("tools") ? row["tools"].dump() : "";
    inputs.push_back({row["name"], input + kPartEnd});
  }
  return inputs;
}

// With the forms that they are samples of.
Inputs ModelOutputs() {
  const auto place = [](const auto& formats, std::string_view name) {
    for (size_t i = 0; i < formats.size(); ++i) {
      if (formats[i].name == name) return static_cast<char>(i == 0 ? formats.size() : i);
    }
    return '\0';
  };
  Inputs inputs;
  for (const text::Sample& sample : text::Samples()) {
    std::string input(1, place(text::ToolFormats(), sample.call_form));
    input += place(text::ReasoningFormats(), sample.reasoning_form);
    inputs.push_back({sample.name, input + '\0' + sample.output});
  }
  return inputs;
}

// As FuzzImage reads them: each file, and its number with a change.
Inputs ImageFiles() {
  Inputs inputs;
  char number = 0;
  for (const Json& row : Json::parse(ReadTreeFile("tests/golden/images/decode.json"))) {
    std::string file;
    DUNLIN_FUZZ_CHECK(absl::Base64Unescape(row["file"].get<std::string>(), &file), "base64");
    inputs.push_back({row["name"], '\0' + file});
    inputs.push_back({row["name"], std::string(1, ++number) + "\1\1\1"});
  }
  return inputs;
}

// As FuzzImageProcessor reads them.
Inputs ImageProcessors() {
  const Json goldens = Json::parse(ReadTreeFile("tests/golden/images/processor.json"));
  Inputs inputs;
  for (const Json& row : goldens["cases"]) {
    const std::string own = row["preprocessor_config"].dump();
    inputs.push_back({row["name"], "\x20\x10" + own + kPartEnd + row["processor_config"].dump()});
  }
  return inputs;
}

// Of command strings no beginning is better than another.
Inputs RandomBytes() {
  std::mt19937 random(5);
  Inputs inputs;
  for (size_t length : {16, 64, 256, 512}) {
    std::string bytes;
    while (bytes.size() < length) bytes += static_cast<char>(random());
    inputs.push_back({"random" + std::to_string(length), bytes});
  }
  return inputs;
}

}  // namespace

std::vector<CorpusInput> GoldenSeeds(std::string_view target) {
  if (target == "adapter_files") return AdapterFiles();
  if (target == "ggml_blocks") return GgmlBlocks();
  if (target == "json_schema") return Schemas();
  if (target == "chat_messages") return Conversations();
  if (target == "chat_output") return ModelOutputs();
  if (target == "image") return ImageFiles();
  if (target == "image_processor") return ImageProcessors();
  if (target == "scheduler" || target == "kv_events") return RandomBytes();
  Inputs inputs;
  for (const Files& files : kFiles) {
    if (files.target == target) AddFiles(files, &inputs);
  }
  return inputs;
}

}  // namespace dunlin::fuzz
