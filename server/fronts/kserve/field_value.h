// SPDX-License-Identifier: Apache-2.0
// The value of one field of a request, wherever it stood: in an input tensor, a parameter of the request or the JSON of
// sampling_parameters. Numbers and booleans may also be text, as Triton's clients send them ("0.1", "true").
// Owner: the reader of the request. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/request/types.h"
#include "server/fronts/kserve/tensor_codec.h"

namespace dunlin::server::kserve {

// Readers return an empty value after an error, and record the request's first error in *status.
class FieldValue {
 public:
  FieldValue(std::string_view name, std::vector<Scalar> elements, absl::Status* status)
      : name_(name), elements_(std::move(elements)), status_(status) {}

  std::string_view name() const { return name_; }
  bool is_null() const { return false; }  // the null members of JSON are left out
  bool is_text() const { return elements_.size() == 1 && std::holds_alternative<std::string>(elements_[0]); }
  const std::vector<Scalar>& elements() const { return elements_; }

  // Errors: another number of elements than one (the lists: any number), another type, out of range.
  bool Bool() const;
  int32_t Int() const;
  uint64_t Unsigned64() const;  // a negative number modulo 2^64
  float Number() const;
  std::string Text() const;
  std::vector<std::string> Texts() const;
  std::vector<engine::TokenId> TokenIds() const;

  // "<name> <problem>; limit is <limit>", unless an error has been recorded.
  void Fail(std::string_view problem, std::string_view limit) const;
  bool ok() const { return status_->ok(); }

 private:
  const Scalar* Only() const;  // null after an error
  int32_t IntOf(const Scalar& element) const;
  std::string TextOf(const Scalar& element) const;

  std::string_view name_;
  std::vector<Scalar> elements_;
  absl::Status* status_;
};

// Records that a field of this API is refused, unless it has the neutral value: a number, "" for none (FieldRow).
void RefuseField(const FieldValue& value, std::string_view reason, std::string_view neutral);

// The members of a JSON object of scalars and of lists of scalars, by their names; null is as good as absent, an object
// is its own text. Errors: as ParseObject; nested deeper than 32 levels, more than 256 members.
struct JsonField {
  std::string name;
  std::vector<Scalar> elements;
};
absl::StatusOr<std::vector<JsonField>> ReadJsonFields(std::string_view field, std::string_view text);

}  // namespace dunlin::server::kserve
