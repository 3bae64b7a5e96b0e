// SPDX-License-Identifier: Apache-2.0
// What text looks like on a terminal: control characters as escapes, so that no output of a model drives the terminal,
// and dimmed text where colours are wanted.
#pragma once

#include <string>
#include <string_view>

namespace dunlin::cli {

struct TerminalStyle {
  bool terminal = false;
  bool color = false;  // a terminal other than TERM=dumb, and the environment has no NO_COLOR (no-color.org)
};

// Of a file descriptor.
TerminalStyle StyleOf(int descriptor);

// On a terminal: control characters but '\n' and '\t', U+007F to U+009F, and the characters that change the direction
// of text become "\u001b", a form that JSON reads back. Elsewhere the text as it is. `text` is UTF-8.
std::string Shown(std::string_view text, const TerminalStyle& style);

// Shown, and dimmed with colours. Ends in the normal state, so that whatever ends the program leaves the terminal so.
std::string Dimmed(std::string_view text, const TerminalStyle& style);

}  // namespace dunlin::cli
