// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/model/gguf/gguf_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/base/temp_directory.h"

namespace dunlin::engine {

GgufWriter BaseGguf(const std::string& arch) {
  GgufWriter writer;
  writer.AddText("general.architecture", arch);
  writer.AddUnsigned(arch + ".block_count", 2).AddUnsigned(arch + ".embedding_length", 64);
  writer.AddUnsigned(arch + ".feed_forward_length", 96).AddUnsigned(arch + ".context_length", 128);
  writer.AddUnsigned(arch + ".attention.head_count", 4);
  writer.AddFloat(arch + ".attention.layer_norm_rms_epsilon", 1e-5F);
  writer.AddTensor({.name = "token_embd.weight", .dimensions = {64, 7}, .data = std::string(64 * 7 * 4, '\0')});
  return writer;
}

void AddTensorNamed(const std::string& name, GgufWriter* writer) {
  writer->AddTensor({.name = name, .dimensions = {1}, .data = std::string(4, '\0')});
}

absl::StatusOr<ParsedModel> ParseGguf(const GgufWriter& writer) {
  const TempDirectory temp;
  temp.Write("model.gguf", writer.Bytes());
  const auto tensors = OpenGguf(temp.File("model.gguf"));
  if (!tensors.ok()) return tensors.status();
  return ParseGgufModel(tensors->get());
}

void ExpectGgufRefused(const GgufWriter& writer, const std::string& message) {
  const auto parsed = ParseGguf(writer);
  ASSERT_FALSE(parsed.ok()) << message;
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()), ::testing::HasSubstr(message));
}

}  // namespace dunlin::engine
