// SPDX-License-Identifier: Apache-2.0
// Tensors both ways: every datatype, both forms, and what a hostile client may claim of a shape or a length.
#include "server/fronts/kserve/tensor_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/fronts/kserve/field_value.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {
namespace {

using Input = inference::ModelInferRequest::InferInputTensor;
using testing::ElementsAre;
using testing::HasSubstr;

Input InputOf(const std::string& datatype, const std::vector<int64_t>& shape) {
  Input input;
  input.set_name("x");
  input.set_datatype(datatype);
  for (const int64_t dimension : shape) input.add_shape(dimension);
  return input;
}

template <class Value>
std::string Raw(const std::vector<Value>& values) {
  std::string raw(values.size() * sizeof(Value), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

std::string RawBytes(const std::vector<std::string>& values) {
  std::string raw;
  for (const std::string& value : values) raw += Raw<uint32_t>({static_cast<uint32_t>(value.size())}) + value;
  return raw;
}

TEST(TensorCodec, ReadsEveryDatatypeFromItsRawBytes) {
  struct Case {
    const char* datatype;
    std::string raw;
    Scalar element;
  };
  const Case cases[] = {
      {"BOOL", Raw<uint8_t>({1}), true},
      {"UINT8", Raw<uint8_t>({200}), uint64_t{200}},
      {"UINT16", Raw<uint16_t>({60000}), uint64_t{60000}},
      {"UINT32", Raw<uint32_t>({4000000000U}), uint64_t{4000000000U}},
      {"UINT64", Raw<uint64_t>({~uint64_t{0}}), ~uint64_t{0}},
      {"INT8", Raw<int8_t>({-5}), int64_t{-5}},
      {"INT16", Raw<int16_t>({-300}), int64_t{-300}},
      {"INT32", Raw<int32_t>({-70000}), int64_t{-70000}},
      {"INT64", Raw<int64_t>({int64_t{-1} << 40}), int64_t{-1} * (int64_t{1} << 40)},
      {"FP32", Raw<float>({0.5F}), 0.5},
      {"FP64", Raw<double>({0.1}), 0.1},
      {"BYTES", RawBytes({"dunlin"}), std::string("dunlin")},
  };
  EXPECT_EQ(std::size(cases), Datatypes().size());
  for (const Case& one : cases) {
    const auto elements = DecodeTensor(InputOf(one.datatype, {1}), &one.raw);
    ASSERT_TRUE(elements.ok()) << one.datatype << elements.status();
    EXPECT_THAT(*elements, ElementsAre(one.element)) << one.datatype;
  }
}

TEST(TensorCodec, ReadsContentsInTheFieldOfTheirDatatype) {
  Input texts = InputOf("BYTES", {2, 1});
  texts.mutable_contents()->add_bytes_contents("a");
  texts.mutable_contents()->add_bytes_contents("");
  EXPECT_THAT(*DecodeTensor(texts, nullptr), ElementsAre(Scalar("a"), Scalar("")));
  Input number = InputOf("INT16", {});  // a scalar has no dimension
  number.mutable_contents()->add_int_contents(-3);
  EXPECT_THAT(*DecodeTensor(number, nullptr), ElementsAre(Scalar(int64_t{-3})));
  number.mutable_contents()->add_int_contents(4);
  EXPECT_THAT(std::string(DecodeTensor(number, nullptr).status().message()),
              HasSubstr("inputs[x].contents has 2 elements of its datatype; limit is 1 elements"));
  number.set_datatype("INT64");  // another field
  EXPECT_THAT(std::string(DecodeTensor(number, nullptr).status().message()), HasSubstr("has 0 elements"));
}

TEST(TensorCodec, RefusesShapesAndLengthsThatDoNotFit) {
  struct Case {
    const char* datatype;
    std::vector<int64_t> shape;
    std::string raw;
    const char* message;
  };
  const Case cases[] = {
      {"FP16", {1}, "ab", "inputs[x].datatype is \"FP16\"; limit is BOOL, "},
      {"INT32", {-1}, "", "inputs[x].shape has the dimension -1; limit is 0 or more"},
      {"INT32", {1, 1, 1, 1, 1, 1, 1, 1, 1}, "abcd", "inputs[x].shape has 9 dimensions; limit is 8"},
      {"INT32", {int64_t{1} << 32, int64_t{1} << 32}, "", "inputs[x].shape has too many elements; limit is 65536"},
      {"BYTES", {65537}, "", "inputs[x].shape has too many elements"},
      {"INT32", {2}, "abcd", "inputs[x].raw has 4 bytes; limit is 8 bytes"},
      {"INT32", {1}, "abcde", "inputs[x].raw has 5 bytes; limit is 4 bytes"},
      {"BYTES", {2}, RawBytes({"a"}), "inputs[x].raw ends before element 1; limit is 2 elements"},
      {"BYTES", {1}, "\xff\xff\xff\xff", "inputs[x].raw gives element 0 the length 4294967295; limit is the 0 bytes"},
      {"BYTES", {1}, RawBytes({"a", "b"}), "inputs[x].raw has 5 bytes behind its last element"},
      {"BYTES", {1}, "abc", "inputs[x].raw ends before element 0"},
  };
  for (const Case& one : cases) {
    const absl::Status status = DecodeTensor(InputOf(one.datatype, one.shape), &one.raw).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << one.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.message));
  }
}

TEST(TensorCodec, AnEmptyTensorHasNoElements) {
  const std::string none;
  EXPECT_TRUE(DecodeTensor(InputOf("FP32", {0, int64_t{1} << 40}), &none)->empty());
}

TEST(TensorCodec, ShowsNamesEscapedAndTruncated) {
  EXPECT_EQ(PrintableName("a\n"), "a\\n");
  EXPECT_EQ(PrintableName(std::string(1000, 'x')), std::string(64, 'x'));
}

TEST(TensorCodec, WritesOutputsRaw) {
  inference::ModelInferResponse response;
  AddBytesOutput("text", std::vector<std::string>{"ab", ""}, &response);
  AddFp32Output("f", std::vector<float>{0.5F}, &response);
  AddUint32Output("u", std::vector<int32_t>{7}, &response);
  const std::vector<float> matrix = {1, 2, 3, 4, 5, 6};
  AddFp32Matrix("m", 2, 3, matrix.data(), &response);
  ASSERT_EQ(response.outputs_size(), 4);
  ASSERT_EQ(response.raw_output_contents_size(), 4);
  EXPECT_EQ(response.raw_output_contents(0), RawBytes({"ab", ""}));
  EXPECT_EQ(response.raw_output_contents(1), Raw<float>({0.5F}));
  EXPECT_EQ(response.raw_output_contents(2), Raw<uint32_t>({7}));
  EXPECT_EQ(response.raw_output_contents(3), Raw<float>(matrix));
  EXPECT_THAT(response.outputs(3).shape(), ElementsAre(2, 3));
  EXPECT_EQ(response.outputs(2).datatype(), "UINT32");
}

TEST(FieldValue, TakesNumbersAndBooleansAsText) {
  absl::Status status;
  const auto value = [&status](Scalar scalar) { return FieldValue("f", {std::move(scalar)}, &status); };
  EXPECT_EQ(value("12").Int(), 12);
  EXPECT_EQ(value(12.0).Int(), 12);
  EXPECT_EQ(value("-1").Unsigned64(), ~uint64_t{0});
  EXPECT_EQ(value("18446744073709551615").Unsigned64(), ~uint64_t{0});
  EXPECT_FLOAT_EQ(value("0.25").Number(), 0.25F);
  EXPECT_FLOAT_EQ(value(int64_t{2}).Number(), 2.0F);
  EXPECT_TRUE(value("true").Bool());
  EXPECT_TRUE(status.ok()) << status;
}

TEST(FieldValue, RefusesWhatDoesNotFit) {
  const auto fails = [](Scalar scalar, auto read) {
    absl::Status status;
    read(FieldValue("f", {std::move(scalar)}, &status));
    EXPECT_FALSE(status.ok());
  };
  fails(uint64_t{1} << 31, [](const FieldValue& v) { v.Int(); });
  fails(~uint64_t{0}, [](const FieldValue& v) { v.Int(); });
  fails(0.5, [](const FieldValue& v) { v.Int(); });
  fails(1e300, [](const FieldValue& v) { v.Int(); });
  fails(1e300, [](const FieldValue& v) { v.Number(); });
  fails("nan", [](const FieldValue& v) { v.Number(); });
  fails("yes please", [](const FieldValue& v) { v.Bool(); });
  fails("\xff", [](const FieldValue& v) { v.Text(); });
  fails(int64_t{1}, [](const FieldValue& v) { v.Text(); });
  absl::Status status;
  FieldValue("f", {Scalar(true), Scalar(true)}, &status).Bool();
  EXPECT_THAT(std::string(status.message()), HasSubstr("f has 2 elements; limit is 1 element"));
}

TEST(FieldValue, ReadsAFlatJsonObject) {
  const auto fields = ReadJsonFields("s", R"({"a": "0.1", "b": [1, 2.5, "x"], "c": null, "d": true, "e": {"k": 1}})");
  ASSERT_TRUE(fields.ok()) << fields.status();
  ASSERT_EQ(fields->size(), 4U);
  EXPECT_THAT((*fields)[0].elements, ElementsAre(Scalar("0.1")));
  EXPECT_THAT((*fields)[1].elements, ElementsAre(Scalar(uint64_t{1}), Scalar(2.5), Scalar("x")));
  EXPECT_THAT((*fields)[3].elements, ElementsAre(Scalar(R"({"k":1})")));
  EXPECT_FALSE(ReadJsonFields("s", "[1]").ok());
  EXPECT_FALSE(ReadJsonFields("s", "{").ok());
  EXPECT_EQ(std::string(ReadJsonFields("s", R"({"a": 1, "b": 2, "a": 3})").status().message()), "a appears twice");
  const std::string deep = R"({"a":)" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_THAT(std::string(ReadJsonFields("s", deep).status().message()),
              HasSubstr("s is nested too deeply; limit is 32 levels"));
}

}  // namespace
}  // namespace dunlin::server::kserve
