"""Matching: which tensor of a file belongs to which variable of a model.

Variables and tensors have names, often several, and shapes. These schemes are tried in order:

    name        one of the variable's names is the tensor's
    spelling    the names are equal in one spelling: "a.b" and "a/b:0", "_kernel" and "kernel"
    prefix      the names are equal after a prefix that all names of one side have
    numbering   the names are equal after renumbering what the framework numbered: "dense_4"
    structure   a layer is the only one with its names and shapes on both sides

The first scheme that finds a fitting tensor for every variable decides for all. If there is none,
each scheme matches what the ones before it left over. Two tensors that fit equally well are no
match: they are reported as candidates. If the parts of a layer have other names, they are guessed
from shapes, unless the names follow two conventions: PyTorch's "weight" is not TensorFlow's
"kernel", which may be its transpose.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from tensorferry.classes import dataclass, field

Shape = tuple[int | None, ...] | None
How = Literal["name", "spelling", "prefix", "numbering", "structure", "map"]
Key = tuple[str, ...]

# How many candidates are shown.
CANDIDATES = 5

# The suffix of a variable's path in a checkpoint.
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"

# Words that tell whose conventions a file follows.
_TENSORFLOW_WORDS = {"kernel", "gamma", "beta", "moving_mean", "moving_variance", "embeddings"}
_TORCH_WORDS = {"weight", "running_mean", "running_var", "num_batches_tracked"}

_OPTIMIZERS = (
    "(adam|adamw|adamax|nadam|adadelta|adagrad|rmsprop|sgd|ftrl|lion|lamb|adafactor|momentum)"
    r"(_\d+)?"
)
_STATES = (
    "(m|v|vhat|rms|momentum|velocity|velocity_hat|accumulator|average|iteration|iter|decay"
    "|learning_rate|beta_?[12]|beta_?[12]_power)"
)
_TRAINING = re.compile(
    r"(^|/)\.OPTIMIZER_SLOT(/|$)"
    r"|(^|/)_?optimizers?(_\d+|_weights)?/(?!_trainable_variables/)"
    rf"|(^|/){_OPTIMIZERS}/{_STATES}(/|$)"
    rf"|(^|/){_OPTIMIZERS}/(.*[/_])?{_STATES}$"
    rf"|(^|/){_OPTIMIZERS}$"
    r"|(^|/)(beta_?[12]_power|global_step|save_counter|_checkpointable_object_graph)(_\d+)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Named:
    """A variable or a tensor.

    Attributes:
        name: Its name, unique among the variables or among the tensors.
        names: All of its names, its own first.
        shape: None for a dimension that may have any size, or instead of the whole shape.
        automatic: The parts of its name that a framework made up and numbered.
    """

    name: str
    names: tuple[str, ...]
    shape: Shape
    automatic: frozenset[str] = frozenset()


@dataclass
class Matches:
    """The result of matching.

    Attributes:
        pairs: The tensor of each variable.
        how: The scheme that found it.
        candidates: For variables without a match, the tensors that fit equally well.
    """

    pairs: dict[str, str] = field(default_factory=dict)
    how: dict[str, How] = field(default_factory=dict)
    candidates: dict[str, tuple[str, ...]] = field(default_factory=dict)


def is_training_state(name: str) -> bool:
    """Whether a name in a file belongs to an optimizer's state or counters."""
    plain = name.removesuffix(_VALUE)
    return _TRAINING.search(re.sub(r":\d+$", "", plain)) is not None


def fits(wanted: Shape, found: Shape) -> bool:
    """Whether a variable of one shape can hold a tensor of the other."""
    if wanted is None or found is None:
        return True
    return len(wanted) == len(found) and all(
        a is None or b is None or a == b for a, b in zip(wanted, found, strict=True)
    )


@lru_cache(maxsize=1 << 16)
def split_name(name: str) -> Key:
    """The parts of a name, without what only differs in spelling."""
    name = name.removesuffix(_VALUE)
    name = re.sub(r":\d+$", "", name)
    parts = (part.lstrip("_") or part for part in re.split(r"[./]", name) if part)
    return tuple(parts) or (name,)


def match(wanted: Sequence[Named], found: Sequence[Named], *, structure: bool = True) -> Matches:
    """The tensors of a file for the variables of a model.

    Args:
        wanted: The variables.
        found: The tensors.
        structure: Also match by structure and shape if the names do not help.
    """
    schemes: list[tuple[How, Callable[..., dict[str, str]]]] = [
        ("name", _by_name),
        ("spelling", _by_spelling),
        ("prefix", _by_prefix),
        ("numbering", _by_numbering),
    ]
    if structure:
        schemes.append(("structure", _by_structure))
    shapes = {tensor.name: tensor.shape for tensor in found}
    for how, scheme in schemes[:4]:
        pairs = scheme(wanted, found)
        if len(pairs) == len(wanted) and all(
            fits(variable.shape, shapes[pairs[variable.name]]) for variable in wanted
        ):
            return Matches(pairs, dict.fromkeys(pairs, how))
    matches = Matches()
    left, free = list(wanted), list(found)
    # A number that a framework made up is equal by chance only, so names with one are renumbered.
    staged = [(how, _certain(scheme)) for how, scheme in schemes[:3]] + schemes[3:]
    for how, scheme in staged:
        pairs = scheme(left, free)
        matches.pairs |= pairs
        matches.how |= dict.fromkeys(pairs, how)
        taken = set(pairs.values())
        left = [variable for variable in left if variable.name not in pairs]
        free = [tensor for tensor in free if tensor.name not in taken]
    alike: dict[str, list[Named]] = defaultdict(
        list
    )  # by the text: a hash of numbers has no secret
    for tensor in free:
        alike[str(tensor.shape)].append(tensor)
    for variable in left:
        candidates = _candidates(variable, alike[str(variable.shape)])
        if candidates:
            matches.candidates[variable.name] = candidates
    return matches


def _certain(scheme: Callable[..., dict[str, str]]) -> Callable[..., dict[str, str]]:
    def names_only(wanted: Sequence[Named], found: Sequence[Named]) -> dict[str, str]:
        reduced = []
        for variable in wanted:
            names = tuple(
                name
                for name in variable.names
                if not variable.automatic.intersection(re.split(r"[./]", name))
            )
            if names:
                reduced.append(Named(variable.name, names, variable.shape))
        return scheme(reduced, found)

    return names_only


def _by_name(wanted: Sequence[Named], found: Sequence[Named]) -> dict[str, str]:
    return _by_key(wanted, found, lambda name: (name,))


def _by_spelling(wanted: Sequence[Named], found: Sequence[Named]) -> dict[str, str]:
    return _by_key(wanted, found, split_name)


def _by_key(
    wanted: Sequence[Named], found: Sequence[Named], key: Callable[[str], Key]
) -> dict[str, str]:
    owners = _owners((tensor.name, [key(name) for name in tensor.names]) for tensor in found)
    return _pair([(one.name, [key(name) for name in one.names]) for one in wanted], owners)


def _owners(keyed: Iterable[tuple[str, list[Key]]]) -> dict[Key, str]:
    """The only owner of each key; a tensor's first name takes precedence over other names."""
    everyone = list(keyed)
    owners: dict[Key, str] = {}
    for first in (True, False):
        level: dict[Key, set[str]] = defaultdict(set)
        for name, keys in everyone:
            for key in keys[:1] if first else keys[1:]:
                level[key].add(name)
        for key, names in level.items():
            if key not in owners and len(names) == 1:
                owners[key] = next(iter(names))
    return owners


def _pair(wanted: list[tuple[str, list[Key]]], owners: Mapping[Key, str]) -> dict[str, str]:
    """Pairs without a rival claim; a claim by the first name takes precedence over others."""
    pairs: dict[str, str] = {}
    taken: set[str] = set()
    longest = max((len(keys) for _, keys in wanted), default=0)
    for levels in (slice(0, 1), slice(1, longest)):
        claims: dict[str, set[str]] = defaultdict(set)
        choice: dict[str, str] = {}
        for name, keys in wanted:
            if name in pairs:
                continue
            hits = [owners[key] for key in keys[levels] if key in owners]
            hits = [hit for hit in hits if hit not in taken]
            if hits:
                choice[name] = hits[0]
                for hit in hits:
                    claims[hit].add(name)
        for name, hit in choice.items():
            if len(claims[hit]) == 1:
                pairs[name] = hit
                taken.add(hit)
    return pairs


def _by_prefix(wanted: Sequence[Named], found: Sequence[Named]) -> dict[str, str]:
    wanted_keys = [(one.name, [split_name(name) for name in one.names]) for one in wanted]
    found_keys = [(one.name, [split_name(name) for name in one.names]) for one in found]
    return _pair_behind_prefix(wanted_keys, found_keys)


def _pair_behind_prefix(
    wanted: list[tuple[str, list[Key]]], found: list[tuple[str, list[Key]]]
) -> dict[str, str]:
    """Pairs after removing the one prefix that makes the most of them, from either side."""
    best: dict[str, str] = {}
    tie = False
    for longer, shorter, is_found in ((found, wanted, True), (wanted, found, False)):
        for prefix in _prefixes(longer, shorter):
            size = len(prefix)
            cut = [
                (name, [key[size:] for key in keys if key[:size] == prefix and len(key) > size])
                for name, keys in longer
            ]
            cut = [(name, keys) for name, keys in cut if keys]
            pairs = _pair(wanted, _owners(cut)) if is_found else _pair(cut, _owners(found))
            if len(pairs) > len(best):
                best, tie = pairs, False
            elif len(pairs) == len(best) and pairs != best:
                tie = True
    return {} if tie else best


def _prefixes(
    longer: list[tuple[str, list[Key]]], shorter: list[tuple[str, list[Key]]]
) -> list[Key]:
    """The prefixes that make the most names of the one side names of the other."""
    known = {key for _, keys in shorter for key in keys}
    count: Counter[Key] = Counter()
    for _, keys in longer:
        count.update(
            {key[:size] for key in keys for size in range(1, len(key)) if key[size:] in known}
        )
    return [prefix for prefix, _ in count.most_common(4)]


def _by_numbering(wanted: Sequence[Named], found: Sequence[Named]) -> dict[str, str]:
    """Only the wanted side knows which numbers were made up; they are so on both."""
    automatic = frozenset[str]().union(*(one.automatic for one in wanted))
    if not automatic:
        return {}
    parts = {part.lstrip("_") for part in automatic}
    stems = {_numbered(part)[0] for part in parts}
    ours = _counted([one.name for one in wanted], lambda part: part in parts)
    theirs = _counted([one.name for one in found], lambda part: _numbered(part)[0] in stems)
    pairs = _pair(ours, _owners(theirs))
    taken = set(pairs.values())
    left = [(name, keys) for name, keys in ours if name not in pairs]
    free = [(name, keys) for name, keys in theirs if name not in taken]
    return pairs | _pair_behind_prefix(left, free)


def _numbered(part: str) -> tuple[str, int]:
    """A part without its number, and that: the first of a kind has none."""
    found = re.fullmatch(r"(.+)_(\d{1,9})", part)
    return (found[1], int(found[2])) if found else (part, 0)


def _counted(
    names: Sequence[str], is_automatic: Callable[[str], bool]
) -> list[tuple[str, list[Key]]]:
    """The names with their automatic parts counted anew, among those of one kind and place.

    The n-th of a kind is the n-th on the other side if there are as many, or if both start at the
    same number and leave none out: each name has a key that says the one, and one for the other.
    """
    keys = {name: split_name(name) for name in names}
    sized: dict[Key, Key] = {(): ()}
    started: dict[Key, Key] = {(): ()}
    for depth in range(1, max(map(len, keys.values()), default=0) + 1):
        families: dict[tuple[Key, str], list[tuple[int, Key]]] = defaultdict(list)
        for prefix in {key[:depth] for key in keys.values() if len(key) >= depth}:
            parent, part = prefix[:-1], prefix[-1]
            if is_automatic(part):
                stem, number = _numbered(part)
                families[sized[parent], stem].append((number, prefix))
                continue
            sized[prefix] = (*sized[parent], part)
            if parent in started:
                started[prefix] = (*started[parent], part)
        for (parent, stem), members in families.items():
            members.sort()
            first, last = members[0][0], members[-1][0]
            for rank, (_, prefix) in enumerate(members):
                sized[prefix] = (*parent, f"{stem} {rank} of {len(members)}")
                if last - first == len(members) - 1 and prefix[:-1] in started:
                    started[prefix] = (*started[prefix[:-1]], f"{stem} {first} + {rank}")
    return [
        (name, [sized[key], *([started[key]] if key in started else [])])
        for name, key in keys.items()
    ]


@dataclass(eq=False)
class _Layer:
    """The variables or tensors of one layer, with the last parts of their names."""

    members: list[Named]
    leaves: list[str]

    @property
    def is_numbered(self) -> bool:
        return all(map(_is_number, self.leaves))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return tuple(member.shape for member in self.members)


def _is_number(leaf: str) -> bool:
    return re.fullmatch(r"[0-9]{1,18}", leaf) is not None


def _layers(everyone: Sequence[Named]) -> list[_Layer]:
    layers: dict[Key, _Layer] = {}
    for one in everyone:
        *place, leaf = split_name(one.name)
        if _is_number(leaf) and place and place[-1] == "vars":
            place.pop()
        layer = layers.setdefault(tuple(place), _Layer([], []))
        layer.members.append(one)
        layer.leaves.append(leaf)
    for layer in layers.values():
        if layer.is_numbered:
            order = sorted(range(len(layer.leaves)), key=lambda place: int(layer.leaves[place]))
            layer.members = [layer.members[place] for place in order]
            layer.leaves = [layer.leaves[place] for place in order]
    return list(layers.values())


def _by_structure(wanted: Sequence[Named], found: Sequence[Named]) -> dict[str, str]:
    in_order = _by_order(wanted, found)
    if in_order:
        return in_order
    pairs: dict[str, str] = {}
    ours, theirs = _layers(wanted), _layers(found)
    for signature in (_names_and_shapes, _numbers_and_shapes, _distinct_shapes):
        if signature is _distinct_shapes and _is_foreign(ours, theirs):
            continue
        known = [_unique(layers, signature, side) for side, layers in enumerate((ours, theirs))]
        for mark, one in known[0].items():
            other = known[1].get(mark)
            if other is None:
                continue
            order = {_names_and_shapes: _by_leaf, _distinct_shapes: _by_shape}.get(signature)
            ours.remove(one)
            theirs.remove(other)
            left, right = one.members, other.members
            if order is not None:
                left, right = order(one), order(other)
            pairs.update((a.name, b.name) for a, b in zip(left, right, strict=True))
    return pairs


def _by_order(wanted: Sequence[Named], found: Sequence[Named]) -> dict[str, str]:
    """A list of arrays has nothing but its order, as `np.savez(path, *arrays)` writes it."""
    numbers = [re.fullmatch(r"(?:arr_)?(\d{1,9})", tensor.name) for tensor in found]
    if len(wanted) != len(found) or not all(numbers):
        return {}
    places = {
        int(number[1]): tensor for number, tensor in zip(numbers, found, strict=True) if number
    }
    tensors = [places[number] for number in sorted(places)]
    if len(tensors) != len(wanted) or not all(
        fits(one.shape, tensor.shape) for one, tensor in zip(wanted, tensors, strict=True)
    ):
        return {}
    return {one.name: tensor.name for one, tensor in zip(wanted, tensors, strict=True)}


def _unique(
    layers: list[_Layer], signature: Callable[[_Layer, int], object], side: int
) -> dict[object, _Layer]:
    marks = [(signature(layer, side), layer) for layer in layers]
    count = Counter(mark for mark, _ in marks)
    return {mark: layer for mark, layer in marks if mark is not None and count[mark] == 1}


def _names_and_shapes(layer: _Layer, side: int) -> object:
    if layer.is_numbered or None in layer.shapes:
        return None
    return tuple(sorted(zip(layer.leaves, map(str, layer.shapes), strict=True)))


def _numbers_and_shapes(layer: _Layer, side: int) -> object:
    """Numbered tensors of a file are in the order of the layer."""
    if None in layer.shapes or (side == 1 and not layer.is_numbered):
        return None
    return str(layer.shapes)


def _distinct_shapes(layer: _Layer, side: int) -> object:
    """Shapes tell the parts of a layer apart, unless they are scalars or lone vectors."""
    shapes = frozenset(map(str, layer.shapes))  # a hash of numbers has no secret
    ranks = {len(shape) for shape in layer.shapes if shape is not None}
    if len(shapes) < len(layer.members) or None in layer.shapes or 0 in ranks or max(ranks) < 2:
        return None
    return shapes


def _by_leaf(layer: _Layer) -> list[Named]:
    pairs = sorted(zip(layer.leaves, range(len(layer.leaves)), strict=True))
    return [layer.members[place] for _, place in pairs]


def _by_shape(layer: _Layer) -> list[Named]:
    return sorted(layer.members, key=lambda member: str(member.shape))


def _is_foreign(ours: Iterable[_Layer], theirs: Iterable[_Layer]) -> bool:
    words = [{leaf for layer in side for leaf in layer.leaves} for side in (ours, theirs)]
    return any(
        one & _TENSORFLOW_WORDS and other & _TORCH_WORDS for one, other in (words, reversed(words))
    )


def _candidates(variable: Named, fitting: Sequence[Named]) -> tuple[str, ...]:
    """Tensors of the variable's shape with the same last part of the name, or else all few."""
    leaf = split_name(variable.name)[-1]
    same = (one.name for one in fitting if split_name(one.name)[-1] == leaf)
    found = tuple(itertools.islice(same, CANDIDATES))
    if not found and len(fitting) <= CANDIDATES:
        return tuple(one.name for one in fitting)
    return found
