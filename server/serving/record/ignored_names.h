// SPDX-License-Identifier: Apache-2.0
// What of a request had no effect on its answer, by name: members that the server does not know, tools that it cannot
// run. The response lists the names in x-dunlin-ignored. Bounded, whatever a client sends. Plain data.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dunlin::server {

class IgnoredNames {
 public:
  static constexpr size_t kMaxNames = 16;
  static constexpr size_t kMaxNameBytes = 64;

  // Each name once, in the order of their first use: "messages[].mood", "tools[web_search]". Of a name, what a header
  // and a log line can hold: at most kMaxNameBytes, and '?' for what is no letter, digit or one of "_-.[]=/*". Beyond
  // kMaxNames, names are not kept.
  void Add(std::string_view name);

  bool empty() const { return names_.empty(); }
  std::span<const std::string> names() const { return names_; }
  // The value of the header: "mood, tools[web_search]", with ", ..." where names were not kept.
  std::string List() const;

 private:
  std::vector<std::string> names_;
  bool more_ = false;
};

}  // namespace dunlin::server
