// SPDX-License-Identifier: Apache-2.0
// The arrows of docs/architecture.md: server -> engine -> kernels/api, proto only from server, vectors only in kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace dunlin::style {
namespace {

struct Rule {
  const char* files;      // paths it binds
  const char* except;     // of these, the ones it does not; "" for none
  const char* forbidden;  // a line that matches breaks it
  const char* why;
};

const Rule kRules[] = {
    {"^kernels/", "", R"(#include "(engine|server|tools|dunlin/v1|tests)/)", "kernels include nothing above them"},
    {"^kernels/api/", "", R"(#include "kernels/(cpu|cuda|module)/)", "the contract does not know its implementations"},
    {"^kernels/cuda/", "", R"(#include "kernels/cpu/)", "devices share the contract alone"},
    {"^engine/", "", R"(#include "(server|tools|dunlin/v1|google/rpc|grpc/|tests)/?)",
     "the engine knows no wire and no edge"},
    {"^tools/", "", R"(#include "(server|tests)/)", "tools do not depend on the server"},
    {"^server/", "^server/commands/", R"(#include "tools/)", "only the commands run tools"},
    {"^(engine|server|tools)/", "", R"(#include "kernels/(cpu|cuda|module)/)",
     "only kernels/api is visible above kernels"},
    {"^(engine|kernels)/", "", R"(#include <(grpc|google/protobuf))", "gRPC and protobuf stay at the edge"},
    {"^(kernels|engine|server|tools)/", "^kernels/cpu/.*(avx|amx|simd)", R"(immintrin|_mm(256|512)_|__m(128|256|512))",
     "vector intrinsics live in the variant folders of kernels/cpu"},
    {"^(kernels|engine)/", "", R"(\bgetenv\()", "no environment variable is read below server/"},
    {"^(kernels|engine|server|tools)/", "", R"(using namespace )", "names are spelled or aliased"},
    {"^(kernels|engine|server|tools)/.*\\.h$", "", R"(^#ifndef .*_H_?$)", "headers use #pragma once"},
    {"^(kernels|engine|server|tools)/", "", R"(\b(TODO|FIXME|XXX)\b)", "finish it, or leave it out and say so"},
};

const Rule kThreadRule = {"^(kernels|engine|server|tools)/",
                          "^(kernels/cpu/thread_pool|engine/(encoder/encoder_)?engine|engine/model/"
                          "weight_reader|server/(serving/text_pool|models/heartbeat)|server/transport/http/http_server|"
                          "server/commands/serve)",
                          R"(std::(jthread|thread\b|async\())",
                          "threads live in the places that docs/architecture.md lists"};

std::vector<std::string> Violations(const Rule& rule) {
  const std::regex files(rule.files);
  const std::regex except(rule.except);
  const std::regex forbidden(rule.forbidden);
  std::vector<std::string> found;
  for (const SourceFile& file : ReadSourceTree()) {
    if (!std::regex_search(file.path, files)) continue;
    if (*rule.except != '\0' && std::regex_search(file.path, except)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (std::regex_search(file.lines[i], forbidden)) {
        found.push_back(file.path + ":" + std::to_string(i + 1) + ": " + file.lines[i]);
      }
    }
  }
  return found;
}

TEST(Layers, SourcesKeepTheRules) {
  for (const Rule& rule : kRules) EXPECT_THAT(Violations(rule), testing::IsEmpty()) << rule.why;
}

TEST(Layers, ThreadsLiveInTheListedPlaces) {
  EXPECT_THAT(Violations(kThreadRule), testing::IsEmpty()) << kThreadRule.why;
}

TEST(Layers, RulesFindWhatTheyForbid) {
  const Rule every_pragma{"^kernels/api/", "", "#pragma once", "each header has one"};
  EXPECT_GT(Violations(every_pragma).size(), 5U);
}

}  // namespace
}  // namespace dunlin::style
