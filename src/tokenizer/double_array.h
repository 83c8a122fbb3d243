// A trie over byte strings in one array of 32-bit units (double array with label check).
#ifndef SPRAT_TOKENIZER_DOUBLE_ARRAY_H_
#define SPRAT_TOKENIZER_DOUBLE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sprat/result.h"

namespace sprat {

// Maps keys (byte strings without the bytes 0x00 and 0xFF) to values below kMaxValues.
//
// Layout of a unit: bits 0-7 the label (the byte that leads here), bit 8 "a key ends here", bits
// 9-31 the base: the child by byte c is unit[base + c], if its label is c. Where a key ends,
// unit[base] holds its value in bits 9-31, with label 0xFF so that no byte leads to it. Bases are
// distinct, so a label tells parent and child apart. Immutable; any thread may read.
class DoubleArray {
 public:
  static constexpr size_t kMaxValues{size_t{1} << 23};

  struct Entry {
    std::string_view key;
    uint32_t value;
  };

  // Builds from entries in any order, which are left sorted by key. Of equal keys the last wins.
  // Errors: kUnsupported if a key is empty or has a byte 0x00 or 0xFF, if a value is too large, or
  // if the trie would need more than 2^23 units.
  static Result<DoubleArray> Build(std::vector<Entry>& entries);

  // A place in the trie. Follow() is the whole walk; a place is copied freely.
  class Cursor {
   public:
    // Steps along `byte`; false (and the cursor is spent) if no key continues with it.
    bool Follow(unsigned char byte) {
      const uint32_t unit = units_[base_ + byte];
      base_ = unit >> 9;
      ends_ = (unit & 0x100) != 0;
      return (unit & 0xFF) == byte;
    }
    bool AtKey() const { return ends_; }
    uint32_t value() const { return units_[base_] >> 9; }  // requires AtKey()

   private:
    friend class DoubleArray;
    Cursor(const uint32_t* units, uint32_t base) : units_(units), base_(base) {}
    const uint32_t* units_;
    uint32_t base_;
    bool ends_ = false;
  };

  Cursor Root() const { return Cursor(units_.data(), units_[0] >> 9); }
  std::optional<uint32_t> Find(std::string_view key) const;
  size_t size_bytes() const { return units_.size() * sizeof(uint32_t); }

 private:
  std::vector<uint32_t> units_;
};

}  // namespace sprat

#endif  // SPRAT_TOKENIZER_DOUBLE_ARRAY_H_
