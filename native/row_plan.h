// Rows of Python values to Examples, one by one.
#pragma once

#include <vector>

#include "core/example.h"
#include "pieces.h"
#include "python.h"

namespace ferry::python {

// Which features rows have, and of what kind: known from the schema or from the rows before.
//
// `encode` takes the rows that fit, made of plain Python values and of arrays. Whatever else a row
// holds, it is refused without a reason: formats/tfrecord/encoder.py then converts it, or says what
// is wrong. No code of Python runs meanwhile, so the row stays as it is under the GIL.
class RowPlan {
 public:
  // Features: (name, kind, shape of the schema or None, whether rows must have it), in the order in
  // which they are written. Arrays: the classes whose buffers are read, NumPy's.
  RowPlan(nb::list features, nb::tuple arrays);

  // Appends a row as a framed Example; false if it does not fit, and nothing was appended.
  bool encode(nb::handle row, Bytes& out);

 private:
  static constexpr std::int64_t any_size = -1;

  struct Feature {
    example::Kind kind;
    bool by_schema = false;  // the values are converted to the kind; otherwise they have it
    bool required = false;
    std::vector<std::int64_t> shape;  // of the schema, with any_size
    example::Scratch<std::int64_t> integers;
    example::Scratch<float> floats;

    bool fits(const std::int64_t* shape, std::size_t rank) const noexcept;
    bool fits_list(std::size_t count) const noexcept;
  };

  bool take(Feature& feature, example::Source& source, PyObject* value);
  template <typename At>
  bool take_values(Feature& feature, example::Source& source, std::size_t count, At at);
  bool take_array(Feature& feature, example::Source& source, PyObject* value);
  bool is_array(PyObject* value) const noexcept;

  std::vector<Feature> features_;
  std::size_t required_ = 0;  // number of features that rows must have
  example::RowEncoder encoder_;
  nb::dict numbers_;  // the number of each feature, by its name
  nb::tuple arrays_;
};

}  // namespace ferry::python
