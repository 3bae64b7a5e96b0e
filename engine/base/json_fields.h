// SPDX-License-Identifier: Apache-2.0
// Reads and range-checks the fields of one JSON object. Keeps the first error, so that a parser can read all its fields
// and check status() once. Messages say file, field, value and limit: "config.json: n_layer is 0; limit is [1, 1024]".
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace dunlin::engine {

// A null field counts as absent. After an error every reader returns its fallback or minimum.
class JsonFields {
 public:
  // `object` is a JSON object and outlives this. `where` starts every message.
  JsonFields(const nlohmann::json& object, std::string where);

  bool Has(const char* name) const;
  // Whether the field is present, null included: an explicit null may disable what an absent field leaves at its
  // default.
  bool Mentions(const char* name) const;
  // Whether the field is this string.
  bool IsText(const char* name, const char* text) const;

  bool IsList(const char* name) const;

  // An integer in [min, max]; 12.0 does not count. Readers without a fallback require the field.
  int64_t Int(const char* name, int64_t min, int64_t max);
  int64_t IntOr(const char* name, int64_t min, int64_t max, int64_t fallback);
  // A finite number in [min, max].
  double Number(const char* name, double min, double max);
  double NumberOr(const char* name, double min, double max, double fallback);
  bool BoolOr(const char* name, bool fallback);
  // A boolean, or an integer, which is true where it is not 0.
  bool FlagOr(const char* name, bool fallback);
  std::string TextOr(const char* name, const std::string& fallback);
  // An integer or a list of at most `max_count` integers, each in [min, max]; empty when the field is absent.
  std::vector<int64_t> IntListOr(const char* name, int64_t min, int64_t max, size_t max_count);
  // A list of at most `max_count` finite numbers, each in [min, max]; empty when the field is absent.
  std::vector<double> NumberListOr(const char* name, double min, double max, size_t max_count);
  // The same, of which entries may be null and are then `absent`.
  std::vector<double> NumberOrNullListOr(const char* name, double min, double max, size_t max_count, double absent);
  // A list of two numbers, 0 <= lower <= upper, of which the upper may be infinite: Python's Infinity, which
  // transformers 5 writes as {"__float__": "Infinity"}.
  struct Limits {
    double lower;
    double upper;
  };
  Limits LimitsOr(const char* name, const Limits& fallback);
  // A list of at most `max_count` strings; empty when the field is absent.
  std::vector<std::string> TextListOr(const char* name, size_t max_count);
  // A nested object, owned by the outer one, or null when the field is absent.
  const nlohmann::json* Object(const char* name);

  // Records the caller's own error: "<where>: <what>".
  void Fail(const std::string& what);
  // Records the error of a nested reader, if it has one.
  void Adopt(const absl::Status& nested);
  const absl::Status& status() const { return status_; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* Find(const char* name) const;
  int64_t ToInt(const char* name, const nlohmann::json& value, int64_t min, int64_t max);
  void Require(const char* name);

  const nlohmann::json& object_;
  std::string where_;
  absl::Status status_;
};

}  // namespace dunlin::engine
