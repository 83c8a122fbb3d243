#include "tokenizer/grapheme.h"

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace sprat {
namespace {

using Class = GraphemeClass;

bool IsExtend(Class c) {
  return c == Class::kExtend || c == Class::kIndicLinker || c == Class::kIndicExtend;
}

// GB6 to GB8.
bool HangulJoins(Class left, Class right) {
  switch (left) {
    case Class::kHangulL:
      return right == Class::kHangulL || right == Class::kHangulV || right == Class::kHangulLV ||
             right == Class::kHangulLVT;
    case Class::kHangulLV:
    case Class::kHangulV:
      return right == Class::kHangulV || right == Class::kHangulT;
    case Class::kHangulLVT:
    case Class::kHangulT:
      return right == Class::kHangulT;
    default:
      return false;
  }
}

// What the rules need to know about the cluster so far.
class ClusterState {
 public:
  explicit ClusterState(Class first) : last_(first) { Enter(first); }

  bool Joins(Class next) const {
    if (last_ == Class::kControl || next == Class::kControl) return false;  // GB4, GB5
    if (HangulJoins(last_, next)) return true;
    if (IsExtend(next) || next == Class::kZeroWidthJoiner) return true;        // GB9
    if (next == Class::kSpacingMark || last_ == Class::kPrepend) return true;  // GB9a, GB9b
    if (next == Class::kIndicConsonant && consonant_ && linker_) return true;  // GB9c
    if (next == Class::kPictographic && joined_pictograph_) return true;       // GB11
    return next == Class::kRegionalIndicator && indicators_ % 2 == 1;          // GB12, GB13
  }

  void Enter(Class next) {
    joined_pictograph_ = pictograph_ && next == Class::kZeroWidthJoiner;
    pictograph_ = next == Class::kPictographic || (pictograph_ && IsExtend(next));
    indicators_ = next == Class::kRegionalIndicator ? indicators_ + 1 : 0;
    if (next == Class::kIndicConsonant) {
      consonant_ = true;
      linker_ = false;
    } else if (next == Class::kIndicLinker) {
      linker_ = true;
    } else if (next != Class::kIndicExtend && next != Class::kZeroWidthJoiner) {
      consonant_ = false;
    }
    last_ = next;
  }

 private:
  Class last_;
  bool pictograph_ = false;         // a pictograph and nothing but Extend after it
  bool joined_pictograph_ = false;  // the same and a joiner
  bool consonant_ = false;          // an Indic consonant and nothing but its Extend after it
  bool linker_ = false;             // a linker among these
  size_t indicators_ = 0;           // regional indicators at the end
};

}  // namespace

size_t GraphemeLength(std::string_view text) {
  const Utf8Character first = DecodeUtf8(text.data());
  size_t length = first.size_bytes;
  if (first.code_point == '\r' && text.size() > 1 && text[1] == '\n') return 2;  // GB3
  ClusterState state(RecordOf(first.code_point).grapheme);
  while (length < text.size()) {
    const Utf8Character next = DecodeUtf8(text.data() + length);
    const Class kind = RecordOf(next.code_point).grapheme;
    if (!state.Joins(kind)) break;
    state.Enter(kind);
    length += next.size_bytes;
  }
  return length;
}

}  // namespace sprat
