"""Types of parameters that name files and directories, as inputs or as outputs.

The command's frame reads only these types, to keep outputs apart from inputs, to hash inputs for
records, and for completion. Every parameter whose value is opened as a file has one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from bmtools.errors import CheckpointError
from bmtools.io.failures import is_url
from bmtools.io.sources import split_name


class NamedPath(click.Path):
    """A parameter that names a file or a directory.

    Attributes:
        is_output: whether it is written.
        is_directory: whether it is a directory to write.
        is_records: whether it is a file of records, whose size is limited.
        is_streamed: whether a file at a URL is read as a stream instead of being copied first.
        is_hashed: whether step records contain its hash.
    """

    is_output = is_directory = is_records = is_streamed = False
    is_hashed = True

    def __call__(self, value: Any, param: click.Parameter | None = None,
                 ctx: click.Context | None = None) -> Any:
        """Convert a value; a URL becomes a local path unless it is read as a stream."""
        name, url = split_name(str(value))
        if not is_url(url) or (ctx and ctx.resilient_parsing):
            return super().__call__(value, param, ctx)
        from bmtools.io.remote import fetched, size_of, staged

        if self.is_streamed:
            size_of(url)
            return url
        path = staged(url) if self.is_output else fetched(url)
        return super().__call__(f"{name}={path}" if name else path, param, ctx)

    def convert(self, value: str | os.PathLike[str], param: click.Parameter | None,
                ctx: click.Context | None) -> str | bytes | os.PathLike[str]:
        """Convert a name; for a broken link, raise an error that names its target."""
        path = Path(value)
        if self.exists and path.is_symlink() and not os.path.exists(path):  # noqa: PTH110, loops
            self.fail(f"{str(value)!r} is a symbolic link to {str(path.readlink())!r}, which leads "
                      "to no file", param, ctx)
        return super().convert(value, param, ctx)

    def paths(self, value: object) -> Iterator[str]:
        """Yield the paths in a converted value of one parameter, if it names files."""
        yield str(value)

    def check(self, value: object) -> None:
        """Check the files of a value, after all usage errors and before anything heavy loads.

        Raises:
            BmtoolsError: the files are not suitable for the command.
        """


class InputFile(NamedPath):
    """A file to read, or `-` for stdin.

    Args:
        path_type: type of the value that the command gets.
        allow_dash: whether `-` is stdin.
    """

    def __init__(self, path_type: type[str | Path] = str, allow_dash: bool = True) -> None:
        super().__init__(exists=True, dir_okay=False, allow_dash=allow_dash, path_type=path_type)


class InputRecords(InputFile):
    """Records to read, or `-` for stdin; the error for a directory describes its content.

    Args:
        accepts: returns whether another kind of path is valid, such as a directory of files.
    """

    is_records = True

    def __init__(self, accepts: Callable[[Path], object] | None = None) -> None:
        super().__init__()
        self._accepts, self.is_streamed = accepts, accepts is None

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a file."""
        from bmtools.models.checkpoint_files import describe_directory

        path = Path(value)
        if self._accepts and self._accepts(path):
            return value
        if path.is_dir():
            self.fail(f"found the directory {value!r}, expected files{describe_directory(path)}",
                      param, ctx)
        return super().convert(value, param, ctx)


class InputPath(NamedPath):
    """A file or a directory to read.

    Args:
        path_type: type of the value that the command gets.
        exists: whether it must exist.
        allow_dash: whether `-` is stdin.
    """

    def __init__(self, path_type: type[str | Path] = str, exists: bool = True,
                 allow_dash: bool = False) -> None:
        super().__init__(exists=exists, allow_dash=allow_dash, path_type=path_type)


class InputDirectory(NamedPath):
    """A directory to read.

    Args:
        check: raises a `BmtoolsError` if the directory is not suitable for the command.
        is_hashed: whether its hash identifies the content read; False for a directory that is also
            written, or only searched.
    """

    def __init__(self, check: Callable[[Path], object] = lambda path: None,
                 is_hashed: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=False)
        self._check, self.is_hashed = check, is_hashed

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Check that the directory exists; `check` examines its files later."""
        from bmtools.models.checkpoint_files import check_directory

        try:
            check_directory(Path(value))
        except CheckpointError as error:
            self.fail(str(error), param, ctx)
        return Path(value)

    def check(self, value: object) -> None:
        self._check(Path(str(value)))


class WorkDirectory(NamedPath):
    """A directory that a command reads and adds to, such as a cache; it need not exist."""

    is_hashed = False

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)


class NameOrFile(NamedPath):
    """One of several names, or a file.

    Args:
        is_name: returns whether a value is such a name.
        offered: lists the names for completion.
    """

    def __init__(self, is_name: Callable[[str], bool],
                 offered: Callable[[], Iterable[str]] = list) -> None:
        super().__init__()
        self._is_name, self._offered = is_name, offered

    def paths(self, value: object) -> Iterator[str]:
        if not self._is_name(str(value)) and Path(str(value)).exists():
            yield str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter,
                       incomplete: str) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in self._offered() if name.startswith(incomplete)]
        return items or [CompletionItem(incomplete, type="file")]


class NamedInput(NamedPath):
    """A file or directory to read, optionally with a name: NAME=PATH.

    The command gets the text unchanged and splits it with `split_name`.

    Args:
        kind: checks the path; without it the command checks the path.
    """

    def __init__(self, kind: InputFile | None = None) -> None:
        super().__init__()
        self._kind, self.is_records = kind, kind is not None and kind.is_records

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the path and return the text with the name."""
        if self._kind is not None:
            self._kind.convert(split_name(str(value))[1], param, ctx)
        return str(value)

    def paths(self, value: object) -> Iterator[str]:
        yield split_name(str(value))[1]


class OutputFile(NamedPath):
    """The name of a file to write, or `-`.

    Args:
        path_type: type of the value that the command gets.
    """

    is_output = True

    def __init__(self, path_type: type[str | Path] = str) -> None:
        super().__init__(readable=False, allow_dash=True, path_type=path_type)


class OutputDirectory(NamedPath):
    """The name of a directory to write."""

    is_output = is_directory = True

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)
