// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/torch/torch_file.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/string_view.h"
#include "engine/model/checkpoint/safetensors_header.h"
#include "engine/model/checkpoint/torch/pickle.h"
#include "engine/model/checkpoint/torch/zip_entries.h"

namespace dunlin::engine {
namespace {

constexpr const char* kPickleEnding = "/data.pkl";
constexpr const char* kCompiledPrefix = "_orig_mod.";
constexpr uint64_t kMaxByteOrderBytes = 16;

using Entries = std::map<std::string, ZipEntry, std::less<>>;

struct Archive {
  File file;
  Entries entries;
  std::string folder;  // of all entries
  Pickle pickle;
};

absl::StatusOr<std::string> ReadEntry(const File& file, const std::string& name, const ZipEntry& entry,
                                      uint64_t limit) {
  if (entry.bytes > limit)
    return absl::InvalidArgumentError(absl::StrCat("entry '", name, "' has ", entry.bytes, " bytes; limit is ", limit));
  const absl::StatusOr<uint64_t> offset = ZipDataOffset(file, name, entry);
  if (!offset.ok()) return offset.status();
  std::string bytes(entry.bytes, '\0');
  if (absl::Status read = file.ReadAt(*offset, std::as_writable_bytes(std::span(bytes))); !read.ok()) return read;
  return bytes;
}

absl::StatusOr<Archive> ReadArchive(File file) {
  absl::StatusOr<Entries> entries = ListZipEntries(file);
  if (!entries.ok()) return entries.status();
  const auto data = std::find_if(entries->begin(), entries->end(),
                                 [](const auto& entry) { return entry.first.ends_with(kPickleEnding); });
  if (data == entries->end()) return absl::InvalidArgumentError("is no file of torch.save: it has no data.pkl");
  const std::string folder = data->first.substr(0, data->first.size() - std::string_view(kPickleEnding).size());
  if (const auto order = entries->find(folder + "/byteorder"); order != entries->end()) {
    const absl::StatusOr<std::string> text = ReadEntry(file, order->first, order->second, kMaxByteOrderBytes);
    if (!text.ok()) return text.status();
    if (*text != "little") return absl::InvalidArgumentError("is not little-endian, which is not supported");
  }
  const absl::StatusOr<std::string> bytes = ReadEntry(file, data->first, data->second, kMaxPickleBytes);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Pickle> pickle = ParsePickle(*bytes);
  if (!pickle.ok()) return pickle.status();
  return Archive{std::move(file), *std::move(entries), folder, *std::move(pickle)};
}

// The integers of a tuple, each >= 0; none where it holds anything else.
std::optional<std::vector<int64_t>> Integers(const Pickle& pickle, const PickleValue& tuple) {
  std::vector<int64_t> numbers;
  if (tuple.kind != PickleKind::kTuple || tuple.items.size() > kMaxTensorRank) return std::nullopt;
  for (const uint32_t item : tuple.items) {
    const PickleValue& value = pickle.values[item];
    if (value.kind != PickleKind::kInt || value.integer < 0) return std::nullopt;
    numbers.push_back(value.integer);
  }
  return numbers;
}

// Strides of dimensions of one element do not matter.
bool IsContiguous(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, shape[i], &expected)) return false;
  }
  return true;
}

// Lists the tensors of one archive; the offsets of storages are looked up once each.
class TensorLister {
 public:
  explicit TensorLister(const Archive& archive) : archive_(archive) {}

  absl::StatusOr<std::vector<TensorInfo>> List(const PickleValue& dict) {
    const Pickle& pickle = archive_.pickle;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue& name = pickle.values[dict.items[i]];
      const PickleValue& value = pickle.values[dict.items[i + 1]];
      if (name.kind != PickleKind::kText || value.kind != PickleKind::kTensor) continue;
      if (absl::Status status = Add(name.text, value); !status.ok()) return status;
    }
    std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    const auto twin = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                         [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twin != tensors_.end())
      return absl::InvalidArgumentError(absl::StrCat("tensor '", twin->name, "' appears twice"));
    return std::move(tensors_);
  }

 private:
  absl::Status Add(const std::string& key, const PickleValue& tensor) {
    const Pickle& pickle = archive_.pickle;
    const PickleValue& storage = pickle.values[tensor.items[0]];
    const PickleValue& first = pickle.values[tensor.items[1]];
    const auto shape = Integers(pickle, pickle.values[tensor.items[2]]);
    const auto strides = Integers(pickle, pickle.values[tensor.items[3]]);
    TensorInfo info;
    info.name = key.starts_with(kCompiledPrefix) ? key.substr(std::string_view(kCompiledPrefix).size()) : key;
    const std::string where = absl::StrCat("tensor '", info.name.substr(0, 64), "' ");
    if (info.name.size() > kMaxTensorNameBytes)
      return absl::InvalidArgumentError(absl::StrCat(where, "has too long a name"));
    if (tensors_.size() >= kMaxTensors)
      return absl::InvalidArgumentError(absl::StrCat("has more than ", kMaxTensors, " tensors"));
    const bool described = first.kind == PickleKind::kInt && first.integer >= 0 && shape.has_value() &&
                           strides.has_value() && shape->size() == strides->size();
    if (!described) return absl::InvalidArgumentError(absl::StrCat(where, "is not described as torch.save does"));
    if (!IsContiguous(*shape, *strides))
      return absl::InvalidArgumentError(absl::StrCat(where, "is not contiguous, which is not supported"));
    const uint64_t element_bytes = storage.dtype->bits / 8;
    CheckedU64 bytes(element_bytes);
    for (const int64_t dimension : *shape) bytes *= CheckedU64(static_cast<uint64_t>(dimension));
    const CheckedU64 begin = CheckedU64(static_cast<uint64_t>(first.integer)) * CheckedU64(element_bytes);
    const CheckedU64 end = begin + bytes;
    absl::StatusOr<Storage> place = Place(storage.text);
    if (!place.ok()) return place.status();
    if (!end.ok() || end.value() > place->bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "does not lie inside its storage of ", place->bytes, " bytes"));
    }
    info.dtype = storage.dtype;
    info.shape = *shape;
    info.begin = place->offset + begin.value();
    info.end = place->offset + end.value();
    tensors_.push_back(std::move(info));
    return absl::OkStatus();
  }

  struct Storage {
    uint64_t offset;
    uint64_t bytes;
  };
  absl::StatusOr<Storage> Place(const std::string& key) {
    if (const auto known = storages_.find(key); known != storages_.end()) return known->second;
    const std::string name = absl::StrCat(archive_.folder, "/data/", key);
    const auto entry = archive_.entries.find(name);
    if (entry == archive_.entries.end())
      return absl::InvalidArgumentError(absl::StrCat("entry '", name.substr(0, 96), "' is missing"));
    const absl::StatusOr<uint64_t> offset = ZipDataOffset(archive_.file, name, entry->second);
    if (!offset.ok()) return offset.status();
    return storages_.emplace(key, Storage{*offset, entry->second.bytes}).first->second;
  }

  const Archive& archive_;
  std::map<std::string, Storage> storages_;
  std::vector<TensorInfo> tensors_;
};

bool HoldsTensors(const Pickle& pickle, const PickleValue* dict) {
  if (dict == nullptr || dict->kind != PickleKind::kDict) return false;
  for (size_t i = 1; i < dict->items.size(); i += 2) {
    if (pickle.values[dict->items[i]].kind == PickleKind::kTensor) return true;
  }
  return false;
}

// The root comes last: of training checkpoints it may hold other tensors, nanoGPT's best loss for one.
absl::StatusOr<std::vector<TensorInfo>> ListTensors(const Archive& archive) {
  const PickleValue& root = archive.pickle.values[archive.pickle.root];
  for (const PickleValue* dict : {archive.pickle.Find(root, "model"), archive.pickle.Find(root, "state_dict"), &root}) {
    if (HoldsTensors(archive.pickle, dict)) return TensorLister(archive).List(*dict);
  }
  return absl::InvalidArgumentError("has no state dictionary, neither as \"model\" or \"state_dict\" nor as its root");
}

absl::Status Named(std::string_view name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(AbslView(name), ": ", status.message()));
}

absl::StatusOr<Archive> OpenArchive(const Directory& directory, std::string_view name) {
  absl::StatusOr<File> file = directory.OpenFile(name);
  if (!file.ok()) return file.status();
  absl::StatusOr<Archive> archive = ReadArchive(*std::move(file));
  if (!archive.ok()) return Named(name, archive.status());
  return archive;
}

}  // namespace

absl::StatusOr<CheckpointFile> OpenTorchFile(const Directory& directory, std::string_view name) {
  absl::StatusOr<Archive> archive = OpenArchive(directory, name);
  if (!archive.ok()) return archive.status();
  absl::StatusOr<std::vector<TensorInfo>> tensors = ListTensors(*archive);
  if (!tensors.ok()) return Named(name, tensors.status());
  return CheckpointFile(std::move(archive->file), 0, *std::move(tensors));
}

absl::StatusOr<std::string> ReadNanoGptConfig(const Directory& directory, std::string_view name) {
  const absl::StatusOr<Archive> archive = OpenArchive(directory, name);
  if (!archive.ok()) return archive.status();
  const Pickle& pickle = archive->pickle;
  const PickleValue* arguments = pickle.Find(pickle.values[pickle.root], "model_args");
  if (arguments == nullptr || arguments->kind != PickleKind::kDict) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(name), ": has no model_args, by which nanoGPT's files tell their sizes"));
  }
  nlohmann::json config = {{"model_type", "nanogpt"}};
  for (const char* field : {"n_layer", "n_head", "n_embd", "block_size", "vocab_size", "bias"}) {
    const PickleValue* value = pickle.Find(*arguments, field);
    if (value == nullptr) continue;
    if (value->kind == PickleKind::kBool) config[field] = value->integer != 0;
    if (value->kind == PickleKind::kInt) config[field] = value->integer;
  }
  return config.dump();
}

}  // namespace dunlin::engine
