// Text files cut into passages that a model can take whole.
#ifndef SPRAT_CLI_PASSAGES_H_
#define SPRAT_CLI_PASSAGES_H_

#include <cstddef>
#include <string_view>
#include <vector>

namespace sprat::cli {

struct Passage {
  std::string_view text;  // a part of the file, without white space at its ends
  size_t line = 0;        // of the file on which it starts, counted from 1
};

// The passages of a file, in order. A passage is a paragraph: lines up to the next blank one. Lines
// that start with '#' (headings, comments) stay with the paragraph that follows. A passage of more
// than max_bytes is halved (see Halve) until it fits. What holds neither a letter nor a digit (a
// rule, a lone brace) is passed over.
//   text: well-formed UTF-8; the passages point into it. max_bytes >= 8.
std::vector<Passage> SplitPassages(std::string_view text, size_t max_bytes);

// Cuts a passage in two at the best border near its middle: of the second and third quarter of its
// bytes, the end of a sentence nearest the middle; without one, the end of a line; a space; between
// any two characters. Nothing but white space is lost. Requires passage.text.size() >= 8.
struct Halves {
  Passage first;
  Passage second;
};
Halves Halve(const Passage& passage);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_PASSAGES_H_
