// A view of a row-major matrix that someone else owns.
#ifndef SPRAT_BASE_MATRIX_VIEW_H_
#define SPRAT_BASE_MATRIX_VIEW_H_

#include <cstddef>
#include <span>
#include <type_traits>

namespace sprat {

// rows x columns elements of T; row i starts at elements + i * stride, stride >= columns.
// Valid as long as its owner. Cheap to copy.
template <typename T>
struct MatrixView {
  T* elements = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  size_t stride = 0;

  MatrixView() = default;
  MatrixView(T* first, size_t row_count, size_t column_count)
      : elements(first), rows(row_count), columns(column_count), stride(column_count) {}
  MatrixView(T* first, size_t row_count, size_t column_count, size_t row_stride)
      : elements(first), rows(row_count), columns(column_count), stride(row_stride) {}

  // What may be written may be read.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator MatrixView<const T>() const requires(!std::is_const_v<T>) {
    return {elements, rows, columns, stride};
  }

  T* Row(size_t i) const { return elements + i * stride; }
  std::span<T> RowSpan(size_t i) const { return {Row(i), columns}; }
  MatrixView Rows(size_t first, size_t count) const { return {Row(first), count, columns, stride}; }
};

}  // namespace sprat

#endif  // SPRAT_BASE_MATRIX_VIEW_H_
