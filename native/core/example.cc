#include "example.h"

namespace ferry::example {

namespace {

std::string_view text_of(Span span) {
  return {reinterpret_cast<const char*>(span.data), span.size};
}

// Passes over what a message holds beside its field 1 (and 2, for `known` 2), which must come as
// length-delimited values. By value, so that the reader of the hot path stays in registers.
FERRY_NOINLINE Reader pass_other(Reader reader, std::uint32_t known = 1) {
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

FERRY_NOINLINE Entry read_any_entry(Span message) {
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

FERRY_INLINE Entry read_entry(Span message) {
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
FERRY_NOINLINE List read_any_kind(Span message) {
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

FERRY_INLINE List read_kind(Span message) {
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
FERRY_NOINLINE Reader read_single(Reader reader, Scratch<std::int64_t>& integers) {
  const Tag tag = reader.tag();
  if (tag.field == 1) {
    Reader::expect(tag, Wire::varint);
    integers.push(static_cast<std::int64_t>(reader.varint()));
  } else {
    reader.skip(tag);
  }
  return reader;
}

FERRY_NOINLINE Reader read_single(Reader reader, Scratch<float>& floats) {
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

void Pattern::prepare() noexcept {
  const std::size_t head_size = name.size() < 8 ? name.size() : 8;
  std::memcpy(&name_head, name.data(), head_size);
  std::memset(&name_mask, 0xff, head_size);
  if (name.size() > 8) std::memcpy(&name_tail, name.data() + name.size() - 8, 8);
  entry_head = 0x0a000a | static_cast<std::uint32_t>(name.size()) << 24;
  const std::uint8_t kind_tag = static_cast<std::uint8_t>(kind) << 3 | 2;
  value_head = 0x000a02000412 | std::uint64_t{kind_tag} << 16;
  values_start = 4 + name.size() + 6;
  if (!sequence && values_start < 0x82) short_limit = 0x82 - values_start;
}

Decoder::Decoder(std::vector<Column> columns) : columns_(std::move(columns)) {
  Column** successor = &first_;
  for (Column& column : columns_) {
    const std::string& name = column.name;
    by_name_[column.sequence].emplace(name, &column);
    *std::exchange(successor, &column.successor) = &column;
    wanted_count_ += column.wanted;
    has_sequences_ |= column.sequence;

    column.prepare();
  }
}

void Decoder::expect(std::uint64_t rows, std::size_t bytes) noexcept {
  for (Column& column : columns_) {
    if (!column.wanted || column.length == any_length || column.length == 0) continue;
    const std::uint64_t most = bytes / (column.kind == Kind::floats ? sizeof(float) : 1);
    const std::uint64_t fitting = most / column.length;
    const auto count = static_cast<std::size_t>((rows < fitting ? rows : fitting) * column.length);
    if (column.kind == Kind::floats) column.floats.expect(count);
    // The last list needs room for as many integers as it has bytes.
    const std::size_t last = column.length < bytes / 10 ? 10 * column.length : bytes;
    if (column.kind == Kind::integers) column.integers.expect(count + last + varints_slack);
  }
}

void Decoder::clear() noexcept {
  rows_ = 0;
  waiting_.clear();
  for (Column& column : columns_) {
    column.integers.cut(0);
    column.floats.cut(0);
    column.texts.cut(0);
    column.list_ends.cut(0);
    column.row_ends.cut(0);
    column.missing.cut(0);
    column.last_row = 0;
  }
}

// Compares a key of the name's size, where 8 bytes can be read, with the name: in words, if that is
// not long.
FERRY_INLINE bool is_name(const Pattern& column, const std::uint8_t* key) {
  const std::size_t size = column.name.size();
  std::uint64_t word;
  std::memcpy(&word, key, 8);
  if (((word ^ column.name_head) & column.name_mask) != 0) return false;
  if (size <= 8) return true;
  if (size > 16) return std::memcmp(key, column.name.data(), size) == 0;
  std::memcpy(&word, key + size - 8, 8);
  return word == column.name_tail;
}

FERRY_INLINE bool is_named(const Pattern& column, Span key) {
  if (key.size != column.name.size()) return false;
  // An entry without a key has an empty one, which lies nowhere in the input.
  if (key.size == 0 || key.readable() < 8) return text_of(key) == column.name;
  return is_name(column, key.data);
}

FERRY_INLINE Column* Decoder::find(Span key, bool sequence, Column*& successor) {
  if (successor != nullptr && is_named(*successor, key) && successor->sequence == sequence)
      [[likely]] {
    return successor;
  }
  const auto found = by_name_[sequence].find(text_of(key));
  return found == by_name_[sequence].end() ? nullptr : successor = found->second;
}

// Takes the list of a column's entry if that is short and as writers make it,
//
//     0a size 0a length name 12 size kind size 0a size values
//
// where each size takes one byte and follows from the first one: three comparisons instead of five
// fields. What it does not take, read_entry and read_kind have to sort out.
FERRY_INLINE bool take_short(Reader& reader, const Pattern& column, Span& list) {
  const std::size_t start = column.values_start;
  const std::uint8_t* const entry = reader.peek(start + 2);
  if (entry == nullptr) return false;
  std::uint32_t before;
  std::uint64_t name;
  std::uint64_t behind;
  std::memcpy(&before, entry, 4);
  std::memcpy(&name, entry + 4, 8);
  std::memcpy(&behind, entry + start - 6, 8);
  const std::size_t size = 2 + (before >> 8 & 0xff);
  if (size - start >= column.short_limit || size > reader.left()) return false;
  const std::uint64_t expected = column.value_head + (size - start) * 0x010001000100;
  if (((before & 0xffff00ff) ^ column.entry_head) | (behind ^ expected) << 16 |
      ((name ^ column.name_head) & column.name_mask)) {
    return false;
  }
  if (column.name.size() > 8 && !is_name(column, entry + 4)) return false;
  list = reader.take(size).behind(start - 2);
  return true;
}

void Decoder::add(const Span& record) {
  if (layout_.fits(record)) {
    waiting_.push_back(record.data);
    ++rows_;
    tries_ = 8;
    strikes_ = 0;
    if (waiting_.size() == gathered) settle();
    return;
  }
  settle();
  add_other(record);
  follow(record);
}

// Takes on the layout of a record that was read, if others may have it, too.
void Decoder::follow(const Span& record) {
  constexpr int patience = 4;
  if (has_sequences_ || tries_ <= 0 || (!filled_.empty() && ++strikes_ < patience)) return;
  --tries_;
  strikes_ = 0;
  filled_.clear();
  if (!layout_.learn(record)) return;
  std::size_t wanted = 0;
  for (const Layout::Slot& slot : layout_.slots()) {
    const auto found = by_name_[0].find(text_of(slot.name));
    Column* const column = found == by_name_[0].end() ? nullptr : found->second;
    const bool is_wanted = column != nullptr && column->wanted;
    wanted += is_wanted;
    filled_.push_back(is_wanted ? column : nullptr);
  }
  // Every column once: the last list of each row is that of the record that was read.
  bool whole = wanted == wanted_count_;
  for (std::size_t i = 0; i < filled_.size() && whole; ++i) {
    Column* const column = filled_[i];
    if (column == nullptr) continue;
    whole = column->last_row == rows_ && column->kind == layout_.slots()[i].kind;
    column->last_row = 0;
  }
  if (!whole) {
    layout_.forget();
    filled_.clear();
  }
}

void Decoder::settle() {
  if (waiting_.empty()) return;
  const std::vector<Layout::Slot>& slots = layout_.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (filled_[i] != nullptr) fill(slots[i], *filled_[i]);
  }
  waiting_.clear();
}

// Puts the values of a slot of all waiting records into its column.
void Decoder::fill(const Layout::Slot& slot, Column& column) {
  const std::size_t records = waiting_.size(), count = slot.count;
  const auto before = static_cast<std::int64_t>(column.values());
  switch (slot.kind) {
    case Kind::floats: {
      float* out = column.floats.room(records * count);
      for (const std::uint8_t* record : waiting_) {
        if (count > 0) std::memcpy(out, record + slot.start, slot.size);
        out += count;
      }
      column.floats.grow(records * count);
      break;
    }
    case Kind::integers: {
      std::int64_t* out = column.integers.room(records * count);
      const std::uint8_t* const lengths = layout_.lengths().data() + slot.lengths;
      // Eight bytes are read of each number: behind those of the last list, the record may end.
      const bool has_room = slot.start + slot.size + 8 <= layout_.size();
      for (const std::uint8_t* record : waiting_) {
        const std::uint8_t* at = record + slot.start;
        for (std::size_t i = 0; i < count; ++i) {
          if (has_room) [[likely]] {
            *out++ = join_groups(at, lengths[i]);
          } else {
            std::uint8_t bytes[8] = {};
            std::memcpy(bytes, at, lengths[i]);
            *out++ = join_groups(bytes, lengths[i]);
          }
          at += lengths[i];
        }
      }
      column.integers.grow(records * count);
      break;
    }
    default:
      for (const std::uint8_t* record : waiting_) column.texts.push({record + slot.start, slot.size});
  }
  std::int64_t* ends = column.list_ends.room(records);
  for (std::size_t i = 0; i < records; ++i) {
    ends[i] = before + static_cast<std::int64_t>((i + 1) * count);
  }
  column.list_ends.grow(records);
}

void Decoder::add_other(const Span& record) {
  try {
    read_record(record);
  } catch (const Error&) {
    // What does not fit may be an entry that a later one of the same key replaces.
    take_back_row();
    find_last_entries(record);
    if (!has_repeated_) throw;
    read_repeated(record);
  } catch (...) {
    take_back_row();
    throw;
  }
  finish_row();
}

// Reads a record once more, and of each key only the last entry.
void Decoder::read_repeated(const Span& record) {
  try {
    read_record(record);
  } catch (...) {
    take_back_row();
    has_repeated_ = false;
    throw;
  }
  has_repeated_ = false;
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
    column.last_row = 0;
  }
  seen_count_ = 0;
}

// For each column, where its last entry stands; throws where the record itself is broken.
void Decoder::find_last_entries(Span record) {
  last_entries_.assign(columns_.size(), nullptr);
  bool has_repeated = false;
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
      Column* guess = nullptr;
      const Column* const column = find(read_entry(value).key, sequence, guess);
      if (column == nullptr) continue;
      const std::uint8_t*& last = last_entries_[static_cast<std::size_t>(column - columns_.data())];
      has_repeated |= last != nullptr;
      last = value.data;
    }
  }
  has_repeated_ = has_repeated;
}

FERRY_INLINE void Decoder::set_seen(Column& column) noexcept {
  column.last_row = rows_ + 1;
  ++seen_count_;
}

void Decoder::set_unseen(Column& column) noexcept {
  column.last_row = 0;
  --seen_count_;
}

void Decoder::read_features(const Span& message, bool sequence) {
  Column** successor = &first_;
  const bool may_be_short = !sequence && !has_repeated_;
  Reader reader(message);
  Span list;
  while (!reader.done()) {
    Column* const column = *successor;
    if (!may_be_short || column == nullptr || is_seen(*column) ||
        !take_short(reader, *column, list)) [[unlikely]] {
      reader = read_any_feature(reader, sequence, successor);
      continue;
    }
    successor = &column->successor;
    if (!column->wanted) continue;
    set_seen(*column);
    // The list holds one run, or one string, up to its end.
    const Span run = list.behind(2);
    std::size_t count = 1;
    switch (column->kind) {
      case Kind::integers: count = add_integers(run, *column); break;
      case Kind::floats: count = add_floats(run, *column); break;
      default: column->texts.push({run.data, run.size});
    }
    end_list(*column, column->values() - count, column->values(), list);
  }
}

// Reads an entry, or passes over what is none. `successor` is the guess which column it is, and
// then the one for the next.
FERRY_NOINLINE Reader Decoder::read_any_feature(Reader reader, bool sequence,
                                                   Column**& successor) {
  Span value;
  if (!reader.take_field(0x0a, value)) return pass_other(reader);
  const Entry entry = read_entry(value);
  Column* const found = find(entry.key, sequence, *successor);
  if (found == nullptr) return reader;
  Column& column = *found;
  successor = &column.successor;
  if (!column.wanted) return reader;
  if (has_repeated_ && last_entries_[static_cast<std::size_t>(found - columns_.data())] != value.data) {
    return reader;
  }
  if (is_seen(column)) {
    take_back(column);
    set_unseen(column);
  }
  set_seen(column);
  if (sequence) {
    read_feature_list(entry.value, column);
  } else {
    read_feature(entry.value, column);
  }
  return reader;
}

FERRY_INLINE void Decoder::read_feature(Span message, Column& column) {
  const List list = read_kind(message);
  if (list.kind == Kind::none) {
    set_unseen(column);
    return;
  }
  read_list(list.message, list.kind, column);
}

void Decoder::read_feature_list(Span message, Column& column) {
  Reader reader(message);
  Span feature;
  while (!reader.done()) {
    if (!reader.take_field(0x0a, feature)) {
      reader = pass_other(reader);
      continue;
    }
    const List list = read_kind(feature);
    if (list.kind == Kind::none) {  // a step without values, as TensorFlow takes it
      end_list(column, column.values(), column.values(), feature);
    } else {
      read_list(list.message, list.kind, column);
    }
  }
}

void Decoder::read_list(Span message, Kind kind, Column& column) {
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

// Adds the numbers of a packed run, and gives how many they are.
FERRY_INLINE std::size_t Decoder::add_integers(const Span& run, Column& column) {
  if (is_single_varint(run)) {
    column.integers.push(join_groups(run.data, run.size));
    return 1;
  }
  const std::size_t count = decode_varints(run, column.integers.room(run.size + varints_slack));
  column.integers.grow(count);
  return count;
}

FERRY_INLINE std::size_t Decoder::add_floats(const Span& run, Column& column) {
  if (run.size % sizeof(float) != 0) [[unlikely]] {
    throw Error(Problem::malformed, run.offset(),
                std::to_string(run.size) + " bytes of packed float32");
  }
  const std::size_t count = run.size / sizeof(float);
  float* out = column.floats.room(count);
  if (count > 0) std::memcpy(out, run.data, run.size);
  column.floats.grow(count);
  return count;
}

FERRY_INLINE void Decoder::read_integers(Span message, Column& column) {
  const std::size_t start = column.integers.size();
  Reader reader(message);
  Span run;
  while (!reader.done()) {
    if (reader.take_field(0x0a, run)) {
      add_integers(run, column);
    } else {
      reader = read_single(reader, column.integers);
    }
  }
  end_list(column, start, column.integers.size(), message);
}

FERRY_INLINE void Decoder::read_floats(Span message, Column& column) {
  const std::size_t start = column.floats.size();
  Reader reader(message);
  Span run;
  while (!reader.done()) {
    if (reader.take_field(0x0a, run)) {
      add_floats(run, column);
    } else {
      reader = read_single(reader, column.floats);
    }
  }
  end_list(column, start, column.floats.size(), message);
}

FERRY_INLINE void Decoder::read_texts(Span message, Column& column) {
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

FERRY_INLINE void Decoder::end_list(Column& column, std::size_t start,
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
      if (!is_seen(column)) {
        column.missing.push(static_cast<std::int64_t>(rows_));
        if (!column.sequence) column.list_ends.push(static_cast<std::int64_t>(column.values()));
      }
      if (column.sequence) column.row_ends.push(static_cast<std::int64_t>(column.list_ends.size()));
    }
  }
  seen_count_ = 0;
  ++rows_;
}

// How many varints end in a run.
static std::uint64_t count_ends(const Span& run) noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < run.size; ++i) count += run.data[i] < 0x80;
  return count;
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
  for (const Entry& entry : entries_) {
    Feature& feature = features_[entry.feature];
    if (!entry.is_short) {
      add_entry(entry.value, feature);
      continue;
    }
    ++feature.rows;
    switch (feature.kind) {
      case Kind::integers: add_count(count_ends(entry.value), feature); break;
      case Kind::floats: add_count(entry.value.size / sizeof(float), feature); break;
      default: add_count(1, feature);
    }
  }
}

void Survey::find_entries(Span message, bool sequence) {
  Reader reader(message);
  Span value;
  while (!reader.done()) {
    if (!sequence && guess_ < features_.size()) {
      Feature& feature = features_[guess_];
      if (feature.last_row != rows_ && take_short(reader, feature, value)) {
        feature.last_row = rows_;
        feature.last_entry = entries_.size();
        entries_.push_back({guess_++, value.behind(2), true});
        continue;
      }
    }
    if (!reader.take_field(0x0a, value)) {
      reader = pass_other(reader);
      continue;
    }
    const example::Entry entry = read_entry(value);
    const std::size_t index = find(entry.key, sequence);
    Feature& feature = features_[index];
    if (feature.last_row == rows_) {
      entries_[feature.last_entry] = {index, entry.value, false};
    } else {
      feature.last_row = rows_;
      feature.last_entry = entries_.size();
      entries_.push_back({index, entry.value, false});
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
  if (feature.kind != list.kind) {
    feature.kind = list.kind;
    feature.prepare();
  }
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
        count += count_ends(run);
      }
    } else {
      count += tag.field == 1;
      reader.skip(tag);
    }
  }
  add_count(count, feature);
}

void Survey::add_count(std::uint64_t count, Feature& feature) {
  ++feature.lists;
  if (count < feature.shortest) feature.shortest = count;
  if (count > feature.longest) feature.longest = count;
}

}  // namespace ferry::example
