// SPDX-License-Identifier: Apache-2.0
// Files of weights: safetensors, GGUF, torch.save. What a header says is read from a real file, as at load.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/model/architectures/architecture.h"
#include "engine/model/checkpoint/checkpoint_file.h"
#include "engine/model/checkpoint/gguf/gguf_tensors.h"
#include "engine/model/checkpoint/gguf/gguf_vocabulary.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "engine/model/checkpoint/shard_list.h"
#include "engine/model/checkpoint/torch/pickle.h"
#include "engine/model/checkpoint/torch/torch_file.h"
#include "engine/model/load/gguf_model.h"
#include "tests/fuzz/input_bytes.h"
#include "tests/fuzz/scratch_directory.h"

namespace dunlin::fuzz {
namespace {

constexpr uint64_t kMaxDataBytes = uint64_t{1} << 24;    // zeros behind a header; they take no memory
constexpr uint64_t kMaxReadBytes = uint64_t{256} << 10;  // of one tensor
constexpr size_t kMaxReads = 8;

// The file of the current input in a folder of its own.
class InputFile {
 public:
  explicit InputFile(const char* name) : name_(name) {}

  const engine::Directory& Replace(std::string_view bytes, uint64_t size = 0) {
    scratch_.Write(name_, bytes, size);
    return *directory_;
  }
  const char* name() const { return name_; }
  std::string path() const { return scratch_.path() + "/" + name_; }

 private:
  const char* name_;
  ScratchDirectory scratch_;
  absl::StatusOr<engine::Directory> directory_ = engine::Directory::Open(scratch_.path());
};

// The ranges that a parser lets through lie in the data, and reading them works.
void ReadTensors(const engine::CheckpointFile& file, uint64_t data_bytes) {
  size_t reads = 0;
  for (const engine::TensorInfo& tensor : file.tensors()) {
    DUNLIN_FUZZ_CHECK(tensor.dtype != nullptr, "a tensor without a dtype");
    DUNLIN_FUZZ_CHECK(tensor.begin <= tensor.end && tensor.end <= data_bytes, "a tensor outside the data");
    if (tensor.end - tensor.begin > kMaxReadBytes || ++reads > kMaxReads) continue;
    std::vector<std::byte> bytes(tensor.end - tensor.begin);
    DUNLIN_FUZZ_CHECK(file.Read(tensor, 0, bytes).ok(), "a tensor cannot be read");
  }
}

}  // namespace

// Input: how many bytes of data the file has (4 bytes), what its length of the header is wrong by (1 byte, signed), the
// header.
int FuzzSafetensors(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const uint64_t data_bytes = input.Word() % kMaxDataBytes;
  const auto wrong_by = static_cast<int8_t>(input.Byte());
  const std::string_view header = input.rest();
  const auto parsed = engine::ParseSafetensorsHeader(header, data_bytes);
  static InputFile file("model.safetensors");
  const uint64_t length = header.size() + static_cast<uint64_t>(int64_t{wrong_by});
  std::string bytes(sizeof length, '\0');
  for (size_t i = 0; i < sizeof length; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  bytes += header;
  const auto opened = engine::OpenSafetensorsFile(file.Replace(bytes, bytes.size() + data_bytes), file.name());
  if (wrong_by == 0) DUNLIN_FUZZ_CHECK(opened.ok() == parsed.ok(), "the file is not what its header is");
  if (opened.ok()) ReadTensors(*opened, bytes.size() + data_bytes);
  return 0;
}

// Input: the beginning of a file; what follows are zeros.
int FuzzGguf(const uint8_t* data, size_t size) {
  static InputFile file("model.gguf");
  file.Replace(TextOf(data, size), size + (uint64_t{1} << 20));
  auto tensors = engine::OpenGguf(file.path());
  if (!tensors.ok()) return 0;
  (void)engine::ReadGgufTexts(**tensors);
  (void)engine::ParseGgufModel(tensors->get());
  size_t reads = 0;
  for (const engine::TensorInfo* tensor : (*tensors)->List()) {
    const uint64_t bytes = tensor->end - tensor->begin;
    if (bytes > kMaxReadBytes || ++reads > kMaxReads) continue;
    std::vector<std::byte> values(bytes);
    if (tensor->dtype->loadable.has_value()) (void)(*tensors)->Read(*tensor, 0, values);
    if (!(*tensors)->CodesOf(*tensor).has_value() || tensor->shape.size() != 2) continue;
    engine::CodedRows rows;
    (void)(*tensors)->ReadCodes(*tensor, 0, std::min<int64_t>(tensor->shape[0], 4), &rows);
  }
  return 0;
}

// Input: the number of a type, its blocks. Whatever they hold, they have values.
int FuzzGgmlBlocks(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const engine::GgmlType* type = engine::FindGgmlType(input.Byte());
  if (type == nullptr || type->dequantize == nullptr) return 0;
  const size_t num_blocks = input.rest().size() / type->block_bytes;
  const std::vector<uint8_t> blocks(input.rest().begin(),
                                    input.rest().begin() + static_cast<ptrdiff_t>(num_blocks * type->block_bytes));
  std::vector<float> values(num_blocks * type->block_elements);
  type->dequantize(blocks.data(), num_blocks, values.data());
  return 0;
}

int FuzzPickle(const uint8_t* data, size_t size) {
  const auto pickle = engine::ParsePickle(TextOf(data, size));
  if (!pickle.ok()) return 0;
  DUNLIN_FUZZ_CHECK(pickle->root < pickle->values.size(), "a root outside the values");
  for (const engine::PickleValue& value : pickle->values) {
    for (const uint32_t item : value.items)
      DUNLIN_FUZZ_CHECK(item < pickle->values.size(), "an item outside the values");
  }
  return 0;
}

int FuzzTorchZip(const uint8_t* data, size_t size) {
  static InputFile file(engine::kNanoGptFile);
  const engine::Directory& directory = file.Replace(TextOf(data, size));
  const auto opened = engine::OpenTorchFile(directory, file.name());
  if (opened.ok()) ReadTensors(*opened, size);
  (void)engine::ReadNanoGptConfig(directory, file.name());
  return 0;
}

}  // namespace dunlin::fuzz
