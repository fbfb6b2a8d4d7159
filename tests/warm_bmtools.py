"""`bmtools` and `python` that start immediately: forked from a server with all imports done.

    python warm_bmtools.py serve SOCKET                       # until it is killed
    python -S -E warm_bmtools.py call SOCKET bmtools ...      # one command, in the caller's folder
    python -S -E warm_bmtools.py call SOCKET script.py ...    # or one script

The command gets the caller's arguments, folder, environment and open files, and is otherwise a
separate process, so tests spend no time on imports. Linux only. With REACHES=7 in the environment
it waits before its seventh change to files until its caller sends a byte. With OPENED=FILE in the
environment it adds a line of JSON to that file for each file that it opens: its arguments and the
file's path.
"""
# Importing pathlib would take as long as the rest of a call.
# ruff: noqa: PTH100, PTH109, PTH110, PTH120, PTH208

import json
import os
import socket
import struct
import sys

_LENGTH_BYTES = 8
_MOST_STREAMS = 64
# Descriptors from this number on are free.
_FREE = 100
BEGUN, ENDED = struct.Struct("!I"), struct.Struct("!BI")
"""What a process sends: its number, then its exit code and how many changes it made to files."""
REACHED = b"\xff"
"""What it sends before the change at which it waits."""
_CHANGES = ("os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
            "os.symlink", "os.truncate", "os.utime")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def start(path: str, arguments: list[str], folder: str, environment: dict[str, str],
          streams: dict[int, int]) -> socket.socket:
    """Make the server run `bmtools` or a script, and return the connection to its process.

    Args:
        path: path of the server's socket.
        arguments: `bmtools` or a script, and its arguments.
        folder: folder to run in.
        environment: complete environment.
        streams: open files by the descriptors that the process gives them.
    """
    content = json.dumps([arguments, folder, environment, list(streams)]).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    socket.send_fds(connection, [len(content).to_bytes(_LENGTH_BYTES, "big")],
                    list(streams.values()))
    connection.sendall(content)
    return connection


def call(path: str, arguments: list[str]) -> int:
    """Run `bmtools` or a script in the server and return its exit code; pass on signals."""
    import signal

    streams = [int(name) for name in os.listdir("/proc/self/fd")]
    streams = [number for number in streams if os.path.exists(f"/proc/self/fd/{number}")]
    with start(path, arguments, os.getcwd(), dict(os.environ),
               dict(zip(streams, streams, strict=True))) as connection:
        [process] = BEGUN.unpack(connection.recv(BEGUN.size, socket.MSG_WAITALL))
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda found, _: os.kill(process, found))
        answer = connection.recv(ENDED.size, socket.MSG_WAITALL)
    return ENDED.unpack(answer)[0] if len(answer) == ENDED.size else 1


def serve(path: str) -> None:
    """Import what commands need, then fork a process for each call."""
    import gc
    import importlib
    import signal

    for name in ("accelerate", "huggingface_hub.repocard", "jinja2", "msgspec", "scipy.stats",
                 "transformers.models.bert.modeling_bert"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # garbage collection would copy these objects in each process
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(16)
        while True:
            connection, _ = server.accept()
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _run(connection)
            connection.close()


def _run(connection: socket.socket) -> None:
    """Run a client's command, and exit."""
    import fcntl
    import runpy
    import traceback

    from bmtools.cli.main import main

    length, received, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, _MOST_STREAMS)
    with connection.makefile("rb") as stream:
        arguments, folder, environment, numbers = json.loads(
            stream.read(int.from_bytes(length, "big")))
    connection = socket.socket(fileno=fcntl.fcntl(connection.detach(), fcntl.F_DUPFD, _FREE))
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, _FREE) for descriptor in received]
    for descriptor in received:
        os.close(descriptor)
    for number, descriptor in zip(numbers, moved, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    changes = _count_changes(connection, int(os.environ.pop("REACHES", "0")))
    if log := os.environ.pop("OPENED", ""):
        _log_opened(log, arguments)
    connection.sendall(BEGUN.pack(os.getpid()))
    code = 1
    try:
        if arguments[0] == "bmtools":
            main(arguments[1:])
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            sys.stderr.write(end.code + "\n")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(ENDED.pack(code, len(changes)))
        os._exit(code)


def _count_changes(connection: socket.socket, reached: int) -> list[str]:
    """Collect this process's changes to files from now on; wait before one of them."""
    changes: list[str] = []
    own = os.getpid()

    def see(event: str, arguments: tuple) -> None:
        if os.getpid() == own and (event in _CHANGES or (
                event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES)):
            changes.append(event)
            if len(changes) == reached:
                connection.sendall(REACHED)
                connection.recv(1)

    sys.addaudithook(see)
    return changes


def _log_opened(log: str, arguments: list[str]) -> None:
    """Log the files that this process and its forks open from now on."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def see(event: str, found: tuple) -> None:
        if event == "open" and isinstance(found[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(found[0]))
            os.write(descriptor, json.dumps([arguments, path]).encode() + b"\n")

    sys.addaudithook(see)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(call(sys.argv[2], sys.argv[3:]))
