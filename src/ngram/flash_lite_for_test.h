// The model whose size the targets are about.
#ifndef SPRAT_NGRAM_FLASH_LITE_FOR_TEST_H_
#define SPRAT_NGRAM_FLASH_LITE_FOR_TEST_H_

#include "ngram/ngram_config.h"

namespace sprat {

// LongCat-Flash-Lite: 12 tables of 10,223,617 to 10,223,639 rows. Source: its config.json.
inline NgramConfig FlashLite() {
  NgramConfig config;
  config.vocabulary = 131072;
  config.hidden = 3072;
  config.max_order = 4;
  config.splits = 4;
  config.base_rows = 78 * 131072;
  config.eos = 2;
  return config;
}

}  // namespace sprat

#endif  // SPRAT_NGRAM_FLASH_LITE_FOR_TEST_H_
