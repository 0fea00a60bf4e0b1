"""Lets each system call of writers go wrong, one after the other; runs with shim.c preloaded.

    driver.py SCRATCH faults|kills|kills-without-journals WRITER...

Prints one line of JSON for each writer: how many calls were tried, and what was wrong afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from writers import WRITERS, Writer

from tensorferry.storage import journal, sweeping

shim = ctypes.CDLL(None)
shim.faults_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int)
shim.faults_count.restype = ctypes.c_long
shim.faults_fired.restype = ctypes.c_char_p
COUNT, FAIL, SHORT, KILL, FULL = range(5)
# What goes wrong: the kind of fault, and its number.
FAULTS = {
    "EIO": (FAIL, errno.EIO),
    "ENOSPC": (FAIL, errno.ENOSPC),
    "EINTR": (FAIL, errno.EINTR),
    "a short write": (SHORT, 0),
    "a full disk": (FULL, errno.ENOSPC),
}
# With FERRY_FAULTS=all, as in `make faults`, all writers meet all faults.
ALL = os.environ.get("FERRY_FAULTS") == "all"
THOROUGH = ("npz", "npz, not durable", "tfrecord in shards", "safetensors in shards", "directory")
REMOVES = ("unlink", "unlinkat", "rmdir", "opendir")
RENAMES = [(FULL, "rename"), (FULL, "renameat2")]
MOST_CALLS = 5000


class Trial:
    """A folder with the old value, into which the new one is written."""

    def __init__(self, scratch: str, writer: Writer) -> None:
        self.writer = writer
        self.top = tempfile.mkdtemp(dir=scratch)
        self.folder = f"{self.top}/folder"
        os.mkdir(self.folder)
        writer.write(self.folder, 1)
        writer.write(self.folder, 2)  # also what it takes to replace something is there now
        self.kept = f"{self.top}/kept"
        writer.write(self.folder, 1)
        os.rename(self.folder, self.kept)
        self.problems: list[str] = []

    def begin(self) -> None:
        """The old value is there."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.kept, self.folder)

    def look(self, where: str, allowed: set[int]) -> int:
        """Reads what is there."""
        try:
            found = self.writer.read(self.folder)
        except BaseException as error:
            self.problems.append(f"{where}: cannot be read: {error!r}")
            return 0
        if len(found) != 1 or not found <= allowed:
            self.problems.append(f"{where}: holds {sorted(found)}, expected one of {allowed}")
        return next(iter(found), 0)

    def check_clean(self, where: str) -> None:
        """Nothing is left of temporary files and journals."""
        left = [name for name in os.listdir(self.folder) if name.startswith(".")]
        if left:
            self.problems.append(f"{where}: left {left}")

    def check_next(self, where: str) -> None:
        """The next writer writes, and cleans up what the last one left."""
        sweeping._swept.clear()
        self.writer.write(self.folder, 3)
        self.look(f"{where}, written again", {3})
        self.check_clean(f"{where}, written again")
        stems = {_stem(name) for name in os.listdir(self.folder)}
        known = {_stem(name) for name in os.listdir(self.kept)}
        if len(os.listdir(self.folder)) != len(os.listdir(self.kept)) or stems != known:
            self.problems.append(f"{where}, written again: {sorted(os.listdir(self.folder))}")

    def arm(self, number: int, kind: int, error: int) -> None:
        """From now on, the calls are counted, and one goes wrong."""
        sweeping._swept.clear()
        shim.faults_arm(os.fsencode(self.folder), number, kind, error)


def _stem(name: str) -> str:
    return name.split("-")[0].split(".data")[0]


def faults(trial: Trial, name: str) -> int:
    """Lets each call fail in each way; gives the number of failures."""
    tried = 0
    for what, (kind, error) in FAULTS.items():
        if what in ("ENOSPC", "EINTR") and name not in THOROUGH and not ALL:
            continue  # the same code as of the other faults, and of the other writers
        for number in range(1, MOST_CALLS):
            trial.begin()
            trial.arm(number, kind, error)
            raised: BaseException | None = None
            try:
                trial.writer.write(trial.folder, 2)
            except Exception as failure:
                raised = failure
            fired, calls = shim.faults_fired().decode(), shim.faults_count()
            shim.faults_disarm()
            if fired:
                tried += 1
                where = f"{what} at {fired} ({number})"
                trial.look(where, {1, 2} if raised else {2})
                if raised is not None and not isinstance(raised, OSError):
                    trial.problems.append(f"{where}: raised {raised!r}")
                # What could not be removed or renamed is the next writer's.
                if fired not in REMOVES and (kind, fired) not in RENAMES:
                    trial.check_clean(where)
                if set(os.listdir(trial.folder)) != set(os.listdir(trial.kept)):
                    trial.check_next(where)
            if number > calls or len(trial.problems) > 20:
                break
    return tried


def kills(trial: Trial, name: str) -> int:
    """Kills the writer before each of its calls; gives the number of kills."""
    for number in range(1, MOST_CALLS):
        trial.begin()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try:
                trial.arm(number, KILL, 0)
                trial.writer.write(trial.folder, 2)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        where = f"killed at call {number}"
        found = trial.look(where, {1, 2})
        if not os.WIFSIGNALED(status):
            if found != 2:
                trial.problems.append(f"{where}: was not killed, and holds {found}")
            return number - 1
        assert os.WTERMSIG(status) == signal.SIGKILL
        trial.check_next(where)
        if len(trial.problems) > 20:
            break
    return number


def main() -> None:
    """Runs the trials."""
    scratch, how, *names = sys.argv[1:]
    if how == "kills-without-journals":
        journal.read = lambda main: None  # type: ignore[assignment]
    for name in names or WRITERS:
        trial = Trial(scratch, WRITERS[name])
        try:
            tried = (faults if how == "faults" else kills)(trial, name)
        except BaseException as error:
            shim.faults_disarm()
            trial.problems.append(f"the trial itself: {error!r}")
            tried = 0
        print(json.dumps({"writer": name, "tried": tried, "problems": trial.problems}), flush=True)
        shutil.rmtree(trial.top)


if __name__ == "__main__":
    main()
