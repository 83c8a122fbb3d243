// NumPy's array file (numpy.lib.format): a matrix of vectors with its shape in front.
//
//   0   6  "\x93NUMPY"
//   6   1  major version: 1 is written; 1, 2 and 3 are read
//   7   1  minor version, 0
//   8   2  header length, u16 little-endian (version 1); 4 bytes, u32, in versions 2 and 3
//   10     header: a Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (n, d), },
//          padded with spaces, ended by LF
//          then the elements
#ifndef SPRAT_CLI_NPY_H_
#define SPRAT_CLI_NPY_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sprat/result.h"

namespace sprat::cli {

inline constexpr size_t kNpyHeaderBytes{128};

// The first kNpyHeaderBytes bytes of a version 1.0 file that holds rows x columns little-endian
// f32 in C order. The size does not depend on the counts, so that it can be written again when the
// number of rows is known.
std::string NpyHeader(size_t rows, size_t columns);

struct Matrix {
  std::vector<float> values;  // rows x columns, row-major
  size_t rows = 0;
  size_t columns = 0;

  std::span<const float> Row(size_t i) const { return {values.data() + i * columns, columns}; }
};

// Reads the matrix in `path`: little-endian f2, f4 or f8, in C or Fortran order, converted to f32.
// Allocates no more than twice the file's size. Errors name the file and the fault: kNotFound, kIo,
// kCorrupt (no magic, a header that is cut off or not a literal of the above form, a size that
// does not match the shape), kUnsupported (another element type, another number of dimensions).
Result<Matrix> ReadNpy(const std::string& path);

// The same from the bytes of a file; messages call it `name`.
Result<Matrix> ParseNpy(std::span<const char> bytes, const std::string& name);

}  // namespace sprat::cli

#endif  // SPRAT_CLI_NPY_H_
