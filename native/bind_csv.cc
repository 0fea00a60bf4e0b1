// Columns of CSV of the usual form.
#include "core/csv.h"

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "python.h"

namespace ferry::python {

namespace {

constexpr std::string_view letters = "-?ift";  // of csv::Kind, in order

// Memory that a function of the caller's gives.
class Memory {
 public:
  Memory(nb::handle allocate, std::size_t size)
      : object(call(allocate, nb::int_(size))), buffer_(object, PyBUF_WRITABLE) {
    if (buffer_.size() < size) throw nb::value_error("less memory than was asked for");
  }

  std::uint8_t* data() const { return buffer_.data(); }

  nb::object object;

 private:
  Buffer buffer_;
};

struct Column {
  csv::Kind kind;
  std::size_t place;
  std::size_t size = 0;  // bytes of texts
  std::unique_ptr<std::uint8_t[]> numbers;  // of a column that was found to have some
  std::unique_ptr<Memory> values, offsets;
};

// What is known of the columns that are wanted; false if a column is unusual.
bool find(csv::Block& block, std::size_t rows, std::vector<Column>& columns) {
  for (Column& column : columns) {
    if (column.kind == csv::Kind::unknown) {
      column.numbers = std::make_unique_for_overwrite<std::uint8_t[]>(8 * rows);
      column.kind = block.numbers(column.place, column.numbers.get());
    }
    if (column.kind == csv::Kind::unknown) return false;
    if (column.kind == csv::Kind::text) column.size = block.size_of(column.place);
  }
  return true;
}

bool fill(const csv::Block& block, std::size_t rows, const std::vector<Column>& columns) {
  bool has_texts = false;
  for (const Column& column : columns) {
    std::uint8_t* const values = column.values->data();
    bool filled = true;
    if (column.kind == csv::Kind::text) {
      filled = block.texts(column.place, column.offsets->data(), values);
      has_texts = true;
    } else if (column.numbers != nullptr) {
      std::memcpy(values, column.numbers.get(), 8 * rows);
    } else if (column.kind == csv::Kind::integer) {
      filled = block.integers(column.place, values);
    } else {
      filled = block.reals(column.place, values);
    }
    if (!filled) return false;
  }
  return !has_texts || block.is_text();
}

nb::object csv_columns(nb::handle source, const char* given, std::uint64_t rows,
                       nb::handle allocate) {
  Buffer buffer(source);
  const std::string_view kinds(given);
  std::vector<Column> columns;
  for (std::size_t place = 0; place < kinds.size(); ++place) {
    const std::size_t kind = letters.find(kinds[place]);
    if (kind == std::string_view::npos) throw nb::value_error("a kind of column is one of -?ift");
    if (kind > 0) columns.push_back({static_cast<csv::Kind>(kind), place});
  }
  csv::Block block;
  const auto count = static_cast<std::size_t>(rows);
  {
    const Unlocked unlocked;
    if (!block.find(buffer.span(), kinds.size(), rows) || !find(block, count, columns)) {
      columns.clear();
    }
  }
  if (columns.empty()) return nb::none();
  for (Column& column : columns) {
    const bool is_text = column.kind == csv::Kind::text;
    column.values = std::make_unique<Memory>(allocate, is_text ? column.size : 8 * count);
    if (is_text) column.offsets = std::make_unique<Memory>(allocate, 4 * (count + 1));
  }
  bool filled;
  {
    const Unlocked unlocked;
    filled = fill(block, count, columns);
  }
  if (!filled) return nb::none();
  return make_list(columns.size(), [&](std::size_t i) {
    const Column& column = columns[i];
    const nb::str kind(&letters[static_cast<std::size_t>(column.kind)], 1);
    nb::object offsets = nb::none();
    if (column.offsets != nullptr) offsets = column.offsets->object;
    return nb::make_tuple(kind, column.values->object, offsets);
  });
}

}  // namespace

void bind_csv(nb::module_& module) {
  module.def("csv_columns", csv_columns, "source"_a, "kinds"_a, "rows"_a, "allocate"_a,
             "The columns of whole lines of CSV, each a letter with its values and, of texts, the "
             "offsets of Arrow; None if something is unusual. Of `kinds`, each letter is a column: i "
             "and f are int64 and float64, t is text, ? is to be found out, - is left out. "
             "`allocate` is asked for the memory of so many bytes.");
}

}  // namespace ferry::python
