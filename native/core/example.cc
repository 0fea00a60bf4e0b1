#include "example.h"

namespace ferry::example {

namespace {

constexpr std::size_t nowhere = ~std::size_t{0};

std::string_view text_of(Span span) {
  return {reinterpret_cast<const char*>(span.data), span.size};
}

// Passes over what a message holds beside its field 1 (and 2, for `known` 2), which must come as
// length-delimited values. By value, so that the reader of the hot path stays in registers.
[[gnu::noinline]] Reader pass_other(Reader reader, std::uint32_t known = 1) {
  const Tag tag = reader.tag();
  if (tag.field <= known) Reader::expect(tag, Wire::bytes);
  reader.skip(tag);
  return reader;
}

// A map entry: its key and its value; of either, the last one counts.
struct Entry {
  Span key;
  Span value;
};

[[gnu::noinline]] Entry read_any_entry(Span message) {
  Entry entry;
  Reader reader(message);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field == 1) {
      Reader::expect(tag, Wire::bytes);
      entry.key = reader.bytes();
    } else if (tag.field == 2) {
      Reader::expect(tag, Wire::bytes);
      entry.value = reader.bytes();
    } else {
      reader.skip(tag);
    }
  }
  return entry;
}

[[gnu::always_inline]] inline Entry read_entry(Span message) {
  Entry entry;
  Reader reader(message);
  if (reader.take_field(0x0a, entry.key) && reader.take_field(0x12, entry.value) && reader.done())
      [[likely]] {
    return entry;
  }
  return read_any_entry(message);
}

struct List {
  Kind kind = Kind::none;
  Span message;
};

// The list of a Feature: the last kind counts, and lists of one kind are one list in protobuf's
// eyes, which no writer makes use of; it is refused rather than half read.
[[gnu::noinline]] List read_any_kind(Span message) {
  List list;
  Reader reader(message);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field < 1 || tag.field > 3) {
      reader.skip(tag);
      continue;
    }
    Reader::expect(tag, Wire::bytes);
    const Kind kind = static_cast<Kind>(tag.field);
    if (kind == list.kind) {
      throw Error(Problem::malformed, tag.offset, "a feature holds two lists of one kind");
    }
    list = {kind, reader.bytes()};
  }
  return list;
}

[[gnu::always_inline]] inline List read_kind(Span message) {
  List list;
  Reader reader(message);
  if (reader.take_field(0x1a, list.message)) {
    list.kind = Kind::integers;
  } else if (reader.take_field(0x12, list.message)) {
    list.kind = Kind::floats;
  } else if (reader.take_field(0x0a, list.message)) {
    list.kind = Kind::bytes;
  }
  return reader.done() ? list : read_any_kind(message);
}

// A value of its own instead of a packed run, or a field that nobody knows.
[[gnu::noinline]] Reader read_single(Reader reader, Scratch<std::int64_t>& integers) {
  const Tag tag = reader.tag();
  if (tag.field == 1) {
    Reader::expect(tag, Wire::varint);
    integers.push(static_cast<std::int64_t>(reader.varint()));
  } else {
    reader.skip(tag);
  }
  return reader;
}

[[gnu::noinline]] Reader read_single(Reader reader, Scratch<float>& floats) {
  const Tag tag = reader.tag();
  if (tag.field == 1) {
    Reader::expect(tag, Wire::fixed32);
    const std::uint32_t bits = reader.fixed32();
    float value;
    std::memcpy(&value, &bits, sizeof(float));
    floats.push(value);
  } else {
    reader.skip(tag);
  }
  return reader;
}

}  // namespace

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"nothing", "bytes", "float32", "int64"};
  return names[static_cast<std::size_t>(kind)];
}

std::size_t Column::values() const noexcept {
  switch (kind) {
    case Kind::integers: return integers.size();
    case Kind::floats: return floats.size();
    default: return texts.size();
  }
}

Decoder::Decoder(std::vector<Column> columns)
    : columns_(std::move(columns)), successors_(columns_.size() + 1) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    Column& column = columns_[i];
    const std::string& name = column.name;
    by_name_[column.sequence].emplace(name, i);
    const std::size_t head_size = name.size() < 8 ? name.size() : 8;
    std::memcpy(&column.name_head, name.data(), head_size);
    std::memset(&column.name_mask, 0xff, head_size);
    if (name.size() > 8) std::memcpy(&column.name_tail, name.data() + name.size() - 8, 8);
    column.entry_head = 0x0a000a | static_cast<std::uint32_t>(name.size()) << 24;
    const std::uint8_t kind_tag = static_cast<std::uint8_t>(column.kind) << 3 | 2;
    column.value_head = 0x000a02000412 | std::uint64_t{kind_tag} << 16;
    successors_[i] = i + 1;
    wanted_count_ += columns_[i].wanted;
    has_sequences_ |= columns_[i].sequence;
  }
}

void Decoder::expect(std::uint64_t rows, std::size_t bytes) noexcept {
  for (Column& column : columns_) {
    if (!column.wanted || column.length == any_length || column.length == 0) continue;
    const std::uint64_t most = bytes / (column.kind == Kind::floats ? sizeof(float) : 1);
    const std::uint64_t fitting = most / column.length;
    const auto count = static_cast<std::size_t>((rows < fitting ? rows : fitting) * column.length);
    if (column.kind == Kind::floats) column.floats.expect(count);
    if (column.kind == Kind::integers) column.integers.expect(count);
  }
}

void Decoder::clear() noexcept {
  rows_ = 0;
  for (Column& column : columns_) {
    column.integers.cut(0);
    column.floats.cut(0);
    column.texts.cut(0);
    column.list_ends.cut(0);
    column.row_ends.cut(0);
    column.missing.cut(0);
  }
}

// Compares a key of the name's size, where 8 bytes can be read, with the name: in words, if that is
// not long.
[[gnu::always_inline]] inline bool is_name(const Column& column, const std::uint8_t* key) {
  const std::size_t size = column.name.size();
  std::uint64_t word;
  std::memcpy(&word, key, 8);
  if (((word ^ column.name_head) & column.name_mask) != 0) return false;
  if (size <= 8) return true;
  if (size > 16) return std::memcmp(key, column.name.data(), size) == 0;
  std::memcpy(&word, key + size - 8, 8);
  return word == column.name_tail;
}

[[gnu::always_inline]] inline bool is_named(const Column& column, Span key) {
  if (key.size != column.name.size()) return false;
  // An entry without a key has an empty one, which lies nowhere in the input.
  if (key.size == 0 || key.readable() < 8) return text_of(key) == column.name;
  return is_name(column, key.data);
}

[[gnu::always_inline]] inline std::size_t Decoder::find(Span key, bool sequence, std::size_t after) {
  const std::size_t guess = successors_[after];
  if (guess < columns_.size()) [[likely]] {
    const Column& column = columns_[guess];
    if (is_named(column, key) && column.sequence == sequence) [[likely]] return guess;
  }
  const std::string_view name = text_of(key);
  const auto found = by_name_[sequence].find(name);
  if (found == by_name_[sequence].end()) return nowhere;
  successors_[after] = found->second;
  return found->second;
}

// Takes the list of a column's entry if that is short and as writers make it,
//
//     0a size 0a length name 12 size kind size 0a size values
//
// where each size takes one byte and follows from the first one: three comparisons instead of five
// fields. What it does not take, read_entry and read_kind have to sort out.
[[gnu::always_inline]] inline bool take_short(Reader& reader, const Column& column, Span& list) {
  const std::size_t values = 4 + column.name.size() + 6;  // where they start
  const std::uint8_t* const entry = reader.peek(values + 2);
  if (entry == nullptr) return false;
  const std::size_t size = 2 + std::size_t{entry[1]};
  if (entry[1] >= 0x80 || size < values || size > reader.left()) return false;
  std::uint32_t before;
  std::uint64_t behind;
  std::memcpy(&before, entry, 4);
  std::memcpy(&behind, entry + values - 6, 8);
  if ((before & 0xffff00ff) != column.entry_head) return false;
  const std::uint64_t expected = column.value_head + (size - values) * 0x010001000100;
  if ((behind & 0xffffffffffff) != expected) return false;
  if (!is_name(column, entry + 4)) return false;
  list = reader.take(size).behind(values - 2);
  return true;
}

void Decoder::add(const Span& record) {
  try {
    try {
      read_record(record);
    } catch (const Error&) {
      // What does not fit may be an entry that a later one of the same key replaces.
      take_back_row();
      find_last_entries(record);
      if (!has_repeated_) throw;
      read_record(record);
    }
  } catch (...) {
    take_back_row();
    last_entries_.clear();
    has_repeated_ = false;
    throw;
  }
  last_entries_.clear();
  has_repeated_ = false;
  finish_row();
}

void Decoder::read_record(const Span& record) {
  Reader reader(record);
  Span features;
  while (!reader.done()) {
    if (reader.take_field(0x0a, features)) {
      read_features(features, false);
    } else if (has_sequences_ && reader.take_field(0x12, features)) {
      read_features(features, true);
    } else {
      reader = pass_other(reader, has_sequences_ ? 2 : 1);
    }
  }
}

void Decoder::take_back_row() noexcept {
  for (Column& column : columns_) {
    take_back(column);
    column.seen = false;
  }
  seen_count_ = 0;
}

// For each column, where its last entry stands; throws where the record itself is broken.
void Decoder::find_last_entries(Span record) {
  last_entries_.assign(columns_.size(), nullptr);
  has_repeated_ = false;
  Reader reader(record);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    const bool sequence = tag.field == 2;
    if (tag.field > (has_sequences_ ? 2u : 1u)) {
      reader.skip(tag);
      continue;
    }
    Reader::expect(tag, Wire::bytes);
    Reader entries(reader.bytes());
    Span value;
    while (!entries.done()) {
      if (!entries.take_field(0x0a, value)) {
        entries = pass_other(entries);
        continue;
      }
      const std::size_t index = find(read_entry(value).key, sequence, columns_.size());
      if (index == nowhere) continue;
      has_repeated_ |= last_entries_[index] != nullptr;
      last_entries_[index] = value.data;
    }
  }
}

void Decoder::read_features(const Span& message, bool sequence) {
  std::size_t previous = columns_.size();
  const bool may_be_short = !sequence && !has_repeated_;
  Reader reader(message);
  Span list;
  while (!reader.done()) {
    const std::size_t guess = successors_[previous];
    if (!may_be_short || guess >= columns_.size() || columns_[guess].seen ||
        columns_[guess].sequence || !take_short(reader, columns_[guess], list)) [[unlikely]] {
      reader = read_any_feature(reader, sequence, previous);
      continue;
    }
    previous = guess;
    Column& column = columns_[guess];
    if (!column.wanted) continue;
    column.seen = true;
    ++seen_count_;
    read_list(list, column.kind, column);
  }
}

// Reads an entry, or passes over what is none. `previous` is the column that came before, and then
// the one that came.
[[gnu::noinline]] Reader Decoder::read_any_feature(Reader reader, bool sequence,
                                                   std::size_t& previous) {
  Span value;
  if (!reader.take_field(0x0a, value)) return pass_other(reader);
  const Entry entry = read_entry(value);
  const std::size_t index = find(entry.key, sequence, previous);
  if (index == nowhere) return reader;
  previous = index;
  Column& column = columns_[index];
  if (!column.wanted) return reader;
  if (has_repeated_ && last_entries_[index] != value.data) return reader;
  if (column.seen) {
    take_back(column);
    --seen_count_;
  }
  column.seen = true;
  ++seen_count_;
  if (sequence) {
    read_feature_list(entry.value, index);
  } else {
    read_feature(entry.value, index);
  }
  return reader;
}

[[gnu::always_inline]] inline void Decoder::read_feature(Span message, std::size_t index) {
  const List list = read_kind(message);
  if (list.kind == Kind::none) {
    columns_[index].seen = false;
    --seen_count_;
    return;
  }
  read_list(list.message, list.kind, columns_[index]);
}

void Decoder::read_feature_list(Span message, std::size_t index) {
  Reader reader(message);
  Span feature;
  while (!reader.done()) {
    if (!reader.take_field(0x0a, feature)) {
      reader = pass_other(reader);
      continue;
    }
    const List list = read_kind(feature);
    Column& column = columns_[index];
    if (list.kind == Kind::none) {  // a step without values, as TensorFlow takes it
      end_list(column, column.values(), column.values(), feature);
    } else {
      read_list(list.message, list.kind, column);
    }
  }
}

[[gnu::always_inline]] inline void Decoder::read_list(Span message, Kind kind, Column& column) {
  if (kind != column.kind) [[unlikely]] {
    throw Error(Problem::malformed, message.offset(),
                "feature '" + column.name + "' holds " + name_of(kind) + ", expected " +
                    name_of(column.kind));
  }
  switch (kind) {
    case Kind::integers: read_integers(message, column); break;
    case Kind::floats: read_floats(message, column); break;
    default: read_texts(message, column);
  }
}

[[gnu::always_inline]] inline void Decoder::read_integers(Span message, Column& column) {
  const std::size_t start = column.integers.size();
  Reader reader(message);
  Span run;
  while (!reader.done()) {
    if (!reader.take_field(0x0a, run)) {
      reader = read_single(reader, column.integers);
    } else if (run.size == 1 && run.data[0] < 0x80) {
      column.integers.push(run.data[0]);
    } else {
      column.integers.grow(decode_varints(run, column.integers.room(run.size)));
    }
  }
  end_list(column, start, column.integers.size(), message);
}

[[gnu::always_inline]] inline void Decoder::read_floats(Span message, Column& column) {
  const std::size_t start = column.floats.size();
  Reader reader(message);
  Span run;
  while (!reader.done()) {
    if (!reader.take_field(0x0a, run)) {
      reader = read_single(reader, column.floats);
      continue;
    }
    if (run.size % sizeof(float) != 0) [[unlikely]] {
      throw Error(Problem::malformed, run.offset(),
                  std::to_string(run.size) + " bytes of packed float32");
    }
    const std::size_t count = run.size / sizeof(float);
    float* out = column.floats.room(count);
    if (count > 0) std::memcpy(out, run.data, run.size);
    column.floats.grow(count);
  }
  end_list(column, start, column.floats.size(), message);
}

[[gnu::always_inline]] inline void Decoder::read_texts(Span message, Column& column) {
  const std::size_t start = column.texts.size();
  Reader reader(message);
  Span text;
  while (!reader.done()) {
    if (reader.take_field(0x0a, text)) {
      column.texts.push({text.data, text.size});
      continue;
    }
    reader = pass_other(reader);
  }
  end_list(column, start, column.texts.size(), message);
}

[[gnu::always_inline]] inline void Decoder::end_list(Column& column, std::size_t start,
                                                     std::size_t end, Span message) {
  if (column.length != any_length && end - start != column.length) [[unlikely]] {
    throw Error(Problem::malformed, message.offset(),
                "feature '" + column.name + "' has " + std::to_string(end - start) +
                    " values, expected " + std::to_string(column.length));
  }
  column.list_ends.push(static_cast<std::int64_t>(end));
}

// Cuts a column to the rows that are finished: their ends say where the row at hand began.
void Decoder::take_back(Column& column) noexcept {
  if (!column.wanted) return;  // has no rows, and nothing to take back
  std::size_t lists = rows_;
  if (column.sequence) {
    lists = rows_ == 0 ? 0 : static_cast<std::size_t>(column.row_ends[rows_ - 1]);
  }
  const std::size_t values = lists == 0 ? 0 : static_cast<std::size_t>(column.list_ends[lists - 1]);
  column.list_ends.cut(lists);
  switch (column.kind) {
    case Kind::integers: column.integers.cut(values); break;
    case Kind::floats: column.floats.cut(values); break;
    default: column.texts.cut(values);
  }
}

// Every column gets its row, whether the record brought it or not.
void Decoder::finish_row() {
  if (seen_count_ != wanted_count_ || has_sequences_) {
    for (Column& column : columns_) {
      if (!column.wanted) continue;
      if (!column.seen) {
        column.missing.push(static_cast<std::int64_t>(rows_));
        if (!column.sequence) column.list_ends.push(static_cast<std::int64_t>(column.values()));
      }
      if (column.sequence) column.row_ends.push(static_cast<std::int64_t>(column.list_ends.size()));
    }
  }
  for (Column& column : columns_) column.seen = false;
  seen_count_ = 0;
  ++rows_;
}

std::size_t Survey::find(Span key, bool sequence) {
  // Records of one writer bring their keys in one order.
  if (guess_ < features_.size() && features_[guess_].sequence == sequence &&
      features_[guess_].name == text_of(key)) {
    return guess_++;
  }
  std::string name(sequence ? "s" : "f");
  name += text_of(key);
  const auto [place, added] = by_name_.emplace(std::move(name), features_.size());
  if (added) {
    features_.emplace_back();
    features_.back().name = text_of(key);
    features_.back().sequence = sequence;
  }
  guess_ = place->second + 1;
  return place->second;
}

void Survey::add(Span record) {
  ++rows_;
  guess_ = 0;
  entries_.clear();
  Reader reader(record);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field == 1 || tag.field == 2) {
      Reader::expect(tag, Wire::bytes);
      has_sequences_ |= tag.field == 2;
      find_entries(reader.bytes(), tag.field == 2);
    } else {
      reader.skip(tag);
    }
  }
  for (const Entry& entry : entries_) add_entry(entry.value, features_[entry.feature]);
}

void Survey::find_entries(Span message, bool sequence) {
  Reader reader(message);
  Span value;
  while (!reader.done()) {
    if (!reader.take_field(0x0a, value)) {
      reader = pass_other(reader);
      continue;
    }
    const example::Entry entry = read_entry(value);
    const std::size_t index = find(entry.key, sequence);
    Feature& feature = features_[index];
    if (feature.last_row == rows_) {
      entries_[feature.last_entry].value = entry.value;
    } else {
      feature.last_row = rows_;
      feature.last_entry = entries_.size();
      entries_.push_back({index, entry.value});
    }
  }
}

void Survey::add_entry(Span value, Feature& feature) {
  if (!feature.sequence) {
    add_feature(value, feature);
    return;
  }
  ++feature.rows;
  Reader lists(value);
  Span list;
  while (!lists.done()) {
    if (lists.take_field(0x0a, list)) {
      add_feature(list, feature);
    } else {
      lists = pass_other(lists);
    }
  }
}

void Survey::add_feature(Span message, Feature& feature) {
  const List list = read_kind(message);
  if (list.kind == Kind::none) return;
  feature.mixed |= feature.kind != Kind::none && feature.kind != list.kind;
  feature.kind = list.kind;
  if (!feature.sequence) ++feature.rows;
  std::uint64_t count = 0;
  Reader reader(list.message);
  while (!reader.done()) {
    const Tag tag = reader.tag();
    if (tag.field == 1 && tag.wire == Wire::bytes && list.kind != Kind::bytes) {
      const Span run = reader.bytes();
      if (list.kind == Kind::floats) {
        count += run.size / sizeof(float);
      } else {
        for (std::size_t i = 0; i < run.size; ++i) count += run.data[i] < 0x80;
      }
    } else {
      count += tag.field == 1;
      reader.skip(tag);
    }
  }
  ++feature.lists;
  if (count < feature.shortest) feature.shortest = count;
  if (count > feature.longest) feature.longest = count;
}

}  // namespace ferry::example
