#include "tokenizer/bert.h"

namespace sprat {
namespace {

struct AppendTo {
  std::string& out;
  void Add(char32_t c) { AppendUtf8(c, out); }
  bool full() const { return false; }
};

}  // namespace

void BertNormalizer::Normalize(std::string_view text, std::vector<PendingMark>& marks,
                               std::string& out) const {
  AppendTo sink{out};
  Run(text, marks, sink);
}

}  // namespace sprat
