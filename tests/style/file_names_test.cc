// SPDX-License-Identifier: Apache-2.0
// File names in comments and documents: each names a file or folder of the tree, or one of another project that is
// listed here. A name is a token that ends in the extension of a source or a document (scheduler.h), or a path that
// begins with one of the tree's folders (engine/cache, serving/record/errors). The extension of a path may be left out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/style/source_tree.h"

namespace dunlin::style {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kNameExtensions = {".h",  ".cc", ".cu",    ".cuh",   ".py",
                                               ".sh", ".rs", ".proto", ".cmake", ".md"};
const std::set<std::string> kSlashComments = {".h", ".cc", ".cu", ".cuh", ".rs", ".proto"};
const std::set<std::string> kHashComments = {".py", ".sh", ".cmake", ".txt", ""};

// Folders of the tree whose names begin paths of something else: transformers' models/, names of gRPC's Health, HTTP's
// versions and routes, sources of llama.cpp and Transformer Engine.
const std::set<std::string> kOtherPaths = {"models", "model", "http", "v1", "requirements", "src", "common"};

// Names of other projects, of what tools write, and placeholders. The project stands before its names.
const std::set<std::string> kOtherNames = {
    // transformers and modelling code of publishers
    "modeling_deepseek_v3.py", "modeling_falcon.py", "modeling_rope_utils.py", "configuration_utils.py",
    "configuration_hf_nomic_bert.py", "activations.py", "convert_slow_tokenizer.py", "integrations/mxfp4.py",
    "utils/chat_template_utils.py", "encoder.py",
    // nanoGPT, PyTorch, CPython, safetensors, SentencePiece
    "model.py", "torch/serialization.py", "torch/_utils.py", "Lib/pickletools.py", "safetensors/src/tensor.rs",
    "src/sentencepiece_model.proto",
    // ggml and llama.cpp
    "src/ggml-common.h", "include/ggml.h", "convert_hf_to_gguf.py", "gguf-py/gguf/constants.py", "docs/gguf.md",
    "quants.py", "grammars/README.md",
    // Transformer Engine, CUDA
    "common/recipe/delayed_scaling.cu", "cublas_api.h", "cublasLt.h",
    // llguidance, vLLM, Linux, KServe, clients of the interop suite
    "docs/syntax.md", "vllm/tracing", "open_inference_grpc.proto", "scheduler/sched-bwc.rst",
    "litellm_core_utils/exception_mapping_utils.py", "langchain_openai/chat_models/base.py", "instructions.md",
    // written by the GPU check
    "summary.md",
    // placeholders in comments of the build and of golden scripts
    "a.cc", "a.cu", "a_test.cc", "cmake/precompiled/PATH.h", "tests/golden/models/NAME",
    // media types
    "text/plain", "text/event-stream", "text/html"};

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '/' || c == '-';
}

// Every path of the tree, every end of one that begins after a slash, and both without their extensions.
struct Tree {
  std::set<std::string> names;
  std::set<std::string> folders;  // the names of all folders

  void Add(const std::string& path, bool is_folder) {
    for (size_t begin = 0; begin != std::string::npos;) {
      const std::string end = path.substr(begin);
      names.insert(end);
      if (!is_folder) names.insert(end.substr(0, end.size() - fs::path(end).extension().string().size()));
      const size_t slash = path.find('/', begin);
      if (slash == std::string::npos && is_folder) folders.insert(end);
      begin = slash == std::string::npos ? slash : slash + 1;
    }
  }
};

// Whether `token`, of `line` at `begin`, claims to be a file or a folder of the tree: its name, or "".
std::string NameIn(const Tree& tree, std::string_view line, size_t begin, size_t end) {
  const auto is_any = [](char c, std::string_view of) { return of.find(c) != std::string_view::npos; };
  if (begin > 0 && is_any(line[begin - 1], "<{$*@~:")) return "";
  if (end < line.size() && is_any(line[end], "*{<$:") && line.substr(end, 2) != ": ") return "";
  std::string_view token = line.substr(begin, end - begin);
  if (const size_t up = token.rfind("../"); up != std::string_view::npos) token.remove_prefix(up + 3);
  if (token.starts_with('/')) return "";  // a route, or a path of the machine
  while (!token.empty() && is_any(token.front(), "./-")) token.remove_prefix(1);
  while (!token.empty() && is_any(token.back(), "./-")) token.remove_suffix(1);
  const std::string name(token);
  const size_t slash = name.find('/');
  const std::string first = name.substr(0, slash);
  const std::string extension = fs::path(name).extension().string();
  const bool has_extension = kNameExtensions.count(extension) != 0 && fs::path(name).stem() != "";
  const bool is_path = slash != std::string::npos && tree.folders.count(first) != 0 && kOtherPaths.count(first) == 0;
  return has_extension || is_path ? name : "";
}

// The names in a line that the tree does not have.
std::vector<std::string> DeadNames(const Tree& tree, std::string_view line) {
  std::vector<std::string> dead;
  for (size_t begin = 0; begin < line.size(); ++begin) {
    if (!IsNameChar(line[begin])) continue;
    size_t end = begin;
    while (end < line.size() && IsNameChar(line[end])) ++end;
    const std::string name = NameIn(tree, line, begin, end);
    if (!name.empty() && tree.names.count(name) == 0 && kOtherNames.count(name) == 0) dead.push_back(name);
    begin = end;
  }
  return dead;
}

// What of a line of a file with this extension is prose: "" for code.
std::string_view ProseOf(const std::string& extension, std::string_view line) {
  if (extension == ".md") return line;
  const std::string_view mark = kSlashComments.count(extension) != 0 ? "//" : "#";
  for (size_t at = line.find(mark); at != std::string_view::npos; at = line.find(mark, at + mark.size())) {
    if (at == 0 || line[at - 1] != ':') return line.substr(at + mark.size());
  }
  return {};
}

TEST(FileNames, ExistInTheTree) {
  const std::vector<std::string> paths = ListTree();
  Tree tree;
  for (const std::string& path : paths) {
    tree.Add(path, false);
    for (fs::path folder = fs::path(path).parent_path(); !folder.empty(); folder = folder.parent_path()) {
      tree.Add(folder.string(), true);
    }
  }
  ASSERT_GT(tree.folders.size(), 50U);
  for (const std::string& path : paths) {
    const std::string extension = fs::path(path).extension().string();
    const bool is_data = extension == ".txt" && fs::path(path).filename() != "CMakeLists.txt";
    const bool has_prose =
        extension == ".md" || kSlashComments.count(extension) != 0 || (kHashComments.count(extension) != 0 && !is_data);
    if (!has_prose || path == "tests/style/file_names_test.cc") continue;
    std::ifstream stream(fs::path(DUNLIN_SOURCE_DIR) / path);
    size_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      for (const std::string& name : DeadNames(tree, ProseOf(extension, line))) {
        ADD_FAILURE() << path << ":" << number << ": no file or folder " << name;
      }
    }
  }
}

TEST(FileNames, FindsDeadOnes) {
  Tree tree;
  tree.Add("server/edge/edge.h", false);
  tree.Add("server/edge", true);
  tree.Add("server", true);
  const auto dead = [&tree](const char* comment) { return DeadNames(tree, ProseOf(".h", comment)); };
  EXPECT_THAT(dead("// as edge.h and server/edge/edge.h say; edge/edge, server/edge/, `../edge/edge.h`."),
              testing::IsEmpty());
  EXPECT_THAT(dead("// config.json, http/1.1, /v1/models, <vector>, edge_*.h, and and/or"), testing::IsEmpty());
  EXPECT_THAT(dead("#include \"server/gone.h\"  // see edge/gone and gone.cc."),
              testing::ElementsAre("edge/gone", "gone.cc"));
  EXPECT_THAT(dead("int a;  // server/edge_access"), testing::ElementsAre("server/edge_access"));
  EXPECT_THAT(DeadNames(tree, ProseOf(".py", "x = 1  # gone.py")), testing::ElementsAre("gone.py"));
}

}  // namespace
}  // namespace dunlin::style
