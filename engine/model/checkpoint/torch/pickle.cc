// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/torch/pickle.h"

#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dunlin::engine {
namespace {

constexpr const char* kOrderedDict = "collections.OrderedDict";
constexpr const char* kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";

// Storage classes and the elements that they hold.
struct StorageName {
  const char* name;
  const char* dtype;
};
constexpr StorageName kStorageNames[] = {
    {"torch.FloatStorage", "F32"},  {"torch.HalfStorage", "F16"}, {"torch.BFloat16Storage", "BF16"},
    {"torch.DoubleStorage", "F64"}, {"torch.LongStorage", "I64"}, {"torch.IntStorage", "I32"},
    {"torch.ShortStorage", "I16"},  {"torch.CharStorage", "I8"},  {"torch.ByteStorage", "U8"},
    {"torch.BoolStorage", "BOOL"},
};

const TensorDType* StorageDType(std::string_view name) {
  for (const StorageName& row : kStorageNames) {
    if (name == row.name) return FindTensorDType(row.dtype);
  }
  return nullptr;
}

bool IsKnownName(const std::string& name) {
  return name == kOrderedDict || name == kRebuildTensor || name == kRebuildParameter || StorageDType(name) != nullptr;
}

// A stack machine of the opcodes that torch.save writes.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<Pickle> Read() {
    bool done = false;
    while (!done && fault_.empty()) {
      const uint64_t opcode = Number(1);
      if (!fault_.empty()) break;
      done = opcode == '.';
      if (!done) Step(static_cast<uint8_t>(opcode));
    }
    const uint32_t root = Pop();
    if (!fault_.empty()) return absl::InvalidArgumentError(absl::StrCat("pickle: ", fault_));
    return Pickle{.values = std::move(values_), .root = root};
  }

 private:
  void Fail(const std::string& what) {
    if (fault_.empty()) fault_ = absl::StrCat(what, " at byte ", at_);
  }

  std::string_view Take(uint64_t size) {
    if (size > bytes_.size() - at_) {
      Fail("is cut short");
      return "";
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  uint64_t Number(size_t size) {
    const std::string_view raw = Take(size);
    uint64_t value = 0;
    for (size_t i = raw.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(raw[i]);
    return value;
  }
  std::string_view Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      Fail("is cut short");
      return "";
    }
    const std::string_view line = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  uint32_t Push(PickleValue value) {
    if (values_.size() >= kMaxPickleValues) {
      Fail(absl::StrCat("has more than ", kMaxPickleValues, " values"));
      return 0;
    }
    values_.push_back(std::move(value));
    stack_.push_back(static_cast<uint32_t>(values_.size() - 1));
    return stack_.back();
  }
  uint32_t Pop() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() <= floor) {
      Fail("takes a value that is not there");
      return 0;
    }
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  // The values above the last mark, which goes with them.
  std::vector<uint32_t> PopToMark() {
    if (marks_.empty()) {
      Fail("takes a mark that is not there");
      return {};
    }
    std::vector<uint32_t> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  std::vector<uint32_t> PopSome(size_t count) {
    std::vector<uint32_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = Pop();
    return items;
  }
  void PushItems(PickleKind kind, std::vector<uint32_t> items) {
    PickleValue value;
    value.kind = kind;
    value.items = std::move(items);
    Push(std::move(value));
  }
  void PushInteger(PickleKind kind, int64_t integer) {
    PickleValue value;
    value.kind = kind;
    value.integer = integer;
    Push(std::move(value));
  }
  void PushText(PickleKind kind, std::string_view text) {
    PickleValue value;
    value.kind = kind;
    value.text = std::string(text);
    Push(std::move(value));
  }

  // Adds to the list or dictionary under the items. Items are kept once: what they refer to may still grow.
  void Extend(PickleKind kind, const std::vector<uint32_t>& items) {
    if (stack_.empty() || !fault_.empty() || values_[stack_.back()].kind != kind ||
        (kind == PickleKind::kDict && items.size() % 2 != 0)) {
      Fail("adds to what is no list or dictionary");
      return;
    }
    num_items_ += items.size();
    if (num_items_ > kMaxPickleValues) Fail(absl::StrCat("has more than ", kMaxPickleValues, " items"));
    std::vector<uint32_t>& target = values_[stack_.back()].items;
    target.insert(target.end(), items.begin(), items.end());
  }

  void PushName(const std::string& name) {
    if (!IsKnownName(name)) {
      Fail(
          absl::StrCat("names '", name.substr(0, 64), "', which is not among the names of tensors; nothing is called"));
      return;
    }
    PushText(PickleKind::kName, name);
  }

  void PushLong() {
    const std::string_view raw = Take(Number(1));
    if (raw.size() > sizeof(int64_t)) Fail("has an integer of more than 64 bits");
    if (!fault_.empty()) return;
    uint64_t value = 0;
    for (size_t i = raw.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(raw[i]);
    const size_t unused = 64 - 8 * raw.size();
    const auto wide = static_cast<int64_t>(unused == 64 ? 0 : value << unused);
    PushInteger(PickleKind::kInt, unused == 64 ? 0 : wide >> unused);
  }

  void PushFloat() {
    const std::string_view raw = Take(sizeof(uint64_t));
    uint64_t bits = 0;
    for (const char byte : raw) bits = bits << 8 | static_cast<uint8_t>(byte);  // big-endian
    PickleValue value;
    value.kind = PickleKind::kFloat;
    value.number = std::bit_cast<double>(bits);
    Push(std::move(value));
  }

  // ('storage', class, key, location, elements)
  void PushStorage() {
    const uint32_t id = Pop();
    if (!fault_.empty()) return;
    const std::vector<uint32_t> items = values_[id].items;
    const bool shaped = values_[id].kind == PickleKind::kTuple && items.size() == 5 &&
                        values_[items[0]].text == "storage" && values_[items[1]].kind == PickleKind::kName &&
                        values_[items[2]].kind == PickleKind::kText && values_[items[4]].kind == PickleKind::kInt;
    const TensorDType* dtype = shaped ? StorageDType(values_[items[1]].text) : nullptr;
    if (dtype == nullptr || values_[items[4]].integer < 0) {
      Fail("has a storage that is not described as torch.save does");
      return;
    }
    PickleValue value;
    value.kind = PickleKind::kStorage;
    value.text = values_[items[2]].text;
    value.integer = values_[items[4]].integer;
    value.dtype = dtype;
    Push(std::move(value));
  }

  void Reduce() {
    const uint32_t arguments = Pop();
    const uint32_t name = Pop();
    if (!fault_.empty()) return;
    const bool callable = values_[name].kind == PickleKind::kName && values_[arguments].kind == PickleKind::kTuple;
    const std::string text = callable ? values_[name].text : "";
    const std::vector<uint32_t> items = values_[arguments].items;
    if (text == kOrderedDict && items.empty()) {
      PushItems(PickleKind::kDict, {});
    } else if (text == kRebuildTensor && items.size() >= 4 && values_[items[0]].kind == PickleKind::kStorage) {
      PushItems(PickleKind::kTensor, {items.begin(), items.begin() + 4});
    } else if (text == kRebuildParameter && !items.empty() && values_[items[0]].kind == PickleKind::kTensor) {
      stack_.push_back(items[0]);
    } else {
      Fail(absl::StrCat("calls '", text, "' with other arguments than those of a tensor"));
    }
  }

  void Put(uint64_t slot) {
    if (slot >= kMaxPickleValues || stack_.empty()) {
      Fail("remembers what is not there");
    } else {
      memo_[slot] = stack_.back();
    }
  }
  void Get(uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end() || stack_.size() >= kMaxPickleValues) {
      Fail("recalls what was not remembered");
    } else {
      stack_.push_back(found->second);
    }
  }

  // Opcodes that push a constant or a container; false: it is none of them.
  bool StepConstant(uint8_t opcode) {
    switch (opcode) {
      case 'N':
        Push({});
        return true;
      case 0x88:
      case 0x89:
        PushInteger(PickleKind::kBool, opcode == 0x88 ? 1 : 0);
        return true;
      case 'J':
        PushInteger(PickleKind::kInt, static_cast<int32_t>(Number(4)));
        return true;
      case 'K':
        PushInteger(PickleKind::kInt, static_cast<int64_t>(Number(1)));
        return true;
      case 'M':
        PushInteger(PickleKind::kInt, static_cast<int64_t>(Number(2)));
        return true;
      case 0x8A:
        PushLong();
        return true;
      case 'G':
        PushFloat();
        return true;
      case 'X':
        PushText(PickleKind::kText, Take(Number(4)));
        return true;
      case 0x8C:
        PushText(PickleKind::kText, Take(Number(1)));
        return true;
      case '}':
        PushItems(PickleKind::kDict, {});
        return true;
      case ']':
        PushItems(PickleKind::kList, {});
        return true;
      case ')':
        PushItems(PickleKind::kTuple, {});
        return true;
      default:
        return false;
    }
  }

  // Opcodes that take values from the stack; false: it is none of them.
  bool StepCombine(uint8_t opcode) {
    switch (opcode) {
      case 't':
        PushItems(PickleKind::kTuple, PopToMark());
        return true;
      case 0x85:
      case 0x86:
      case 0x87:
        PushItems(PickleKind::kTuple, PopSome(opcode - 0x84U));
        return true;
      case 'a':
        Extend(PickleKind::kList, PopSome(1));
        return true;
      case 'e':
        Extend(PickleKind::kList, PopToMark());
        return true;
      case 's':
        Extend(PickleKind::kDict, PopSome(2));
        return true;
      case 'u':
        Extend(PickleKind::kDict, PopToMark());
        return true;
      case 'Q':
        PushStorage();
        return true;
      case 'R':
        Reduce();
        return true;
      case 'b':  // attributes, such as the versions of a state dictionary: not of interest
        Pop();
        return true;
      default:
        return false;
    }
  }

  void Step(uint8_t opcode) {
    if (StepConstant(opcode) || StepCombine(opcode)) return;
    switch (opcode) {
      case 0x80:
        if (Number(1) > 5) Fail("has an unknown protocol");
        break;
      case 0x95:  // frame: a hint for readers
        Take(8);
        break;
      case '(':
        marks_.push_back(stack_.size());
        if (marks_.size() > kMaxPickleValues) Fail("has too many marks");
        break;
      case 'c': {
        const std::string module(Line());
        PushName(absl::StrCat(module, ".", std::string(Line())));
        break;
      }
      case 'q':
        Put(Number(1));
        break;
      case 'r':
        Put(Number(4));
        break;
      case 0x94:
        Put(memo_.size());
        break;
      case 'h':
        Get(Number(1));
        break;
      case 'j':
        Get(Number(4));
        break;
      default:
        Fail(absl::StrFormat("has opcode 0x%02X, which torch.save does not write for tensors", opcode));
    }
  }

  std::string_view bytes_;
  uint64_t at_ = 0;
  std::vector<PickleValue> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, uint32_t> memo_;
  size_t num_items_ = 0;
  std::string fault_;
};

}  // namespace

const PickleValue* Pickle::Find(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != PickleKind::kDict) return nullptr;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = values[dict.items[i]];
    if (name.kind == PickleKind::kText && name.text == key) return &values[dict.items[i + 1]];
  }
  return nullptr;
}

absl::StatusOr<Pickle> ParsePickle(std::string_view bytes) {
  if (bytes.size() > kMaxPickleBytes) {
    return absl::InvalidArgumentError(absl::StrCat("pickle: has ", bytes.size(), " bytes; limit is ", kMaxPickleBytes));
  }
  return PickleReader(bytes).Read();
}

}  // namespace dunlin::engine
