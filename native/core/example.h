// tf.train.Example and SequenceExample, decoded into columns straight from the wire.
//
//     Example         { 1 Features { 1 entry { 1 key  2 Feature } ... } }
//     SequenceExample { 1 Features    2 FeatureLists { 1 entry { 1 key  2 { 1 Feature ... } } } }
//     Feature         { 1 bytes list | 2 float list | 3 int64 list }, each list { 1 value ... }
//
// A Decoder collects the values of many records, column by column, in memory that it keeps for the
// next batch: fresh pages cost more than decoding. Of repeated keys, and of several kinds in one
// Feature, the last one counts; a Feature without a kind is a missing one.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "layout.h"
#include "memory.h"
#include "text.h"
#include "wire.h"

namespace ferry::example {

// Of the values of a Feature; the numbers are the fields of the message.
enum class Kind : std::uint8_t { none = 0, bytes = 1, floats = 2, integers = 3 };

const char* name_of(Kind kind);

// Memory that grows and is kept for the next batch, unless it is moved away; new elements are not
// set.
template <typename Element>
class Scratch {
 public:
  Scratch() = default;
  Scratch(Scratch&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)),
        expected_(other.expected_) {}
  Scratch& operator=(Scratch&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    expected_ = other.expected_;
    return *this;
  }

  std::size_t size() const noexcept { return size_; }
  const Element* data() const noexcept { return data_.get(); }
  const Element& operator[](std::size_t index) const noexcept { return data_[index]; }
  void cut(std::size_t size) noexcept { size_ = size; }

  // Room for `count` more elements, at the end; `grow` then says how many were put there.
  Element* room(std::size_t count) {
    if (capacity_ - size_ < count) [[unlikely]] enlarge(count);
    return data_.get() + size_;
  }
  void grow(std::size_t count) noexcept { size_ += count; }
  void push(Element element) {
    *room(1) = element;
    ++size_;
  }

  std::size_t capacity() const noexcept { return capacity_; }
  Element* data() noexcept { return data_.get(); }

  // How many elements are expected in all: the first piece of memory is of that size.
  void expect(std::size_t count) noexcept { expected_ = count; }

 private:
  void enlarge(std::size_t count) {
    std::size_t capacity = capacity_ == 0 ? expected_ : 2 * capacity_;
    if (capacity < size_ + count) capacity = size_ + count;
    std::unique_ptr<Element[]> data(new Element[capacity]);
    expect_filling(data.get(), capacity * sizeof(Element));
    if (size_ > 0) std::memcpy(static_cast<void*>(data.get()), data_.get(), size_ * sizeof(Element));
    data_ = std::move(data);
    capacity_ = capacity;
  }

  std::unique_ptr<Element[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
  std::size_t expected_ = 0;
};

struct Text {
  const std::uint8_t* data;
  std::size_t size;
};

inline constexpr std::size_t any_length = ~std::size_t{0};

// What a decoder writes all the time lies in cache lines of its own: those of decoders in other
// threads must not be among them.
inline constexpr std::size_t cache_line = 64;

// What an entry of a feature looks like as writers make it, if it is short: words that are compared
// instead of reading fields. See take_short.
struct Pattern {
  std::string name;
  Kind kind = Kind::none;
  bool sequence = false;  // of feature_lists: each row holds any number of lists

  std::uint64_t name_head = 0;   // the first 8 bytes of the name, zeros behind it
  std::uint64_t name_mask = 0;   // ones where name_head has bytes of the name
  std::uint64_t name_tail = 0;   // the last 8 bytes, of longer names
  std::uint32_t entry_head = 0;  // what stands before the name
  std::uint64_t value_head = 0;  // what stands behind it, before the values
  std::size_t values_start = 0;  // in the entry
  std::size_t short_limit = 0;   // values of fewer bytes than this make a short entry; 0: no pattern

  // Sets the words, once the name and the kind are known.
  void prepare() noexcept;
};

// One feature over the records of a batch.
struct alignas(cache_line) Column : Pattern {
  bool wanted = true;     // otherwise only known by name, so that it is skipped quickly
  std::size_t length = any_length;  // that every list must have
  std::size_t last_row = 0;         // that has brought it, counted from 1
  Column* successor = nullptr;      // what came after it: records of one writer have one order

  Scratch<std::int64_t> integers;
  Scratch<float> floats;
  Scratch<Text> texts;              // places in the records: valid as long as those are
  Scratch<std::int64_t> list_ends;  // for each list, how many values there are up to its end
  Scratch<std::int64_t> row_ends;   // for each row, how many lists; only in sequences
  Scratch<std::int64_t> missing;    // the rows without the feature, in order

  std::size_t values() const noexcept;
};

class alignas(cache_line) Decoder {
 public:
  explicit Decoder(std::vector<Column> columns);
  Decoder(const Decoder&) = delete;  // the columns point to each other

  // Decodes one more record. On an Error the row is taken back and the columns are as before.
  void add(const Span& record);

  std::size_t rows() const noexcept { return rows_; }
  const std::vector<Column>& columns() {
    settle();
    return columns_;
  }
  Column& column(std::size_t index) {
    settle();
    return columns_.at(index);
  }

  // Puts the values of all records that were added into the columns. Until then, or until clear(),
  // the records must stay where they are.
  void settle();

  // Says how many rows may follow, from how many bytes: columns of a fixed length get their memory
  // in one piece, and no more than those bytes can fill.
  void expect(std::uint64_t rows, std::size_t bytes) noexcept;

  // Forgets the rows, keeps the memory.
  void clear() noexcept;

 private:
  void add_other(const Span& record);
  void read_record(const Span& record);
  void read_repeated(const Span& record);
  void find_last_entries(Span record);
  void take_back_row() noexcept;
  void read_features(const Span& message, bool sequence);
  Reader read_any_feature(Reader reader, bool sequence, Column**& successor);
  void read_feature(Span message, Column& column);
  void read_feature_list(Span message, Column& column);
  void read_list(Span message, Kind kind, Column& column);
  std::size_t add_integers(const Span& run, Column& column);
  std::size_t add_floats(const Span& run, Column& column);
  void read_integers(Span message, Column& column);
  void read_floats(Span message, Column& column);
  void read_texts(Span message, Column& column);
  void end_list(Column& column, std::size_t start, std::size_t end, Span message);
  void take_back(Column& column) noexcept;
  void finish_row();
  void set_seen(Column& column) noexcept;
  void set_unseen(Column& column) noexcept;
  bool is_seen(const Column& column) const noexcept { return column.last_row == rows_ + 1; }
  Column* find(Span key, bool sequence, Column*& successor);

  std::vector<Column> columns_;
  Column* first_ = nullptr;     // what records begin with
  std::size_t seen_count_ = 0;  // columns that the record at hand has brought
  std::size_t wanted_count_ = 0;
  bool has_sequences_ = false;
  std::unordered_map<std::string_view, Column*, TextHash> by_name_[2];
  std::size_t rows_ = 0;

  // Records of one layout are gathered, and then go into one column after the other.
  static constexpr std::size_t gathered = 64;
  void follow(const Span& record);
  void fill(const Layout::Slot& slot, Column& column);
  Layout layout_;
  std::vector<Column*> filled_;                // the column of each slot; nullptr if it is not wanted
  std::vector<const std::uint8_t*> waiting_;  // records of that layout
  int tries_ = 8;    // how many more layouts are learned, unless one fits
  int strikes_ = 0;  // how many records in a row have not fitted

  // Only while a record with repeated keys is read for the second time.
  std::vector<const std::uint8_t*> last_entries_;
  bool has_repeated_ = false;
};

// What the features of some records look like: the ground of a schema.
struct Feature : Pattern {
  bool mixed = false;  // lists of different kinds were seen
  std::uint64_t rows = 0;       // that hold it
  std::uint64_t last_row = 0;   // that had an entry for it, counted from 1
  std::size_t last_entry = 0;   // among the entries of that row
  std::uint64_t lists = 0;
  std::uint64_t shortest = ~std::uint64_t{0};
  std::uint64_t longest = 0;
};

class Survey {
 public:
  void add(Span record);
  std::uint64_t rows() const noexcept { return rows_; }
  bool has_sequences() const noexcept { return has_sequences_; }
  const std::vector<Feature>& features() const noexcept { return features_; }

 private:
  void find_entries(Span message, bool sequence);
  void add_entry(Span value, Feature& feature);
  void add_feature(Span message, Feature& feature);
  void add_count(std::uint64_t count, Feature& feature);
  std::size_t find(Span key, bool sequence);

  // The entries of the record at hand: which feature, and its value, of which the last one counts;
  // of a short entry, the only run or string of its list.
  struct Entry {
    std::size_t feature;
    Span value;
    bool is_short;
  };
  std::vector<Entry> entries_;

  std::vector<Feature> features_;
  std::unordered_map<std::string, std::size_t, TextHash> by_name_;
  std::size_t guess_ = 0;  // the feature that may come next
  std::uint64_t rows_ = 0;
  bool has_sequences_ = false;
};

struct Range {
  std::size_t begin;
  std::size_t end;
};

// One feature of the records that are to be written; lists as in Column.
struct Source {
  std::string name;
  Kind kind = Kind::none;
  bool sequence = false;
  const std::uint8_t* values = nullptr;  // int64 or float32, wherever they lie
  std::vector<Text> texts;     // those of the rows that are encoded,
  std::size_t first_text = 0;  // and the number of the first of them
  const std::int64_t* splits = nullptr;  // of the lists: where each starts, and the last one ends
  std::size_t length = 1;                // of every list, without splits
  const std::int64_t* row_splits = nullptr;  // of the rows, in lists; only in sequences
  const std::uint8_t* missing = nullptr;     // for each row, whether it lacks the feature
};

// Which values of a source the rows hold.
Range values_of_rows(const Source& source, std::size_t first_row, std::size_t end_row) noexcept;

// Appends rows as framed records, each an Example or, if any source is a sequence, a
// SequenceExample. Sources come in the order in which their keys are written. Whoever owns `values`
// may change them meanwhile: each integer is looked at twice, and where its size was another one
// the first time, std::runtime_error names the source. Everything else must stay as it is.
void encode(const std::vector<Source>& sources, std::size_t first_row, std::size_t end_row,
            Scratch<std::uint8_t>& out);

// Encodes rows one by one: what follows from the names of the features is kept from row to row.
class RowEncoder {
 public:
  explicit RowEncoder(std::vector<Source> sources);
  ~RowEncoder();

  // Appends the row that `sources` hold, as `encode` does: their lists, which may be others each
  // time, but neither their names nor their number.
  void encode(Scratch<std::uint8_t>& out);

  std::vector<Source> sources;

 private:
  struct Kept;
  std::unique_ptr<Kept> kept_;
};

}  // namespace ferry::example
