// From texts to token ids: by the rule of the model's family, one text or a window of many.
#ifndef SPRAT_ENGINE_TEXT_IDS_H_
#define SPRAT_ENGINE_TEXT_IDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "model/model.h"
#include "sprat/engine.h"
#include "sprat/result.h"
#include "tokenizer/tokenizer.h"

namespace sprat {

// How a text becomes ids, where the families differ.
struct TextRule {
  bool add_special_tokens = true;      // [CLS] text [SEP]
  size_t max_characters = 0;           // code points that are tokenized at all; 0: all
  std::optional<uint32_t> dropped_id;  // left out after the cut to the maximum length
};

// What a call asks of its texts.
struct TextForm {
  std::string_view prompt;  // put before each
  bool truncate = true;     // false: a text over the maximum length is kTooLong
};

// Texts that are tokenized and run together. Reused: nothing is allocated after the first of a
// size.
struct TextWindow {
  // What one thread of several works with.
  struct Part {
    std::vector<uint32_t> ids;  // of its texts, end to end; the first thread's are in `batch`
    std::string prompted;       // prompt + text
    Result<void> done;
  };

  TokenBatch batch;             // the texts' ids, in order
  std::vector<size_t> lengths;  // of each in tokens
  std::vector<Part> parts;

  // `count` lengths of zero, no ids.
  void Start(size_t count);
  // Sets the offsets of `batch` from the lengths.
  void Finish();
};

// Tokenizes for one model. Any thread may call any method at any time.
class TextIds {
 public:
  // A window is about this large at most, so that memory is bounded by these numbers and not by the
  // caller's array; a single text may be longer.
  static constexpr size_t kWindowTexts{1024};
  static constexpr size_t kWindowTokens{65536};

  //   tokenizer: must outlive this.
  //   max_sequence: tokens of one text; SIZE_MAX: no limit.
  TextIds(const Tokenizer& tokenizer, const TextRule& rule, size_t max_sequence,
          bool parse_special_tokens)
      : tokenizer_(tokenizer),
        rule_(rule),
        max_sequence_(max_sequence),
        parse_special_tokens_(parse_special_tokens) {}

  // Appends the ids of the form's prompt + `text` to `ids`.
  //   prompted: scratch.
  // Errors: kInvalidArgument (not UTF-8), kTooLong.
  Result<TokenizedLength> Append(std::string_view text, const TextForm& form, std::string& prompted,
                                 std::vector<uint32_t>& ids) const;

  // The family's rule alone: cuts to the characters that count, tokenizes, cuts to `max_tokens` (0:
  // no limit), drops the unknown. Errors: kInvalidArgument (not UTF-8).
  Result<TokenizedLength> Append(std::string_view text, size_t max_tokens,
                                 std::vector<uint32_t>& ids) const;

  // How many of `texts`, from the first on and each with a prompt of this size before it, make a
  // window; 0 only for no texts.
  size_t WindowSize(std::span<const std::string_view> texts, size_t prompt_bytes) const;

  // True if the texts are so long that several threads finish them earlier than one.
  static bool WorthThreads(std::span<const std::string_view> texts);

  // Fills `window` with the ids of texts[first .. first + count), and out.tokens and out.truncated
  // of these rows, which must exist.
  //   pool: the threads that share the work; nullptr: the caller alone.
  // The ids do not depend on the threads. Errors: those of Append for the first text that has one,
  // naming it by its index.
  Result<void> Fill(std::span<const std::string_view> texts, size_t first, size_t count,
                    const TextForm& form, ThreadPool* pool, TextWindow& window,
                    Embeddings& out) const;

 private:
  Result<TokenizedLength> Tokenize(std::string_view text, size_t max_tokens,
                                   std::vector<uint32_t>& ids) const;
  Error TooLong(std::string_view text) const;

  const Tokenizer& tokenizer_;
  TextRule rule_;
  size_t max_sequence_;
  bool parse_special_tokens_;
};

}  // namespace sprat

#endif  // SPRAT_ENGINE_TEXT_IDS_H_
