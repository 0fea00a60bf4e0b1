"""Options that several commands have, and how they print."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tensorferry.cli import completing, output, text

if TYPE_CHECKING:
    from tensorferry.files.find import Found
    from tensorferry.progress import Unit

LIMITS = ("memory", "stream", "depth")
"""The names of `tensorferry.limits`."""

Function = TypeVar("Function", bound=Callable[..., Any])


def as_json(function: Function) -> Function:
    """`--json`: the result as one JSON document."""
    option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    return option(function)


def reading(function: Function) -> Function:
    """How inputs are read: `--format` and `--option`."""
    function = click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_options,
        help="Of the format, as in --option dtype=float32 --option shape=[2,3] for raw bytes.",
        shell_complete=completing.reading_options,
    )(function)
    return click.option(
        "--format",
        metavar="NAME",
        help="The format, if it is not recognised: see `ferry formats`.",
        shell_complete=completing.formats,
    )(function)


where = click.option(
    "--where",
    metavar="CONDITION",
    help="Only rows like this: 'label == 3'; see `ferry help head`.",
    shell_complete=completing.names,
)
"""`--where`: a condition on rows."""

form = click.option(
    "--to",
    type=click.Choice(["csv", "jsonl", "markdown"]),
    help="Print rows in this form, on a terminal and in a pipe.",
)
"""`--to` of commands that print rows."""

compression = click.option(
    "--compression",
    metavar="KIND",
    help="See `ferry formats`; .gz and .zst say it too.",
    shell_complete=completing.compressions,
)
"""`--compression` of what is written."""


def rows_target(function: Function) -> Function:
    """How rows are written: `--to`, `--compression`, `--force` and `-o`."""
    steps: tuple[Callable[[Function], Function], ...] = (
        target,
        force,
        compression,
        click.option(
            "--to",
            metavar="FORMAT",
            help="The format, if OUT's name does not say it; by default that of IN.",
            shell_complete=completing.formats_of_rows,
        ),
    )
    for step in steps:
        function = step(function)
    return function


seed = click.option("--seed", type=int, default=0, help="Another seed, another choice.")
"""`--seed` of what is done at random."""

keep_going = click.option(
    "--keep-going",
    is_flag=True,
    help="Leave out what is damaged or cannot be read, and name it; the exit code is 2.",
)
"""`--keep-going` of what makes one file of many."""


class Renamed(click.Option):
    """An option that had other names: they still work, and no help shows them.

    Attributes:
        shown: The names of today.
    """

    def __init__(self, *args: Any, former: Sequence[str], **kwargs: Any) -> None:
        super().__init__([*args[0], *former], *args[1:], **kwargs)
        self.shown = [name for name in self.opts if name not in former]

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help."""
        every, self.opts = self.opts, self.shown
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


def selecting(about: str = "Only these names") -> Callable[[Function], Function]:
    """`--select`: which tensors or columns. It was `--match` here and `--columns` there."""
    return click.option(
        "-s",
        "--select",
        "select",
        cls=Renamed,
        former=("--match", "--columns"),
        multiple=True,
        metavar="NAMES",
        callback=_parse_names,
        help=f"{about}: a,b or 'enc.*' or 'layers.{{0..3}}.*'.",
        shell_complete=completing.names,
    )


def _parse_names(context: Any, parameter: Any, given: tuple[str, ...]) -> tuple[str, ...]:
    if not given:
        return ()
    from tensorferry.operations.names import parse_patterns

    return tuple(parse_patterns(given))


def running(function: Function) -> Function:
    """What does the work: `--engine` and `--address`; the command gets `engine`."""

    @functools.wraps(function)
    def with_engine(*args: Any, engine: str | None, address: str | None, **given: Any) -> Any:
        return function(*args, engine=_engine(engine, address), **given)

    chosen = click.option(
        "--address",
        metavar="ADDRESS",
        help="Of the Ray cluster; by default RAY_ADDRESS, one on this machine, or a new one.",
    )(with_engine)
    return click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        help="Work on many parts at once: in threads, or on a Ray cluster.",
    )(chosen)  # type: ignore[return-value]  # with the parameters that click asks for


def unit(given: Mapping[str, Any], counted: Unit) -> Unit:
    """What progress counts: tasks, if an engine does the work."""
    return counted if given.get("engine") is None else "tasks"


def _engine(name: str | None, address: str | None) -> Any:
    if address is not None and name != "ray":
        raise click.UsageError("--address is that of a Ray cluster\nhint: add --engine ray")
    if name != "ray":
        return name
    from tensorferry.engines import Ray

    return Ray(address=address)


force = click.option("-f", "--force", is_flag=True, help="Replace what is there.")
"""`--force`."""


dropping = click.option(
    "--drop",
    multiple=True,
    metavar="NAMES",
    callback=_parse_names,
    help="Leave these out: a,b or 'optimizer/*'.",
    shell_complete=completing.names,
)
"""`--drop`: which tensors or columns are left out."""

renaming = click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="New names, as in 'a/*=b.*'.",
    shell_complete=completing.old_names,
)
"""`--rename`."""

setting = click.option(
    "--set",
    multiple=True,
    metavar="NAME=FILE",
    help="A tensor out of a file with one, or with one of that name.",
    shell_complete=completing.old_names,
)
"""`--set`: tensors that replace others, or come behind all."""


def _parse_metadata(context: Any, parameter: Any, given: tuple[str, ...]) -> dict[str, Any]:
    return {name: text or None for name, text in parse_pairs("--metadata", given).items()}


keeping = click.option(
    "--metadata",
    multiple=True,
    metavar="NAME=TEXT",
    callback=_parse_metadata,
    help="Keep this with it; NAME= takes it away.",
)
"""`--metadata`."""


def parse_pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """The pairs in texts like "name=text".

    Raises:
        UsageError: There is no "=" in one.
    """
    pairs: dict[str, str] = {}
    for text_given in given:
        name, equals, value = text_given.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {text_given!r} is not of the form NAME=VALUE")
        pairs[name] = value
    return pairs


def shard_size(about: str) -> Callable[[Function], Function]:
    """`--shard-size`: how large the files of a set may be."""
    return click.option("--shard-size", metavar="SIZE", callback=_check_size, help=about)


def _check_size(context: Any, parameter: Any, given: str | None) -> str | None:
    if given is not None:
        from tensorferry.storage.shards import parse_size

        try:
            parse_size(given)
        except ValueError:
            raise click.UsageError(
                f"--shard-size is {given!r}\nhint: a size is as in 500MB or 2GiB"
            ) from None
    return given


target = click.option(
    "-o", "--output", "output", metavar="OUT", help="OUT, wherever it is easier to write."
)
"""`-o`: the file that is written, instead of the argument OUT."""


def common() -> list[click.Option]:
    """The options that every command has."""
    return [
        click.Option(
            ["-q", "--quiet"],
            is_flag=True,
            expose_value=False,
            callback=_be_quiet,
            help="Only results and errors: no progress, no reports.",
        ),
        click.Option(
            ["--no-color"],
            is_flag=True,
            expose_value=False,
            callback=_be_plain,
            help="No colours; NO_COLOR and FORCE_COLOR are heeded, too.",
        ),
        click.Option(
            ["-x", "--expanded"],
            is_flag=True,
            expose_value=False,
            callback=_expand,
            help="One block of lines for each row of a table.",
        ),
        click.Option(
            ["--no-pager"],
            is_flag=True,
            expose_value=False,
            callback=_print_all,
            help="Print all at once, however long it is; PAGER names another program than less.",
        ),
        click.Option(
            ["--limit", "limits"],
            multiple=True,
            metavar="NAME=SIZE",
            expose_value=False,
            callback=_set_limits,
            shell_complete=completing.limits,
            help="What a file may ask for: memory=16GB, stream=16GB or depth=1000.",
        ),
    ]


def _print_all(context: Any, parameter: Any, given: bool) -> None:
    text.MANNER.unpaged = text.MANNER.unpaged or given


def _set_limits(context: Any, parameter: Any, given: tuple[str, ...]) -> None:
    """Sets limits for the whole process; `limits_kept` sets them back."""
    if not given:
        return
    from tensorferry import limits
    from tensorferry.storage.shards import parse_size

    for pair in given:
        name, _, amount = pair.partition("=")
        try:
            value = parse_size(amount)
        except ValueError:
            value = 0
        if name not in LIMITS or not value:
            raise click.UsageError(f"--limit {pair!r} is none\nhint: as in --limit memory=16GB")
        setattr(limits, name, value)


def _expand(context: Any, parameter: Any, given: bool) -> None:
    text.MANNER.expanded = text.MANNER.expanded or given


def _be_quiet(context: Any, parameter: Any, given: bool) -> None:
    text.MANNER.quiet = text.MANNER.quiet or given


def _be_plain(context: Any, parameter: Any, given: bool) -> None:
    text.MANNER.plain = text.MANNER.plain or given


@contextmanager
def limits_kept() -> Iterator[None]:
    """Sets the limits of the library back when the block ends."""
    from tensorferry import limits

    kept = {name: vars(limits)[name] for name in LIMITS}
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(limits, name, value)


def paths(function: Function) -> Function:
    """The inputs of a command."""
    return click.argument(
        "paths",
        nargs=-1,
        required=True,
        metavar="PATH...",
        shell_complete=completing.files,
    )(function)


def _parse_options(context: Any, parameter: Any, given: tuple[str, ...]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if given:
        import json  # hardly anybody gives some
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--option {pair!r} is not of the form NAME=VALUE")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    return options


def echo(lines: Iterable[str]) -> None:
    """Prints lines."""
    output.lines(lines)


def echo_json(command: str, **parts: Any) -> None:
    """Prints a JSON document."""
    from tensorferry.cli import documents

    output.block(documents.document(command, **parts))


def parse_sizes(text: str) -> tuple[int, ...]:
    """The shape in "2,3" or "[2, 3]"."""
    try:
        return tuple(int(part) for part in text.strip("[]() ").split(",") if part.strip())
    except ValueError:
        raise click.UsageError(f"a shape is {text!r}, expected numbers as in 2,3") from None


def one_output(target: str | None, output: str | None) -> str:
    """The output of a command: its argument OUT, or that of `-o`.

    Raises:
        UsageError: There is none, or there are two.
    """
    if (target is None) == (output is None):
        raise click.UsageError("expected one OUT, as an argument or behind -o")
    return target or output or ""


def inputs_and_output(
    paths: Sequence[str], output: str | None, example: str
) -> tuple[list[str], str]:
    """The inputs of a command and its output: the last argument, or that of `-o`.

    Raises:
        UsageError: One of them is missing.
    """
    given = list(paths) if output is None else [*paths, output]
    if len(given) < 2:
        raise click.UsageError(f"expected IN and OUT, as in: {example}")
    return given[:-1], given[-1]


def one_input(path: str) -> Found:
    """The one input that a path names.

    Raises:
        UsageError: It names several.
    """
    from tensorferry.files import find as inputs

    found = inputs.find([path])
    if len(found) > 1:
        raise click.UsageError(
            f"{path} is {len(found)} files, expected one\nhint: such as {found[0].name}"
        )
    return found[0]


def together(inputs: list[Found]) -> Found | None:
    """Several inputs as one: those of rows of one format, in their order; None if they are not."""
    from tensorferry.files.find import Found, rows_format

    if len(inputs) == 1:
        return inputs[0]
    places = tuple(place for found in inputs for place in found.places)
    formats = {rows_format(place.path) for place in places}
    if len(formats) != 1 or None in formats:
        return None
    return Found(f"{places[0].path} and {len(places) - 1} more", places, *formats)
