// SPDX-License-Identifier: Apache-2.0
// Reads the pickle of a torch.save archive as data. Nothing is executed: of the names that a pickle can call, only
// those that describe tensors and ordered dictionaries are known, and each is a rule here; any other ends the reading.
// Values lie in one array and refer to each other by index, so that cycles and depth cost nothing. Pure.
// Source: Python 3.13, Lib/pickletools.py (opcodes); PyTorch 2, torch/_utils.py and torch/serialization.py (names).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/tensor_dtype.h"

namespace dunlin::engine {

inline constexpr uint64_t kMaxPickleBytes = uint64_t{64} << 20;
inline constexpr size_t kMaxPickleValues = size_t{1} << 22;

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kTuple,
  kList,
  kDict,     // items: key, value, key, value, ...
  kName,     // text: a known global name
  kStorage,  // text: its key in the archive; dtype; integer: elements
  kTensor,   // items: storage, offset, size, stride
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  int64_t integer = 0;  // kBool, kInt, kStorage
  double number = 0.0;  // kFloat
  std::string text;     // kText, kName, kStorage
  const TensorDType* dtype = nullptr;
  std::vector<uint32_t> items;  // indices into Pickle::values
};

struct Pickle {
  std::vector<PickleValue> values;
  uint32_t root = 0;

  // The value of a text key in a dictionary, or null.
  const PickleValue* Find(const PickleValue& dict, std::string_view key) const;
};

// INVALID_ARGUMENT names the opcode or the name that is not known, and what is cut short or of the wrong kind; more
// than kMaxPickleBytes or kMaxPickleValues.
absl::StatusOr<Pickle> ParsePickle(std::string_view bytes);

}  // namespace dunlin::engine
